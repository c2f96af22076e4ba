"""Non-maximum suppression on the CPU: greedy, soft, fused, oriented. This defines the results; `cuda.py` is its twin.

The boxes of one network are fused, not those of several. So the confidence of a fused box is that of its most confident
member (`conf_type='max'` in the authors' code), not the mean, which would fall the more doubtful boxes are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes
from sightline_plugins.native import DOUBLE, POINTER, SIZE, function, pointer
from sightline_plugins.nms.options import MAX_CANDIDATES, NmsOptions

Floats: TypeAlias = npt.NDArray[np.float64]
Overlap: TypeAlias = Callable[[Floats, Floats], Floats]
"""One shape (k,) and others (N, k) -> how much it overlaps each of them (N,), 0 to 1."""

_SMALL = 1e-7
_suppress_boxes = function("suppress_boxes", POINTER, POINTER, SIZE, DOUBLE, SIZE, POINTER, POINTER, result=SIZE)


def upright_overlap(one: Floats, others: Floats) -> Floats:
    """Intersection over union of a box (4,) with each of the others (N, 4) -> (N,); 0 where both are empty."""
    low = np.maximum(one[:2], others[:, :2])
    high = np.minimum(one[2:], others[:, 2:])
    sides = np.maximum(high - low, 0)
    both = sides[:, 0] * sides[:, 1]
    size, sizes = np.maximum(one[2:] - one[:2], 0), np.maximum(others[:, 2:] - others[:, :2], 0)
    union = size[0] * size[1] + sizes[:, 0] * sizes[:, 1] - both
    shared: Floats = np.divide(both, union, out=np.zeros_like(both), where=union > 0)
    return shared


def gaussians(corners: npt.NDArray[Any]) -> Floats:
    """Oriented boxes (N, 4, 2) as Gaussians (N, 5): the middle x and y, then the covariances xx, yy and xy.

    A rectangle's covariance is that of points spread evenly over it, as in "Gaussian Bounding Boxes and
    Probabilistic Intersection-over-Union" (Llerena and others, 2021).
    """
    wide = np.asarray(corners, np.float64)
    middle = wide.mean(axis=1)
    across, down = wide[:, 1] - wide[:, 0], wide[:, 3] - wide[:, 0]
    spread = (across**2 + down**2) / 12
    turned = (across[:, 0] * across[:, 1] + down[:, 0] * down[:, 1]) / 12
    return np.concatenate([middle, spread, turned[:, None]], axis=1)


def oriented_overlap(one: Floats, others: Floats) -> Floats:
    """One minus the Hellinger distance of a Gaussian (5,) to others (N, 5) -> (N,): the probabilistic IoU.

    The measure with which Ultralytics suppresses oriented boxes (`batch_probiou` of its `utils/metrics.py`).
    """
    xx, yy, xy = (one[2:] + others[:, 2:]).T
    shift_x, shift_y = (one[:2] - others[:, :2]).T
    together = xx * yy - xy**2
    apart = (xx * shift_y**2 + yy * shift_x**2 - 2 * xy * shift_x * shift_y) / (together + _SMALL) / 4
    alone = np.maximum(one[2] * one[3] - one[4] ** 2, 0) * np.maximum(
        others[:, 2] * others[:, 3] - others[:, 4] ** 2, 0
    )
    unlike = np.log(together / (4 * np.sqrt(alone) + _SMALL) + _SMALL) / 2
    distance = np.clip(apart + unlike, _SMALL, 100)
    shared: Floats = 1 - np.sqrt(1 - np.exp(-distance) + _SMALL)
    return np.maximum(shared, 0)


Index = npt.NDArray[np.intp]


def by_confidence(confidence: npt.NDArray[Any]) -> Index:
    """The rows by falling confidence, `MAX_CANDIDATES` at most; of equal ones the first goes first."""
    return np.argsort(-confidence, kind="stable")[:MAX_CANDIDATES]


def suppress(
    xyxy: Boxes, confidence: npt.NDArray[np.float32], class_id: npt.NDArray[np.int32], *, options: NmsOptions
) -> Index:
    """The boxes (N, 4) that stay, as indices by falling confidence; of equal ones the first goes first.

    Greedy: each box, from the most to the least confident, stays unless it overlaps one that stays by more than
    `options.iou` (and is of the same class, unless `options.class_agnostic`). At most `MAX_CANDIDATES` of the most
    confident boxes are looked at. Boxes must be finite.
    """
    order = by_confidence(confidence).astype(np.int64, copy=False)
    if options.iou >= 1 or len(order) < 2:
        return order[: options.max_detections]
    classes = None if options.class_agnostic else pointer(np.ascontiguousarray(class_id, np.int32))
    kept = _suppress_boxes(
        pointer(np.ascontiguousarray(xyxy, np.float32)),
        classes,
        len(order),
        options.iou,
        options.max_detections,
        pointer(order),
        pointer(np.empty((len(order), 5))),
    )
    return order[:kept]


def suppress_oriented(
    corners: npt.NDArray[np.float32],
    confidence: npt.NDArray[np.float32],
    class_id: npt.NDArray[np.int32],
    *,
    options: NmsOptions,
) -> Index:
    """The oriented boxes (N, 4, 2) that stay, as `suppress` does with upright ones; overlap is probabilistic IoU.

    One vectorised step for each box that stays.
    """
    order = by_confidence(confidence)
    shapes, classes = gaussians(corners[order]), class_id[order]
    kept: list[int] = []
    rest = np.arange(len(order))
    while len(rest) and len(kept) < options.max_detections:
        best, rest = int(rest[0]), rest[1:]
        kept.append(best)
        rest = rest[~_dropped(shapes, classes, best, rest, options)]
    return order[np.array(kept, np.intp)]


def _dropped(
    shapes: Floats, classes: npt.NDArray[np.int32], best: int, rest: Index, options: NmsOptions
) -> npt.NDArray[np.bool_]:
    dropped: npt.NDArray[np.bool_] = oriented_overlap(shapes[best], shapes[rest]) > options.iou
    return dropped if options.class_agnostic else dropped & (classes[rest] == classes[best])


def soften(
    shapes: Floats,
    confidence: npt.NDArray[np.float32],
    class_id: npt.NDArray[np.int32],
    *,
    overlap: Overlap,
    options: NmsOptions,
    least: float,
) -> tuple[Index, npt.NDArray[np.float32]]:
    """The rows that stay and their confidences afterwards, both by falling confidence; of equal ones the first.

    Again and again the most confident of those left is taken, and the others of its class (all, when
    `options.class_agnostic`) lose confidence as they overlap it; those that fall below `least` are dropped. One
    vectorised step for each box that stays.
    """
    order = by_confidence(confidence)
    shapes, classes = shapes[order], class_id[order]
    left = confidence[order].astype(np.float64)
    floor = float(np.float32(max(least, 0.0)))
    rows: list[int] = []
    values: list[float] = []
    while len(left) and len(rows) < options.max_detections:
        best = int(left.argmax())
        if left[best] < floor:
            break
        rows.append(best)
        values.append(float(left[best]))
        left[best] = -1
        near = np.flatnonzero((left >= floor) & (options.class_agnostic | (classes == classes[best])))
        left[near] *= _decay(overlap(shapes[best], shapes[near]), options)
    return order[np.array(rows, np.intp)], np.array(values, np.float32)


def _decay(shared: npt.NDArray[Any], options: NmsOptions) -> Floats:
    if options.decay == "linear":
        return np.where(shared > options.iou, 1 - shared, 1.0)
    factors: Floats = np.exp(-(shared**2) / options.sigma)
    return factors


def mean_rectangle(corners: Floats, *, weights: Floats) -> Floats:
    """The weighted mean (4, 2) of rectangles (N, 4, 2), each of whose corners may begin the list.

    Rectangles are turned by quarters, in their list of corners, to lie as close as they can to the first; then middles,
    side lengths and directions are averaged.
    """
    across = corners[:, 1] - corners[:, 0]
    down = corners[:, 3] - corners[:, 0]
    ways = np.stack([across, down, -across, -down], axis=1)
    lengths = np.maximum(np.linalg.norm(ways, axis=2), 1e-12)
    directions = ways / lengths[..., None]
    nearest = (directions @ directions[0, 0]).argmax(axis=1)
    rows = np.arange(len(corners))
    direction = np.average(directions[rows, nearest], axis=0, weights=weights)
    direction /= max(float(np.linalg.norm(direction)), 1e-12)
    turned = directions[0, 1] @ (-direction[1], direction[0])
    normal = np.array([-direction[1], direction[0]]) * (1.0 if turned >= 0 else -1.0)
    half_across = direction * np.average(lengths[rows, nearest], weights=weights) / 2
    half_down = normal * np.average(lengths[rows, (nearest + 1) % 4], weights=weights) / 2
    middle = np.average(corners.mean(axis=1), axis=0, weights=weights)
    return np.stack(
        [
            middle - half_across - half_down,
            middle + half_across - half_down,
            middle + half_across + half_down,
            middle - half_across + half_down,
        ]
    )


def fuse(
    xyxy: Boxes, confidence: npt.NDArray[np.float32], class_id: npt.NDArray[np.int32], *, options: NmsOptions
) -> tuple[Index, Boxes]:
    """The best row of each group of boxes, by falling confidence, and the groups' mean boxes (M, 4).

    Each box, from the most to the least confident, joins the group whose mean so far it overlaps most, if by more than
    `options.iou` (and of its class, unless `options.class_agnostic`), else it begins a new group. Means are weighted by
    confidence; of equal confidences and of equal overlaps the first goes first.
    """
    order = by_confidence(confidence)
    boxes, weights = xyxy[order].astype(np.float64), _weights(confidence[order])
    groups = _Groups(boxes[:0], class_id[order], upright_overlap, options)
    for row in range(len(order)):
        number = groups.find(row, boxes[row])
        members = groups.join(row, number)
        alone = len(members) == 1
        groups.move(number, boxes[row] if alone else np.average(boxes[members], axis=0, weights=weights[members]))
    best = groups.best[: options.max_detections]
    return order[best], groups.shapes[: len(best)].astype(np.float32)


def fuse_oriented(
    corners: npt.NDArray[np.float32],
    confidence: npt.NDArray[np.float32],
    class_id: npt.NDArray[np.int32],
    *,
    options: NmsOptions,
) -> tuple[Index, npt.NDArray[np.float32]]:
    """`fuse` for oriented boxes (N, 4, 2): the best row of each group, and the groups' mean rectangles (M, 4, 2)."""
    order = by_confidence(confidence)
    rectangles, weights = corners[order].astype(np.float64), _weights(confidence[order])
    shapes = gaussians(rectangles)
    means: dict[int, Floats] = {}
    groups = _Groups(shapes[:0], class_id[order], oriented_overlap, options)
    for row in range(len(order)):
        number = groups.find(row, shapes[row])
        members = groups.join(row, number)
        means[number] = mean_rectangle(rectangles[members], weights=weights[members])
        groups.move(number, gaussians(means[number][None])[0])
    best = groups.best[: options.max_detections]
    fused = np.array([means[number] for number in range(len(best))], np.float32).reshape(-1, 4, 2)
    return order[best], fused


