"""Which track may be matched with which detection: in what round, and from what similarity on."""

from __future__ import annotations

import numpy as np

from sightline_plugins.track.options import TrackerOptions
from sightline_plugins.track.tracks import Floats, Integers, TrackColumns, TrackState

TENTATIVE = int(TrackState.TENTATIVE)
NEVER = 2.0
"""A similarity that no pair reaches."""
FAIR_TRACKS = 2
"""Added to the state `TRACKED` or `LOST` it makes the kind of a track that is mostly seen with fair confidence."""

ROUNDS = np.array([[0, 0, 3, 3], [0, 2, 2, 0], [0, 0, 2, 0], [0, 2, 1, 0], [0, 0, 1, 0]], np.int8)
"""The round in which a kind of track (row) meets a band (column): confirmed and high; fair and fair; confirmed and what
is doubtful for it; tentative and what may start a track."""


def kinds(tracks: TrackColumns, *, high_confidence: float) -> Integers:
    """(N,) the kind of each track: its state, set apart where it is confirmed and mostly seen less than high."""
    is_fair = tracks.usual_confidence < high_confidence
    if not is_fair.any():
        return tracks.state
    is_fair &= tracks.state != TENTATIVE
    kind: Integers = tracks.state + FAIR_TRACKS * is_fair
    return kind


def floors(options: TrackerOptions) -> Floats:
    """(kinds, bands): the similarity that a track of a kind needs with a detection of a band."""
    high, low, tentative = options.min_similarity, options.min_similarity_low, options.min_similarity_tentative
    fair, half_hidden = options.min_similarity_fair, options.min_similarity_half_hidden
    return np.array(
        [
            [NEVER, NEVER, tentative, tentative],
            [NEVER, low, half_hidden, high],
            [NEVER, NEVER, half_hidden, high],
            [NEVER, low, fair, high],
            [NEVER, NEVER, fair, high],
        ],
        np.float32,
    )
