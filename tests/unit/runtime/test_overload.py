"""Load: rates over the last seconds, and when a stream counts as overloaded; on a clock moved by hand."""

from __future__ import annotations

import pytest

from sightline.graph import Message, MessageKind
from sightline.media import Stream
from sightline.runtime.stats.counters import LIMITS_NS, DropReason, ElementStats, Histogram, StreamStats
from sightline.runtime.stats.overload import OverloadMonitor

SECOND_NS = 1_000_000_000


class Machine:
    """A stream of 25 frames a second and one step."""

    def __init__(self) -> None:
        self.gate = StreamStats(Stream("gate", live=True))
        self.step = ElementStats("detect-1", "detect")
        self.messages: list[Message] = []
        self.overload = OverloadMonitor(
            streams=lambda: [self.gate], elements=lambda: [self.step], post=self.messages.append
        )
        self.now_ns = 0

    def run(self, seconds: int, *, dropped: int, busy: float = 0.0) -> None:
        """So many seconds, in each of which so many of the 25 frames are dropped."""
        for _ in range(seconds):
            self.overload.update(self.now_ns)
            self.now_ns += SECOND_NS
            self.gate.received += 25
            self.gate.processed += 25 - dropped
            self.gate.drop(DropReason.OVERLOADED, dropped)
            self.step.busy_ns += round(busy * SECOND_NS)
        self.overload.update(self.now_ns)

    @property
    def kinds(self) -> list[MessageKind]:
        return [message.kind for message in self.messages]


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_rates_are_those_of_the_last_seconds(machine: Machine) -> None:
    machine.run(20, dropped=0)
    machine.run(5, dropped=10)

    rates = machine.overload.rates[machine.gate.stream]

    assert (rates.received, rates.finished, rates.dropped) == (25.0, 15.0, 10.0)


def test_dropping_for_five_seconds_is_overload_and_is_said_once(machine: Machine) -> None:
    machine.run(60, dropped=10, busy=0.9)

    assert machine.kinds == [MessageKind.OVERLOADED]
    assert machine.messages[0].text == (
        "overloaded: 40% of the frames of 1 live stream are dropped; the busiest step is detect-1"
    )
    assert machine.overload.overloaded


def test_a_short_hiccup_is_no_overload(machine: Machine) -> None:
    machine.run(1, dropped=5)
    machine.run(20, dropped=0)

    assert machine.kinds == []


def test_the_end_of_an_overload_is_said(machine: Machine) -> None:
    machine.run(10, dropped=10)
    machine.run(10, dropped=0)

    assert machine.kinds == [MessageKind.OVERLOADED, MessageKind.KEEPS_UP]
    assert not machine.overload.overloaded


def test_a_stream_at_the_limit_does_not_flap(machine: Machine) -> None:
    for _ in range(10):
        machine.run(5, dropped=2)
        machine.run(5, dropped=1)

    assert machine.kinds == [MessageKind.OVERLOADED]


def test_frames_dropped_for_other_reasons_are_no_overload(machine: Machine) -> None:
    for _ in range(20):
        machine.run(1, dropped=0)
        machine.gate.drop(DropReason.DAMAGED, 20)

    assert machine.kinds == []


def test_a_histogram_counts_exactly_at_its_limits() -> None:
    histogram = Histogram()
    for duration_ns in (1, LIMITS_NS[0], LIMITS_NS[0] + 1, LIMITS_NS[-1], LIMITS_NS[-1] + 1):
        histogram.add(duration_ns)

    counted = histogram.cumulative()

    assert (counted[0], counted[1], counted[-2], counted[-1]) == (2, 3, 4, 5)
    assert histogram.total_ns == 2 + 2 * LIMITS_NS[0] + 2 * LIMITS_NS[-1] + 1
