"""Which samples of a plane make each sample of a network's input, as tables for kernels.

So that planes come out as on the CPU, to the bit: `PlaneResizer` where a part of a plane is resized, `sample_plane`
where it is sampled, with the filters of the libraries that these use (`filters.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline_plugins.cuda.records import Packing
from sightline_plugins.preprocess.colors import is_averaged
from sightline_plugins.preprocess.cpu import Cut, Resizing, warp_matrix
from sightline_plugins.preprocess.definition import Resize
from sightline_plugins.preprocess.filters import Kind, averages, enlarged, nearest
from sightline_plugins.preprocess.placement import Placement, SizeWh

PLANE_MAP = np.dtype(
    [
        ("x_per_column", "<i8"),
        ("first_x", "<i8"),
        ("y_per_row", "<i8"),
        ("first_y", "<i8"),
        ("inside_xyxy", "<i4", (4,)),
        ("filter", "<i4"),
        ("first_column_row", "<i4", (2,)),
        ("together", "<i4"),
        ("warp", "<f4", (2, 3)),
        ("lists", "<i4", (2,)),
        ("taps", "<i4", (2,)),
    ],
    align=True,
)
_ONE = float(1 << 32)
_TOGETHER = 16
"""Columns that OpenCV computes at once, with AVX2."""


class Filter(IntEnum):
    """As `Filter` in `resample.cuh`."""

    LINEAR = 0
    WARPED = 1
    CLOSEST = 2
    LISTED = 3
    AVERAGED = 4


@dataclass(frozen=True, slots=True, eq=False)
class PlaneMap:
    """One PLANE_MAP, shape (), and the lists for columns and rows that it refers to, if its filter has any."""

    record: npt.NDArray[Any]
    lists: tuple[npt.NDArray[Any], ...] = ()

    def write(self, to: npt.NDArray[Any], number: int, data: Packing) -> None:
        """Make it number `number` of PLANE_MAPs; its lists are put into `data`."""
        to[number] = self.record
        if self.lists:
            to["lists"][number] = [data.place(own) for own in self.lists]


def plane_map(cut: Cut, placement: Placement, *, shift: tuple[int, int], resize: Resize) -> PlaneMap:
    """The map for the plane that is narrower and lower than the image by `shift` bits.

    `cut` is what the placement needs of the image, with `cut.inside` the placement as it lies in that.
    """
    left, top, right, bottom = cut.part
    inside = left >> shift[0], top >> shift[1], -(-right >> shift[0]), -(-bottom >> shift[1])
    record = np.zeros((), PLANE_MAP)
    record["inside_xyxy"] = inside
    if cut.resizing is None:
        _fill_sampled(record, cut.inside, shift=shift, nearest=resize == "nearest")
        return PlaneMap(record)
    start_xy = placement.inner_xywh[:2]
    return PlaneMap(record, _fill_resized(record, cut.resizing, start_xy, inside_xyxy=inside, resize=resize))


def resized_map(size_wh: SizeWh, *, target_wh: SizeWh, resize: Resize) -> PlaneMap:
    """The map for a whole plane of that size that is resized to all of another one, as `PlaneResizer` does."""
    whole = (0, 0, *size_wh)
    record = np.zeros((), PLANE_MAP)
    record["inside_xyxy"] = whole
    lists = _fill_resized(record, Resizing(whole, target_wh), (0, 0), inside_xyxy=whole, resize=resize)
    return PlaneMap(record, lists)


def warped_map(size_wh: SizeWh, matrix: npt.NDArray[np.float64], *, around: int = 0) -> npt.NDArray[Any]:
    """One PLANE_MAP, shape (), for a plane of that size whose samples come from the places (2, 3) in another of that
    size, as OpenCV's `warpAffine` does; the rectangle is wider by `around` samples on each side.
    """
    width, height = size_wh
    record = np.zeros((), PLANE_MAP)
    record["inside_xyxy"] = -around, -around, width + around, height + around
    record["filter"] = Filter.WARPED
    _fill_warped(record, matrix, width=width)
    return record


def _fill_warped(record: npt.NDArray[Any], matrix: npt.NDArray[np.float64], *, width: int) -> None:
    record["warp"] = matrix
    record["together"] = width // _TOGETHER * _TOGETHER


def _fill_sampled(record: npt.NDArray[Any], inside: Placement, *, shift: tuple[int, int], nearest: bool) -> None:
    left, top, width, _ = inside.inner_xywh
    _fill_warped(record, warp_matrix(inside, shift=shift), width=width)
    record["first_column_row"] = left, top
    record["filter"] = Filter.CLOSEST if nearest else Filter.WARPED


def _fill_resized(
    record: npt.NDArray[Any],
    resizing: Resizing,
    start_xy: tuple[int, int],
    *,
    inside_xyxy: tuple[int, int, int, int],
    resize: Resize,
) -> tuple[npt.NDArray[Any], ...]:
    """Fill the record for what begins at `start_xy`; returns the lists of columns and rows, if there are any."""
    left, top, right, bottom = inside_xyxy
    size_wh, target_wh = (right - left, bottom - top), resizing.size_wh
    origins = tuple(first - inner for first, inner in zip(resizing.first_xy, start_xy, strict=True))
    found = _lists(resize, size_wh=size_wh, target_wh=target_wh)
    if found:
        record["filter"] = Filter.AVERAGED if _is_averaged(resize, size_wh, target_wh) else Filter.LISTED
        record["first_column_row"] = [-origin for origin in origins]
        record["taps"] = [own["weights"].shape[1] for own in found]
        return found
    record["filter"] = Filter.LINEAR
    names = (("x_per_column", "first_x"), ("y_per_row", "first_y"))
    for (step, first), size, target, origin, start in zip(names, size_wh, target_wh, origins, (left, top), strict=True):
        scale = size / target
        record[step], record[first] = round(scale * _ONE), round((start + (origin + 0.5) * scale - 0.5) * _ONE)
    return ()


def _lists(resize: Resize, *, size_wh: SizeWh, target_wh: SizeWh) -> tuple[npt.NDArray[Any], ...]:
    """What `PlaneResizer` takes for each column and row; nothing where it mixes the two nearest samples."""
    axes = list(zip(size_wh, target_wh, strict=True))
    if size_wh == target_wh or resize == "bilinear":
        return ()
    if resize == "nearest":
        return tuple(nearest(size, target=target) for size, target in axes)
    if _is_averaged(resize, size_wh, target_wh):
        kind: Kind = "area" if resize == "area" else "triangle"
        ways = zip(axes, (True, False), strict=True)
        return tuple(averages(size, target=target, kind=kind, is_across=way) for (size, target), way in ways)
    return tuple(enlarged(size, target=target) for size, target in axes) if resize == "area" else ()


def _is_averaged(resize: Resize, size_wh: SizeWh, target_wh: SizeWh) -> bool:
    if resize == "area":
        return size_wh[0] >= target_wh[0] and size_wh[1] >= target_wh[1]
    return resize == "antialias" and is_averaged(size_wh, target_wh=target_wh)
