"""One round of matching over the tracks and detections of one stream."""

from __future__ import annotations

import numpy as np

from sightline_plugins.track.cascade import Floats, Indices, PairMatcher, Round, Way


def matched(
    similarity: Floats, *, least: float, way: Way = Way.LARGEST_SUM, preference: Floats | None = None
) -> tuple[Indices, Indices]:
    """Return the rows and columns of a table (N, M) that match."""
    tracks, detections = similarity.shape
    matcher = PairMatcher(np.zeros(tracks, np.int64), np.zeros(detections, np.int64))
    every = np.ones(tracks, np.bool_), np.ones(detections, np.bool_)
    preferred = None if preference is None else (lambda rows, columns: preference[rows, columns])
    each = Round(*every, lambda rows, columns: similarity[rows, columns], least, preferred, way)
    return matcher.matched([each])
