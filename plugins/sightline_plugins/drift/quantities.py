"""What is compared with a baseline: quantities of objects and of images, each on a scale of 32 bins.

A position on a scale is a number of bins from its lower end. Confidences, brightness and contrast have bins of equal
width; sizes, counts and sharpness have four bins for each doubling, because a tenth more or less is the same of a small
object and of a large one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

BINS = 32
MOST_BLOCKS = 400
"""Windows that a baseline has at most."""
MOST_LABELS = 16
_BINS_A_DOUBLING = 4

QuantityName = Literal["confidence", "size", "count", "brightness", "contrast", "sharpness"]
QUANTITIES: tuple[QuantityName, ...] = ("confidence", "size", "count", "brightness", "contrast", "sharpness")
Counts: TypeAlias = npt.NDArray[np.uint32]
"""How many samples are in each bin: (..., 32)."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Where the values of a quantity are in its histogram.

    Bins are `width` wide from 0 on, or, with `width` 0, four for each doubling of the value plus `shift`, from `lowest`
    on (a power of two). `least_move` is how many bins the samples must have moved on average to be more than nothing.
    """

    width: float = 0.0
    lowest: float = 1.0
    shift: float = 0.0
    least_move: float = 1.0

    def bins(self, values: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
        """Return the bin of each value, 0 to 31; those beyond the ends are in the last ones."""
        return np.clip(self.positions(values), 0, BINS - 1).astype(np.intp)

    def positions(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return where values are, in bins."""
        if self.width:
            return np.asarray(values, np.float64) / self.width
        with np.errstate(divide="ignore"):
            doublings = np.log2(np.maximum(values, 0) + self.shift) - np.log2(self.lowest)
        return np.asarray(doublings * _BINS_A_DOUBLING, np.float64)

    def value(self, position: float) -> float:
        """Return the value at a position."""
        if self.width:
            return position * self.width
        return float(self.lowest * 2 ** (position / _BINS_A_DOUBLING) - self.shift)


SCALES: Mapping[QuantityName, Scale] = {
    "confidence": Scale(width=1 / BINS, least_move=1.6),
    "size": Scale(lowest=1 / 256, least_move=0.8),
    "count": Scale(shift=1, least_move=0.5),
    "brightness": Scale(width=8, least_move=1.5),
    "contrast": Scale(width=4, least_move=1.5),
    "sharpness": Scale(lowest=1 / 64, least_move=1.2),
}
"""Samples have moved when it is by 0.05 of confidence, 15 % of the size, 9 % of the number of objects plus one, 12 and
6 levels of brightness and contrast, and 23 % of the sharpness.
"""
OF_OBJECTS: frozenset[QuantityName] = frozenset({"confidence", "size", "count"})
"""Those that each label has of its own."""
MOST_SERIES = MOST_LABELS * len(OF_OBJECTS) + len(QUANTITIES) - len(OF_OBJECTS)
"""Histograms of a stream at most."""


def mean_count(counts: npt.NDArray[np.integer[Any]]) -> float:
    """Return the mean of a histogram (32,) of counts; NaN without samples."""
    total = int(counts.sum())
    return float(counts @ _NUMBERS) / total if total else float("nan")


def _numbers() -> npt.NDArray[np.float64]:
    """Return how many objects the counts in each bin stand for: the mean of those that fall into it (32,)."""
    numbers = np.arange(2 ** (BINS // _BINS_A_DOUBLING) - 1)
    bins = SCALES["count"].bins(numbers)
    shares = np.bincount(bins, minlength=BINS)
    sums = np.bincount(bins, weights=numbers, minlength=BINS)
    return np.asarray(sums / np.maximum(shares, 1), np.float64)


_NUMBERS = _numbers()
