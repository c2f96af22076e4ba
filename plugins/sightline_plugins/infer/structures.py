"""How far the masks, keypoints and vectors agree that two models gave to the same objects.

All functions take values of N objects, row by row, and return a number from 0 to 1 for each (N,): NaN where neither
model gave one, 0 where only one did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sightline.media import Objects
from sightline.media.boxes import area
from sightline.media.objects import Column
from sightline.media.shapes import Mask

Similarities = npt.NDArray[np.float64]
LEAST: Mapping[str, float] = {"mask_iou": 0.5, "keypoint_similarity": 0.5, "cosine": 0.9}
"""From which similarity on two values agree. Vectors of models that were trained apart have nothing to do with one
another, and cannot be mixed: they do not agree."""
_FALL_OFF = 0.1
"""How fast the similarity of keypoints falls, by the root of the box: between that of COCO for eyes and for hips."""


def similarities(first: Objects, second: Objects) -> dict[str, Similarities]:
    """Return how far the values of the same objects agree (N,), by the name of the measure; only measures for which
    either table has a column.
    """
    found: dict[str, Similarities] = {}
    for name, (column, measure) in _MEASURES.items():
        one, other = first.extra.get(column), second.extra.get(column)
        if one is not None and other is not None:
            found[name] = measure(one, other, first)
        elif one is not None or other is not None:
            only = one if one is not None else other
            found[name] = np.where(_is_there(only), 0.0, np.nan)
    return found


def agree(found: Mapping[str, Similarities], *, count: int) -> npt.NDArray[np.bool_]:
    """Return which of `count` objects agree in all that either model gave them (N,)."""
    well = np.ones(count, np.bool_)
    for name, values in found.items():
        well &= np.isnan(values) | (values >= LEAST[name])
    return well


def mask_ious(first: Sequence[Mask | None], second: Sequence[Mask | None]) -> Similarities:
    """Return the intersection over union of masks."""
    return np.array([_mask_iou(one, other) for one, other in zip(first, second, strict=True)], np.float64)


def keypoint_similarities(first: Column, second: Column, *, areas: npt.NDArray[np.float32]) -> Similarities:
    """Return the object keypoint similarity (COCO) of keypoints (N, K, 3) of boxes with these areas (N,), with the
    same constant for all points; a point that only one model found counts as 0.
    """
    if first.shape != second.shape:
        return np.where(_is_there(first) | _is_there(second), 0.0, np.nan)
    has = ~np.isnan(first[..., 0]), ~np.isnan(second[..., 0])
    squared = np.square(first[..., :2].astype(np.float64) - second[..., :2]).sum(axis=-1)
    near = np.exp(-squared / (2 * np.maximum(areas, 1)[:, None] * _FALL_OFF**2))
    near = np.where(has[0] & has[1], near, 0.0)
    either = (has[0] | has[1]).sum(axis=-1)
    return np.where(either > 0, near.sum(axis=-1) / np.maximum(either, 1), np.nan)


def cosines(first: Column, second: Column) -> Similarities:
    """Return the cosines of vectors (N, D), those below 0 as 0."""
    has = _is_there(first), _is_there(second)
    if first.shape != second.shape:
        return np.where(has[0] | has[1], 0.0, np.nan)
    one, other = (np.nan_to_num(vectors.astype(np.float64)) for vectors in (first, second))
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    found = np.clip((one * other).sum(axis=1) / np.maximum(lengths, 1e-12), 0, 1)
    return np.where(has[0] | has[1], found, np.nan)


def _mask_iou(one: Mask | None, other: Mask | None) -> float:
    if one is None or other is None:
        return float("nan") if one is other else 0.0
    left, top = max(one.left, other.left), max(one.top, other.top)
    right = min(one.left + one.bits.shape[1], other.left + other.bits.shape[1])
    bottom = min(one.top + one.bits.shape[0], other.top + other.bits.shape[0])
    both = 0
    if right > left and bottom > top:
        mine, others = (
            mask.bits[top - mask.top : bottom - mask.top, left - mask.left : right - mask.left] for mask in (one, other)
        )
        both = int(np.count_nonzero(mine & others))
    either = one.area + other.area - both
    return both / either if either else 1.0


def _is_there(column: Column | None) -> npt.NDArray[np.bool_]:
    """Return which rows hold a value (N,)."""
    assert column is not None
    if column.dtype.kind == "O":
        return np.array([value is not None for value in column], np.bool_)
    return np.asarray(~np.isnan(column.reshape(len(column), -1)).all(axis=1), np.bool_)


_MEASURES: Mapping[str, tuple[str, Callable[[Column, Column, Objects], Similarities]]] = {
    "mask_iou": ("mask", lambda one, other, _: mask_ious(list(one), list(other))),
    "keypoint_similarity": (
        "keypoints",
        lambda one, other, objects: keypoint_similarities(one, other, areas=area(objects.xyxy)),
    ),
    "cosine": ("embedding", lambda one, other, _: cosines(one, other)),
}
