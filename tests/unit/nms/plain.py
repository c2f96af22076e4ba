"""Suppression box by box, straight from the definitions: what the vectorised methods are compared with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from hypothesis import settings
from hypothesis import strategies as st

Box = tuple[float, float, float, float]
Turned = tuple[float, float, float, float, float]
"""Middle x and y, width, height, angle in radians."""
Row = tuple[Box, float, int]
"""Box, confidence, class."""
Iou = Callable[[int, int], float]

FEWER = settings(max_examples=80)

COORDINATE = st.integers(0, 40)
SIDE = st.integers(1, 30)
SCORE = st.integers(1, 20).map(lambda value: float(np.float32(value / 20)))
CLASS = st.integers(0, 2)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    left, top = draw(COORDINATE), draw(COORDINATE)
    return (left, top, left + draw(SIDE), top + draw(SIDE)), draw(SCORE), draw(CLASS)


@st.composite
def turned_rows(draw: st.DrawFn) -> tuple[Turned, float, int]:
    angle = draw(st.integers(0, 11)) * math.pi / 12
    shape = (float(draw(COORDINATE)), float(draw(COORDINATE)), float(draw(SIDE)), float(draw(SIDE)), angle)
    return shape, draw(SCORE), draw(CLASS)


def iou(a: Box, b: Box) -> float:
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    both = max(wide, 0) * max(high, 0)
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def probiou(a: Turned, b: Turned) -> float:
    """Equations 4 and 9 to 14 of Llerena and others (2021), with the angle in the covariances."""
    (x1, y1, xx1, yy1, xy1), (x2, y2, xx2, yy2, xy2) = covariance(a), covariance(b)
    xx, yy, xy = xx1 + xx2, yy1 + yy2, xy1 + xy2
    bottom = xx * yy - xy**2
    first = (xx * (y1 - y2) ** 2 + yy * (x1 - x2) ** 2) / bottom / 4
    second = xy * (x2 - x1) * (y1 - y2) / bottom / 2
    third = math.log(bottom / (4 * math.sqrt((xx1 * yy1 - xy1**2) * (xx2 * yy2 - xy2**2)))) / 2
    return 1 - math.sqrt(max(1 - math.exp(-max(first + second + third, 0)), 0))


def covariance(box: Turned) -> tuple[float, float, float, float, float]:
    x, y, width, height, angle = box
    a, b = width**2 / 12, height**2 / 12
    cos, sin = math.cos(angle), math.sin(angle)
    return x, y, a * cos**2 + b * sin**2, a * sin**2 + b * cos**2, (a - b) * cos * sin


def corners(box: Turned) -> npt.NDArray[np.float32]:
    x, y, width, height, angle = box
    cos, sin = math.cos(angle), math.sin(angle)
    around = [(-1, -1), (1, -1), (1, 1), (-1, 1)]
    places = [(u * width / 2, v * height / 2) for u, v in around]
    return np.array([(x + u * cos - v * sin, y + u * sin + v * cos) for u, v in places], np.float32)


def order(scores: Sequence[float]) -> list[int]:
    return sorted(range(len(scores)), key=lambda row: (-scores[row], row))


def hard(scores: Sequence[float], classes: Sequence[int], *, iou: Iou, limit: float, class_agnostic: bool) -> list[int]:
    kept: list[int] = []
    for row in order(scores):
        rivals = [other for other in kept if class_agnostic or classes[other] == classes[row]]
        if all(iou(other, row) <= limit for other in rivals):
            kept.append(row)
    return kept


def soft(
    scores: Sequence[float],
    classes: Sequence[int],
    *,
    iou: Iou,
    factor: Callable[[float], float],
    least: float,
    class_agnostic: bool,
) -> dict[int, float]:
    left = dict(enumerate(scores))
    kept: dict[int, float] = {}
    while left:
        best = min(left, key=lambda row: (-left[row], -scores[row], row))
        if left[best] < least:
            break
        kept[best] = left.pop(best)
        for row in left:
            if class_agnostic or classes[row] == classes[best]:
                left[row] *= factor(iou(best, row))
    return kept


def fusion(given: Sequence[Row], *, limit: float, class_agnostic: bool) -> list[tuple[int, Box]]:
    groups: list[list[int]] = []
    means: list[Box] = []
    for row in order([score for _, score, _ in given]):
        box, _, class_id = given[row]
        best, most = -1, limit
        for number, members in enumerate(groups):
            same = class_agnostic or given[members[0]][2] == class_id
            if same and iou(box, means[number]) > most:
                best, most = number, iou(box, means[number])
        if best < 0:
            groups.append([])
            means.append(box)
        groups[best].append(row)
        means[best] = mean([given[member] for member in groups[best]])
    return [(members[0], middle) for members, middle in zip(groups, means, strict=True)]


def mean(members: Sequence[Row]) -> Box:
    if len(members) == 1:
        return members[0][0]
    total = sum(score for _, score, _ in members)
    sides = [sum(box[side] * score for box, score, _ in members) / total for side in range(4)]
    return sides[0], sides[1], sides[2], sides[3]
