"""When images are made, and what they show."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence

import pytest

from sightline.media import Frame, Surface
from sightline.testing import make_frames
from sightline_plugins.tile.timeline import MatchedTimeline, Moment, NewestTimeline, Status

MS = 1_000_000
Shown = tuple[int, dict[str, tuple[int | None, Status]]]
"""The time of an image in milliseconds, and the number of each stream's frame in it."""


def frames_of(name: str, *, count: int, fps: int, begin_ms: int = 0) -> list[Frame]:
    made = make_frames(count, stream=name, size_wh=(4, 4), fps=fps)
    return [dataclasses.replace(frame, pts_ns=frame.pts_ns + begin_ms * MS) for frame in made]


def same(name: str, surface: Surface) -> Surface:
    del name
    return surface


def matched(
    *names: str, interval_ns: int | None = None, late: list[str] | None = None, most: int = 1 << 30
) -> MatchedTimeline:
    warned = [] if late is None else late
    return MatchedTimeline(names, interval_ns=interval_ns, shrink=same, warn=warned.extend, most_held_bytes=most)


def told(moments: Iterator[Moment], numbers: Mapping[int, int]) -> list[Shown]:
    return [
        (
            round(moment.pts_ns / MS),
            {
                name: (None if state.surface is None else numbers[id(state.surface)], state.status)
                for name, state in moment.tiles.items()
            },
        )
        for moment in moments
    ]


def run(timeline: MatchedTimeline, streams: Mapping[str, Sequence[Frame]], order: Sequence[str]) -> list[Shown]:
    """Give frames in that order of their streams, each of which ends behind its last."""
    numbers = {id(frame.surface): frame.index for frames in streams.values() for frame in frames}
    left = {name: list(frames) for name, frames in streams.items()}
    found: list[Shown] = []
    for name in order:
        frame = left[name].pop(0)
        found += told(timeline.add([frame], now_ns=0), numbers)
        if not left[name]:
            found += told(timeline.end(name), numbers)
    return found


STREAMS = {
    "a": frames_of("a", count=12, fps=10),
    "b": frames_of("b", count=9, fps=30, begin_ms=150),
    "c": frames_of("c", count=40, fps=25),
    "d": frames_of("d", count=1, fps=25),
}


@pytest.mark.parametrize("interval_ns", [None, 50 * MS, 33_366_667])
def test_images_do_not_depend_on_the_order_in_which_streams_are_read(interval_ns: int | None) -> None:
    order = [name for name, frames in STREAMS.items() for _ in frames]
    wanted = run(matched(*STREAMS, interval_ns=interval_ns), STREAMS, order)
    chance = random.Random(3)

    for _ in range(40):
        chance.shuffle(order)
        assert run(matched(*STREAMS, interval_ns=interval_ns), STREAMS, order) == wanted
    assert len(wanted) > 15


def test_images_are_those_of_the_stream_with_most_frames_a_second_then_of_the_next() -> None:
    streams = {"slow": frames_of("slow", count=6, fps=5), "fast": frames_of("fast", count=10, fps=20)}

    found = run(matched("slow", "fast"), streams, ["slow"] * 6 + ["fast"] * 10)

    assert [time for time, _ in found] == [*range(0, 500, 50), 600, 800, 1000]
    assert [tiles["slow"][0] for _, tiles in found] == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 4, 5]
    assert [tiles["fast"][1] for _, tiles in found[9:]] == [Status.SHOWN, *[Status.ENDED] * 3]


def test_images_come_at_a_given_rate_until_the_last_stream_is_over() -> None:
    streams = {"a": frames_of("a", count=5, fps=10)}

    found = run(matched("a", interval_ns=40 * MS), streams, ["a"] * 5)

    assert [time for time, _ in found] == list(range(0, 401, 40))
    assert [tiles["a"][0] for _, tiles in found] == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4]


