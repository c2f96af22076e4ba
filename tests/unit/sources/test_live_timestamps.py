"""Timestamps of a live stream, held against the clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import pytest

from sightline_plugins.sources.live.timing import LiveTimestamps

MILLISECOND = 1_000_000
SECOND = 1_000 * MILLISECOND
HZ = 90_000
FRAMES = 400
TROUBLE_AT = 100


@dataclass(frozen=True)
class Run:
    """What came out for frames that were sent every 40 ms."""

    out_ns: list[int]
    arrival_ns: list[int]
    repairs: int
    jumps: int

    def errors_ms(self, *, after: int) -> float:
        """The largest distance between the time of a frame and its arrival, both counted from the first frame, from
        that frame on.
        """
        offset = self.out_ns[0] - self.arrival_ns[0]
        return max(abs(distance - offset) for distance in self.distances(after=after)) / MILLISECOND

    def distances(self, *, after: int) -> list[int]:
        """The time of each frame minus its arrival."""
        return [out - at for out, at in zip(self.out_ns[after:], self.arrival_ns[after:], strict=True)]


def run(
    ticks: Callable[[int], int | None],
    *,
    delay_ns: Callable[[int], int] = lambda number: 0,
    frames: int = FRAMES,
) -> Run:
    timestamps = LiveTimestamps(time_base=Fraction(1, HZ), interval_ns=40 * MILLISECOND)
    arrivals = [number * 40 * MILLISECOND + delay_ns(number) for number in range(frames)]
    out = [timestamps.next_ns(ticks(number), None, arrival_ns=at) for number, at in enumerate(arrivals)]
    return Run(out, arrivals, timestamps.repairs, timestamps.jumps)


def true_ticks(number: int) -> int:
    return number * HZ // 25


def rises(result: Run) -> bool:
    return all(earlier < later for earlier, later in pairwise(result.out_ns))


def test_timestamps_that_make_sense_stay_what_they_are() -> None:
    result = run(true_ticks)

    assert result.out_ns == [number * 40 * MILLISECOND for number in range(FRAMES)]
    assert result.repairs == 0


def test_jitter_changes_nothing() -> None:
    jitter = random.Random(3)
    delays = [jitter.randrange(0, 70 * MILLISECOND) for _ in range(FRAMES)]

    result = run(true_ticks, delay_ns=lambda number: delays[number])

    assert result.repairs == 0


def test_a_burst_at_the_beginning_changes_nothing() -> None:
    result = run(true_ticks, delay_ns=lambda number: max(0, (20 - number)) * 39 * MILLISECOND)

    assert result.repairs == 0


@pytest.mark.parametrize("hours", [1, -1, 12.26])
def test_a_clock_that_jumps_is_followed_at_once(hours: float) -> None:
    jump = round(hours * 3600 * HZ)

    result = run(lambda number: true_ticks(number) + (jump if number >= TROUBLE_AT else 0))

    assert rises(result)
    assert result.errors_ms(after=0) <= 1
    assert (result.repairs, result.jumps) == (1, 1)


def test_a_wrap_of_32_bits_is_a_jump() -> None:
    result = run(lambda number: (true_ticks(number) + 2**32 - true_ticks(TROUBLE_AT)) % 2**32)

    assert rises(result)
    assert result.errors_ms(after=0) <= 1


@pytest.mark.parametrize(
    "ticks",
    [
        pytest.param(lambda number: 0, id="zero"),
        pytest.param(lambda number: None, id="missing"),
        pytest.param(lambda number: None if number % 3 else true_ticks(number), id="often missing"),
        pytest.param(lambda number: true_ticks(number // 2 * 2), id="doubled"),
        pytest.param(lambda number: -true_ticks(number), id="backwards"),
        pytest.param(lambda number: true_ticks(number) + (HZ * 3 // 10 if number > 100 else 0), id="small step"),
        pytest.param(lambda number: true_ticks(number) - (HZ * 3 // 10 if number > 100 else 0), id="small step back"),
    ],
)
def test_whatever_a_camera_says_time_rises_as_the_clock_does(ticks: Callable[[int], int | None]) -> None:
    jitter = random.Random(5)
    delays = [jitter.randrange(0, 10 * MILLISECOND) for _ in range(FRAMES)]

    result = run(ticks, delay_ns=lambda number: delays[number])

    assert rises(result)
    assert result.errors_ms(after=TROUBLE_AT + 50) <= 100
    assert 0 < result.repairs <= FRAMES


def test_a_clock_that_runs_twice_as_fast_is_taken_for_a_burst_at_first_and_then_held() -> None:
    result = run(lambda number: true_ticks(number) * 2)

    distances = result.distances(after=TROUBLE_AT)
    assert rises(result)
    assert max(distances) - min(distances) <= 100 * MILLISECOND
    assert result.errors_ms(after=TROUBLE_AT) <= 1200


def test_frames_that_a_network_held_back_keep_their_times() -> None:
    held = {number: max(0, TROUBLE_AT + 15 - number) * 40 * MILLISECOND for number in range(TROUBLE_AT, FRAMES)}

    result = run(true_ticks, delay_ns=lambda number: held.get(number, 0))

    assert result.repairs == 0


def test_a_pause_of_the_camera_is_a_pause() -> None:
    pause_ns = 30 * SECOND
    result = run(
        lambda number: true_ticks(number) + (30 * HZ if number >= TROUBLE_AT else 0),
        delay_ns=lambda number: pause_ns if number >= TROUBLE_AT else 0,
    )

    assert result.repairs == 0
    assert result.out_ns[TROUBLE_AT] - result.out_ns[TROUBLE_AT - 1] == pause_ns + 40 * MILLISECOND


def test_frames_that_the_decoder_held_back_until_the_end_keep_their_times() -> None:
    timestamps = LiveTimestamps(time_base=Fraction(1, HZ), interval_ns=40 * MILLISECOND)
    reordering_ns = 120 * MILLISECOND
    for number in range(TROUBLE_AT):
        timestamps.next_ns(true_ticks(number), None, arrival_ns=number * 40 * MILLISECOND + reordering_ns)

    last = [timestamps.held_back_ns(true_ticks(TROUBLE_AT + number), None) for number in range(3)]

    assert last == [(TROUBLE_AT + number) * 40 * MILLISECOND for number in range(3)]
    assert timestamps.repairs == 0


@pytest.mark.parametrize("ticks", [None, 0, true_ticks(FRAMES)])
def test_frames_that_were_held_back_without_a_time_that_makes_sense_follow_the_others(ticks: int | None) -> None:
    timestamps = LiveTimestamps(time_base=Fraction(1, HZ), interval_ns=40 * MILLISECOND)
    for number in range(TROUBLE_AT):
        timestamps.next_ns(true_ticks(number), None, arrival_ns=number * 40 * MILLISECOND)

    last = [timestamps.held_back_ns(ticks, None) for _ in range(2)]

    assert last == [TROUBLE_AT * 40 * MILLISECOND, (TROUBLE_AT + 1) * 40 * MILLISECOND]
    assert timestamps.repairs == 2