class _Groups:
    """Groups of rows, in the order in which they began, and the shape of each."""

    def __init__(self, none: Floats, class_id: npt.NDArray[np.int32], overlap: Overlap, options: NmsOptions) -> None:
        self._room = np.empty((len(class_id), none.shape[1]))
        self._classes = np.zeros_like(class_id) if options.class_agnostic else class_id
        self._class_of = np.empty_like(class_id)
        self._overlap = overlap
        self._iou = options.iou
        self._members: list[list[int]] = []

    @property
    def best(self) -> Index:
        """The most confident row of each group."""
        return np.array([rows[0] for rows in self._members], np.intp)

    @property
    def shapes(self) -> Floats:
        """The shapes of the groups."""
        return self._room[: len(self._members)]

    def find(self, row: int, shape: Floats) -> int:
        """The group for a row; the number of groups when it begins a new one."""
        count = len(self._members)
        fitting = np.flatnonzero(self._class_of[:count] == self._classes[row])
        if not len(fitting):
            return count
        shared = self._overlap(shape, self._room[fitting])
        most = int(shared.argmax())
        return int(fitting[most]) if shared[most] > self._iou else count

    def join(self, row: int, number: int) -> list[int]:
        """Put a row into a group; the rows of the group."""
        if number == len(self._members):
            self._members.append([])
            self._class_of[number] = self._classes[row]
        self._members[number].append(row)
        return self._members[number]

    def move(self, number: int, shape: Floats) -> None:
        """A group has another shape now."""
        self._room[number] = shape


