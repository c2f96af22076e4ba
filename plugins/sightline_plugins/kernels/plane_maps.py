"""Where pixels of a network's input lie in a plane, and by which filter they come from it: a record of `resample.cuh`.

It says in numbers what `infer/pixels` does with a plane: `PlaneResizer` where a part of it is resized, `sample_plane`
where it is sampled, with the filters of the libraries that these use.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline_plugins.infer.pixels.placement import Placement, SizeWh
from sightline_plugins.infer.pixels.plane_resize import Resize, is_averaged
from sightline_plugins.infer.pixels.resizing import Cut, Resizing
from sightline_plugins.infer.pixels.sampling import warp_matrix

PLANE_MAP = np.dtype(
    [
        ("x_per_column", "<i8"),
        ("first_x", "<i8"),
        ("y_per_row", "<i8"),
        ("first_y", "<i8"),
        ("inside_xyxy", "<i4", (4,)),
        ("reach_xy", "<f4", (2,)),
        ("filter", "<i4"),
        ("unused", "<i4"),
        ("warp", "<f4", (2, 3)),
        ("first_column_row", "<i4", (2,)),
        ("together", "<i4"),
        ("unused_too", "<i4"),
    ],
    align=True,
)
_ONE = float(1 << 32)
_TOGETHER = 16
"""Columns that OpenCV computes at once, with AVX2."""
_HAIR = 2.0**-20
"""Of a sample: positions that lie on an edge between two lie in the second, however they were rounded."""


class Filter(IntEnum):
    """As `Filter` in `resample.cuh`."""

    LINEAR = 0
    WARPED = 1
    NEAREST = 2
    CLOSEST = 3
    AREA = 4
    TRIANGLE = 5
    ENLARGED = 6


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis of a resize: positions of samples are `first + step * number`, in samples."""

    first: float
    step: float


def plane_map(cut: Cut, placement: Placement, *, shift: tuple[int, int], resize: Resize) -> npt.NDArray[Any]:
    """One PLANE_MAP, shape (), for the plane that is narrower and lower than the picture by `shift` bits.

    `cut` is what the placement needs of the picture, with `cut.inside` the placement as it lies in that.
    """
    left, top, right, bottom = cut.part
    inside = left >> shift[0], top >> shift[1], -(-right >> shift[0]), -(-bottom >> shift[1])
    record = np.zeros((), PLANE_MAP)
    record["inside_xyxy"] = inside
    if cut.resizing is None:
        _fill_sampled(record, cut.inside, shift=shift, nearest=resize == "nearest")
    else:
        _fill_resized(record, cut.resizing, placement, inside_xyxy=inside, resize=resize)
    return record


def _fill_sampled(record: npt.NDArray[Any], inside: Placement, *, shift: tuple[int, int], nearest: bool) -> None:
    left, top, width, _ = inside.inner_xywh
    record["warp"] = warp_matrix(inside, shift=shift)
    record["first_column_row"] = left, top
    record["together"] = width // _TOGETHER * _TOGETHER
    record["filter"] = Filter.CLOSEST if nearest else Filter.WARPED


def _fill_resized(
    record: npt.NDArray[Any],
    resizing: Resizing,
    placement: Placement,
    *,
    inside_xyxy: tuple[int, int, int, int],
    resize: Resize,
) -> None:
    left, top, right, bottom = inside_xyxy
    sizes, targets = (right - left, bottom - top), resizing.size_wh
    kind = _filter_of(resize, size_wh=sizes, target_wh=targets)
    origins = tuple(first - inner for first, inner in zip(resizing.first_xy, placement.inner_xywh[:2], strict=True))
    axes = [
        _axis(kind, size=size, target=target, origin=origin, start=start)
        for size, target, origin, start in zip(sizes, targets, origins, (left, top), strict=True)
    ]
    record["x_per_column"], record["first_x"] = (round(value * _ONE) for value in (axes[0].step, axes[0].first))
    record["y_per_row"], record["first_y"] = (round(value * _ONE) for value in (axes[1].step, axes[1].first))
    reach = 0.5 if kind is Filter.AREA else 1.0
    record["reach_xy"] = [reach * size / target for size, target in zip(sizes, targets, strict=True)]
    record["filter"] = kind


def _filter_of(resize: Resize, *, size_wh: SizeWh, target_wh: SizeWh) -> Filter:
    if size_wh == target_wh or resize == "bilinear":
        return Filter.LINEAR
    if resize == "nearest":
        return Filter.NEAREST
    shrinks = size_wh[0] >= target_wh[0] and size_wh[1] >= target_wh[1]
    if resize == "area":
        return Filter.AREA if shrinks else Filter.ENLARGED
    return Filter.TRIANGLE if is_averaged(size_wh, target_wh=target_wh) else Filter.LINEAR


def _axis(kind: Filter, *, size: int, target: int, origin: int, start: int) -> _Axis:
    """`origin` is the place in the resized plane of the input's pixel 0; `start` the plane's first sample."""
    scale = size / target
    if kind is Filter.NEAREST:
        return _Axis(start + (origin + 0.5) * scale + _HAIR, scale)
    if kind is Filter.ENLARGED:
        return _Axis(start + origin * scale + _HAIR, scale)
    return _Axis(start + (origin + 0.5) * scale - 0.5, scale)
