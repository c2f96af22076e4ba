"""How long a live stream may be silent."""

from __future__ import annotations

from sightline.runtime.sources.health import StallDetector

SECOND_NS = 1_000_000_000
STALL_NS = 5 * SECOND_NS


def after_frames(*intervals_seconds: float) -> StallDetector:
    patience = StallDetector(STALL_NS)
    patience.begin()
    now_ns = 0
    patience.frame(now_ns)
    for seconds in intervals_seconds:
        now_ns += round(seconds * SECOND_NS)
        patience.frame(now_ns)
    return patience


def test_a_fast_stream_may_be_silent_for_as_long_as_the_option_says() -> None:
    assert after_frames(*[0.04] * 20).limit_ns == STALL_NS


def test_a_slow_stream_may_be_silent_for_three_of_its_own_intervals() -> None:
    assert after_frames(30).limit_ns == 90 * SECOND_NS


def test_one_hiccup_does_not_make_it_patient() -> None:
    assert after_frames(0.04, 0.04, 0.04, 0.04, 0.04, 4.9, 0.04).limit_ns == STALL_NS


def test_a_stream_that_slows_down_for_good_is_given_its_time() -> None:
    assert after_frames(*[0.04] * 9, *[2.0] * 5).limit_ns == 6 * SECOND_NS


def test_the_time_between_two_sessions_is_no_interval() -> None:
    patience = after_frames(*[0.04] * 3)
    patience.begin()
    patience.frame(3_600 * SECOND_NS)

    assert patience.limit_ns == STALL_NS


def test_silent_sessions_of_an_unknown_stream_make_it_more_patient_up_to_a_bound() -> None:
    patience = StallDetector(STALL_NS)
    limits = [patience.limit_ns // SECOND_NS]
    for _ in range(9):
        patience.silent()
        limits.append(patience.limit_ns // SECOND_NS)

    assert limits == [5, 5, 10, 20, 40, 80, 160, 160, 160, 160]


def test_silent_sessions_count_no_more_once_the_interval_is_known() -> None:
    patience = StallDetector(STALL_NS)
    for _ in range(9):
        patience.silent()
    patience.frame(0)
    patience.frame(SECOND_NS // 25)

    assert patience.limit_ns == STALL_NS
