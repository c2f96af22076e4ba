from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sightline.errors import ModelError
from sightline_plugins.heads.head import Candidates
from tests.unit.heads.decoding import Expected, Outputs, assert_found, read

SIZE_WH = (224, 160)
THINGS: list[Expected] = [((10.0, 8.0, 62.0, 70.0), 0, 0.9), ((100.5, 20.25, 179.0, 110.0), 0, 0.6)]
MARKS = {
    0.9: [(20.0, 25.0), (50.0, 24.0), (36.5, 40.0), (25.0, 55.0), (48.0, 56.0)],
    0.6: [(115.0, 45.0), (160.0, 47.0), (140.0, 66.0), (120.0, 90.0), (155.0, 92.0)],
}
STRIDES = (8, 16, 32)


def assert_marked(found: Candidates) -> None:
    assert found.points is not None
    for points, confidence in zip(found.points, found.confidence.tolist(), strict=True):
        marks = MARKS[round(confidence, 2)]
        assert points[:, :2].tolist() == [pytest.approx(mark, abs=0.02) for mark in marks]
        assert points[:, 2].tolist() == pytest.approx([confidence] * 5)


def grids() -> list[tuple[int, int, int]]:
    """Stride, columns and rows of each level."""
    return [(stride, math.ceil(SIZE_WH[0] / stride), math.ceil(SIZE_WH[1] / stride)) for stride in STRIDES]


def yunet_outputs() -> Outputs:
    tables = {width: [np.zeros((1, w * h, width), np.float32) for _, w, h in grids()] for width in (1, 4, 10)}
    sure = [np.full((1, w * h, 1), 0.9, np.float32) for _, w, h in grids()]
    for level, ((x1, y1, x2, y2), _, score) in enumerate(THINGS, start=1):
        stride, columns, _ = grids()[level]
        x, y = (x1 + x2) / 2 / stride, (y1 + y2) / 2 / stride
        column, row = int(x), int(y)
        place = row * columns + column
        tables[1][level][0, place] = score**2 / 0.9
        sizes = [math.log((x2 - x1) / stride), math.log((y2 - y1) / stride)]
        tables[4][level][0, place] = [x - column, y - row, *sizes]
        marks = [(u / stride - column, v / stride - row) for u, v in MARKS[score]]
        tables[10][level][0, place] = list(itertools.chain(*marks))
    return [*tables[1], *sure, *tables[4], *tables[10]]


def test_yunet_reads_boxes_and_landmarks() -> None:
    found = read("yunet", yunet_outputs(), size_wh=SIZE_WH)

    assert_found(found, THINGS)
    assert_marked(found)


def test_yunet_outputs_may_come_in_any_order() -> None:
    assert_found(read("yunet", yunet_outputs()[::-1], size_wh=SIZE_WH), THINGS)


def test_yunet_with_outputs_missing_is_refused() -> None:
    with pytest.raises(ModelError, match="cls, obj, bbox and kps of three levels"):
        read("yunet", yunet_outputs()[1:], size_wh=SIZE_WH)


def scrfd_outputs(*, batched: bool, levels: int = 3, each: int = 2) -> Outputs:
    strides = (8, 16, 32, 64, 128)[:levels]
    sides = [(s, math.ceil(SIZE_WH[0] / s), math.ceil(SIZE_WH[1] / s)) for s in strides]
    tables = {width: [np.zeros((w * h * each, width), np.float32) for _, w, h in sides] for width in (1, 4, 10)}
    for level, ((x1, y1, x2, y2), _, score) in enumerate(THINGS, start=1):
        stride, columns, _ = sides[level]
        column, row = int((x1 + x2) / 2 / stride), int((y1 + y2) / 2 / stride)
        place = (row * columns + column) * each + each - 1
        x, y = column * stride, row * stride
        tables[1][level][place] = score
        tables[4][level][place] = [(x - x1) / stride, (y - y1) / stride, (x2 - x) / stride, (y2 - y) / stride]
        tables[10][level][place] = list(
            itertools.chain(*[((u - x) / stride, (v - y) / stride) for u, v in MARKS[score]])
        )
    outputs = [*tables[1], *tables[4], *tables[10]]
    return [output[None] for output in outputs] if batched else outputs


@pytest.mark.parametrize("batched", [False, True])
def test_scrfd_reads_boxes_and_landmarks(batched: bool) -> None:
    found = read("scrfd", scrfd_outputs(batched=batched), size_wh=SIZE_WH)

    assert_found(found, THINGS)
    assert_marked(found)


