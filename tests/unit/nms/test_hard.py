from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline_plugins.nms.cpu import suppress, suppress_by_method
from sightline_plugins.nms.options import MAX_CANDIDATES, NmsOptions
from tests.reference import detection
from tests.unit.nms import plain


def boxes(*rows: tuple[float, float, float, float]) -> npt.NDArray[np.float32]:
    return np.array(rows, np.float32).reshape(-1, 4)


def kept(xyxy: npt.NDArray[np.float32], confidence: list[float], classes: list[int], **options: object) -> list[int]:
    chosen = NmsOptions(**options)  # type: ignore[arg-type]
    rows: list[int] = suppress(
        xyxy, np.array(confidence, np.float32), np.array(classes, np.int32), options=chosen
    ).tolist()
    return rows


SAME = boxes((0, 0, 10, 10), (0, 0, 10, 9), (50, 50, 60, 60))


def test_the_less_confident_of_two_that_overlap_goes() -> None:
    assert kept(SAME, [0.5, 0.9, 0.1], [0, 0, 0]) == [1, 2]


def test_boxes_of_different_classes_stay() -> None:
    assert kept(SAME, [0.5, 0.9, 0.1], [0, 1, 0]) == [1, 0, 2]


def test_agnostic_suppression_looks_at_no_class() -> None:
    assert kept(SAME, [0.5, 0.9, 0.1], [0, 1, 0], class_agnostic=True) == [1, 2]


def test_of_equal_confidences_the_first_stays() -> None:
    assert kept(SAME, [0.5, 0.5, 0.5], [0, 0, 0]) == [0, 2]


def test_an_overlap_equal_to_the_limit_is_allowed() -> None:
    assert kept(boxes((0, 0, 10, 10), (0, 0, 10, 5)), [0.9, 0.8], [0, 0], iou=0.5) == [0, 1]


def test_a_suppressed_box_suppresses_nothing() -> None:
    chain = boxes((0, 0, 10, 10), (4, 0, 14, 10), (8, 0, 18, 10))

    assert kept(chain, [0.9, 0.8, 0.7], [0, 0, 0], iou=0.3) == [0, 2]


def test_at_most_the_detections_asked_for_stay() -> None:
    assert kept(SAME, [0.5, 0.9, 0.6], [0, 1, 0], max_detections=2) == [1, 2]


def test_a_limit_of_one_suppresses_nothing() -> None:
    assert kept(SAME, [0.5, 0.9, 0.6], [0, 0, 0], iou=1.0) == [1, 2, 0]


def test_no_boxes_give_no_boxes() -> None:
    assert kept(boxes(), [], []) == []


def test_no_more_than_the_most_confident_candidates_are_looked_at() -> None:
    count = MAX_CANDIDATES + 5
    spread = np.arange(count, dtype=np.float32) * 20
    far_apart = np.stack([spread, spread, spread + 1, spread + 1], axis=1)

    assert len(kept(far_apart, [0.5] * count, [0] * count, iou=1.0, max_detections=count)) == MAX_CANDIDATES


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("class_agnostic", [False, True])
def test_it_keeps_what_the_plain_loop_keeps(seed: int, class_agnostic: bool) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 120))
    centre = random.uniform(0, 300, (count, 2)).round()
    size = random.uniform(20, 80, (count, 2)).round()
    xyxy = np.concatenate([centre - size, centre + size], axis=1)
    confidence = random.random(count).round(1)
    classes = random.integers(0, 3, count)
    apart = xyxy if class_agnostic else xyxy + classes[:, None] * 10_000.0

    ours = kept(xyxy.astype(np.float32), confidence.tolist(), classes.tolist(), class_agnostic=class_agnostic)

    assert ours == detection.suppress(apart, confidence, limit=0.45).tolist()


@plain.FEWER
@given(st.lists(plain.rows(), min_size=1, max_size=30), st.booleans(), st.sampled_from([0.0, 0.3, 0.4371, 0.9]))
def test_it_keeps_what_the_plain_loop_keeps_by_class(
    found: list[plain.Row], class_agnostic: bool, limit: float
) -> None:
    rows, scores, classes = zip(*found, strict=True)
    expected = plain.hard(
        scores, classes, iou=lambda a, b: plain.iou(rows[a], rows[b]), limit=limit, class_agnostic=class_agnostic
    )

    assert kept(boxes(*rows), list(scores), list(classes), class_agnostic=class_agnostic, iou=limit) == expected


@plain.FEWER
@given(st.lists(plain.rows(), max_size=30), st.sampled_from([3, 300]))
def test_without_suppression_all_stay_by_falling_confidence(found: list[plain.Row], most: int) -> None:
    xyxy = boxes(*(box for box, _, _ in found))
    scores = [score for _, score, _ in found]
    classes = np.array([class_id for _, _, class_id in found], np.int32)
    options = NmsOptions(method="none", max_detections=most)

    rows = suppress_by_method(xyxy, np.array(scores, np.float32), classes, options=options).rows.tolist()

    assert rows == plain.order(scores)[:most]
