from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import BaseModel

from sightline.errors import ModelError
from sightline_plugins.heads import cuda as cuda_heads
from sightline_plugins.heads.cuda import DENSE_HEADS, plan_decoding
from sightline_plugins.heads.head import Candidates, DecodeContext
from sightline_plugins.heads.registry import HEADS
from sightline_plugins.heads.yolo.maps import AnchorOptions, DflOptions
from tests.fakes import HostKernels
from tests.parity.kernels.found import decoded, room
from tests.unit.cuda.host_arrays import dense

Outputs = list[npt.NDArray[Any]]
IMAGES = 3
SIZE_WH = (160, 96)
STRIDES = (8, 16, 32)
CELLS = [(SIZE_WH[1] // stride, SIZE_WH[0] // stride) for stride in STRIDES]
BOXES = sum(rows * columns for rows, columns in CELLS)


def fractions(*shape: int) -> npt.NDArray[np.float32]:
    """Numbers of 0..1 of which few are high; many are equal."""
    values = np.random.default_rng(shape[-1]).random(shape) ** 4
    return (np.round(values * 64) / 64).astype(np.float32)


def logits(*shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(sum(shape)).normal(-1, 2, shape).astype(np.float32)


def table(extra: int, *, values_first: bool) -> Outputs:
    scores = fractions(IMAGES, extra + 7, BOXES)
    boxes = np.random.default_rng(3).uniform(0, 160, (IMAGES, 4, BOXES)).astype(np.float32)
    values = np.concatenate([boxes, scores], axis=1)
    return [values if values_first else np.ascontiguousarray(values.transpose(0, 2, 1))]


def offsets() -> Outputs:
    values = np.concatenate([logits(IMAGES, BOXES, 4), fractions(IMAGES, BOXES, 8)], axis=2)
    return [values]


def distances(bins: int, *, apart: bool, last: bool = False, make: Any = logits) -> Outputs:
    outputs: Outputs = []
    for rows, columns in reversed(CELLS):
        pair = [logits(IMAGES, 4 * bins, rows, columns), make(IMAGES, 7, rows, columns)]
        outputs += pair if apart else [np.concatenate(pair, axis=1)]
    return [np.ascontiguousarray(output.transpose(0, 2, 3, 1)) for output in outputs] if last else outputs


def anchors(*, five: bool = False, last: bool = False) -> Outputs:
    maps = [logits(IMAGES, 3, 12, rows, columns) for rows, columns in CELLS]
    if five:
        return [np.ascontiguousarray(values.transpose(0, 1, 3, 4, 2)) for values in maps]
    flat = [values.reshape(IMAGES, 36, *values.shape[3:]) for values in maps]
    return [np.ascontiguousarray(values.transpose(0, 2, 3, 1)) for values in flat] if last else flat


def fastestdet() -> Outputs:
    rows, columns = CELLS[1]
    parts = [fractions(IMAGES, 1, rows, columns), logits(IMAGES, 4, rows, columns)]
    return [np.concatenate([*parts, fractions(IMAGES, 7, rows, columns)], axis=1)]


CASES: dict[str, tuple[str, Outputs, BaseModel | None]] = {
    "objectness, values last": ("yolov5", table(1, values_first=False), None),
    "objectness, values first": ("yolov5", table(1, values_first=True), None),
    "classes only, values first": ("yolov8", table(0, values_first=True), None),
    "classes only, values last": ("yolov8", table(0, values_first=False), None),
    "offsets": ("yolox", offsets(), None),
    "distances in one map": ("yolo_dfl", distances(16, apart=False), DflOptions(scores="logits")),
    "distances in maps of their own": ("yolo_dfl", distances(17, apart=True), DflOptions(scores="logits")),
    "channels last": ("yolo_dfl", distances(16, apart=False, last=True), DflOptions(scores="logits")),
    "plain distances": ("yolo_dfl", distances(1, apart=True), DflOptions(scores="logits")),
    "distances, probabilities": (
        "yolo_dfl",
        distances(16, apart=True, make=fractions),
        DflOptions(scores="probabilities"),
    ),
    "anchors, squared": ("yolo_anchors", anchors(), AnchorOptions(version="yolov5", scores="logits", boxes="logits")),
    "anchors, values last": (
        "yolo_anchors",
        anchors(five=True),
        AnchorOptions(version="yolov7", scores="logits", boxes="logits"),
    ),
    "anchors, by exp": (
        "yolo_anchors",
        anchors(last=True),
        AnchorOptions(version="yolov4", scores="logits", boxes="logits"),
    ),
    "anchors, boxes ready": (
        "yolo_anchors",
        anchors(),
        AnchorOptions(version="yolov3", scores="logits", boxes="probabilities"),
    ),
    "fastestdet": ("fastestdet", fastestdet(), None),
}


def reading(options: BaseModel | None, *, confidence: float = 0.35) -> DecodeContext:
    return DecodeContext(SIZE_WH, confidence, labels=tuple("abcdefg"), options=options)


def on_the_host(head: str, outputs: Sequence[npt.NDArray[Any]], how: DecodeContext) -> list[Candidates]:
    return [HEADS[head].decode([output[row : row + 1] for output in outputs], how) for row in range(IMAGES)]


def assert_equal(found: Sequence[Candidates], expected: Sequence[Candidates]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.class_id, other.class_id)
        np.testing.assert_array_equal(one.confidence, other.confidence)
        np.testing.assert_array_equal(one.xyxy, other.xyxy)


@pytest.mark.parametrize("case", CASES)
def test_the_kernels_find_exactly_what_the_head_finds_on_the_host(case: str) -> None:
    head, outputs, options = CASES[case]

    found, counts = decoded(head, outputs, reading(options))

    expected = on_the_host(head, outputs, reading(options))
    assert min(map(len, expected)) > 10
    assert_equal(found, expected)
    assert counts.tolist() == [[len(table), 0] for table in expected]


def test_every_head_with_a_kernel_is_tested() -> None:
    assert {head for head, _, _ in CASES.values()} == set(DENSE_HEADS)


@pytest.mark.parametrize("case", ["classes only, values first", "distances in one map", "fastestdet"])
def test_outputs_in_half_precision_are_read_as_the_same_numbers(case: str) -> None:
    head, outputs, options = CASES[case]
    halves = [output.astype(np.float16) for output in outputs]

    found, _ = decoded(head, halves, reading(options))

    assert_equal(found, on_the_host(head, [half.astype(np.float32) for half in halves], reading(options)))


def test_half_precision_holds_every_number_it_can() -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    boxes = np.zeros((1, 5, len(values)), np.float16)
    boxes[0, 0], boxes[0, 4] = values, 1

    found, counts = decoded("yolov8", [boxes], DecodeContext((64, 64), 0.5))

    finite = values[np.isfinite(values)].astype(np.float32)
    np.testing.assert_array_equal(found[0].xyxy[:, 0], finite)
    assert counts.tolist() == [[len(finite), len(values) - len(finite)]]


def test_each_class_may_ask_for_more_confidence() -> None:
    head, outputs, options = CASES["classes only, values first"]
    limits = np.array([0.0, 0.5, 0.9, 2.0, 0.0, 0.0, 0.6, 0.0], np.float32)

    found, _ = decoded(head, outputs, reading(options), limits=limits.tolist())

    expected = on_the_host(head, outputs, reading(options))
    assert_equal(found, [own.select(own.confidence >= limits[own.class_id]) for own in expected])


def test_what_is_no_finite_number_is_counted_and_left_out() -> None:
    boxes = np.zeros((1, 6, 40), np.float32)
    boxes[0, 4, :4] = 0.9
    boxes[0, 2, 1], boxes[0, 0, 2], boxes[0, 5, 3] = np.nan, np.inf, np.nan

    found, counts = decoded("yolov8", [boxes], DecodeContext((64, 64), 0.5))

    assert len(found[0]) == 1
    assert counts.tolist() == [[1, 2]]


def test_what_finds_no_room_is_counted_and_harms_nobody() -> None:
    head, outputs, options = CASES["classes only, values first"]
    plan = plan_decoding(head, shapes=[outputs[0].shape[1:]], context=reading(options))
    finds, detections, counts = room(IMAGES, 5)

    plan.launch(HostKernels(cuda_heads.SOURCE), [dense(outputs[0])], finds=finds)

    expected = [len(own) for own in on_the_host(head, outputs, reading(options))]
    assert counts.values[:, 0].tolist() == expected
    assert (detections.values["class_id"] < 7).all()


def test_a_model_that_does_not_tell_whether_scores_are_logits_is_refused() -> None:
    with pytest.raises(ModelError, match=r"set head_options: \{scores: logits\}"):
        plan_decoding("yolo_dfl", shapes=[(71, 12, 20), (71, 6, 10), (71, 3, 5)], context=reading(None))


def test_the_operator_that_makes_the_scores_tells_whether_they_are_logits() -> None:
    _, outputs, _ = CASES["distances in one map"]
    how = replace(reading(None), output_ops=("Conv",) * 3)

    found, _ = decoded("yolo_dfl", outputs, how)

    assert_equal(found, on_the_host("yolo_dfl", outputs, how))


def test_a_head_without_a_kernel_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match="head ssd has no kernel; fastestdet, yolo_anchors"):
        plan_decoding("ssd", shapes=[(4, 100)], context=reading(None))


def test_outputs_of_other_shapes_than_planned_are_refused() -> None:
    plan = plan_decoding("yolov8", shapes=[(11, 100)], context=reading(None))
    finds, _, _ = room(1, plan.boxes)

    with pytest.raises(ValueError, match="outputs of"):
        plan.launch(HostKernels(cuda_heads.SOURCE), [dense(np.zeros((1, 11, 99), np.float32))], finds=finds)
