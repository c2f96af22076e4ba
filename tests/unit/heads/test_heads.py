from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline.errors import ModelError
from sightline_plugins.heads.head import Candidates, DecodeContext
from sightline_plugins.heads.registry import HEADS

Floats = npt.NDArray[np.float32]
DETECTION = [100.0, 60.0, 40.0, 20.0]
CORNERS = [80.0, 50.0, 120.0, 70.0]


def decode(head: str, *outputs: npt.NDArray[Any], confidence: float = 0.5, side: int = 64) -> Candidates:
    found: Candidates = HEADS[head].decode(outputs, DecodeContext((side, side), confidence))
    return found


def rows_of(found: Candidates) -> list[tuple[Any, ...]]:
    boxes = found.xyxy.round(3).tolist()
    return list(zip(boxes, found.confidence.round(3).tolist(), found.class_id.tolist(), strict=True))


def test_fastestdet_reads_its_map() -> None:
    output = np.zeros((1, 8, 8, 8), np.float32)
    output[0, 0, 2, 3] = 1.0
    output[0, 1:5, 2, 3] = [np.arctanh(0.5), np.arctanh(-0.5), np.log(1 / 3), 0.0]
    output[0, 5:, 2, 3] = [0.1, 0.2, 0.7]

    ((box, score, kind),) = rows_of(decode("fastestdet", output))

    assert box == [20.0, -4.0, 36.0, 28.0]
    assert score == pytest.approx(0.7**0.4, abs=1e-3)
    assert kind == 2


def test_yolox_reads_its_grids() -> None:
    output = np.zeros((1, 64 + 16 + 4, 7), np.float32)
    output[0, 64 + 6] = [0.5, 0.25, np.log(2), 0.0, 0.9, 0.1, 0.8]

    found = decode("yolox", output)

    assert rows_of(found) == [([24.0, 12.0, 56.0, 28.0], pytest.approx(0.72), 1)]


def test_yolox_of_another_input_size_is_refused() -> None:
    with pytest.raises(ModelError, match="has 84 or 85 cells, the model's output has 100"):
        decode("yolox", np.full((1, 100, 7), 1, np.float32))


@pytest.mark.parametrize("transposed", [False, True])
def test_yolov5_multiplies_objectness_and_class_in_either_orientation(transposed: bool) -> None:
    output = np.zeros((1, 50, 8), np.float32)
    output[0, 7] = [*DETECTION, 0.9, 0.1, 0.2, 0.8]

    found = decode("yolov5", output.transpose(0, 2, 1) if transposed else output)

    assert rows_of(found) == [(CORNERS, pytest.approx(0.72), 2)]


@pytest.mark.parametrize("transposed", [False, True])
def test_yolov8_takes_the_best_class_in_either_orientation(transposed: bool) -> None:
    output = np.zeros((1, 7, 50), np.float32)
    output[0, :, 7] = [*DETECTION, 0.1, 0.75, 0.2]

    found = decode("yolov8", output.transpose(0, 2, 1) if transposed else output)

    assert rows_of(found) == [(CORNERS, pytest.approx(0.75), 1)]


@pytest.mark.parametrize("shape", [(2, 6), (1, 2, 6)])
def test_end_to_end_reads_rows_of_six(shape: tuple[int, ...]) -> None:
    output = np.array([[*CORNERS, 0.8, 3], [0, 0, 0, 0, 0, 0]], np.float32).reshape(shape)

    assert rows_of(decode("end_to_end", output, confidence=0.0)) == [(CORNERS, pytest.approx(0.8), 3)]


def test_end_to_end_reads_rows_of_seven() -> None:
    output = np.array([[0, *CORNERS, 3, 0.8]], np.float32)

    assert rows_of(decode("end_to_end", output)) == [(CORNERS, pytest.approx(0.8), 3)]


@pytest.mark.parametrize(("index", "track"), [(0, 0.5), (1, 7), (2, 0)])
def test_end_to_end_reads_rows_of_seven_that_begin_with_the_box(index: int, track: float) -> None:
    left = [0.0, *CORNERS[1:]]
    first = [list(CORNERS), left, left][index]
    output = np.array([[*first, 0.8, 3, track], [0, 0, 0, 0, 0, 0, 0]], np.float32)

    assert rows_of(decode("end_to_end", output)) == [(first, pytest.approx(0.8), 3)]


def test_the_order_of_rows_of_seven_can_be_said() -> None:
    head = HEADS["end_to_end"]
    assert head.options is not None
    rows = np.array([[0.0, 0.1, 0.5, 0.5, 0.8, 1, 0.9]], np.float32)

    found = [
        head.decode([rows], DecodeContext((64, 64), 0.1, options=head.options.model_validate({"rows": order})))
        for order in ("image_first", "box_first")
    ]

    assert [one.confidence.tolist() for one in found] == [[pytest.approx(0.9)], [pytest.approx(0.8)]]


def test_end_to_end_tells_labels_from_scores_by_their_type() -> None:
    labels, boxes, scores = np.array([[4, 1]]), np.array([[CORNERS, CORNERS]], np.float32), np.array([[0.6, 0.1]])

    found = decode("end_to_end", labels, boxes, scores.astype(np.float32))

    assert rows_of(found) == [(CORNERS, pytest.approx(0.6), 4)]


def test_end_to_end_reads_no_further_than_the_count() -> None:
    count, boxes = np.array([[1]], np.int32), np.array([[CORNERS, CORNERS]], np.float32)

    found = decode("end_to_end", count, boxes, np.full((1, 2), 0.9, np.float32), np.array([[4, 1]], np.int32))

    assert found.class_id.tolist() == [4]


def test_end_to_end_without_boxes_is_refused() -> None:
    with pytest.raises(ModelError, match="no output holds boxes"):
        decode("end_to_end", np.zeros((1, 5), np.float32), np.zeros((1, 5), np.int64))


def test_normalized_boxes_are_shares_of_the_input() -> None:
    output = np.array([[0.25, 0.5, 0.5, 1.0, 0.8, 3]], np.float32)

    assert decode("end_to_end_normalized", output).xyxy.tolist() == [[16, 32, 32, 64]]


@pytest.mark.parametrize(
    ("head", "shape"),
    [("fastestdet", (1, 85, 4, 4)), ("yolox", (1, 84, 85)), ("yolov5", (1, 200, 85)), ("yolov8", (1, 84, 200))],
)
@pytest.mark.parametrize("value", [0.0, np.nan])
def test_nothing_gives_nothing(head: str, shape: tuple[int, ...], value: float) -> None:
    found = decode(head, np.full(shape, value, np.float32))

    assert found.xyxy.shape == (0, 4)
    assert found.xyxy.dtype == np.float32


def test_boxes_that_are_not_finite_can_be_taken_out() -> None:
    boxes = np.array([[0, 0, np.inf, 1], [0, 0, 1, 1], [0, np.nan, 1, 1]])

    found = Candidates.from_arrays(boxes, np.array([0.5, 0.6, 0.7]), np.array([0, 1, 2]))

    assert found.finite().class_id.tolist() == [1]
