"""How many frames a run holds at most, however many streams it has and however slow it is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import ClassVar

import pytest

from sightline.graph import Site, SourceReader
from sightline.media import Frame, Stream
from sightline.runtime.stats.snapshot import SOURCE_LINK
from tests.unit.runtime.elements import Held, Hold, Synthetic, SyntheticReader
from tests.unit.runtime.test_runner import make_runner
from tests.waiting import wait_until


class CountedReader(SyntheticReader):
    """Counts the frames that it made."""

    made: ClassVar[int] = 0
    lock: ClassVar[threading.Lock] = threading.Lock()

    def frames(self) -> Iterator[Frame]:
        for frame in super().frames():
            with self.lock:
                CountedReader.made += 1
            yield frame


class Counted(Synthetic):
    """A file whose frames are counted."""

    name: ClassVar[str] = "counted"

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        del site
        return CountedReader(self, stream)


@pytest.fixture(autouse=True)
def closed_gate() -> Iterator[None]:
    CountedReader.made = 0
    Held.gate.clear()
    yield
    Held.gate.set()


@pytest.mark.parametrize(("streams", "capacity"), [(1, 4), (4, 4), (8, 2), (40, 2)])
def test_a_run_that_stands_still_holds_a_bounded_number_of_frames(streams: int, capacity: int) -> None:
    runner = make_runner([Hold()], sources={f"cam{number}": Counted(frames=200) for number in range(streams)})
    runner.start()

    try:
        wait_until(lambda: all(link.depth == link.capacity for link in runner.view().links))
        links = runner.view().links
        files = [link for link in links if link.name == SOURCE_LINK]
        batch = min(max(streams, 4), 16)
        stages, between = 2, sum(link.capacity for link in links if link not in files)
        assert [link.capacity for link in files] == [capacity] * streams
        assert between == max(2, 8 // batch)
        assert CountedReader.made <= streams * (capacity + 1) + (stages + between) * batch
    finally:
        Held.gate.set()
        runner.stop()
        runner.wait()


def test_a_file_gets_more_room_when_others_have_ended() -> None:
    Held.gate.set()
    sources: dict[str, Synthetic] = {f"cam{number}": Counted(frames=3) for number in range(9)}
    sources["long"] = Counted(frames=None)
    runner = make_runner([Hold()], sources=sources)
    runner.start()

    try:
        wait_until(lambda: [one.capacity for one in runner.view().links if one.name == SOURCE_LINK] == [4])
    finally:
        runner.stop()
        runner.wait()


@pytest.mark.parametrize(("camera", "size"), [(False, 4), (True, 1)])
def test_frames_of_a_file_come_together_and_those_of_a_camera_wait_for_no_others(camera: bool, size: int) -> None:
    Held.gate.set()
    runner = make_runner([Hold()], sources={"cam": Synthetic(frames=None, camera=camera)})
    runner.start()

    try:
        assert [lane.batcher.size for lane in runner._lanes._all] == [size]
    finally:
        runner.stop()
        runner.wait()
