from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline_plugins.nms.cpu import Kept, suppress_by_method
from sightline_plugins.nms.options import NmsOptions
from tests.unit.nms import plain

LIMIT = 0.4371


def fuse(found: list[plain.Row], **options: object) -> Kept:
    boxes, scores, classes = zip(*found, strict=True)
    chosen = NmsOptions(method="fusion", iou=LIMIT, **options)  # type: ignore[arg-type]
    return suppress_by_method(
        np.array(boxes, np.float32), np.array(scores, np.float32), np.array(classes, np.int32), options=chosen
    )


def boxes(kept: Kept) -> list[list[float]]:
    assert kept.xyxy is not None
    rounded: list[list[float]] = kept.xyxy.round(4).tolist()
    return rounded


TWO: list[plain.Row] = [((0, 0, 10, 10), 0.25, 0), ((0, 0, 10, 14), 0.75, 0)]


def test_boxes_that_overlap_become_their_mean_weighted_by_confidence() -> None:
    assert boxes(fuse(TWO)) == [[0, 0, 10, 13]]


def test_the_best_row_stands_for_the_group() -> None:
    kept = fuse(TWO)

    assert (kept.rows.tolist(), kept.confidence) == ([1], None)


def test_boxes_of_other_classes_are_not_fused() -> None:
    assert boxes(fuse([TWO[0], (TWO[1][0], 0.75, 1)])) == [[0, 0, 10, 14], [0, 0, 10, 10]]


def test_agnostic_fusion_looks_at_no_class() -> None:
    assert boxes(fuse([TWO[0], (TWO[1][0], 0.75, 1)], class_agnostic=True)) == [[0, 0, 10, 13]]


def test_a_box_without_confidence_changes_no_mean() -> None:
    assert boxes(fuse([((0, 0, 10, 10), 1.0, 0), ((0, 0, 10, 9), 0.0, 0)])) == [[0, 0, 10, 10]]


def test_a_limit_of_one_fuses_nothing() -> None:
    found = suppress_by_method(
        np.array([[0, 0, 9, 9]] * 2, np.float32),
        np.array([0.5, 0.6], np.float32),
        np.zeros(2, np.int32),
        options=NmsOptions(method="fusion", iou=1.0),
    )

    assert (found.rows.tolist(), found.xyxy) == ([1, 0], None)


@plain.FEWER
@given(st.lists(plain.rows(), min_size=2, max_size=25), st.booleans(), st.sampled_from([2, 300]))
def test_it_gives_what_the_plain_loop_gives(found: list[plain.Row], class_agnostic: bool, most: int) -> None:
    expected = plain.fusion(found, limit=LIMIT, class_agnostic=class_agnostic)[:most]

    kept = fuse(found, class_agnostic=class_agnostic, max_detections=most)

    assert kept.rows.tolist() == [row for row, _ in expected]
    assert np.array(boxes(kept)) == pytest.approx(np.array([box for _, box in expected]), abs=1e-3)