def _weights(confidence: npt.NDArray[np.float32]) -> Floats:
    """Weights that are never all zero."""
    return np.maximum(confidence.astype(np.float64), 1e-12)


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What stays: `rows` (M,) by falling confidence, and what has become of them; None where nothing changed.

    xyxy        float32 (M, 4)
    confidence  float32 (M,)
    corners     float32 (M, 4, 2)
    """

    rows: Index
    xyxy: Boxes | None = None
    confidence: npt.NDArray[np.float32] | None = None
    corners: npt.NDArray[np.float32] | None = None


def suppress_by_method(
    xyxy: Boxes,
    confidence: npt.NDArray[np.float32],
    class_id: npt.NDArray[np.int32],
    *,
    options: NmsOptions,
    corners: npt.NDArray[np.float32] | None = None,
    least: float = 0.0,
) -> Kept:
    """The boxes (N, 4) that stay by `options.method`, as oriented ones where `corners` (N, 4, 2) are given.

    `least` is the confidence below which a box is dropped that lost some to others (`soft`). Boxes must be finite. Of
    equal confidences the first goes first; at most `MAX_CANDIDATES` of the most confident boxes are looked at.
    """
    if options.method == "none" or len(confidence) < 2:
        return Kept(by_confidence(confidence)[: options.max_detections])
    if options.method == "soft":
        shapes = xyxy.astype(np.float64) if corners is None else gaussians(corners)
        overlap = upright_overlap if corners is None else oriented_overlap
        rows, values = soften(shapes, confidence, class_id, overlap=overlap, options=options, least=least)
        return Kept(rows, confidence=values)
    if options.iou >= 1:
        return Kept(by_confidence(confidence)[: options.max_detections])
    if corners is None:
        if options.method == "hard":
            return Kept(suppress(xyxy, confidence, class_id, options=options))
        rows, fused = fuse(xyxy, confidence, class_id, options=options)
        return Kept(rows, xyxy=fused)
    if options.method == "hard":
        return Kept(suppress_oriented(corners, confidence, class_id, options=options))
    rows, turned = fuse_oriented(corners, confidence, class_id, options=options)
    return Kept(rows, xyxy=np.concatenate([turned.min(axis=1), turned.max(axis=1)], axis=1), corners=turned)
