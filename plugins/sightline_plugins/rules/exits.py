"""Which tracks reach the exits of the queues of a stream: lines that they step over, and areas that they are in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sightline.graph.state import Saved
from sightline.media.boxes import Boxes
from sightline_plugins.native import POINTER, SIZE, function, pointer
from sightline_plugins.rules.geometry import Floats, Mask
from sightline_plugins.rules.polygons import Polygons
from sightline_plugins.rules.track_table import Ids, TrackTable

POINTS_OF_A_LINE = 2
_FEW = 64
_steps_meet = function("steps_meet", SIZE, SIZE, *[POINTER] * 5)


class Exits:
    """The exits of the queues of one stream, and where its tracks were last; takes every frame in order."""

    def __init__(self) -> None:
        self._tracks = TrackTable({"last": np.zeros(4, np.float32)})
        self._polygons: Polygons | None = None
        self._lines: list[int] = []

    def place(self, corners: Mapping[int, Floats], *, fractions: Floats) -> None:
        """Take the exits by number of the queue: the corners (V, 2) of each in pixels, of which two are a line. The
        anchors of all queues are at `fractions` (Z, 2) of a box.
        """
        self._lines = [number for number, own in corners.items() if len(own) == POINTS_OF_A_LINE]
        self._areas = [number for number, own in corners.items() if len(own) > POINTS_OF_A_LINE]
        segments = np.array([corners[number] for number in self._lines], np.float64).reshape(-1, 4)
        self._segments = np.ascontiguousarray(segments.T)
        self._fractions = np.ascontiguousarray(fractions[self._lines].T)
        self._polygons = None
        if self._areas:
            polygons = [corners[number] for number in self._areas]
            self._polygons = Polygons(polygons, fractions=fractions[self._areas])

    def reached(self, track_id: Ids, xyxy: Boxes, *, now_ns: int, memory_ns: int) -> dict[int, set[int]]:
        """Return, by queue, which tracks (N,) with boxes (N, 4) are in an exit area, or have stepped over an exit line
        since they were last seen, if that is no longer ago than `memory_ns`.
        """
        found: dict[int, set[int]] = {}
        if self._lines:
            before = self._before(track_id, xyxy, now_ns=now_ns, memory_ns=memory_ns)
            met = np.empty((len(xyxy), len(self._lines)), np.bool_)
            if len(xyxy):
                boxes = np.ascontiguousarray(xyxy, np.float32)
                _steps_meet(
                    *met.shape,
                    pointer(before),
                    pointer(boxes),
                    pointer(self._fractions),
                    pointer(self._segments),
                    pointer(met),
                )
            _add(found, self._lines, track_id, met)
        if self._polygons is not None:
            _add(found, self._areas, track_id, self._polygons.inside(xyxy))
        return found

    def save(self) -> Saved:
        """Return where the tracks are, for another process."""
        return self._tracks.save()

    def restore(self, saved: Saved) -> None:
        """Go on with where the tracks were."""
        self._tracks.restore(saved)

    def clear(self) -> None:
        """Forget the tracks."""
        self._tracks.clear()

    def _before(self, track_id: Ids, xyxy: Boxes, *, now_ns: int, memory_ns: int) -> Boxes:
        """Return the boxes (N, 4) before these of the tracks, which are these where there were none."""
        tracks = self._tracks
        if len(tracks) > 2 * len(track_id) + _FEW:
            tracks.keep(now_ns - tracks.seen_ns <= memory_ns)
        rows, is_new = tracks.rows(track_id, now_ns=now_ns)
        before: Boxes = tracks["last"][rows]
        before[is_new] = xyxy[is_new]
        tracks["last"][rows] = xyxy
        return before


def _add(found: dict[int, set[int]], queues: Sequence[int], track_id: Ids, mask: Mask) -> None:
    """Add the tracks (N,) of a mask (N, K) to those of these queues (K,)."""
    rows, places = np.divmod(np.flatnonzero(mask), len(queues))
    for own_id, place in zip(track_id[rows].tolist(), places.tolist(), strict=True):
        found.setdefault(queues[place], set()).add(own_id)
