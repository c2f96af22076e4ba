"""Since when each track stands still: positions in, the place and the time out. Independent of the rate of frames."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from sightline_plugins.rules.geometry import Floats, Mask
from sightline_plugins.rules.track_table import Ids, Indices, TrackTable

BLINK_NS = 500_000_000
"""An object has moved when it has been away for this long: a box that jumps for a moment moves nothing."""
_SETTLING_NS = 2_000_000_000
"""The place of an object is the mean of its positions in this time, less disturbed by noise than one of them."""


class Stillness:
    """Keeps the place where each track stands, and since when.

    A track stands at a place as long as it is not farther from it than its reach. Once it has been farther for
    `BLINK_NS`, it has moved: since the moment it went, and to the last place that it has not left again within its
    reach. Both times are those of positions, so the rate of frames moves them by one frame at most, and a track that
    comes to rest stands since it first came within its reach of where it rests. An object that creeps stands while it
    needs longer for its reach than the caller waits.

    `more` are further columns of the table for the caller.
    """

    def __init__(self, more: Mapping[str, npt.ArrayLike]) -> None:
        self.table = TrackTable(
            {
                "place": np.zeros(2),
                "samples": 0,
                "since_ns": -1,
                "away_ns": -1,
                "next_place": np.zeros(2),
                "next_ns": -1,
                **more,
            }
        )

    def update(self, track_id: Ids, points: Floats, *, reach: Floats, now_ns: int) -> tuple[Indices, Ids]:
        """Take positions (N, 2) of tracks (N,) that are seen now, each with its reach (N,).

        Returns their rows in the table, and when each that has moved left its place, -1 for those that stand.
        """
        table = self.table
        rows, is_new = table.rows(track_id, now_ns=now_ns)
        fresh = rows[is_new]
        table["place"][fresh] = points[is_new]
        table["since_ns"][fresh] = now_ns

        place, since_ns, away_ns = table["place"][rows], table["since_ns"][rows], table["away_ns"][rows]
        is_away = np.hypot(*(points - place).T) > reach
        settles = ~is_away & (now_ns - since_ns < _SETTLING_NS)
        samples = table["samples"][rows] + settles
        place += np.where(settles, 1 / np.maximum(samples, 1), 0)[:, None] * (points - place)

        next_place, next_ns = table["next_place"][rows], table["next_ns"][rows]
        is_next = is_away & ((away_ns < 0) | (np.hypot(*(points - next_place).T) > reach))
        next_place = np.where(is_next[:, None], points, next_place)
        next_ns = np.where(is_next, now_ns, next_ns)
        away_ns = np.where(is_away, np.where(away_ns < 0, now_ns, away_ns), -1)

        moves: Mask = is_away & (now_ns - away_ns >= BLINK_NS)
        table["place"][rows] = np.where(moves[:, None], next_place, place)
        table["since_ns"][rows] = np.where(moves, next_ns, since_ns)
        table["samples"][rows] = np.where(moves, 1, samples)
        table["away_ns"][rows] = np.where(moves, -1, away_ns)
        table["next_place"][rows], table["next_ns"][rows] = next_place, next_ns
        return rows, np.where(moves, away_ns, -1)
