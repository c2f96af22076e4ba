"""Each reason is found where it is, with the higher score where the doubt is greater, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sightline.media import Objects, Origin
from sightline_plugins.harvest.harvest import OF_TRACKS
from sightline_plugins.harvest.signals import FoundReason, TrackSignals, disagreement, joined_score, low_margin
from tests.unit.harvest.scenes import SIZE_WH, Box, objects

MIDDLE: Box = (120, 80, 180, 160)
ASIDE: Box = (20, 80, 80, 160)


def observed(frames: Sequence[Objects], *, fps: float = 10) -> list[list[FoundReason]]:
    """What the tracks of frames give."""
    signals = TrackSignals(OF_TRACKS)
    return [
        signals.observe(one, size_wh=SIZE_WH, time_ns=round(number * 1e9 / fps)) for number, one in enumerate(frames)
    ]


def reasons(frames: Sequence[Objects]) -> dict[int, list[str]]:
    """The names of the reasons of each frame that has some."""
    return {number: [one.reason for one in own] for number, own in enumerate(observed(frames)) if own}


@pytest.mark.parametrize(("confidence", "score"), [(0.3, 0.5), (0.38, 0.1), (0.22, 0.1), (0.9, None)])
def test_a_confidence_near_the_threshold_is_a_low_margin(confidence: float, score: float | None) -> None:
    found = low_margin(objects([MIDDLE, ASIDE], confidence=[0.95, confidence]), threshold=0.3, margin=0.1)

    assert (found and found.score) == (score if score is None else pytest.approx(score, abs=1e-5))


def test_several_doubtful_objects_add_up() -> None:
    found = low_margin(objects([MIDDLE, ASIDE], confidence=[0.3, 0.3]), threshold=0.3, margin=0.1)

    assert found is not None
    assert found.score == pytest.approx(0.75)
    assert found.about["objects"] == 2


def test_two_labels_in_one_place_tie_when_they_are_as_sure() -> None:
    def tie(second: float, *, class_id: int = 2) -> FoundReason | None:
        both = objects([MIDDLE, MIDDLE], confidence=[0.8, second], class_id=[1, class_id])
        return low_margin(both, threshold=0.3, margin=0.1)

    near = tie(0.78)
    assert near is not None
    assert near.score == pytest.approx(1 - 0.6**2, abs=1e-5)
    assert tie(0.6) is None
    assert tie(0.78, class_id=1) is None


def test_an_unsure_classifier_is_a_low_margin_and_a_tracker_is_none() -> None:
    one = objects([MIDDLE])

    unsure = low_margin(one.with_columns(color_confidence=np.array([0.45], np.float32)), threshold=0.3, margin=0.1)
    assert unsure is not None
    assert unsure.score == 0.5
    assert low_margin(one.with_columns(color_confidence=np.array([0.8])), threshold=0.3, margin=0.1) is None
    assert low_margin(one.with_columns(tracker_confidence=np.array([0.1])), threshold=0.3, margin=0.1) is None


def test_detectors_disagree_by_what_one_alone_has_found() -> None:
    second = Origin("detect-2", ("car",))
    first = objects([MIDDLE, ASIDE])

    assert disagreement(first, objects([MIDDLE, ASIDE], class_id=0, origin=second)) is None
    half = disagreement(first, objects([MIDDLE], class_id=0, origin=second))
    assert half is not None
    assert half.score == pytest.approx(1 / 3)
    assert disagreement(first, objects([], origin=second)) == FoundReason(
        "disagreement", 1.0, {"objects": 2, "others": 0}
    )


def test_a_track_that_is_lost_and_back_in_the_middle_gives_two_reasons() -> None:
    there, gone = objects([MIDDLE], track_id=[7]), objects([])

    assert reasons([there] * 20 + [gone] * 2 + [there] * 5) == {20: ["appearance"], 22: ["flicker"]}


def test_a_track_that_flickers_more_scores_higher() -> None:
    there, gone = objects([MIDDLE], track_id=[7]), objects([])
    found = observed([there] * 20 + [gone, there, gone, there])

    assert [found[at][0].score for at in (21, 23)] == [0.5, 0.75]


def test_a_track_with_another_label_is_a_reason_once() -> None:
    car, bus = (objects([MIDDLE], track_id=[7], class_id=number) for number in (1, 2))

    assert reasons([car] * 5 + [bus] * 5) == {5: ["label_change"]}


def test_objects_that_come_and_go_at_the_border_are_no_reason() -> None:
    crossing = [objects([(4.0 * n, 80, 4.0 * n + 60, 160)], track_id=[3]) for n in range(66)]

    assert reasons([objects([])] * 20 + crossing + [objects([])] * 5) == {}


def test_an_object_that_appears_in_the_middle_is_a_reason_after_the_beginning() -> None:
    there = objects([MIDDLE], track_id=[3])

    assert reasons([there] * 5) == {}
    assert reasons([objects([])] * 20 + [there] * 5) == {20: ["appearance"]}


def test_an_object_that_goes_behind_another_is_no_reason() -> None:
    both = objects([MIDDLE, (110, 70, 200, 170)], track_id=[3, 4])
    one = objects([(110, 70, 200, 170)], track_id=[4])

    assert reasons([both] * 20 + [one] * 5 + [both.with_columns(track_id=np.array([9, 4]))] * 2) == {}


def test_scores_of_several_reasons_add_up_to_one_at_most() -> None:
    assert joined_score([FoundReason("a", 0.5), FoundReason("b", 0.5)]) == 0.75
    assert joined_score([FoundReason("a", 1.0), FoundReason("b", 0.5)]) == 1.0
    assert joined_score([]) == 0.0