def test_frames_a_little_beside_the_moment_are_of_it() -> None:
    exact = frames_of("exact", count=12, fps=30)
    rounded = [
        dataclasses.replace(frame, pts_ns=-(-frame.pts_ns // MS) * MS) for frame in frames_of("b", count=12, fps=30)
    ]

    found = run(matched("exact", "b"), {"exact": exact, "b": rounded}, ["exact", "b"] * 12)

    assert [tiles["b"][0] for _, tiles in found] == list(range(12))


def test_a_stream_that_joins_begins_at_the_present_moment() -> None:
    streams = {"a": frames_of("a", count=20, fps=10), "new": frames_of("new", count=8, fps=10)}

    found = run(matched("a"), streams, ["a"] * 10 + ["a", "new"] * 8 + ["a"] * 2)

    assert len(found) == 20
    begun = next(index for index, (_, tiles) in enumerate(found) if "new" in tiles)
    assert begun == 11, "the moment of its first frame has passed"
    assert [tiles["new"][0] for _, tiles in found[begun : begun + 7]] == list(range(1, 8))
    assert "new" not in found[-1][1], "its tile goes away with it"


def test_streams_that_are_too_far_apart_are_reported_and_no_longer_waited_for() -> None:
    late: list[str] = []
    timeline = matched("a", "never", late=late, most=24 * 10)
    streams = {"a": frames_of("a", count=30, fps=25)}

    found = run(timeline, streams, ["a"] * 30)

    assert late == ["never"]
    assert len(found) == 30
    assert found[0][1]["never"] == (None, Status.WAITING)


def test_a_paused_stream_is_not_waited_for() -> None:
    streams = {"a": frames_of("a", count=10, fps=25), "b": frames_of("b", count=10, fps=25)}
    timeline = matched("a", "b")
    run(timeline, {name: frames[:6] for name, frames in streams.items()} | {"a": streams["a"][:7]}, ["a", "b"] * 5)

    timeline.pause("b")
    found = list(timeline.add(streams["a"][5:7], now_ns=0))

    assert [moment.pts_ns // MS for moment in found] == [200, 240]


def camera_run(timeline: NewestTimeline, arrivals: Sequence[tuple[int, Frame]]) -> list[tuple[int, Moment]]:
    return [(at_ms, moment) for at_ms, frame in arrivals for moment in timeline.add([frame], now_ns=at_ms * MS)]


def test_cameras_show_their_newest_frames_at_the_rate_of_the_fastest() -> None:
    fast, slow = frames_of("fast", count=50, fps=25), frames_of("slow", count=10, fps=5)
    arrivals = [(1000 + 40 * frame.index, frame) for frame in fast] + [
        (1013 + 200 * frame.index, frame) for frame in slow
    ]
    timeline = NewestTimeline(["fast", "slow"], interval_ns=None, lost_after_ns=3_000 * MS)

    found = camera_run(timeline, sorted(arrivals, key=lambda one: one[0]))

    assert 48 <= len(found) <= 52
    for at_ms, moment in found:
        newest = max((at for at, frame in arrivals if at <= at_ms and frame.stream.name == "slow"), default=None)
        shown = moment.tiles["slow"].surface
        assert shown is (None if newest is None else slow[(newest - 1013) // 200].surface)


def test_a_camera_that_stalls_keeps_its_image_and_is_lost_then_shown_again() -> None:
    one, other = frames_of("one", count=100, fps=25), frames_of("other", count=2, fps=25)
    timeline = NewestTimeline(["one", "other"], interval_ns=None, lost_after_ns=1_000 * MS)
    arrivals = [(40 * frame.index, frame) for frame in one] + [(1, other[0]), (3001, other[1])]

    found = camera_run(timeline, sorted(arrivals, key=lambda pair: pair[0]))

    states = {at_ms: moment.tiles["other"] for at_ms, moment in found}
    assert states[800].status is Status.SHOWN
    assert states[2000].status is Status.LOST
    assert states[2000].surface is other[0].surface
    assert states[3400].status is Status.SHOWN
    assert states[3400].surface is other[1].surface


def test_a_camera_that_is_removed_loses_its_tile() -> None:
    timeline = NewestTimeline(["one", "other"], interval_ns=40 * MS, lost_after_ns=1_000 * MS)
    (first,) = timeline.add([frames_of("one", count=1, fps=25)[0]], now_ns=0)
    list(timeline.end("other"))

    (second,) = timeline.add(frames_of("one", count=2, fps=25)[1:], now_ns=40 * MS)

    assert set(first.tiles) == {"one", "other"}
    assert set(second.tiles) == {"one"}


def test_an_image_is_made_for_each_frame_of_the_fastest_camera_also_when_some_come_together() -> None:
    fast, slow = frames_of("fast", count=40, fps=25), frames_of("slow", count=8, fps=5)
    timeline = NewestTimeline(["fast", "slow"], interval_ns=None, lost_after_ns=3_000 * MS)
    batches = [[*fast[start : start + 2], *slow[start // 5 : start // 5 + 1]] for start in range(0, 40, 2)]

    found = [one for number, batch in enumerate(batches) for one in timeline.add(batch, now_ns=number * 80 * MS)]

    shown = [moment.tiles["fast"].surface for moment in found]
    assert shown[-20:] == [frame.surface for frame in fast[-20:]]
    times = [moment.pts_ns for moment in found]
    assert {later - earlier for earlier, later in itertools.pairwise(times[-20:])} == {40 * MS}


def test_images_go_on_at_the_rate_of_another_camera_when_the_fastest_falls_silent() -> None:
    fast, slow = frames_of("fast", count=50, fps=25), frames_of("slow", count=40, fps=20)
    arrivals = [(40 * frame.index, frame) for frame in fast[:25]] + [(50 * frame.index, frame) for frame in slow]
    timeline = NewestTimeline(["fast", "slow"], interval_ns=None, lost_after_ns=60_000 * MS)

    found = camera_run(timeline, sorted(arrivals, key=lambda one: one[0]))

    before = [at_ms for at_ms, _ in found if 400 <= at_ms < 960]
    assert before == list(range(400, 960, 40))
    behind = [at_ms for at_ms, _ in found if at_ms > 960]
    assert behind[0] <= 1350
    assert behind == list(range(behind[0], 2000, 50))
