"""From known boxes to the raw outputs of a family, one box at a time, after the published definitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from sightline_plugins.heads.head import Candidates, DecodeContext
from sightline_plugins.heads.registry import HEADS

Floats = npt.NDArray[np.float32]
SIDE = 128
CLASSES = 5
LABELS = tuple(f"class {number}" for number in range(CLASSES))
LOW = -12.0


@dataclass(frozen=True)
class Box:
    """A known box: centre, size, objectness, class and its probability."""

    x: float
    y: float
    width: float
    height: float
    class_id: int
    chance: float = 0.9
    objectness: float = 1.0

    @property
    def xyxy(self) -> list[float]:
        half = self.width / 2, self.height / 2
        return [self.x - half[0], self.y - half[1], self.x + half[0], self.y + half[1]]

    @property
    def score(self) -> float:
        return self.chance * self.objectness


BOXES = (
    Box(20.5, 30.25, 24, 20, class_id=0, chance=0.8, objectness=0.9),
    Box(100, 66.5, 40, 70, class_id=3, chance=0.95, objectness=0.7),
    Box(3, 118, 30, 14, class_id=4, chance=0.6, objectness=0.99),
)


def logit(share: float) -> float:
    return math.log(share / (1 - share))


def sigmoid(values: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-values)), np.float32)


def decode(
    head: str,
    *outputs: npt.NDArray[Any],
    confidence: float = 0.25,
    labels: tuple[str, ...] = LABELS,
    output_ops: tuple[str, ...] = (),
    side: int = SIDE,
    **options: Any,
) -> Candidates:
    """What a head reads; `options` are its own."""
    kind = HEADS[head].options
    chosen: BaseModel | None = kind.model_validate(options) if kind is not None and options else None
    context = DecodeContext((side, side), confidence, labels=labels, options=chosen, output_ops=output_ops)
    found: Candidates = HEADS[head].decode(outputs, context)
    return found


def assert_found(found: Candidates, expected: Sequence[Box], *, score: Callable[[Box], float]) -> None:
    """The candidates are these boxes, in any order."""
    order = np.argsort(found.class_id, kind="stable")
    wanted = sorted(expected, key=lambda box: box.class_id)
    assert found.class_id[order].tolist() == [box.class_id for box in wanted]
    np.testing.assert_allclose(found.xyxy[order], [box.xyxy for box in wanted], atol=0.02)
    np.testing.assert_allclose(found.confidence[order], [score(box) for box in wanted], atol=1e-3)


def dense(boxes: Sequence[Box], *, cells: int, extra: int = 0, objectness: bool = False) -> Floats:
    """Decoded rows (cells, values): the boxes stand at known places, all else is unlikely."""
    first = 5 if objectness else 4
    rows = np.zeros((cells, first + CLASSES + extra), np.float32)
    for number, box in enumerate(boxes):
        row = rows[7 + 11 * number]
        row[:4] = box.x, box.y, box.width, box.height
        if objectness:
            row[4] = box.objectness
        row[first + box.class_id] = box.chance
        row[first + (box.class_id + 1) % CLASSES] = box.chance / 2
    return rows


def anchor_maps(
    boxes: Sequence[Box],
    *,
    anchors: Sequence[Sequence[float]],
    strides: Sequence[int],
    scale_xy: Sequence[float],
    squared: bool,
) -> list[Floats]:
    """Logits (1, 3, rows, columns, 5 + classes): each box in the level and anchor that it fits best."""
    maps = [np.full((1, 3, SIDE // s, SIDE // s, 5 + CLASSES), LOW, np.float32) for s in strides]
    for box in boxes:
        level, anchor = min(
            ((level, anchor) for level in range(len(strides)) for anchor in range(3)),
            key=lambda at: abs(math.log(box.width * box.height / math.prod(anchors[at[0]][2 * at[1] : 2 * at[1] + 2]))),
        )
        stride, scale = strides[level], scale_xy[level]
        column, row = int(box.x // stride), int(box.y // stride)
        width, height = anchors[level][2 * anchor : 2 * anchor + 2]
        cell = maps[level][0, anchor, row, column]
        for place, share in ((0, box.x / stride - column), (1, box.y / stride - row)):
            cell[place] = logit((share + (scale - 1) / 2) / scale)
        for place, ratio in ((2, box.width / width), (3, box.height / height)):
            cell[place] = logit(math.sqrt(ratio) / 2) if squared else math.log(ratio)
        cell[4] = logit(box.objectness)
        cell[5 + box.class_id] = logit(box.chance)
    return maps


def dfl_maps(boxes: Sequence[Box], *, bins: int, strides: Sequence[int]) -> list[tuple[Floats, Floats]]:
    """Distances (1, 4 * bins, rows, columns) and class logits of each stride; a distance lies between two bins."""
    maps = [
        (
            np.full((1, 4 * bins, SIDE // s, SIDE // s), -30.0 if bins > 1 else 0.0, np.float32),
            np.full((1, CLASSES, SIDE // s, SIDE // s), LOW, np.float32),
        )
        for s in strides
    ]
    for number, box in enumerate(boxes):
        level = 1 + number % (len(strides) - 1)
        stride, (sides, classes) = strides[level], maps[level]
        column, row = int(box.x // stride), int(box.y // stride)
        middle = (column + 0.5) * stride, (row + 0.5) * stride
        left, top, right, bottom = box.xyxy
        distances = (middle[0] - left, middle[1] - top, right - middle[0], bottom - middle[1])
        for side, distance in enumerate(distance / stride for distance in distances):
            low = int(distance)
            share = distance - low
            if bins == 1:
                sides[0, side, row, column] = distance
            else:
                sides[0, side * bins + low, row, column] = math.log(max(1 - share, 1e-9))
                sides[0, side * bins + low + 1, row, column] = math.log(max(share, 1e-9))
        classes[0, box.class_id, row, column] = logit(box.chance)
    return maps
