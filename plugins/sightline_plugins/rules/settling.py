"""Judge where tracks are, so that boxes that tremble on an edge do not come and go: zones, and lines.

Both keep what was reported of each track, in tables of the tracks of one stream, and judge boxes one after another in C
(`native.c`). A track that came or went (or crossed) does so at once; the next time counts when it is farther from
the edge than its box trembles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import numpy as np
import numpy.typing as npt

from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects
from sightline_plugins.native import POINTER, SIZE, function, pointer
from sightline_plugins.rules.geometry import Floats, Mask, anchor_points, line_sides
from sightline_plugins.rules.noise import BoxNoise
from sightline_plugins.rules.polygons import Polygons
from sightline_plugins.rules.track_table import Column, Indices, TrackTable

Signs = npt.NDArray[np.int8]

_SHORT = 5_000
"""So many pairs of a box and a shape are judged in about 50 microseconds: for more the GIL is released."""
_ARGUMENTS = SIZE, SIZE, *[POINTER] * 14
_judge_zones = {is_long: function("judge_zones", *_ARGUMENTS, long=is_long) for is_long in (False, True)}
_cross_lines = {is_long: function("cross_lines", *_ARGUMENTS, long=is_long) for is_long in (False, True)}


_ZONE_COLUMNS = ("inside", "unsettled")
_LINE_COLUMNS: Mapping[str, type[np.generic]] = {"side": np.int8, "met": np.bool_, "unsettled": np.int8}


class ZoneSettling:
    """Judges which boxes of one stream are inside which of Z zones."""

    def __init__(self, count: int) -> None:
        self._noise = BoxNoise()
        self._tracks = _zone_table(count)

    def place(self, corners: Sequence[Floats], *, fractions: Floats, margins: Floats, widths: Floats) -> None:
        """Take the corners (V, 2) of each zone in pixels, and its anchor's fractions (Z, 2).

        Who is inside leaves when it is farther outside than the `margins` (Z,) in pixels. The edge is as wide, on each
        side, as `widths` (Z,) deviations of the box; 0 for none. A zone has one of both.
        """
        self._polygons = Polygons(corners, fractions=fractions, reach=margins)
        self._margins, self._widths = np.ascontiguousarray(margins), np.ascontiguousarray(widths)

    def judge(self, tracks: TrackedObjects) -> tuple[Mask, Mask]:
        """Return masks (N, Z) of the boxes of the next frames: which are inside zones where their tracks were, and
        which are inside where they were not.
        """
        count, zones = len(tracks), len(self._margins)
        _require_width(self._tracks["inside"], zones)
        inside, entered = np.empty((count, zones), np.bool_), np.empty((count, zones), np.bool_)
        noise = self._noise.update(tracks) if self._widths.any() else np.zeros(count)
        if count:
            rows, fresh = self._tracks.see(tracks.track_id, tracks.pts_ns[tracks.frame])
            self._call(np.ascontiguousarray(tracks.xyxy, np.float32), rows, fresh, noise, self._tracks, inside, entered)
        return inside, entered

    def _call(
        self,
        xyxy: npt.NDArray[np.float32],
        rows: Indices,
        fresh: Mask,
        noise: Floats,
        tracks: Mapping[str, Mask] | TrackTable,
        inside: Mask,
        entered: Mask,
    ) -> None:
        _judge_zones[inside.size > _SHORT](
            *inside.shape,
            pointer(xyxy),
            pointer(rows),
            pointer(fresh),
            pointer(noise),
            pointer(self._polygons.fractions),
            pointer(self._polygons.corners),
            pointer(self._polygons.first),
            pointer(self._polygons.bounds),
            pointer(self._margins),
            pointer(self._widths),
            pointer(tracks["inside"]),
            pointer(tracks["unsettled"]),
            pointer(inside),
            pointer(entered),
        )

    def look(self, xyxy: npt.NDArray[np.floating]) -> tuple[Mask, Mask]:
        """Return the same masks for boxes (N, 4) without a history; nothing is remembered of them."""
        shape = len(xyxy), len(self._margins)
        inside, entered = np.empty(shape, np.bool_), np.empty(shape, np.bool_)
        nothing = {name: np.zeros((1, shape[1]), np.bool_) for name in ("inside", "unsettled")}
        if len(xyxy):
            rows, fresh = np.zeros(len(xyxy), np.int64), np.ones(len(xyxy), np.bool_)
            boxes = np.ascontiguousarray(xyxy, np.float32)
            self._call(boxes, rows, fresh, np.zeros(len(xyxy)), nothing, inside, entered)
        return inside, entered

    def change(self, places: Sequence[int | None], *, redrawn: Set[int], inside: Mapping[int, Mask]) -> None:
        """Take over other zones, between two frames: `places` holds the place of each among the former ones.

        Nothing is known of tracks in zones that are new (None) or `redrawn`, but that these of the last frame are
        `inside` (Z,).
        """
        kept = {number: place for number, place in enumerate(places) if place is not None and number not in redrawn}
        for name in _ZONE_COLUMNS:
            self._tracks.replace(name, _moved(self._tracks[name], kept, len(places)))
        for row, track_id in enumerate(self._tracks.track_id.tolist()):
            if track_id in inside:
                self._tracks["inside"][row] |= inside[track_id]

    def save(self) -> Saved:
        """Return what is known of the tracks."""
        return {"noise": self._noise.save(), "tracks": self._tracks.save()}

    def restore(self, saved: Saved, moved: Mapping[int, int], *, count: int) -> None:
        """Go on with what another process knew about its `count` zones, of which those of `moved` are here, too: by
        their numbers there. Raises KeyError, TypeError or ValueError when it is something else.
        """
        now, tracks = self._tracks["inside"].shape[1], _zone_table(count)
        tracks.restore(saved["tracks"])
        self._noise.restore(saved["noise"])
        for name in _ZONE_COLUMNS:
            tracks.replace(name, _moved(tracks[name], {here: there for there, here in moved.items()}, now))
        self._tracks = tracks

    def clear(self) -> None:
        """Forget the tracks."""
        self._tracks.clear()
        self._noise.clear()


class LineSettling:
    """Finds which boxes of one stream have crossed which of L lines.

    A crossing is a change of strict side of the line between successive boxes of a track whose step, from the one
    anchor to the other, meets the segment; so a fast object cannot jump a line. A position on the line, or nearer to it
    than the margin, leaves the track on its former side, and the steps meanwhile count as one path.
    """

    def __init__(self, count: int) -> None:
        self._noise = BoxNoise()
        self._tracks = _line_table(count)

    def place(self, segments: Floats, *, fractions: Floats, margins: Floats, widths: Floats) -> None:
        """Take the ends of the lines (L, 2, 2) in pixels, and their anchors' fractions (L, 2).

        A change of side counts when the anchor is farther from the line than the `margins` (L,) in pixels. After a
        crossing, the next one counts when it is farther than `widths` (L,) deviations of its box; 0 for none.
        """
        self._segments = segments
        self._edges = np.ascontiguousarray(segments.reshape(-1, 4).T)
        self._lengths = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)
        self._near = self._lengths * margins
        self._anchors, self._fractions = fractions, np.ascontiguousarray(fractions.T)
        self._widths = np.ascontiguousarray(widths)

    def judge(self, tracks: TrackedObjects) -> Signs:
        """Return for the boxes of the next frames and each line (N, L) the sign of the side that the box has reached
        by crossing, or 0.
        """
        count, lines = len(tracks), len(self._near)
        _require_width(self._tracks["side"], lines)
        crossed = np.empty((count, lines), np.int8)
        noise = self._noise.update(tracks) if self._widths.any() else np.zeros(count)
        if count:
            rows, fresh = self._tracks.see(tracks.track_id, tracks.pts_ns[tracks.frame])
            xyxy = np.ascontiguousarray(tracks.xyxy, np.float32)
            _cross_lines[crossed.size > _SHORT](
                count,
                lines,
                pointer(xyxy),
                pointer(rows),
                pointer(fresh),
                pointer(noise),
                pointer(self._fractions),
                pointer(self._edges),
                pointer(self._near),
                pointer(self._lengths),
                pointer(self._widths),
                pointer(self._tracks["last"]),
                pointer(self._tracks["side"]),
                pointer(self._tracks["met"]),
                pointer(self._tracks["unsettled"]),
                pointer(crossed),
            )
        return crossed

    def change(self, stays: Mapping[int, int], count: int) -> None:
        """Take over `count` lines, between two frames; those that have been placed when frames have a size.

        `stays` holds the former number of each that is as it was. The others take the side that a track is on from its
        last box: nobody crosses a line because that is moved, and a step over its new place counts.
        """
        last = self._tracks["last"]
        sides = np.zeros((len(last), count), np.int8)
        if len(last):
            cross = line_sides(anchor_points(last, fractions=self._anchors), segments=self._segments)
            sides = np.where(np.abs(cross) > self._near, np.sign(cross), 0).astype(np.int8)
        for number, before in stays.items():
            sides[:, number] = self._tracks["side"][:, before]
        self._tracks.replace("side", sides)
        for name in ("met", "unsettled"):
            self._tracks.replace(name, _moved(self._tracks[name], stays, count))

    def save(self) -> Saved:
        """Return what is known of the tracks."""
        return {"noise": self._noise.save(), "tracks": self._tracks.save()}

    def restore(self, saved: Saved, moved: Mapping[int, int], *, count: int) -> None:
        """Go on with what another process knew about its `count` lines, of which those of `moved` are here, too: by
        their numbers there. Tracks have no side of the others. Raises KeyError, TypeError or ValueError when it is
        something else.
        """
        now, tracks = self._tracks["side"].shape[1], _line_table(count)
        tracks.restore(saved["tracks"])
        self._noise.restore(saved["noise"])
        for name in _LINE_COLUMNS:
            tracks.replace(name, _moved(tracks[name], {here: there for there, here in moved.items()}, now))
        self._tracks = tracks

    def clear(self) -> None:
        """Forget the tracks."""
        self._tracks.clear()
        self._noise.clear()


def _zone_table(count: int) -> TrackTable:
    return TrackTable({name: np.zeros(count, np.bool_) for name in _ZONE_COLUMNS})


def _line_table(count: int) -> TrackTable:
    columns: dict[str, Column] = {name: np.zeros(count, dtype) for name, dtype in _LINE_COLUMNS.items()}
    return TrackTable({"last": np.zeros(4, np.float32), **columns})


def _require_width(column: Column, count: int) -> None:
    """Raise ValueError when other shapes were placed than the table has columns for: C would write behind it."""
    if column.shape[1] != count:
        raise ValueError(f"{count} shapes were placed, and tracks have state for {column.shape[1]}")


def _moved(column: Column, places: Mapping[int, int], count: int) -> Column:
    """Return a column (S, count) of state by shape: that of the former shape at these places, and none of others."""
    now = np.zeros((len(column), count), column.dtype)
    for number, before in places.items():
        now[:, number] = column[:, before]
    return now
