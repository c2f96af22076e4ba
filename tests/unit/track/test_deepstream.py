"""The life of targets in DeepStream, frame by frame: the tables say when an object is detected and which id it has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.unit.track.rounds import matched

from sightline.testing.tracker_conformance import TrackerConformance
from sightline_plugins.track.cascade import Way
from sightline_plugins.track.deepstream import DeepStreamOptions


class TestDeepStream(TrackerConformance):
    options = DeepStreamOptions()


class TestCascaded(TrackerConformance):
    options = DeepStreamOptions(matching="cascaded", motion="none")


FRAME = 40_000_000
BOX = (100.0, 100.0, 150.0, 200.0)
Detection = tuple[tuple[float, ...], float, int]


def ids(frames: Sequence[Sequence[Detection]], **options: object) -> list[list[int]]:
    """The ids of the detections (box, confidence, class) of each frame."""
    tracker = DeepStreamOptions(**options).build()
    found = []
    for number, detections in enumerate(frames):
        xyxy = np.array([box for box, _, _ in detections], np.float32).reshape(-1, 4)
        confidence = np.array([one for _, one, _ in detections], np.float32)
        class_id = np.array([one for _, _, one in detections], np.int64)
        found.append(tracker.update(xyxy, confidence, class_id, pts_ns=number * FRAME).tolist())
    return found


def life(seen: str, **options: object) -> list[int | None]:
    """The id on each frame of one object that stands still: `x` is a sure detection, `o` an unsure one, `.` none."""
    detections = {"x": [(BOX, 0.9, 0)], "o": [(BOX, 0.3, 0)], ".": []}
    return [frame[0] if frame else None for frame in ids([detections[one] for one in seen], **options)]


@pytest.mark.parametrize(
    ("seen", "options", "expected"),
    [
        # probationAge: tentative until the age, the frames since the first, reaches it
        ("xxxx", {"probation_age": 2}, [-1, -1, 1, 1]),
        ("xx", {"probation_age": 0}, [1, 1]),
        # earlyTerminationAge: a tentative target that is missed so often ends, and another one begins
        ("x.xxx", {"probation_age": 2, "early_termination_age": 1}, [-1, None, -1, -1, 1]),
        ("x.xx", {"probation_age": 2, "early_termination_age": 2}, [-1, None, 1, 1]),
        # maxShadowTrackingAge: an active target that is not seen keeps its id for so many frames, and no longer
        ("xx..x", {"probation_age": 1, "max_shadow_age": 2}, [-1, 1, None, None, 1]),
        ("xx...xx", {"probation_age": 1, "max_shadow_age": 2}, [-1, 1, None, None, None, -1, 2]),
        # cascaded: an unsure detection keeps an active target, begins none, and finds none in the shadow
        ("oox", {"probation_age": 0, "matching": "cascaded"}, [-1, -1, 1]),
        ("xox", {"probation_age": 0, "matching": "cascaded"}, [1, 1, 1]),
        ("x.ox", {"probation_age": 0, "matching": "cascaded"}, [1, None, -1, 1]),
        ("x.ox", {"probation_age": 0}, [1, None, 1, 1]),
        # minDetectorConfidence
        ("xo", {"probation_age": 0, "low_confidence": 0.5}, [1, -1]),
    ],
)
def test_a_target_lives_as_in_deepstream(seen: str, options: dict[str, object], expected: list[int | None]) -> None:
    assert life(seen, **options) == expected


@pytest.mark.parametrize(("least", "expected"), [(0.5, [[1], [1, -1]]), (0.7, [[1], [1, 2]])])
def test_a_detection_on_a_target_begins_none(least: float, expected: list[list[int]]) -> None:
    """The second box of the second frame overlaps the target by 0.6."""
    beside = (100.0, 125.0, 150.0, 225.0)
    frames = [[(BOX, 0.9, 0)], [(BOX, 0.9, 0), (beside, 0.8, 0)]]

    assert ids(frames, probation_age=0, new_target_iou=least) == expected


@pytest.mark.parametrize(("same_class", "expected"), [(True, [[1], [-1]]), (False, [[1], [1]])])
def test_a_target_has_detections_of_its_class(same_class: bool, expected: list[list[int]]) -> None:
    assert ids([[(BOX, 0.9, 0)], [(BOX, 0.9, 1)]], probation_age=0, same_class=same_class) == expected


def test_greedy_takes_the_best_pair_first_where_the_sum_would_not() -> None:
    similarity = np.array([[0.9, 0.8, 0.0], [0.85, 0.0, 0.0], [0.0, 0.3, 0.2]], np.float32)

    rows, columns = matched(similarity, least=0.1, way=Way.GREEDY)

    assert sorted(zip(rows.tolist(), columns.tolist(), strict=True)) == [(0, 0), (2, 1)]
