"""Since when each track stands still: positions in, the place and the time out. Independent of the rate of frames."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from sightline_plugins.native import POINTER, SIZE, function, pointer
from sightline_plugins.rules.area_tracks import AreaTracks
from sightline_plugins.rules.geometry import Floats, Mask
from sightline_plugins.rules.track_table import Ids, Indices

BLINK_NS = 500_000_000
"""An object has moved when it has been away for this long: a box that jumps for a moment moves nothing."""
_SETTLING_NS = 2_000_000_000
"""The place of an object is the mean of its positions in this time, less disturbed by noise than one of them."""

_SHORT = 2_000
"""So many tracks take about 50 microseconds: for more the GIL is released."""
_keep_places = {
    is_long: function("keep_places", *[SIZE] * 4, *[POINTER] * 11, long=is_long) for is_long in (False, True)
}

STILLNESS: Mapping[str, npt.ArrayLike] = {
    "place": np.zeros(2),
    "samples": 0,
    "since_ns": -1,
    "away_ns": -1,
    "next_place": np.zeros(2),
    "next_ns": -1,
}
"""What a table holds of each track for `stand`, as `keep_places` of stillness.c takes it: its place, and since when it
stands there, are for the caller."""


def stand(table: AreaTracks, rows: Indices, is_new: Mask, points: Floats, *, reach: Floats, now_ns: int) -> Ids:
    """Take positions (N, 2) of tracks that are seen now, each with its reach (N,), into their rows (N,) of the table.

    A track stands at a place as long as it is not farther from it than its reach. Once it has been farther for
    `BLINK_NS`, it has moved: since the moment it went, and to the last place that it has not left again within its
    reach. Both times are those of positions, so the rate of frames moves them by one frame at most, and a track that
    comes to rest stands since it first came within its reach of where it rests. An object that creeps stands while it
    needs longer for its reach than the caller waits.

    Returns when each that has moved left its place (N,), -1 for those that stand.
    """
    moved_ns = np.empty(len(rows), np.int64)
    if len(rows):
        positions, reaches = np.ascontiguousarray(points, np.float64), np.ascontiguousarray(reach, np.float64)
        own = np.ascontiguousarray(rows, np.int64)
        _keep_places[len(rows) > _SHORT](
            len(rows),
            now_ns,
            BLINK_NS,
            _SETTLING_NS,
            pointer(own),
            pointer(is_new),
            pointer(positions),
            pointer(reaches),
            *[pointer(table[name]) for name in STILLNESS],
            pointer(moved_ns),
        )
    return moved_ns
