"""What objects have beyond a box, as values for writers: keypoints, corners, masks, embeddings, parents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Objects
from sightline_plugins.sinks.numbers import BOX_STEPS, CONFIDENCE_STEPS, EMBEDDING_STEPS, rounded
from sightline_plugins.sinks.rle import encode_mask

Point: TypeAlias = list[float]
MaskRecord: TypeAlias = dict[str, Any]


def parents(batch: Batch, bounds: Sequence[int]) -> list[int]:
    """For each object, the number of its parent among the objects of its frame; -1 for none."""
    objects = batch.objects
    first = np.asarray(bounds)[objects.frame]
    return np.where(objects.parent >= 0, objects.parent - first, -1).tolist()  # type: ignore[no-any-return]


def keypoints(objects: Objects) -> list[list[Point] | None]:
    """For each object, its keypoints as x, y, confidence, in the order of its skeleton; None without any.

    A point that was not found is NaN. Rows that only fill the column up (people and hands: 17 and 21) are cut off.
    """
    column = objects.extra["keypoints"]
    there = ~np.isnan(column[..., 0])
    lengths = np.where(there.any(axis=1), column.shape[1] - np.argmax(there[:, ::-1], axis=1), 0).tolist()
    skeletons = objects.extra.get("skeleton", np.full(len(objects), None)).tolist()
    places = rounded(column[..., :2], steps=BOX_STEPS)
    sure = rounded(column[..., 2:], steps=CONFIDENCE_STEPS)
    return [
        [[*xy, *c] for xy, c in zip(own[:count], own_sure[:count], strict=True)] if length else None
        for own, own_sure, length, skeleton in zip(places, sure, lengths, skeletons, strict=True)
        for count in (length if skeleton is None else max(length, len(skeleton.points)),)
    ]


def corners(objects: Objects) -> list[list[Point] | None]:
    """For each object, the four corners of its oriented box; None without one."""
    column = objects.extra["corners"]
    lacking = np.logical_or.reduce(np.isnan(column.reshape(len(column), -1)), axis=1)
    values = rounded(column, steps=BOX_STEPS)
    return [None if lacks else own for own, lacks in zip(values, lacking, strict=True)]


def masks(batch: Batch) -> list[MaskRecord | None]:
    """For each object, its mask as COCO's compressed run lengths of the whole image; None without one."""
    objects = batch.objects
    sizes = [batch.frames[row].size_wh for row in objects.frame.tolist()]
    return [
        None if mask is None else {"size": [size_wh[1], size_wh[0]], "counts": encode_mask(mask, size_wh=size_wh)}
        for mask, size_wh in zip(objects.extra["mask"].tolist(), sizes, strict=True)
    ]


def embeddings(objects: Objects) -> list[list[float] | None]:
    """For each object, its embedding with six decimals; None without one."""
    column = objects.extra["embedding"]
    lacking = np.logical_or.reduce(np.isnan(column), axis=1)
    values = rounded(column, steps=EMBEDDING_STEPS)
    return [None if lacks else own for own, lacks in zip(values, lacking, strict=True)]


def details(batch: Batch, bounds: Sequence[int], *, with_embeddings: bool) -> dict[str, list[Any]]:
    """The values of each object by key, for what the objects of a batch have beyond a box; empty for plain objects."""
    objects = batch.objects
    found: dict[str, list[Any]] = {}
    if objects.parent.max(initial=-1) >= 0:
        found["parent"] = parents(batch, bounds)
    if "keypoints" in objects.extra:
        found["keypoints"] = keypoints(objects)
    if "corners" in objects.extra:
        found["corners"] = corners(objects)
    if "mask" in objects.extra:
        found["mask"] = masks(batch)
    if with_embeddings and "embedding" in objects.extra:
        found["embedding"] = embeddings(objects)
    return found


def polygon_areas(column: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
    """The areas (N,) of polygons (N, K, 2) by the shoelace formula."""
    x, y = np.moveaxis(column.astype(np.float64), -1, 0)
    crossed = x * np.roll(y, -1, axis=1) - np.roll(x, -1, axis=1) * y
    return np.abs(crossed.sum(axis=1)) / 2  # type: ignore[no-any-return]
