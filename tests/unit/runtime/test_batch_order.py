"""Batches that are formed again as they were."""

from __future__ import annotations

from dataclasses import dataclass, field

from sightline.media import Frame, PixelFormat, Stream, Surface
from sightline.runtime.scheduling.order import BatchOrder

A, B = Stream("a"), Stream("b")
IMAGE = Surface.allocate(PixelFormat.GRAY8, size_wh=(2, 2))


@dataclass(frozen=True)
class Arrived:
    frame: Frame


@dataclass
class Waiting:
    """The end of a link: `left` have not arrived, `here` have."""

    stream: Stream
    here: list[int] = field(default_factory=list)
    is_ended: bool = False

    @property
    def is_exhausted(self) -> bool:
        return self.is_ended and not self.here

    def oldest(self) -> Arrived | None:
        return Arrived(Frame(self.stream, self.here[0], 0, IMAGE)) if self.here else None

    def take(self) -> Arrived:
        return Arrived(Frame(self.stream, self.here.pop(0), 0, IMAGE))


def names(taken: list[Arrived]) -> list[tuple[str, int]]:
    return [(one.frame.stream.name, one.frame.index) for one in taken]


def test_a_batch_leaves_when_its_frames_are_there_in_the_order_that_was_recorded() -> None:
    order = BatchOrder([[("b", 0), ("a", 0), ("a", 1)], [("b", 1)]])
    links = {A: Waiting(A, [0, 1]), B: Waiting(B)}
    taken: list[Arrived] = []

    assert not order.fill(taken, links)
    links[B].here += [0, 1]
    assert order.fill(taken, links)
    assert names(taken) == [("b", 0), ("a", 0), ("a", 1)]
    taken.clear()
    assert order.fill(taken, links)
    assert names(taken) == [("b", 1)]
    assert order.is_over


def test_frames_come_one_by_one_through_links_that_hold_one() -> None:
    order = BatchOrder([[("a", 0), ("a", 1), ("a", 2)]])
    link = Waiting(A)
    taken: list[Arrived] = []

    for index in range(3):
        assert not order.fill(taken, {A: link})
        link.here.append(index)
    assert order.fill(taken, {A: link})
    assert names(taken) == [("a", 0), ("a", 1), ("a", 2)]


def test_a_frame_that_does_not_come_is_left_out() -> None:
    order = BatchOrder([[("a", 0), ("a", 1)], [("a", 2), ("b", 0)], [("b", 1)]])
    links = {A: Waiting(A, [0, 2], is_ended=True), B: Waiting(B, is_ended=True)}
    batches = []
    while True:
        taken: list[Arrived] = []
        if not order.fill(taken, links):
            break
        batches.append(names(taken))

    assert batches == [[("a", 0)], [("a", 2)]]
    assert order.is_over


def test_a_frame_that_was_not_recorded_goes_with_the_next_one() -> None:
    order = BatchOrder([[("a", 5)]])
    taken: list[Arrived] = []

    assert order.fill(taken, {A: Waiting(A, [4, 5])})
    assert names(taken) == [("a", 4), ("a", 5)]
