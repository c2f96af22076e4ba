"""Since when each track stands still: positions in, the place and the time out. Independent of the rate of frames."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from sightline_plugins.rules.area_tracks import AreaTracks
from sightline_plugins.rules.geometry import Floats, Mask
from sightline_plugins.rules.track_table import Ids, Indices

BLINK_NS = 500_000_000
"""An object has moved when it has been away for this long: a box that jumps for a moment moves nothing."""
_SETTLING_NS = 2_000_000_000
"""The place of an object is the mean of its positions in this time, less disturbed by noise than one of them."""


STILLNESS: Mapping[str, npt.ArrayLike] = {
    "place": np.zeros(2),
    "samples": 0,
    "since_ns": -1,
    "away_ns": -1,
    "next_place": np.zeros(2),
    "next_ns": -1,
}
"""What a table holds of each track for `stand`: its place, and since when it stands there, are for the caller."""


def stand(table: AreaTracks, rows: Indices, is_new: Mask, points: Floats, *, reach: Floats, now_ns: int) -> Ids:
    """Take positions (N, 2) of tracks that are seen now, each with its reach (N,), into their rows (N,) of the table.

    A track stands at a place as long as it is not farther from it than its reach. Once it has been farther for
    `BLINK_NS`, it has moved: since the moment it went, and to the last place that it has not left again within its
    reach. Both times are those of positions, so the rate of frames moves them by one frame at most, and a track that
    comes to rest stands since it first came within its reach of where it rests. An object that creeps stands while it
    needs longer for its reach than the caller waits.

    Returns when each that has moved left its place (N,), -1 for those that stand.
    """
    fresh = rows[is_new]
    table["place"][fresh] = points[is_new]
    table["since_ns"][fresh] = now_ns

    place, since_ns, away_ns = table["place"][rows], table["since_ns"][rows], table["away_ns"][rows]
    is_away = _apart(points, place) > reach
    settles = ~is_away & (now_ns - since_ns < _SETTLING_NS)
    samples = table["samples"][rows] + settles
    place += np.where(settles, 1 / np.maximum(samples, 1), 0)[:, None] * (points - place)

    next_place, next_ns = table["next_place"][rows], table["next_ns"][rows]
    is_next = is_away & ((away_ns < 0) | (_apart(points, next_place) > reach))
    next_place = np.where(is_next[:, None], points, next_place)
    next_ns = np.where(is_next, now_ns, next_ns)
    away_ns = np.where(is_away, np.where(away_ns < 0, now_ns, away_ns), -1)

    moves: Mask = is_away & (now_ns - away_ns >= BLINK_NS)
    table["place"][rows] = np.where(moves[:, None], next_place, place)
    table["since_ns"][rows] = np.where(moves, next_ns, since_ns)
    table["samples"][rows] = np.where(moves, 1, samples)
    table["away_ns"][rows] = np.where(moves, -1, away_ns)
    table["next_place"][rows], table["next_ns"][rows] = next_place, next_ns
    return np.where(moves, away_ns, -1)


def _apart(points: Floats, others: Floats) -> Floats:
    """Return how far points (N, 2) are from others (N, 2)."""
    apart: Floats = np.hypot(points[:, 0] - others[:, 0], points[:, 1] - others[:, 1])
    return apart
