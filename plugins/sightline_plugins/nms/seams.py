"""Join detections of overlapping regions and tiles.

A box that ends at an inner edge of its part may be a piece of a larger thing. It is judged by what its part could see:
it is dropped when another part has the complete thing and that, cut off where the piece's part ends, looks like the
piece; pieces of two parts are one thing when they look alike where the parts overlap; and a piece that another part
shows in whole without finding anything there is nothing. So neighbours and small things in front of large ones stay
apart, which measures on whole boxes (intersection over the smaller one, as in obss/sahi, `postprocess/combine.py`)
would merge. Complete boxes of different parts are matched one to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes
from sightline_plugins.nms.cpu import Floats, Index, Overlap, gaussians, oriented_overlap, upright_overlap
from sightline_plugins.nms.options import NmsOptions
from sightline_plugins.opencv import cv2

_SAME = 0.35
"""Overlap above which boxes of two parts can be the same thing, where suppression itself allows more."""


def keep_across(
    shapes: Floats,
    classes: npt.NDArray[np.int32],
    part: Index,
    *,
    order: Index,
    overlap: Overlap,
    limit: float,
) -> npt.NDArray[np.bool_]:
    """Which boxes (N,) stay when each thing is wanted once: boxes of one part are different things already.

    In `order`, each box that stays drops those of other parts and its class that overlap it by more than `limit`, and
    besides, of each other part, the one that overlaps it most, if by more than 0.35. So two things that overlap much,
    which a model without suppression tells apart, are still two when several parts have seen them.
    """
    kept = np.zeros(len(shapes), np.bool_)
    rest = order
    most = np.zeros(int(part.max(initial=0)) + 1)
    while len(rest):
        best, rest = rest[0], rest[1:]
        kept[best] = True
        others = np.flatnonzero((part[rest] != part[best]) & (classes[rest] == classes[best]))
        shared = overlap(shapes[best], shapes[rest[others]])
        owner = part[rest[others]]
        most[:] = 0
        np.maximum.at(most, owner, shared)
        same = (shared > limit) | ((shared > _SAME) & (shared == most[owner]))
        rest = np.delete(rest, others[same])
    return kept


_OUTWARD = np.array([-1.0, -1.0, 1.0, 1.0])
"""The direction of each side of a box."""
_MARGIN = 0.02
"""A box ends at an edge of its part when it is so near, as a share of the part's side."""
_ALIKE = 0.45
"""Overlap above which two boxes are the same thing where both parts see."""
_SURELY_ALIKE = 0.7
"""The same for boxes of different classes: of a piece, the class is often wrong."""
_INSIDE = 0.8
"""The share of a piece inside a complete box of its class that makes it a part of that."""
_AS_LARGE = 1.5
"""A part shows things as large as another does when its longer side is not longer by more than this factor."""


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """What is there: the most confident row of each thing (M,) with its box (M, 4), corners (M, 4, 2) and all rows."""

    rows: Index
    xyxy: Boxes
    corners: npt.NDArray[np.float32] | None
    things: tuple[Sequence[int], ...]


def merge_parts(
    xyxy: Boxes,
    confidence: npt.NDArray[np.float32],
    class_id: npt.NDArray[np.int32],
    *,
    part: Index,
    regions: Floats,
    size_wh: tuple[int, int],
    options: NmsOptions,
    corners: npt.NDArray[np.float32] | None = None,
) -> Merged:
    """The boxes (N, 4) in pixels of an image of `size_wh` that are different things.

    `part` (N,) says on which of the `regions` (P, 4), in pixels, each was found. Where pieces become one thing, that
    has the box around them and is otherwise its most confident piece. Rows come by falling confidence; of equal ones
    complete boxes go before pieces, then the first goes first.
    """
    views = _Views.of(xyxy, part, regions, size_wh)
    classes = np.zeros_like(class_id) if options.class_agnostic else class_id
    pieces = [row for row in np.flatnonzero(views.cut).tolist() if not _is_explained(row, views, classes)]
    groups = [rows for rows in _things(pieces, views, classes) if len(rows) > 1 or not _is_denied(rows[0], views)]
    things = [[row] for row in np.flatnonzero(~views.cut).tolist()] + groups
    rows = np.array([min(thing, key=lambda row: (-confidence[row], row)) for thing in things], np.intp)
    several = np.array([len(thing) > 1 for thing in things], np.bool_)
    boxes = _around(things, rows, xyxy)
    turned = None if corners is None else _rectangles(things, rows, corners)
    kept = keep_across(
        boxes.astype(np.float64) if turned is None else gaussians(turned),
        classes[rows],
        np.where(several, len(regions) + np.arange(len(things)), part[rows]),
        order=np.lexsort((rows, -confidence[rows], views.cut[rows])),
        overlap=upright_overlap if turned is None else oriented_overlap,
        limit=1.0 if options.method == "none" else options.iou,
    )
    order = np.lexsort((rows, views.cut[rows], -confidence[rows]))
    best = order[kept[order]][: options.max_detections]
    chosen = tuple(things[place] for place in best.tolist())
    return Merged(rows[best], boxes[best], None if turned is None else turned[best], chosen)


def _around(things: Sequence[Sequence[int]], rows: Index, xyxy: Boxes) -> Boxes:
    """The box around each thing (M, 4)."""
    boxes: Boxes = xyxy[rows]
    for place, thing in enumerate(things):
        if len(thing) > 1:
            boxes[place] = [*xyxy[thing, :2].min(axis=0), *xyxy[thing, 2:].max(axis=0)]
    return boxes


