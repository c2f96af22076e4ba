"""One stream for many viewers: made once, and only while somebody watches."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.media import Frame
from sightline_plugins.publish.broadcast import MOST_VIEWERS, Backlog, Broadcast, Image
from tests.unit.publish.images import SETTINGS, Encoder, frames, plain


def viewer() -> Backlog[Image]:
    return Backlog(lambda: None)


def all_of(waiting: Backlog[Image]) -> list[Image]:
    found = []
    while (image := waiting.take()) is not None:
        found.append(image)
    return found


def test_nothing_is_made_while_nobody_watches() -> None:
    broadcast = Broadcast("cam", Encoder(SETTINGS))
    for frame in frames(5):
        broadcast.publish(frame)

    assert broadcast.images == 0


def test_a_newcomer_gets_a_key_frame_at_once() -> None:
    broadcast = Broadcast("cam", Encoder(SETTINGS))
    first, second = viewer(), viewer()
    given = frames(10)
    broadcast.join(first)
    for frame in given[:6]:
        broadcast.publish(frame)
    broadcast.join(second)
    for frame in given[6:]:
        broadcast.publish(frame)

    assert [image.pts_ns for image in all_of(first)] == [frame.pts_ns for frame in given]
    assert [image.pts_ns for image in all_of(second)] == [frame.pts_ns for frame in given[6:]]
    assert broadcast.key_frames == 2


class Joined:
    """Passes on key frames; a second viewer joins while the second one is made."""

    encodes = False

    def __init__(self, late: Backlog[Image]) -> None:
        self.late = late
        self.broadcast: Broadcast[Image] | None = None

    def images(self, frame: Frame, *, key: bool) -> Iterator[Image]:
        if frame.index == 1 and self.broadcast is not None:
            self.broadcast.join(self.late)
        yield plain(frame.index, is_key=True)

    def pause(self) -> None:
        """Nothing to pause."""


def test_a_viewer_that_joins_while_a_frame_is_published_gets_no_image_twice() -> None:
    maker = Joined(viewer())
    broadcast = maker.broadcast = Broadcast("cam", maker)
    broadcast.join(viewer())
    given = frames(4)
    for frame in given:
        broadcast.publish(frame)

    assert [image.pts_ns for image in all_of(maker.late)] == [frame.pts_ns for frame in given[1:]]


def test_images_are_shared() -> None:
    broadcast = Broadcast("cam", Encoder(SETTINGS))
    first, second = viewer(), viewer()
    broadcast.join(first)
    broadcast.join(second)
    broadcast.publish(frames(1)[0])

    assert all_of(first) == all_of(second)


def test_whoever_comes_when_it_is_full_is_turned_away() -> None:
    broadcast = Broadcast("cam", Encoder(SETTINGS))
    crowd = [viewer() for _ in range(MOST_VIEWERS)]

    assert all(broadcast.join(one) for one in crowd)
    assert not broadcast.join(viewer())
    broadcast.leave(crowd[0])
    assert broadcast.join(viewer())


def test_an_end_is_told_to_all_and_nobody_comes_behind_it() -> None:
    broadcast = Broadcast("cam", Encoder(SETTINGS))
    one = viewer()
    broadcast.join(one)
    broadcast.end()

    assert one.is_over
    assert not broadcast.join(viewer())


def test_who_only_asks_is_no_viewer() -> None:
    broadcast = Broadcast("cam", Encoder(SETTINGS))
    one = viewer()
    broadcast.join(one, counts=False)
    broadcast.leave(one, counts=False)

    assert broadcast.counts()["viewers"] == broadcast.counts()["most_viewers"] == 0