def test_scrfd_without_landmarks_finds_boxes() -> None:
    found = read("scrfd", scrfd_outputs(batched=True)[:6], size_wh=SIZE_WH)

    assert_found(found, THINGS)
    assert found.points is None


def test_scrfd_of_five_levels_has_one_face_a_cell() -> None:
    found = read("scrfd", scrfd_outputs(batched=False, levels=5, each=1), size_wh=SIZE_WH)

    assert_found(found, THINGS)
    assert_marked(found)


def test_scrfd_with_levels_missing_is_refused() -> None:
    with pytest.raises(ModelError, match="three or five levels"):
        read("scrfd", scrfd_outputs(batched=True)[:4], size_wh=SIZE_WH)


def retinaface_outputs(*, raw: bool) -> Outputs:
    """biubug6/Pytorch_Retinaface: PriorBox, encode and encode_landm."""
    priors: list[tuple[float, float, float, float]] = []
    for (stride, columns, rows), sizes in zip(grids(), ((16, 32), (64, 128), (256, 512)), strict=True):
        for row, column, size in itertools.product(range(rows), range(columns), sizes):
            x, y = (column + 0.5) * stride / SIZE_WH[0], (row + 0.5) * stride / SIZE_WH[1]
            priors.append((x, y, size / SIZE_WH[0], size / SIZE_WH[1]))
    boxes = np.zeros((1, len(priors), 4), np.float32)
    scores = np.tile(np.array([0.99, 0.01], np.float32), (1, len(priors), 1))
    marks = np.zeros((1, len(priors), 10), np.float32)
    for (x1, y1, x2, y2), _, score in THINGS:
        x, y, w, h = (x1 + x2) / 448, (y1 + y2) / 320, (x2 - x1) / 224, (y2 - y1) / 160
        far = [abs(x - p[0]) + abs(y - p[1]) + abs(w - p[2]) for p in priors]
        place = far.index(min(far))
        cx, cy, pw, ph = priors[place]
        boxes[0, place] = [(x - cx) / pw / 0.1, (y - cy) / ph / 0.1, math.log(w / pw) / 0.2, math.log(h / ph) / 0.2]
        scores[0, place] = [1 - score, score]
        marks[0, place] = list(
            itertools.chain(*[((u / 224 - cx) / pw / 0.1, (v / 160 - cy) / ph / 0.1) for u, v in MARKS[score]])
        )
    return [boxes, np.log(scores) - 1 if raw else scores, marks]


@pytest.mark.parametrize("raw", [False, True])
def test_retinaface_reads_boxes_and_landmarks(raw: bool) -> None:
    found = read("retinaface", retinaface_outputs(raw=raw), size_wh=SIZE_WH)

    assert_found(found, THINGS)
    assert_marked(found)


def test_retinaface_outputs_may_come_in_any_order() -> None:
    boxes, scores, marks = retinaface_outputs(raw=False)

    assert_found(read("retinaface", [marks, boxes, scores], size_wh=SIZE_WH), THINGS)


@pytest.mark.parametrize("turned", [False, True])
def test_ultraface_reads_shares(turned: bool) -> None:
    scores = np.tile(np.array([0.99, 0.01], np.float32), (1, 50, 1))
    boxes = np.zeros((1, 50, 4), np.float32)
    for place, (box, _, score) in enumerate(THINGS):
        scores[0, place] = [1 - score, score]
        boxes[0, place] = np.array(box) / (SIZE_WH * 2)

    found = read("ultraface", [scores, boxes][:: -1 if turned else 1], size_wh=SIZE_WH)

    assert_found(found, THINGS)


def test_a_face_that_is_no_number_is_none() -> None:
    outputs = [np.full_like(output, np.nan) for output in yunet_outputs()]

    assert len(read("yunet", outputs, size_wh=SIZE_WH)) == 0


def test_retinaface_has_priors_of_these_sides_in_each_cell() -> None:
    """biubug6/Pytorch_Retinaface, data/config.py: cfg_mnet and cfg_re50."""
    expected = [
        side
        for (_, columns, rows), sides in zip(grids(), ((16, 32), (64, 128), (256, 512)), strict=True)
        for _ in range(columns * rows)
        for side in sides
    ]
    count = len(expected)
    sure = np.tile(np.array([0.01, 0.99], np.float32), (1, count, 1))
    outputs = [np.zeros((1, count, 4), np.float32), sure, np.zeros((1, count, 10), np.float32)]

    found = read("retinaface", outputs, size_wh=SIZE_WH)

    sides = found.xyxy[:, 2:] - found.xyxy[:, :2]
    assert sides.tolist() == [pytest.approx((side, side), abs=1e-3) for side in expected]
