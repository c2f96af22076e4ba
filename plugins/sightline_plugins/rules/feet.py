"""Where the feet of tracks went since they were last seen, and for how long. Arrays in, arrays out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline.graph.state import Saved
from sightline.media.heat import Points
from sightline_plugins.rules.geometry import Floats

Ids = npt.NDArray[np.int64]
LONGEST_NS = 2_000_000_000
"""A track that was not seen for longer was elsewhere, as in zones."""


class Feet:
    """The feet of the tracks of one stream, on each frame in order; points are in fractions of the frame.

    The time of a track goes from each sighting to the next, whatever the frame rate; across a gap of more than two
    seconds it is not known where it was. A track that is new came since the frame before.
    """

    def __init__(self) -> None:
        self._last_ns: int | None = None
        self._ids: Ids = np.zeros(0, np.int64)
        """Ascending."""
        self._points: Points = np.zeros((0, 2))
        self._seen_ns: Ids = np.zeros(0, np.int64)

    def ways(self, track_id: Ids, points: Points, *, now_ns: int) -> tuple[Points, Floats]:
        """Return where tracks (N,) that are at `points` (N, 2) now come from (N, 2), and the seconds that it took."""
        if self._last_ns is not None and now_ns < self._last_ns:
            self.forget()
        interval_ns = 0 if self._last_ns is None else min(now_ns - self._last_ns, LONGEST_NS)
        start, spent_ns = points.copy(), np.full(len(track_id), interval_ns, np.int64)
        if len(self._ids):
            place = np.minimum(np.searchsorted(self._ids, track_id), len(self._ids) - 1)
            since_ns = now_ns - self._seen_ns[place]
            is_known = (self._ids[place] == track_id) & (since_ns <= LONGEST_NS)
            start[is_known] = self._points[place[is_known]]
            spent_ns[is_known] = since_ns[is_known]
        self._remember(track_id, points, now_ns)
        return start, spent_ns / 1e9

    def forget(self) -> None:
        """Forget all tracks: time has gone back, or the stream has ended."""
        self._last_ns = None
        self._ids, self._points, self._seen_ns = self._ids[:0], self._points[:0], self._seen_ns[:0]

    def save(self) -> Saved:
        """Return where the tracks are, for another process."""
        return {
            "last_ns": self._last_ns,
            "ids": self._ids.tolist(),
            "points": self._points.tolist(),
            "seen_ns": self._seen_ns.tolist(),
        }

    def restore(self, saved: Saved) -> None:
        """Take over where the tracks were."""
        self._last_ns = None if saved["last_ns"] is None else int(saved["last_ns"])
        self._ids, self._seen_ns = np.array(saved["ids"], np.int64), np.array(saved["seen_ns"], np.int64)
        self._points = np.array(saved["points"], np.float64).reshape(-1, 2)
        if not len(self._ids) == len(self._seen_ns) == len(self._points):
            raise ValueError("there are not as many points as tracks")

    def _remember(self, track_id: Ids, points: Points, now_ns: int) -> None:
        kept = (now_ns - self._seen_ns <= LONGEST_NS) & ~np.isin(self._ids, track_id)
        ids = np.concatenate([self._ids[kept], track_id])
        order = np.argsort(ids, kind="stable")
        self._ids = ids[order]
        self._points = np.concatenate([self._points[kept], points])[order]
        self._seen_ns = np.concatenate([self._seen_ns[kept], np.full(len(track_id), now_ns, np.int64)])[order]
        self._last_ns = now_ns
