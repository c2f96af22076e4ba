"""How long a live input is waited for, on a clock that is moved by hand."""

from __future__ import annotations

from sightline.graph.site import SystemClock
from sightline_plugins.decode.open_media import Waits

SECOND_NS = 1_000_000_000


class ManualClock(SystemClock):
    """A clock that is moved by hand."""

    now_ns = 77 * SECOND_NS

    def monotonic_ns(self) -> int:
        return self.now_ns

    def pass_seconds(self, seconds: float) -> None:
        self.now_ns += round(seconds * SECOND_NS)


def waits_with(limit_seconds: float, *, resumable: bool = True) -> tuple[Waits, ManualClock]:
    clock = ManualClock()
    return Waits(clock, limit_ns=lambda: round(limit_seconds * SECOND_NS), resumable=resumable), clock


def silent_for(waits: Waits, clock: ManualClock) -> float:
    """How long it takes, in silence, until the waiting is over."""
    begun_ns = clock.now_ns
    while not waits.is_over:
        waits.begin()
        clock.pass_seconds(float(waits.reading))
    return (clock.now_ns - begun_ns) / SECOND_NS


def test_connecting_has_a_limit_of_its_own_and_the_first_image_that_of_the_stream() -> None:
    waits, _ = waits_with(0.3)

    assert [float(waits.opening), float(waits.opening)] == [5.0, 0.3]


def test_until_the_server_has_answered_it_is_not_connected() -> None:
    waits, _ = waits_with(5)
    float(waits.opening)
    assert not waits.is_connected
    float(waits.opening)

    assert waits.is_connected


def test_a_stall_is_known_when_its_time_is_over() -> None:
    waits, clock = waits_with(5)
    waits.heard()

    assert 4.7 <= silent_for(waits, clock) <= 5


def test_no_single_wait_is_longer_than_two_seconds() -> None:
    waits, _ = waits_with(90)

    assert float(waits.reading) < 2


def test_what_comes_begins_the_time_anew() -> None:
    waits, clock = waits_with(5)
    for seconds in (1, 4):
        clock.pass_seconds(seconds)
        waits.begin()
        float(waits.reading)
        waits.heard()
    clock.pass_seconds(4)

    assert not waits.is_over


def test_a_packet_that_comes_only_at_the_end_of_a_wait_was_there_at_its_beginning() -> None:
    waits, clock = waits_with(5)
    waits.heard()
    waits.begin()
    clock.pass_seconds(float(waits.reading))
    waits.heard()

    assert 2.7 <= silent_for(waits, clock) <= 5 - 1.7


def test_where_a_read_can_not_go_on_it_waits_once_for_half_of_the_limit() -> None:
    waits, _ = waits_with(5, resumable=False)

    assert float(waits.reading) == 2.5
    assert waits.is_over