def _rectangles(things: Sequence[Sequence[int]], rows: Index, corners: npt.NDArray[np.float32]) -> Boxes:
    """The smallest rectangle around each thing (M, 4, 2)."""
    turned: Boxes = corners[rows]
    for place, thing in enumerate(things):
        if len(thing) > 1:
            turned[place] = cv2.boxPoints(cv2.minAreaRect(corners[thing].reshape(-1, 2)))
    return turned


@dataclass(frozen=True, slots=True, eq=False)
class _Views:
    """What each box looks like from its part.

    `cut` (N,) says that it ends at an inner edge, `limits` (N, 4) is its part, a little larger across inner edges, and
    `shown` (N, 4) the box: where it is cut it reaches to the limit, else it is as it was found (`boxes`). `clear`
    (P, 4) is what each part shows away from its inner edges, and `sides` (P,) its longer side.
    """

    cut: npt.NDArray[np.bool_]
    limits: Floats
    shown: Floats
    part: Index
    boxes: Boxes
    clear: Floats
    sides: Floats

    @classmethod
    def of(cls, xyxy: Boxes, part: Index, regions: Floats, size_wh: tuple[int, int]) -> _Views:
        """The views of boxes (N, 4) that were found on parts (N,) of an image of `size_wh`."""
        inner = (regions - np.array([0.0, 0.0, *size_wh])) * _OUTWARD < 0
        sides = regions[:, 2:] - regions[:, :2]
        margins = np.tile(sides * _MARGIN, 2) * _OUTWARD
        clear = np.where(inner, regions - margins, _OUTWARD * np.inf)
        limits = np.where(inner, regions + margins, _OUTWARD * np.inf)[part]
        sides_cut = (xyxy - clear[part]) * _OUTWARD >= 0
        shown = np.where(sides_cut, limits, xyxy)
        return cls(sides_cut.any(axis=1), limits, shown, part, xyxy, clear, sides.max(axis=1))


def _is_explained(row: int, views: _Views, classes: npt.NDArray[np.int32]) -> bool:
    """Whether another part has the complete thing of which a row is a piece."""
    others = np.flatnonzero(~views.cut & (views.part != views.part[row]))
    limit = views.limits[row]
    piece, seen = _within(views.shown[row], limit), _within(views.shown[others], limit)
    shared = upright_overlap(piece, seen)
    same = classes[others] == classes[row]
    inside = _share_inside(piece, seen) >= _INSIDE
    return bool(((shared >= _SURELY_ALIKE) | (same & ((shared >= _ALIKE) | inside))).any())


def _is_denied(row: int, views: _Views) -> bool:
    """Whether another part saw all of a piece at least as large, and more of what it is cut from, and found nothing."""
    own, box = views.part[row], views.boxes[row]
    sees = (views.clear[:, :2] < box[:2]).all(axis=1) & (views.clear[:, 2:] > box[2:]).all(axis=1)
    sees &= views.sides <= views.sides[own] * _AS_LARGE
    sees[own] = False
    return bool(sees.any())


def _things(pieces: Sequence[int], views: _Views, classes: npt.NDArray[np.int32]) -> list[list[int]]:
    """The pieces, grouped by what they are pieces of: those that look most alike first, one of a part at most."""
    pairs: list[tuple[float, int, int]] = []
    for place, row in enumerate(pieces):
        others = np.array(pieces[place + 1 :], np.intp)
        others = others[(views.part[others] != views.part[row]) & (classes[others] == classes[row])]
        shared = _alike(views, row, others)
        pairs += [(-float(shared[n]), row, int(others[n])) for n in np.flatnonzero(shared >= _ALIKE).tolist()]
    group_of = {row: [row] for row in pieces}
    for _, row, other in sorted(pairs):
        one, two = group_of[row], group_of[other]
        if {int(views.part[member]) for member in one}.isdisjoint(int(views.part[member]) for member in two):
            one += two
            group_of |= dict.fromkeys(two, one)
    return [group for row, group in group_of.items() if group[0] == row]


def _alike(views: _Views, row: int, others: Index) -> Floats:
    """The overlap of a piece with each of the others where both parts see."""
    limits = views.limits[others]
    both = np.concatenate(
        [np.maximum(limits[:, :2], views.limits[row, :2]), np.minimum(limits[:, 2:], views.limits[row, 2:])], axis=1
    )
    return _pairwise(_within(views.shown[row], both), _within(views.shown[others], both))


def _within(boxes: Floats, limits: Floats) -> Floats:
    """Boxes (..., 4) cut to limits (..., 4); inverted where nothing is left."""
    low, high = np.maximum(boxes[..., :2], limits[..., :2]), np.minimum(boxes[..., 2:], limits[..., 2:])
    return np.concatenate([low, high], axis=-1)


def _pairwise(a: Floats, b: Floats) -> Floats:
    """Intersection over union of boxes (N, 4) with those of the same row (N, 4)."""
    both = _area(_within(a, b))
    union = _area(a) + _area(b) - both
    shared: Floats = np.divide(both, union, out=np.zeros_like(both), where=union > 0)
    return shared


def _share_inside(one: Floats, others: Floats) -> Floats:
    """How much of a box (4,) lies in each of the others (N, 4)."""
    share: Floats = _area(_within(one, others)) / max(float(_area(one)), 1e-9)
    return share


def _area(boxes: Floats) -> Floats:
    sides = np.maximum(boxes[..., 2:] - boxes[..., :2], 0)
    area: Floats = sides[..., 0] * sides[..., 1]
    return area
