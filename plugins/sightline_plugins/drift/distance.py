"""How far histograms of samples differ: the two-sample statistic of Kolmogorov and Smirnov, with its critical value.

The distance D is the largest difference of the two cumulative distributions (Smirnov, 1939): with 0.4 there is a value
below which 40 % more of the samples are in one than in the other. Two sets of n and m independent samples of one
distribution exceed `sqrt(-ln(a / 2) / 2 * (1 / n + 1 / m))` with the probability `a` at most; where values share bins,
with less (Conover, Practical Nonparametric Statistics, 6.3). How far the samples have moved is the area between both
(the first Wasserstein distance), in bins.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Histograms: TypeAlias = npt.NDArray[Any]
"""Numbers of samples, none negative (..., B)."""

ALARM_RATE = 1e-4
"""How often samples of one distribution exceed the critical value at most, a comparison."""
_FACTOR = float(np.sqrt(-np.log(ALARM_RATE / 2) / 2))


def cumulative(counts: Histograms) -> Floats:
    """Return the share of the samples in each bin and those below it (..., B); 0 where there are none."""
    sums = np.cumsum(counts, axis=-1, dtype=np.float64)
    found: Floats = sums / np.maximum(sums[..., -1:], 1)
    return found


def distances(first: Histograms, second: Histograms) -> tuple[Floats, Floats]:
    """Return D (0..1) and how far samples have moved, in bins, of histograms of shapes that broadcast (..., B)."""
    apart = np.abs(cumulative(first) - cumulative(second))
    return apart.max(axis=-1), apart.sum(axis=-1)


def critical(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> Floats:
    """Return the distance that chance does not exceed, with so many independent samples in each; inf without any."""
    with np.errstate(divide="ignore"):
        found: Floats = _FACTOR * np.sqrt(1 / np.asarray(first, np.float64) + 1 / np.asarray(second, np.float64))
    return found


def median_position(counts: Histograms) -> float:
    """Return where half of the samples of one histogram (B,) are below, in bins; the samples of a bin are spread evenly
    over it. NaN without samples.
    """
    total = counts.sum()
    if not total:
        return float("nan")
    shares = cumulative(counts)
    row = int(np.searchsorted(shares, 0.5))
    before = float(shares[row - 1]) if row else 0.0
    return row + (0.5 - before) / (float(shares[row]) - before)
