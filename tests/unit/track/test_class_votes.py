"""A class that flickers does not change; one that changes for good does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sightline.media import Batch, Objects, Origin
from sightline.testing import make_frames, run_element
from sightline_plugins.track.class_votes import CLASS_BITS, REMEMBERED_NS, ClassVotes, vote_together
from sightline_plugins.track.track import Track

VAN, TRUCK, BUS = range(3)
LABELS = ("van", "truck", "bus")


def voted(votes: ClassVotes, classes: dict[int, int], *, confidence: float = 0.8, pts_ns: int = 0) -> list[int]:
    """The leading classes after each track (by id) has voted for a class."""
    ids, given = np.array(list(classes)), np.array(list(classes.values()))
    weights = np.full(len(classes), confidence, np.float32)
    leading: list[int] = vote_together([votes], ids, given, weights, ends=[len(classes)], pts_ns=[pts_ns]).tolist()
    return leading


def test_a_class_that_flickers_stays() -> None:
    votes = ClassVotes()
    given = [VAN, VAN, TRUCK, VAN, TRUCK, BUS, VAN, VAN]

    assert [voted(votes, {7: one, 9: BUS}) for one in given] == [[VAN, BUS]] * 8


def test_a_class_that_changes_for_good_changes() -> None:
    votes = ClassVotes()
    found = [voted(votes, {7: one})[0] for one in [VAN] * 40 + [TRUCK] * 40]

    assert found[:41] == [VAN] * 41
    assert found[60:] == [TRUCK] * 20
    assert sorted(found) == found


def test_sure_votes_count_more() -> None:
    votes = ClassVotes()
    voted(votes, {7: VAN}, confidence=0.2)
    voted(votes, {7: VAN}, confidence=0.2)

    assert voted(votes, {7: TRUCK}, confidence=0.9) == [TRUCK]


def test_classes_of_different_detectors_are_not_mixed() -> None:
    votes, other = ClassVotes(), 1 << CLASS_BITS
    for _ in range(5):
        voted(votes, {7: VAN})

    assert voted(votes, {7: other + BUS}) == [other + BUS]
    assert voted(votes, {7: TRUCK}) == [VAN]


def test_tracks_that_are_gone_are_forgotten() -> None:
    votes = ClassVotes()
    for track in range(1, 2001):
        voted(votes, {track: VAN, 5000: BUS}, pts_ns=track * 1_000_000_000)

    assert len(votes) < 100
    assert voted(votes, {5000: TRUCK}, pts_ns=2001 * 1_000_000_000) == [BUS]
    assert voted(votes, {1: TRUCK}, pts_ns=2002 * 1_000_000_000 + REMEMBERED_NS) == [TRUCK]


def test_a_detection_without_a_track_keeps_its_class() -> None:
    votes = ClassVotes()
    voted(votes, {-1: VAN})

    assert voted(votes, {-1: TRUCK}) == [TRUCK]
    assert len(votes) == 0


def test_asking_changes_nothing() -> None:
    votes = ClassVotes()
    voted(votes, {7: VAN})
    ids = np.array([7, 8], np.int64)

    assert votes.leading(ids, np.array([TRUCK, TRUCK])).tolist() == [VAN, TRUCK]
    assert len(votes) == 1


def test_votes_are_those_of_plain_python() -> None:
    """Thousands of votes of two streams with changing tracks, classes, origins and times, some frames in one call."""
    random = np.random.default_rng(2)
    votes = [ClassVotes(), ClassVotes()]
    plain: list[dict[tuple[int, int], dict[int, float]]] = [{}, {}]
    for call in range(150):
        streams, counts = random.integers(0, 2, 5), random.integers(0, 12, 5)
        ids = np.concatenate([random.choice(np.arange(call // 4, call // 4 + 30), count, False) for count in counts])
        ids[random.random(len(ids)) < 0.1] = -1
        classes = random.integers(0, 4, len(ids)) + (random.integers(0, 2, len(ids)) << CLASS_BITS)
        weights = random.uniform(0, 1, len(ids)).astype(np.float32)
        ends = np.cumsum(counts).tolist()

        found = vote_together(
            [votes[stream] for stream in streams], ids, classes, weights, ends=ends, pts_ns=[call * 100_000_000] * 5
        )

        owner = np.repeat(streams, counts).tolist()
        rows = zip(owner, ids.tolist(), classes.tolist(), weights.tolist(), strict=True)
        expected = [plain_vote(plain[stream], *row) for stream, *row in rows]
        assert found.tolist() == expected


def plain_vote(votes: dict[tuple[int, int], dict[int, float]], track: int, own_class: int, weight: float) -> int:
    """The class that leads after a vote."""
    if track == -1:
        return own_class
    own = votes.setdefault((track, own_class >> CLASS_BITS), {})
    for voted in own:
        own[voted] *= 0.95
    own[own_class] = own.get(own_class, 0.0) + max(weight, 1e-3)
    return max(own, key=lambda voted: (own[voted], -voted))


def test_columns_of_different_lengths_are_refused() -> None:
    ids, weights = np.zeros(3, np.int64), np.zeros(3, np.float32)

    for wrong in ({"ends": [2]}, {"ends": [4]}, {"ends": [-1, 3]}, {"ends": [3, 2, 3]}, {"ends": [3], "pts_ns": []}):
        ends = wrong["ends"]
        with pytest.raises(ValueError, match="rows"):
            vote_together(
                [ClassVotes()] * len(ends), ids, ids, weights, ends=ends, pts_ns=wrong.get("pts_ns", [0] * len(ends))
            )
    with pytest.raises(ValueError, match="3 ids need as many classes"):
        vote_together([ClassVotes()], ids, ids[:2], weights, ends=[3], pts_ns=[0])


@pytest.mark.parametrize("size", [1, 3])
def test_the_element_writes_the_class_that_leads(size: int) -> None:
    given = [VAN, VAN, TRUCK, VAN, BUS, VAN]
    frames = make_frames(len(given), size_wh=(100, 100), fps=10)

    def batch(first: int) -> Batch:
        now = frames[first : first + size]
        rows = np.arange(len(now))
        return Batch(
            tuple(replace(frame) for frame in now),
            Objects.from_columns(
                frame=rows,
                xyxy=np.tile([10, 10, 50, 50], (len(now), 1)),
                confidence=np.full(len(now), 0.9),
                class_id=np.array(given[first : first + size]),
                source=Origin("cars", LABELS),
            ),
        )

    def classes(**options: object) -> list[int]:
        batches = [batch(first) for first in range(0, len(given), size)]
        found = run_element(Track.model_validate(options), batches)
        return [one for result in found for one in result.objects.class_id.tolist()]

    assert classes() == [VAN] * 6
    assert classes(class_votes=False) == given
