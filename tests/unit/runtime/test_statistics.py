"""What is counted of a stream."""

from __future__ import annotations

from sightline.media import Stream
from sightline.runtime.scheduling.link import DropReason
from sightline.runtime.stats.counters import StreamStats


def test_when_the_run_is_over_a_frame_that_an_input_still_has_in_hand_is_not_counted() -> None:
    statistics = StreamStats(Stream("cam"))
    for _ in range(3):
        statistics.receive()
    statistics.finish(damaged=False, latency_ns=1)
    statistics.drop(DropReason.OVERLOADED)

    statistics.leave()
    statistics.drop(DropReason.STOPPED)
    statistics.receive()

    assert (statistics.received, statistics.finished, statistics.dropped) == (2, 1, {DropReason.OVERLOADED: 1})
