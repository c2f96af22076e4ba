"""Which samples of a plane make each sample of a network's input, as tables for kernels.

so that planes come out as there, to the bit.

A sample of the resized plane is a sum of samples of the plane that lie side by side, `first` and those behind it, by
weights in whole numbers. For averages, libswscale finds them in 64-bit integers (`initFilter`, libswscale/utils.c): the
filter's value at each sample, next to nothing cut off at both ends, what lies beyond the plane's edge given to the
edge, and the rest of every division passed on to the next weight. (Where more than 170 samples count, it resizes in two
steps, which is not done here: such averages are a few levels beside.) What OpenCV takes where an area grows, and as the
nearest sample, is in its `resize` (modules/imgproc/src/resize.cpp).

It says in numbers what `infer/pixels` does with a plane: `PlaneResizer` where a part of it is resized, `sample_plane`
where it is sampled, with the filters of the libraries that these use.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sightline_plugins.cuda.records import Packing
from sightline_plugins.preprocess.colors import is_averaged
from sightline_plugins.preprocess.cpu import Cut, Resizing, warp_matrix
from sightline_plugins.preprocess.definition import Resize
from sightline_plugins.preprocess.placement import Placement, SizeWh

Kind = Literal["area", "triangle"]
Numbers = npt.NDArray[np.int64]

ACROSS_ONE, DOWN_ONE, MIXED_ONE = 1 << 14, 1 << 12, 1 << 11
"""What the weights of a sample add up to: averages along rows, along columns, and mixtures of two samples."""
_ACROSS_GROUP, _DOWN_GROUP = 4, 2
"""Weights come in groups of so many, the last of them perhaps 0."""
_NEGLIGIBLE = 0.002


@lru_cache(maxsize=1024)
def nearest(size: int, *, target: int) -> npt.NDArray[Any]:
    """The sample whose middle is nearest, as a mixture with the next one. See `averages`."""
    step = size / target
    positions = np.cumsum(np.concatenate([[step * 0.5], np.full(target - 1, step)]))
    return _mixtures(np.minimum(np.floor(positions), size - 1), np.zeros(target))


@lru_cache(maxsize=1024)
def enlarged(size: int, *, target: int) -> npt.NDArray[Any]:
    """Samples of an area that grows: one, or two by their share where an edge lies in the new one. See `averages`."""
    growth = target / size
    numbers = np.arange(target)
    first = np.floor(numbers * (1 / growth))
    share = ((numbers + 1) - (first + 1) * growth).astype(np.float32)
    share = np.where(share <= 0, 0, share - np.floor(share))
    is_last = first >= size - 1
    return _mixtures(np.where(is_last, size - 1, first), np.where(is_last, 0, share))


def _mixtures(first: npt.NDArray[Any], share: npt.NDArray[Any]) -> npt.NDArray[Any]:
    found = np.zeros(len(first), _record(2))
    found["first"] = first
    found["weights"][:, 1] = np.rint(share * MIXED_ONE)
    found["weights"][:, 0] = MIXED_ONE - found["weights"][:, 1]
    found.setflags(write=False)
    return found


def _record(taps: int) -> np.dtype[Any]:
    return np.dtype([("first", "<i4"), ("weights", "<i2", (taps + taps % 2,))])


@lru_cache(maxsize=1024)
def averages(size: int, *, target: int, kind: Kind, is_across: bool) -> npt.NDArray[Any]:
    """For each sample of an axis that is resized from `size` to `target`: `first` int32, `weights` int16 (taps,).

    The number of taps is even. Read-only.
    """
    first, weights, unit = _filter(size, target, kind)
    first, weights = _without_negligible(first, weights, unit=unit)
    taps = _taps(weights, unit=unit, group=_ACROSS_GROUP if is_across else _DOWN_GROUP)
    weights = np.pad(weights, ((0, 0), (0, taps)))[:, :taps]
    _keep_inside(first, weights, size=size)
    found = np.zeros(target, _record(taps))
    found["first"] = first
    found["weights"][:, :taps] = _in_whole_numbers(weights, one=ACROSS_ONE if is_across else DOWN_ONE)
    found.setflags(write=False)
    return found


def _filter(size: int, target: int, kind: Kind) -> tuple[Numbers, Numbers, int]:
    """First samples (target,), the filter's values at them and those behind (target, taps), and what stands for 1."""
    step = ((size << 16) + (target >> 1)) // target
    unit = 1 << (54 - min((size // target).bit_length() - 1, 8))
    numbers = np.arange(target, dtype=np.int64)
    if abs(step - (1 << 16)) < 10:
        return numbers, np.full((target, 1), unit, np.int64), unit
    reach = 1 if kind == "area" else 2
    taps = max(min(1 + -(-reach * size // target), size - 2), 1)
    middles = (2 * numbers + 1) * step - (1 << 16)
    begin = middles - (taps - 2) * (1 << 16)
    first = np.sign(begin) * (np.abs(begin) >> 17)
    places = first[:, None] + np.arange(taps)
    distance = (np.abs((places << 17) - middles[:, None]) << 13) * target // size
    if kind == "area":
        weights = np.clip((1 << 45) - (distance - (1 << 29)) * step, 0, 1 << 46) * (unit >> 46)
    else:
        weights = np.maximum((1 << 30) - distance, 0) * (unit >> 30)
    return first, weights, unit


def _without_negligible(first: Numbers, weights: Numbers, *, unit: int) -> tuple[Numbers, Numbers]:
    """Samples at the start that hardly count are left out, as long as no sample begins behind the next one."""
    negligible = (np.cumsum(weights, axis=1) <= _NEGLIGIBLE * unit).sum(axis=1)
    begins = first.tolist()
    for number in range(len(begins) - 1, -1, -1):
        most = int(negligible[number])
        room = begins[number + 1] - begins[number] if number + 1 < len(begins) else most
        begins[number] += min(most, max(room, 0))
    moved = np.array(begins) - first
    columns = np.arange(weights.shape[1]) + moved[:, None]
    padded = np.pad(weights, ((0, 0), (0, weights.shape[1])))
    return first + moved, np.take_along_axis(padded, columns, axis=1)


def _taps(weights: Numbers, *, unit: int, group: int) -> int:
    """How many weights are kept of each sample: all that count, in whole groups."""
    behind = np.cumsum(weights[:, :0:-1], axis=1)
    kept = int((weights.shape[1] - (behind <= _NEGLIGIBLE * unit).sum(axis=1)).max())
    group = 1 if kept == 1 and group == _DOWN_GROUP else group
    return -(-kept // group) * group


def _keep_inside(first: Numbers, weights: Numbers, *, size: int) -> None:
    """The weights of samples beyond the plane go to those at its edge, in place."""
    taps = weights.shape[1]
    for number in np.flatnonzero(first < 0).tolist():
        beyond = min(int(-first[number]), taps - 1)
        row = weights[number].copy()
        weights[number] = 0
        weights[number, : taps - beyond] = row[beyond:]
        weights[number, 0] += row[:beyond].sum()
        first[number] = 0
    for number in np.flatnonzero(first + taps > size).tolist():
        inside = size - int(first[number])
        shift = int(first[number]) + min(taps - size, 0)
        edge = weights[number, inside:].sum()
        row = weights[number, :inside].copy()
        weights[number] = 0
        weights[number, shift : shift + inside] = row[: taps - shift]
        first[number] -= shift
        weights[number, size - 1 - first[number]] += edge


def _in_whole_numbers(weights: Numbers, *, one: int) -> Numbers:
    """Weights whose sum is `one`; what rounding leaves of each goes to the next."""
    total = np.maximum((weights.sum(axis=1) + one // 2) // one, 1)
    found = np.empty_like(weights)
    rest = np.zeros(len(weights), np.int64)
    for tap in range(weights.shape[1]):
        value = weights[:, tap] + rest
        found[:, tap] = np.sign(value) * ((np.abs(value) + (total >> 1)) // total)
        rest = value - found[:, tap] * total
    return found


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
    return PlaneMap(record, _fill_resized(record, cut.resizing, placement, inside_xyxy=inside, resize=resize))


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
) -> tuple[npt.NDArray[Any], ...]:
    """Fill the record; returns the lists of columns and rows, if there are any."""
    left, top, right, bottom = inside_xyxy
    size_wh, target_wh = (right - left, bottom - top), resizing.size_wh
    origins = tuple(first - inner for first, inner in zip(resizing.first_xy, placement.inner_xywh[:2], strict=True))
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
