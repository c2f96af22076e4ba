from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sightline.errors import ModelError
from tests.unit.heads.decoding import Expected, Outputs, assert_found, read

SIZE_WH = (320, 192)
THINGS: list[Expected] = [((10.0, 8.0, 62.0, 60.0), 2, 0.9), ((100.5, 20.25, 239.0, 110.0), 0, 0.6)]
API = ("detection_boxes", "detection_classes", "detection_scores", "num_detections")


def api_outputs(*, first_class: int = 1) -> Outputs:
    """The TensorFlow Object Detection API's, with a row beyond the count."""
    boxes, classes, scores = np.zeros((1, 5, 4), np.float32), np.ones((1, 5), np.float32), np.zeros((1, 5), np.float32)
    for row, ((x1, y1, x2, y2), kind, score) in enumerate([*THINGS, THINGS[0]]):
        boxes[0, row] = [y1 / 192, x1 / 320, y2 / 192, x2 / 320]
        classes[0, row], scores[0, row] = kind + first_class, score
    return [boxes, classes, scores, np.array([2.0], np.float32)]


def test_the_object_detection_api_counts_classes_from_one() -> None:
    assert_found(read("object_detection_api", api_outputs(), size_wh=SIZE_WH, names=API), THINGS)


def test_the_object_detection_api_is_read_by_names_among_other_outputs() -> None:
    boxes, classes, scores, count = api_outputs()
    outputs = [np.zeros((1, 9, 4), np.float32), scores, count, classes, boxes]
    names = (
        "raw_detection_boxes:0",
        "detection_scores:0",
        "num_detections:0",
        "detection_classes:0",
        "detection_boxes:0",
    )

    assert_found(read("object_detection_api", outputs, size_wh=SIZE_WH, names=names), THINGS)


def test_tensorflow_lite_gives_the_same_in_order_and_counts_from_zero() -> None:
    names = ("TFLite_Detection_PostProcess", *(f"TFLite_Detection_PostProcess:{number}" for number in (1, 2, 3)))
    outputs = api_outputs(first_class=0)

    assert_found(read("object_detection_api", outputs, size_wh=SIZE_WH, names=names, first_class=0), THINGS)


def test_the_object_detection_api_without_classes_is_refused() -> None:
    with pytest.raises(ModelError, match="detection_boxes, detection_classes"):
        read("object_detection_api", api_outputs()[:1], size_wh=SIZE_WH, names=API[:1])


def test_paddle_reads_rows_up_to_their_count() -> None:
    rows = [[kind, score, *box] for box, kind, score in THINGS]
    outputs: Outputs = [np.array([*rows, rows[0]], np.float32), np.array([2], np.int32)]

    assert_found(read("paddle", outputs, size_wh=SIZE_WH), THINGS)
    assert_found(read("paddle", outputs[::-1], size_wh=SIZE_WH), THINGS)


def test_paddle_rows_without_an_object_are_none() -> None:
    outputs: Outputs = [np.array([[-1, 1, 0, 0, 0, 0]], np.float32), np.array([1], np.int32)]

    assert len(read("paddle", outputs, size_wh=SIZE_WH)) == 0


def test_detection_output_ends_at_image_minus_one() -> None:
    rows = [[0, kind + 1, score, *(np.array(box) / (SIZE_WH * 2))] for box, kind, score in THINGS]
    output = np.array([*rows, [-1, 0, 0, 0, 0, 0, 0], rows[0]], np.float32)

    assert_found(read("detection_output", [output[None, None]], size_wh=SIZE_WH), THINGS)


def selected(order: str, *, shares: bool = False) -> Outputs:
    """Indices, boxes and scores as ONNX's NonMaxSuppression has them; the last index is of another image."""
    boxes, scores = np.zeros((1, 9, 4), np.float32), np.full((1, 3, 9), 0.05, np.float32)
    indices = []
    for number, ((x1, y1, x2, y2), kind, score) in enumerate(THINGS):
        place = 4 * number + 1
        corners = {
            "yxyx": [y1, x1, y2, x2],
            "turned": [y2, x2, y1, x1],
            "xyxy": [x1, y1, x2, y2],
            "cxcywh": [(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1],
        }[order]
        boxes[0, place] = np.array(corners) / (((192, 320) * 2) if shares else 1)
        scores[0, kind, place] = score
        indices.append([0, kind, place])
    return [np.array([*indices, [1, 0, 0], [-1, -1, -1]], np.int64), boxes, scores]


@pytest.mark.parametrize(
    ("outputs", "options"),
    [
        (selected("yxyx"), {}),
        (selected("turned"), {}),
        (selected("xyxy"), {"boxes": "xyxy"}),
        (selected("cxcywh"), {"boxes": "cxcywh"}),
        (selected("yxyx", shares=True), {"units": "shares"}),
    ],
)
def test_selected_indices_pick_boxes_and_scores(outputs: Outputs, options: dict[str, Any]) -> None:
    assert_found(read("selected_indices", outputs, size_wh=SIZE_WH, **options), THINGS)


def test_selected_indices_may_come_last_and_with_a_batch() -> None:
    indices, boxes, scores = selected("yxyx")

    assert_found(read("selected_indices", [boxes, scores, indices[None]], size_wh=SIZE_WH), THINGS)


def test_nothing_selected_is_nothing() -> None:
    indices, boxes, scores = selected("yxyx")

    assert len(read("selected_indices", [indices[:0], boxes, scores], size_wh=SIZE_WH)) == 0


def test_indices_outside_the_boxes_are_refused() -> None:
    indices, boxes, scores = selected("yxyx")

    with pytest.raises(ModelError, match="indices point outside"):
        read("selected_indices", [indices, boxes[:, :3], scores[:, :, :3]], size_wh=SIZE_WH)


def columns() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    boxes = np.array([[*(box for box, _, _ in THINGS), (0, 0, 9, 9)]], np.float32)
    return boxes, np.array([[0.9, 0.6, 0.8]], np.float32), np.array([[2, 0, 1]], np.float32)


def test_the_count_is_known_by_its_name_wherever_it_stands() -> None:
    boxes, scores, labels = columns()
    outputs: Outputs = [boxes, labels.astype(np.int32), scores, np.array([[2]], np.int32)]
    names = ("det_boxes", "det_classes", "det_scores", "num_dets")

    assert_found(read("end_to_end", outputs, size_wh=SIZE_WH, names=names), THINGS)
    assert_found(read("end_to_end", outputs, size_wh=SIZE_WH), THINGS)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float32])
def test_labels_are_whole_numbers_or_are_called_so(kind: type) -> None:
    boxes, scores, labels = columns()
    outputs: Outputs = [np.array([[2]], np.int32), labels.astype(kind), boxes, scores]

    found = read("end_to_end", outputs, size_wh=SIZE_WH, names=("num", "det_classes", "boxes", "scores"))

    assert_found(found, THINGS)


def test_boxes_and_scores_alone_are_of_one_class() -> None:
    boxes, scores, _ = columns()

    found = read("end_to_end", [boxes[0, :1], scores[0, :1]], size_wh=SIZE_WH)

    assert_found(found, [(THINGS[0][0], 0, 0.9)])
