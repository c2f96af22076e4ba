"""The memory of the default tracker: records of its tracks and detections, and the C functions that work on them.

`track_by_boxes` tracks a batch of frames in one call. What else is known of objects than their boxes can be brought in
between the parts of a frame, which are `take`, `begin`, `match`, `correct` and `end`.

C allocates nothing: arrays have room for the tracks there are, and for as many more as there are detections.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sightline_plugins.native import DOUBLE, FLOAT, POINTER, SIZE, function, pointer, values
from sightline_plugins.track.adaptive_options import AdaptiveOptions, MatchingThresholds
from sightline_plugins.track.frames_together import call_for_frames
from sightline_plugins.track.kalman import MODEL_VALUES, MotionModel
from sightline_plugins.track.tracks import (
    DETECTION,
    TRACK,
    Detections,
    Floats,
    Integers,
    TrackColumns,
    check_columns,
)

_LEAST_ROOM = 16
_MOST_KEPT = 1_000_000
"""Values for pairs of tracks and detections, above which their memory is released with the next frame."""
_SHORT = 200
"""Detections in a call, above which it releases the GIL."""
_NEVER = np.iinfo(np.int64).min
_INT64 = ctypes.c_int64
_track_frames = {
    is_long: function("track_frames", POINTER, SIZE, SIZE, *[POINTER] * 4, result=SIZE, long=is_long)
    for is_long in (False, True)
}
_elapsed_ns = function("elapsed_ns", POINTER, _INT64, result=_INT64)
_ahead_ns = function("ahead_ns", POINTER, _INT64, result=_INT64)
_longest_lost_ns = function("longest_lost_ns", POINTER, result=_INT64)
_begin_frame = function("begin_frame", POINTER, _INT64)
_match_detections = function("match_detections", POINTER, POINTER)
_correct_tracks = function("correct_tracks", POINTER)
_end_frame = function("end_frame", POINTER)


class _Adaptive(ctypes.Structure):
    """`Adaptive` of `track.h`."""

    _fields_ = (
        *((name, POINTER) for name in ("track", "detection", "margin")),
        *((name, POINTER) for name in ("open_track", "column_of", "ended_id", "open_detection")),
        *((name, POINTER) for name in ("row_scratch", "column_scratch")),
        *((name, _INT64) for name in ("track_room", "detection_room", "margin_room")),
        *((name, _INT64) for name in ("track_count", "detection_count", "ended_count", "next_id", "next_number")),
        *((name, _INT64) for name in ("now_ns", "interval_ns", "last_pts_ns", "moved_ns", "max_lost_ns")),
        *((name, _INT64) for name in ("has_begun", "is_calibrated")),
        ("usual", DOUBLE),
        ("way", FLOAT),
        ("limits", FLOAT * 3),
        ("floors", FLOAT * 20),
        *((name, FLOAT) for name in ("class_mismatch_weight", "least_margin", "min_similarity_wide")),
        *((name, FLOAT) for name in ("high_confidence", "high_threshold", "new_track_threshold", "min_hits")),
        ("way_margin", DOUBLE),
        ("motion", DOUBLE * MODEL_VALUES),
    )


class AdaptiveMemory:
    """The tracks of one stream, and the detections of its latest frame."""

    def __init__(
        self, options: AdaptiveOptions, thresholds: MatchingThresholds, motion: MotionModel, *, first_id: int
    ) -> None:
        fair = min(options.new_track_threshold, options.high_confidence)
        self._state = _Adaptive(
            next_id=first_id,
            last_pts_ns=_NEVER,
            moved_ns=_NEVER,
            max_lost_ns=options.max_lost,
            is_calibrated=options.calibrate,
            usual=math.nan,
            limits=(options.low_confidence, fair, options.high_confidence),
            floors=tuple(thresholds.floors().ravel().tolist()),
            class_mismatch_weight=options.class_mismatch_weight,
            least_margin=thresholds.least_margin,
            min_similarity_wide=thresholds.min_similarity_wide,
            high_confidence=options.high_confidence,
            high_threshold=options.high_threshold,
            new_track_threshold=options.new_track_threshold,
            min_hits=options.min_hits,
            way_margin=thresholds.way_margin,
            motion=motion.values(),
        )
        self.address = ctypes.addressof(self._state)
        """Of the state, for C."""
        self._make_room_for_tracks(np.empty(0, TRACK), _LEAST_ROOM)
        self._make_room_for_detections(_LEAST_ROOM)
        self._make_room_for_pairs(0)

    @property
    def tracks(self) -> TrackColumns:
        """All tracks; a view that is valid until tracks begin or are forgotten."""
        return TrackColumns(self._tracks[: self._state.track_count])

    @property
    def detections(self) -> Detections:
        """The detections of the latest frame; a view that is valid until the next one."""
        return Detections(self._detections[: self._state.detection_count])

    @property
    def track_id(self) -> Integers:
        """A copy of the ids (N,) of the tracks of the latest detections."""
        return self.detections.track_id.copy()

    @property
    def ended_ids(self) -> Integers:
        """A copy of the ids of the confirmed tracks that the latest frame ended."""
        ended: Integers = self._ended[: self._state.ended_count].copy()
        return ended

    @property
    def next_number(self) -> int:
        """The number that the next track gets."""
        return int(self._state.next_number)

    @property
    def now_ns(self) -> int:
        """The time of the latest frame on the tracker's clock, which never runs backward."""
        return int(self._state.now_ns)

    @property
    def moved_ns(self) -> int:
        """The presentation time for which tracks are where they are expected."""
        return int(self._state.moved_ns)

    @moved_ns.setter
    def moved_ns(self, pts_ns: int) -> None:
        self._state.moved_ns = pts_ns

    def elapsed_ns(self, pts_ns: int) -> int:
        """Return the time from the latest frame to `pts_ns`; 0 where it runs backward."""
        return int(_elapsed_ns(self.address, pts_ns))

    def ahead_ns(self, pts_ns: int) -> int:
        """Return how far tracks have to be moved to be where they are expected at `pts_ns`."""
        return int(_ahead_ns(self.address, pts_ns))

    def longest_lost_ns(self) -> int:
        """Return how long a track may go unseen."""
        return int(_longest_lost_ns(self.address))

    def take(
        self,
        xyxy: npt.NDArray[np.float32],
        confidence: npt.NDArray[np.float32],
        class_id: npt.NDArray[np.integer],
    ) -> None:
        """Copy the detections of the next frame. Raises ValueError on wrong shapes."""
        check_columns(xyxy, confidence, class_id)
        count = len(xyxy)
        self.make_room(count)
        columns = Detections(self._detections[:count])
        columns.xyxy[:], columns.confidence[:], columns.class_id[:] = xyxy, confidence, class_id
        self._state.detection_count = count

    def begin(self, *, pts_ns: int) -> None:
        """Sort detections into bands, end tracks that were not seen for too long, and move the others ahead."""
        _begin_frame(self.address, pts_ns)

    def match(self, *, support: Floats | None = None) -> None:
        """Match detections with tracks, in rounds. `support` (tracks, detections) is added to similarities."""
        if support is None:
            _match_detections(self.address, None)
            return
        if support.shape != (self._state.track_count, self._state.detection_count):
            raise ValueError(f"support has the shape {support.shape}, not (tracks, detections)")
        _match_detections(self.address, pointer(np.ascontiguousarray(support, np.float32)))

    def correct(self) -> None:
        """Correct tracks by their detections, change their states, and begin tracks with the other detections."""
        _correct_tracks(self.address)

    def end(self) -> None:
        """Give ids to confirmed tracks that have none, learn the usual confidence, and drop forgotten tracks."""
        _end_frame(self.address)

    def make_room(self, detections: int) -> None:
        """Make room for a frame of so many detections, and release what was needed for far more of them."""
        tracks = self._state.track_count
        if detections > self._state.detection_room:
            self._make_room_for_detections(2 * detections)
        if tracks + detections > self._state.track_room:
            self._make_room_for_tracks(self._tracks[:tracks], 2 * (tracks + detections))
        self._make_room_for_pairs(tracks * detections)

    def _make_room_for_tracks(self, tracks: npt.NDArray[np.void], room: int) -> None:
        self._tracks = np.zeros(room, TRACK)
        self._tracks[: len(tracks)] = tracks
        scratch = np.empty((4, room), np.int64)
        self._ended, state = scratch[0], self._state
        state.track, state.track_room = self._tracks.ctypes.data, room
        state.ended_id, state.open_track, state.column_of, state.row_scratch = (row.ctypes.data for row in scratch)

    def _make_room_for_detections(self, room: int) -> None:
        self._detections = np.zeros(room, DETECTION)
        self._open, self._column_scratch = np.empty(room, np.int64), np.empty(5 * room)
        state = self._state
        state.detection, state.detection_room = self._detections.ctypes.data, room
        state.open_detection, state.column_scratch = self._open.ctypes.data, self._column_scratch.ctypes.data

    def _make_room_for_pairs(self, pairs: int) -> None:
        room = max(pairs, _LEAST_ROOM**2)
        if not room <= self._state.margin_room <= _MOST_KEPT:
            self._margin = np.empty(room, np.float32)
            self._state.margin, self._state.margin_room = self._margin.ctypes.data, room


def track_by_boxes(
    memories: Sequence[AdaptiveMemory],
    xyxy: npt.NDArray[np.float32],
    confidence: npt.NDArray[np.float32],
    class_id: npt.NDArray[np.integer],
    *,
    ends: Sequence[int],
    pts_ns: Sequence[int],
) -> Integers:
    """Track the detections of frames by their boxes alone, and return the ids (N,) of their tracks.

    Frame number i is of the tracker `memories[i]`, which may be that of an earlier one, at the time `pts_ns[i]`; the
    row behind its last detection is `ends[i]`. Raises ValueError on wrong shapes.
    """
    check_columns(xyxy, confidence, class_id)
    count = len(xyxy)
    if ends and ends[-1] != count:
        raise ValueError(f"tracker: the last frame must end at row {count}, not {ends[-1]}")
    seen = values(xyxy, np.float32), values(confidence, np.float32), values(class_id, np.int64)
    track_id = np.empty(count, np.int64)
    call_for_frames(_track_frames[count > _SHORT], memories, *seen, pointer(track_id), ends=ends, pts_ns=pts_ns)
    return track_id
