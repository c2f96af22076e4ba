"""A class that flickers does not change; one that changes for good does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sightline.media import Batch, Objects, Origin
from sightline.testing import make_frames, run_element
from sightline_plugins.track.class_votes import CLASS_BITS, REMEMBERED_NS, ClassVotes
from sightline_plugins.track.track import Track

VAN, TRUCK, BUS = range(3)
LABELS = ("van", "truck", "bus")


def voted(votes: ClassVotes, classes: dict[int, int], *, confidence: float = 0.8, pts_ns: int = 0) -> list[int]:
    """The leading classes after each track (by id) has voted for a class."""
    return votes.vote(list(classes), list(classes.values()), [confidence] * len(classes), pts_ns=pts_ns)


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
