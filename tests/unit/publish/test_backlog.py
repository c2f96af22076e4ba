"""A viewer that is slow loses images, whole groups of them, and nobody else does."""

from __future__ import annotations

from sightline_plugins.publish.broadcast import Backlog, Image
from tests.unit.publish.images import group, plain


def backlog(span_ns: int = 2_000_000_000) -> Backlog[Image]:
    return Backlog(lambda: None, span_ns=span_ns)


def taken(waiting: Backlog[Image]) -> list[int]:
    found = []
    while (image := waiting.take()) is not None:
        found.append(image.pts_ns // 40_000_000)
    return found


def test_it_begins_with_a_key_frame() -> None:
    waiting = backlog()
    for image in [plain(0), plain(1), *group(2, count=3)]:
        waiting.offer(image)

    assert taken(waiting) == [2, 3, 4]
    assert waiting.skipped == 0


def test_what_waits_longer_than_it_may_is_dropped_up_to_the_next_key_frame() -> None:
    waiting = backlog(span_ns=200_000_000)
    for image in [*group(0, count=8), *group(8, count=3)]:
        waiting.offer(image)

    assert taken(waiting) == [8, 9, 10]
    assert (waiting.jumps, waiting.skipped) == (1, 8)


def test_a_key_frame_that_comes_too_late_for_the_rest_is_kept() -> None:
    waiting = backlog(span_ns=200_000_000)
    for image in [*group(0, count=6), *group(6, count=2)]:
        waiting.offer(image)

    assert taken(waiting) == [6, 7]


def test_it_never_holds_more_than_its_span() -> None:
    waiting = backlog(span_ns=1_000_000_000)
    for first in range(0, 1_000, 10):
        for image in group(first, count=10):
            waiting.offer(image)

    assert len(taken(waiting)) <= 26


def test_what_a_viewer_begins_with_may_span_more_and_what_follows_may_not() -> None:
    waiting = backlog(span_ns=200_000_000)
    waiting.begin([plain(0), *group(1, count=100)])
    for image in [plain(101), plain(102)]:
        waiting.offer(image)
    begun = taken(waiting)
    for image in group(103, count=8):
        waiting.offer(image)

    assert begun == list(range(1, 103))
    assert taken(waiting) == []


def test_time_that_steps_back_is_a_jump_and_not_an_endless_wait() -> None:
    waiting = backlog(span_ns=1_000_000_000)
    for image in [*group(100, count=2), *group(0, count=2)]:
        waiting.offer(image)

    assert taken(waiting) == [0, 1]


def test_whoever_waits_is_told() -> None:
    rung: list[bool] = []
    waiting: Backlog[Image] = Backlog(lambda: rung.append(True))
    waiting.offer(plain(0))
    waiting.offer(plain(1, is_key=True))
    waiting.end()

    assert len(rung) == 2
    assert waiting.is_over
