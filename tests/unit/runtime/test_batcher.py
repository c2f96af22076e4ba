"""Forming batches from the frames of several streams."""

from __future__ import annotations

import threading

import pytest

from sightline.errors import EndOfLink
from sightline.graph.site import SystemClock
from sightline.media import Stream
from sightline.runtime.scheduling.batcher import AdaptiveBatchLimit, Arrival, Batcher
from sightline.runtime.scheduling.link import LinkPolicy, LinkSender, StreamEnd, WorkItem
from sightline.runtime.stats.counters import DropReason
from sightline.testing import make_frames


class ManualClock(SystemClock):
    """A clock that stands still until it is moved."""

    now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns


class Bench:
    """A batcher whose links are filled by hand."""

    def __init__(
        self, *names: str, size: int, timeout_ns: int = 40_000_000, capacity: int = 100, cameras: tuple[str, ...] = ()
    ) -> None:
        self.clock = ManualClock()
        self.dropped = 0
        self.batcher = Batcher(size=size, timeout_ns=timeout_ns, clock=self.clock)
        self.links: dict[str, LinkSender[Arrival]] = {
            name: self.batcher.add(
                Stream(name, live=name in cameras),
                capacity=capacity,
                policy=LinkPolicy.LATEST if name in cameras else LinkPolicy.BLOCK,
                on_drop=self._count_dropped,
            )
            for name in names
        }
        self.batcher.seal()

    def _count_dropped(self, arrival: Arrival, reason: DropReason) -> None:
        self.dropped += 1

    def put(self, name: str, count: int) -> None:
        for frame in make_frames(count, stream=name):
            self.links[name].send(Arrival(frame, self.clock.now_ns))

    def batch(self) -> list[tuple[str, int]]:
        item = self.batcher.receive()
        assert isinstance(item, WorkItem)
        return [(frame.stream.name, frame.index) for frame in item.frames]


def test_a_full_batch_leaves_at_once() -> None:
    bench = Bench("a", size=3)
    bench.put("a", 3)

    assert bench.batch() == [("a", 0), ("a", 1), ("a", 2)]


def test_streams_take_turns_whatever_the_number_that_waits() -> None:
    bench = Bench("fast", "slow", size=4)
    bench.put("fast", 10)
    bench.put("slow", 2)

    assert sorted(bench.batch()) == [("fast", 0), ("fast", 1), ("slow", 0), ("slow", 1)]


def test_a_batch_that_is_not_full_leaves_when_its_oldest_frame_has_waited_long_enough() -> None:
    bench = Bench("a", "gone", size=4, timeout_ns=40_000_000)
    bench.put("a", 1)
    bench.clock.now_ns = 40_000_000

    assert bench.batch() == [("a", 0)]


def test_a_batch_waits_for_more_while_its_time_is_not_over() -> None:
    bench = Bench("a", "b", size=2, timeout_ns=3_600_000_000_000)
    bench.put("a", 1)
    late = threading.Thread(target=bench.put, args=("b", 1))
    late.start()

    batch = bench.batch()
    late.join(60)

    assert sorted(batch) == [("a", 0), ("b", 0)]


def test_a_batch_that_full_links_of_files_keep_from_growing_leaves_at_once() -> None:
    bench = Bench("a", "camera", size=8, timeout_ns=3_600_000_000_000, capacity=2, cameras=("camera",))
    bench.put("a", 2)

    assert bench.batch() == [("a", 0), ("a", 1)]


def test_a_batch_leaves_before_a_camera_must_drop_a_frame() -> None:
    bench = Bench("file", "camera", size=8, timeout_ns=3_600_000_000_000, capacity=2, cameras=("camera",))
    bench.put("camera", 2)

    assert bench.batch() == [("camera", 0), ("camera", 1)]


def test_batches_of_cameras_are_smaller_when_the_pipeline_is_slow() -> None:
    bench = Bench("a", "b", size=8, cameras=("a", "b"))
    sizes = []
    for milliseconds in (800, 800, 100, 10):
        bench.put("a", 8)
        bench.put("b", 8)
        sizes.append(len(bench.batch()))
        bench.clock.now_ns += milliseconds * 1_000_000
    bench.put("a", 8)
    sizes.append(len(bench.batch()))

    # 100 ms a frame lets two pass in a quarter of a second; then 400 ms a frame, 100, and 10.
    assert sizes == [8, 2, 1, 2, 8]


def test_batches_of_files_are_full_however_slow_the_pipeline_is() -> None:
    bench = Bench("a", size=4)
    bench.put("a", 8)
    first = bench.batch()
    bench.clock.now_ns += 10_000_000_000

    assert (len(first), len(bench.batch())) == (4, 4)


def test_a_camera_that_was_waited_for_makes_no_batch_smaller() -> None:
    bench = Bench("a", size=4, cameras=("a",))
    bench.put("a", 4)
    first = bench.batch()
    bench.clock.now_ns += 10_000_000_000
    later = threading.Timer(0.05, bench.put, ("a", 4))
    later.start()
    second = bench.batch()
    later.join()

    assert (len(first), len(second)) == (4, 4)


def test_a_stream_without_frames_ends_all_the_same() -> None:
    bench = Bench("empty", size=1)
    bench.links["empty"].end()

    assert bench.batcher.receive() == StreamEnd(Stream("empty"))


def test_the_end_of_a_stream_follows_its_last_frame() -> None:
    bench = Bench("a", size=1)
    bench.put("a", 1)
    bench.links["a"].end()

    assert bench.batch() == [("a", 0)]
    assert bench.batcher.receive() == StreamEnd(Stream("a"))
    with pytest.raises(EndOfLink):
        bench.batcher.receive()


def test_what_is_left_leaves_at_once_when_nothing_more_can_come() -> None:
    bench = Bench("a", "b", size=8, timeout_ns=3_600_000_000_000)
    bench.put("a", 2)
    bench.links["a"].end()
    bench.links["b"].end()

    assert bench.batcher.receive() == StreamEnd(Stream("b"))
    assert bench.batch() == [("a", 0), ("a", 1)]


def test_closing_drops_what_waits_and_ends() -> None:
    bench = Bench("a", size=8)
    bench.put("a", 2)

    bench.batcher.close()

    assert bench.dropped == 2
    with pytest.raises(EndOfLink):
        bench.batcher.receive()


def test_the_limit_is_the_whole_size_until_the_pace_is_known() -> None:
    limit = AdaptiveBatchLimit()
    assert limit.limit(1000) == 1000

    limit.batch_requested(10_000_000_000, frames_wait=True)
    assert limit.limit(1000) == 1000

    limit.batch_taken(4, 10_000_000_000)
    limit.batch_requested(11_000_000_000, frames_wait=True)
    assert limit.limit(1000) == 1

    limit.batch_requested(11_000_000_000, frames_wait=False)
    assert limit.limit(1000) == 1000
