from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from sightline.errors import ModelError
from tests.unit.heads.decoding import Expected, Outputs, assert_found, read

SIZE_WH = (256, 192)
CLASSES = 3
STRIDES = (8, 16, 32, 64, 128)
THINGS: list[Expected] = [((10.0, 8.0, 62.0, 60.0), 2, 0.9), ((100.5, 20.25, 239.0, 110.0), 0, 0.6)]
Anchor = tuple[float, float, float, float]
"""x1, y1, x2, y2."""


def mmdetection(stride: int) -> list[Anchor]:
    """Around the corner of a cell, ratio by ratio: open-mmlab/mmdetection, AnchorGenerator."""
    anchors = []
    for ratio in (0.5, 1.0, 2.0):
        for octave in range(3):
            side = 4 * stride * 2 ** (octave / 3)
            w, h = side / math.sqrt(ratio), side * math.sqrt(ratio)
            anchors.append((-w / 2, -h / 2, w / 2, h / 2))
    return anchors


def torchvision(stride: int) -> list[Anchor]:
    """Rounded: pytorch/vision, AnchorGenerator and retinanet.py's sizes."""
    anchors: list[Anchor] = []
    for ratio in (0.5, 1.0, 2.0):
        for side in (4 * stride, int(4 * stride * 2 ** (1 / 3)), int(4 * stride * 2 ** (2 / 3))):
            w, h = side / math.sqrt(ratio), side * math.sqrt(ratio)
            half_w, half_h = round(w / 2), round(h / 2)
            anchors.append((-half_w, -half_h, half_w, half_h))
    return anchors


def keras(stride: int) -> list[Anchor]:
    """Around the middle of a cell: fizyr/keras-retinanet, generate_anchors and shift."""
    return [
        (x1 + stride / 2, y1 + stride / 2, x2 + stride / 2, y2 + stride / 2) for x1, y1, x2, y2 in mmdetection(stride)
    ]


def detectron2(stride: int) -> list[Anchor]:
    """Scale by scale: facebookresearch/detectron2, DefaultAnchorGenerator."""
    anchors = mmdetection(stride)
    return [anchors[3 * ratio + octave] for octave in range(3) for ratio in range(3)]


def correction(anchor: Anchor, box: Anchor, *, corners: bool) -> list[float]:
    w, h = anchor[2] - anchor[0], anchor[3] - anchor[1]
    if corners:
        return [(after - before) / side / 0.2 for after, before, side in zip(box, anchor, (w, h, w, h), strict=True)]
    x, y = (anchor[0] + anchor[2]) / 2, (anchor[1] + anchor[3]) / 2
    shift = [((box[0] + box[2]) / 2 - x) / w, ((box[1] + box[3]) / 2 - y) / h]
    return [*shift, math.log((box[2] - box[0]) / w), math.log((box[3] - box[1]) / h)]


def maps(around: Any, *, corners: bool = False) -> Outputs:
    """Maps of scores of five levels, then of offsets."""
    scores, boxes = [], []
    for stride in STRIDES:
        columns, rows = math.ceil(SIZE_WH[0] / stride), math.ceil(SIZE_WH[1] / stride)
        scores.append(np.full((1, 9 * CLASSES, rows, columns), 1e-3, np.float32))
        boxes.append(np.zeros((1, 36, rows, columns), np.float32))
    for level, (box, kind, score) in zip((1, 2), THINGS, strict=True):
        stride = STRIDES[level]
        rows, columns = scores[level].shape[2:]
        best: tuple[float, Any] = (math.inf, None)
        for row, column, (number, (x1, y1, x2, y2)) in itertools.product(
            range(rows), range(columns), enumerate(around(stride))
        ):
            anchor = (x1 + column * stride, y1 + row * stride, x2 + column * stride, y2 + row * stride)
            far = sum(abs(a - b) for a, b in zip(anchor, box, strict=True))
            best = min(best, (far, (row, column, number, anchor)), key=lambda entry: entry[0])
        row, column, number, anchor = best[1]
        scores[level][0, number * CLASSES + kind, row, column] = score
        boxes[level][0, 4 * number : 4 * number + 4, row, column] = correction(anchor, box, corners=corners)
    return [*scores, *boxes]


def as_tables(outputs: Outputs) -> Outputs:
    def rows(width: int, given: Outputs) -> Any:
        tables = [m.reshape(9, width, *m.shape[2:]).transpose(2, 3, 0, 1).reshape(-1, width) for m in given]
        return np.concatenate(tables)[None]

    return [rows(CLASSES, outputs[:5]), rows(4, outputs[5:])]


def test_maps_of_five_levels_are_read() -> None:
    assert_found(read("retinanet", maps(mmdetection), size_wh=SIZE_WH), THINGS)


def test_raw_scores_are_taken_through_the_logistic_function() -> None:
    outputs = maps(mmdetection)
    raw = [np.log(output / (1 - output)) for output in outputs[:5]]

    assert_found(read("retinanet", [*raw, *outputs[5:]], size_wh=SIZE_WH), THINGS)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("around", "options"),
    [
        (mmdetection, {}),
        (torchvision, {"rounded": True}),
        (detectron2, {"scale_first": True}),
    ],
)
def test_tables_of_every_training_are_read_in_either_order(around: Any, options: dict[str, Any], turned: bool) -> None:
    outputs = as_tables(maps(around))[:: -1 if turned else 1]

    assert_found(read("retinanet", outputs, size_wh=SIZE_WH, **options), THINGS)


def test_offsets_may_be_of_the_sides() -> None:
    outputs = as_tables(maps(keras, corners=True))

    found = read("retinanet", outputs, size_wh=SIZE_WH, offset=0.5, deltas="corners", deviations=(0.2, 0.2, 0.2, 0.2))

    assert_found(found, THINGS)


def test_a_size_beyond_all_numbers_is_no_finite_box() -> None:
    scores, boxes = as_tables(maps(mmdetection))
    boxes[..., 2] = np.inf

    assert len(read("retinanet", [scores, boxes], size_wh=SIZE_WH).finite()) == 0


def test_another_number_of_anchors_is_refused() -> None:
    with pytest.raises(ModelError, match="offsets of 3 anchors a cell"):
        read("retinanet", maps(mmdetection), size_wh=SIZE_WH, scales=(1.0,))


def test_sizes_have_to_be_as_many_as_strides() -> None:
    with pytest.raises(ValidationError, match="one of sizes for each of 5 strides"):
        read("retinanet", maps(mmdetection), size_wh=SIZE_WH, sizes=(32,))


def test_a_cell_has_the_anchors_of_the_paper() -> None:
    """Lin et al. 2017: areas of 32 to 512 pixels squared, three octaves, heights over widths of 1:2, 1:1 and 2:1."""
    cells = [math.ceil(SIZE_WH[0] / stride) * math.ceil(SIZE_WH[1] / stride) for stride in STRIDES]
    scores = np.zeros((1, 9 * sum(cells), CLASSES), np.float32)
    for level in range(5):
        first = 9 * sum(cells[:level])
        scores[0, first : first + 9, 0] = 0.9

    found = read("retinanet", [scores, np.zeros((1, 9 * sum(cells), 4), np.float32)], size_wh=SIZE_WH)

    sides = found.xyxy[:, 2:] - found.xyxy[:, :2]
    shapes = {(round(math.log2(w * h), 2), round(float(h / w), 2)) for w, h in sides.astype(np.float64)}
    octaves = [10 + 2 * level + 2 * octave / 3 for level in range(5) for octave in range(3)]
    assert shapes == {(round(octave, 2), ratio) for octave in octaves for ratio in (0.5, 1.0, 2.0)}
