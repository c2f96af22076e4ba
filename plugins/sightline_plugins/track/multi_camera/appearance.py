"""What the similarity of two embeddings says about whether they show the same object."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline_plugins.track.appearance import Statistic

Floats = npt.NDArray[np.float64]

_PRIOR_COUNT = 4.0
_PRIOR_DIFFERENT = (0.65, 0.1)
"""Mean and deviation of the similarity of different objects, before any was measured: those of people in one room for a
model that tells them apart badly (OSNet x0.25), because confusing two people is worse than counting one twice.
"""
_SAME_POSITION = 0.55
"""Expected similarity of one object in two cameras, as the way from that of different objects to 1."""
_MOST_LOG_RATIO = 9.0


class Appearance:
    """Log-likelihood ratios of similarities, with the usual similarities of a model measured while it runs.

    Embeddings of models differ: two people have a similarity of 0.1 for one model and of 0.6 for another. Objects that
    one stream shows at the same time are different, and so are a new object and all known ones but the most similar;
    this gives the distribution for different objects. That for one object in two cameras lies between it and 1, and is
    as wide or wider.
    """

    def __init__(self) -> None:
        self._different = Statistic.prior(*_PRIOR_DIFFERENT, count=_PRIOR_COUNT)

    def add_different(self, similarity: Floats) -> None:
        """Take similarities (N,) of objects that are certainly different."""
        self._different.add(similarity)

    def log_ratio(self, similarity: Floats) -> Floats:
        """Return log-likelihood ratios of "the same object" against "different objects", of the same shape.

        NaN, for objects without an embedding, gives 0.
        """
        mean, deviation = self._different.mean, self._different.deviation
        same = mean + _SAME_POSITION * (1 - mean)
        same_deviation = max((same - mean) / 3, deviation)
        within = np.clip(similarity, mean, same)
        ratio = (
            0.5 * ((within - mean) / deviation) ** 2
            - 0.5 * ((within - same) / same_deviation) ** 2
            - np.log(same_deviation / deviation)
        )
        limited: Floats = np.nan_to_num(np.clip(ratio, -_MOST_LOG_RATIO, _MOST_LOG_RATIO), nan=0.0)
        return limited
