"""Which samples of a plane make each sample of a resized one, and with which weights, in whole numbers.

So that planes come out as the libraries make them, to the bit, on the CPU (`fused.py`) as on a GPU (`cuda_maps.py`).

A sample of the resized plane is a sum of samples of the plane that lie side by side, `first` and those behind it, by
weights in whole numbers. For averages, libswscale finds them in 64-bit integers (`initFilter`, libswscale/utils.c): the
filter's value at each sample, next to nothing cut off at both ends, what lies beyond the plane's edge given to the
edge, and the rest of every division passed on to the next weight. (Where more than 170 samples count, it resizes in two
steps, which is not done here: such averages are a few levels beside.) What OpenCV takes where an area grows, and as the
nearest sample, is in its `resize` (modules/imgproc/src/resize.cpp).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Kind = Literal["area", "triangle"]
Numbers = npt.NDArray[np.int64]

ACROSS_ONE, DOWN_ONE, MIXED_ONE = 1 << 14, 1 << 12, 1 << 11
"""What the weights of a sample add up to: averages along rows, along columns, and mixtures of two samples."""
_ACROSS_GROUP, _DOWN_GROUP = 4, 2
"""Weights come in groups of so many, the last of them perhaps 0."""
_NEGLIGIBLE = 0.002


@lru_cache(maxsize=1024)
def linear(size: int, *, target: int) -> tuple[Numbers, Numbers]:
    """The two samples around the middle of each new one, those at the edge twice: which (target, 2), their weights.

    As OpenCV computes them, each weight rounded for itself from float32.
    """
    middles = ((np.arange(target) + 0.5) * (1 / (target / size)) - 0.5).astype(np.float32)
    first = np.floor(middles)
    share = middles - first
    weights = np.rint(np.stack([1 - share, share], axis=1) * np.float32(MIXED_ONE)).astype(np.int64)
    return np.clip(first[:, None].astype(np.int64) + np.arange(2), 0, size - 1), weights


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
