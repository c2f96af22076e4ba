"""The best of each period, apart from each other, shared by streams and reasons, whatever comes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from sightline_plugins.harvest.selection import BY_CLOCK, RANDOM, Candidate, Content, Kept, Selection

SECOND_NS = 1_000_000_000
HOUR_NS = 3600 * SECOND_NS
NOTHING = Content(0, np.empty((0, 4), np.float32), np.empty(0, np.int64), np.empty((0, 0), np.float32))


def candidate(
    seconds: float, score: float, *, reason: str = "low_margin", stream: str = "gate", timeline: str = BY_CLOCK
) -> Candidate:
    return Candidate(stream, timeline, round(seconds * SECOND_NS), reason, score)


def selection(
    quota: int = 3, *, random: float = 0, apart: float = 2, limit: int = 1000, per_ns: int = HOUR_NS
) -> Selection:
    return Selection(quota=quota, per_ns=per_ns, random=random, apart_ns=round(apart * SECOND_NS), limit=limit)


def fill(made: Selection, *candidates: Candidate) -> list[Kept]:
    """Offer candidates one after another; return what is kept in the end."""
    kept: list[Kept] = []
    for one in candidates:
        gone = made.replaced_by(one)
        if gone is None:
            continue
        for other in gone:
            made.remove(other)
            kept.remove(other)
        kept.append(Kept(f"{one.stream}-{one.time_ns}", one, NOTHING))
        made.add(kept[-1])
    return kept


def test_the_best_of_a_period_are_kept_and_not_the_first() -> None:
    kept = fill(selection(3), *(candidate(10 * n, score) for n, score in enumerate((0.1, 0.2, 0.9, 0.3, 0.8, 0.05))))

    assert sorted(one.candidate.score for one in kept) == [0.3, 0.8, 0.9]


def test_each_period_has_its_own_quota() -> None:
    kept = fill(selection(1), candidate(0, 0.9), candidate(100, 0.1), candidate(3700, 0.1), candidate(3800, 0.2))

    assert [one.time_ns // SECOND_NS for one in kept] == [0, 3800]


@pytest.mark.parametrize("seed", range(5))
def test_no_two_frames_of_a_stream_are_nearer_than_they_may(seed: int) -> None:
    random = np.random.default_rng(seed)
    times = np.sort(random.uniform(0, 600, 400))
    made = [
        candidate(time, score, stream=stream, reason=reason)
        for time, score, stream, reason in zip(
            times.tolist(),
            random.uniform(0, 1, 400).tolist(),
            random.choice(["gate", "yard"], 400).tolist(),
            random.choice(["flicker", "event", RANDOM], 400).tolist(),
            strict=True,
        )
    ]

    kept = fill(selection(40, random=0.3, apart=3), *made)

    for stream in ("gate", "yard"):
        own = sorted(one.time_ns for one in kept if one.candidate.stream == stream)
        assert len(own) > 10
        assert np.diff(own).min() >= 3 * SECOND_NS
    at_random = sum(one.candidate.reason == RANDOM for one in kept)
    assert at_random <= 12
    assert len(kept) - at_random <= 28


def test_of_two_near_frames_the_better_is_kept() -> None:
    kept = fill(selection(), candidate(10, 0.5), candidate(11, 0.4), candidate(11.5, 0.7))

    assert [one.candidate.score for one in kept] == [0.7]


def test_a_stream_that_finds_much_leaves_room_for_others() -> None:
    noisy = [candidate(10 * n, 0.9) for n in range(100)]
    quiet = [candidate(10 * n + 2000, 0.2, stream="yard") for n in range(5)]

    kept = fill(selection(10), *noisy, *quiet)

    assert Counter(one.candidate.stream for one in kept) == {"gate": 5, "yard": 5}


def test_a_frequent_reason_leaves_room_for_others() -> None:
    many = [candidate(10 * n, 0.9, reason="flicker") for n in range(100)]
    few = [candidate(2000 + 10 * n, 0.1, reason="event") for n in range(2)]

    kept = fill(selection(6), *many, *few)

    assert Counter(one.candidate.reason for one in kept) == {"flicker": 4, "event": 2}


def test_random_frames_have_their_share_and_give_way_to_reasons_beside_them() -> None:
    made = selection(10, random=0.3)

    kept = fill(made, *(candidate(10 * n, (n * 7 % 10) / 10, reason=RANDOM) for n in range(50)))
    assert len(kept) == 3

    gone = made.replaced_by(candidate(kept[0].time_ns / SECOND_NS + 1, 0.1))
    assert gone == [kept[0]]


def test_frames_of_finished_periods_and_other_videos_stay() -> None:
    made = selection(5, per_ns=60 * SECOND_NS)
    (old,) = fill(made, candidate(59.5, 0.1))

    assert made.replaced_by(candidate(60.5, 0.9)) is None
    assert made.replaced_by(candidate(40, 0.9, timeline="other"), like=[old]) is None
    assert made.replaced_by(candidate(40, 0.9), like=[old]) == [old]


def test_a_frame_like_a_better_one_is_not_kept() -> None:
    made = selection(5)
    (old,) = fill(made, candidate(10, 0.5))

    assert made.replaced_by(candidate(30, 0.5), like=[old]) is None


def test_the_limit_counts_what_earlier_runs_have_kept() -> None:
    made = selection(5, limit=4)
    made.reserve(2)
    kept = fill(made, *(candidate(10 * n, 0.5) for n in range(4)))

    assert len(kept) == 2
    assert made.is_full


def test_a_frame_with_several_reasons_is_kept_for_the_rarest() -> None:
    made = selection(10)
    fill(made, *(candidate(10 * n, 0.5, reason="flicker") for n in range(3)))

    assert made.rarest(candidate(100, 0.5), ["flicker", "appearance"]) == "appearance"
    assert made.rarest(candidate(100, 0.5, stream="yard"), ["flicker", "appearance"]) == "flicker"
