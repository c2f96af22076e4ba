from __future__ import annotations

import numpy as np

from sightline_plugins.heads.head import Candidates
from sightline_plugins.infer.selection import suppressed
from sightline_plugins.nms.options import NmsOptions
from tests.unit.nms import plain

UPRIGHT = np.array([[0, 0, 10, 10], [50, 50, 60, 60], [0, 0, 10, 12]], np.float32)
SURE = np.array([0.25, 0.5, 0.75], np.float32)
CLASSES = np.zeros(3, np.int32)
POINTS = np.arange(9, dtype=np.float32).reshape(3, 1, 3)


def test_a_fused_box_keeps_the_points_and_masks_of_its_best_row() -> None:
    found = Candidates.from_arrays(
        UPRIGHT, SURE, CLASSES, points=POINTS, masks=np.eye(3), prototypes=np.ones((3, 2, 2))
    )

    fused = suppressed(found, NmsOptions(method="fusion"))

    assert fused.points is not None
    assert fused.masks is not None
    assert fused.xyxy.tolist() == [[0, 0, 10, 11.5], [50, 50, 60, 60]]
    assert fused.points.tolist() == POINTS[[2, 1]].tolist()
    assert fused.masks.tolist() == np.eye(3)[[2, 1]].tolist()


def test_soft_suppression_changes_nothing_but_confidences() -> None:
    found = Candidates.from_arrays(UPRIGHT, SURE, CLASSES, points=POINTS)

    softened = suppressed(found, NmsOptions(method="soft"), min_confidence=0.01)

    assert softened.points is not None
    assert softened.confidence[0] == np.float32(0.75)
    assert softened.confidence[2] < np.float32(0.25)
    assert softened.points.tolist() == POINTS[[2, 1, 0]].tolist()


def test_oriented_boxes_drop_one_another_by_their_corners() -> None:
    corners = np.array([plain.corners((50, 50, 60, 4, angle)) for angle in (0.8, -0.8, 0.82)])
    around = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)

    kept = suppressed(Candidates.from_arrays(around, SURE, CLASSES, corners=corners), NmsOptions())

    assert kept.confidence.tolist() == [0.75, 0.5]
