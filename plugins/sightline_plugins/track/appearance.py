"""What the similarity of two embeddings says, measured while it runs: embeddings of models differ.

Two people have a similarity of 0.1 for one model and of 0.6 for another, so no threshold is right for all. A tracker
knows pairs that are the same object (a steady track and its next detection) and pairs that are not (it and the other
detections of the frame). The log-likelihood ratio of two normal distributions with these means and one deviation says
how much a similarity counts: nothing, for a model whose embeddings do not tell objects apart.

A track's vector is a running mean whose rate follows the certainty of detections: half-hidden objects show others
(dynamic appearance; Maggiolino et al., "Deep OC-SORT: Multi-Pedestrian Tracking by Adaptive Re-Identification", ICIP
2023).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.integer]

LEAST_DEVIATION = 0.04
MOST_LOG_RATIO = 6.0
_PRIOR_COUNT = 4.0
_PRIOR_SAME, _PRIOR_DIFFERENT = (0.85, 0.1), (0.6, 0.15)
_MEMORY = 2000.0
"""Values that the statistics remember; older ones fade."""
_TRUST_AFTER = 8.0
"""Pairs of the same object after which a ratio counts half."""
_USUAL_DEVIATIONS = 0.5
"""How far below their mean similarities of the same object still are usual."""
_RATE = np.float32(0.2)
"""Weight of a detection of full certainty in the vector of its track."""


@dataclass(slots=True)
class Statistic:
    """Mean and deviation of values, starting from a prior that counts as some values."""

    count: float
    total: float
    squares: float

    @classmethod
    def prior(cls, mean: float, deviation: float, *, count: float) -> Statistic:
        """Return what `count` values with this mean and deviation would give."""
        return cls(count, count * mean, count * (mean**2 + deviation**2))

    def add(self, values: npt.NDArray[np.floating], *, memory: float = np.inf) -> None:
        """Count values (N,); those before fade so that they count as `memory` values at most."""
        fading = min(1.0, memory / self.count)
        self.count = fading * self.count + len(values)
        self.total = fading * self.total + float(values.sum())
        self.squares = fading * self.squares + float((values.astype(np.float64) ** 2).sum())

    @property
    def mean(self) -> float:
        """Their mean."""
        return self.total / self.count

    @property
    def deviation(self) -> float:
        """Their standard deviation, at least `LEAST_DEVIATION`."""
        return max(LEAST_DEVIATION, float(np.sqrt(max(self.squares / self.count - self.mean**2, 0.0))))


class AppearanceScale:
    """Log-likelihood ratios of "the same object" against "different objects" for similarities within one stream."""

    def __init__(self) -> None:
        self._same = Statistic.prior(*_PRIOR_SAME, count=_PRIOR_COUNT)
        self._different = Statistic.prior(*_PRIOR_DIFFERENT, count=_PRIOR_COUNT)
        self._pairs = 0

    def learn(self, similarity: Floats) -> None:
        """Take similarities (N, N) of steady tracks (rows) with the detections that they matched (columns, in the same
        order); NaN where an embedding is missing.
        """
        is_same = np.eye(len(similarity), dtype=bool)
        for statistic, values in ((self._same, similarity[is_same]), (self._different, similarity[~is_same])):
            values = values[~np.isnan(values)]
            if len(values):
                statistic.add(values, memory=_MEMORY)
        self._pairs += len(similarity)

    def learn_different(self, similarity: Floats) -> None:
        """Take similarities (N,) of different objects."""
        if len(similarity):
            self._different.add(similarity, memory=_MEMORY)

    def is_usual(self, similarity: Floats) -> npt.NDArray[np.bool_]:
        """Return where a similarity is not lower than that of the same object usually is; False for NaN."""
        usual: npt.NDArray[np.bool_] = similarity >= self._same.mean - _USUAL_DEVIATIONS * self._same.deviation
        return usual

    def log_ratio(self, similarity: Floats, *, most: float = MOST_LOG_RATIO) -> Floats:
        """Return ratios of the same shape, from `-most` to `most`; 0 for NaN."""
        same, different = self._same, self._different
        deviation = max(same.deviation, different.deviation)
        apart = max(0.0, same.mean - different.mean) * self._pairs / (self._pairs + _TRUST_AFTER)
        ratio = (similarity - (same.mean + different.mean) / 2) * np.float32(apart / deviation**2)
        limited: Floats = np.nan_to_num(np.clip(ratio, -most, most), nan=0.0).astype(np.float32)
        return limited


def unit(vectors: npt.NDArray[np.floating]) -> Doubles:
    """Return vectors (N, D) with length 1; NaN for vectors of zeros."""
    wide = vectors.astype(np.float64)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide / np.where(length > 0, length, np.nan)


def blended(vectors: Floats, seen: Floats, *, certainty: Floats) -> Floats:
    """Return the vectors of tracks (N, D) after detections (N, D) of this certainty (N,); NaN counts as unknown."""
    rate = (_RATE * certainty**2)[:, None]
    mixed = unit((1 - rate) * vectors + rate * seen).astype(np.float32)
    mixed = np.where(np.isnan(vectors[:, :1]), seen, mixed)
    result: Floats = np.where(np.isnan(seen[:, :1]), vectors, mixed)
    return result
