"""The memory of the default tracker: records of its tracks and detections, and the C functions that work on them.

A frame is `take` and `track`. What else is known of objects than their boxes can be brought in between the parts of
`track`, which are `begin`, `match`, `correct` and `end`.

C allocates nothing: arrays have room for the tracks there are, and for as many more as there are detections.
"""

from __future__ import annotations

import ctypes
import math

import numpy as np
import numpy.typing as npt

from sightline_plugins.native import DOUBLE, FLOAT, POINTER, function, pointer
from sightline_plugins.track.adaptive_options import AdaptiveOptions, MatchingThresholds
from sightline_plugins.track.kalman import MODEL_VALUES, MotionModel
from sightline_plugins.track.tracks import DETECTION, TRACK, Detections, Floats, Integers, TrackColumns, check_columns

_LEAST_ROOM = 16
_MOST_KEPT = 1_000_000
"""Values for pairs of tracks and detections, above which their memory is released with the next frame."""
_MEMORY_SECONDS = 2.0
"""How fast the usual confidence follows the latest detections."""
_INT64 = ctypes.c_int64
_track_frame = function("track_frame", POINTER, _INT64, _INT64, DOUBLE, FLOAT, DOUBLE)
_begin_frame = function("begin_frame", POINTER, _INT64, _INT64, DOUBLE)
_match_detections = function("match_detections", POINTER, FLOAT, POINTER)
_correct_tracks = function("correct_tracks", POINTER)
_end_frame = function("end_frame", POINTER, DOUBLE)


class _Adaptive(ctypes.Structure):
    """`Adaptive` of `track.h`."""

    _fields_ = (
        *((name, POINTER) for name in ("track", "detection", "margin")),
        *((name, POINTER) for name in ("open_track", "column_of", "ended_id", "open_detection")),
        *((name, POINTER) for name in ("row_scratch", "column_scratch")),
        *((name, _INT64) for name in ("track_count", "detection_count", "ended_count")),
        *((name, _INT64) for name in ("next_id", "next_number", "now_ns", "has_begun", "is_calibrated")),
        ("usual", DOUBLE),
        ("way", FLOAT),
        ("limits", FLOAT * 3),
        ("floors", FLOAT * 20),
        *((name, FLOAT) for name in ("class_mismatch_weight", "least_margin", "min_similarity_wide")),
        *((name, FLOAT) for name in ("high_confidence", "high_threshold", "new_track_threshold", "min_hits")),
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
            motion=motion.values(),
        )
        self._address = ctypes.byref(self._state)
        self._way_margin = thresholds.way_margin
        self._margin = np.empty(0, np.float32)
        self._make_room_for_tracks(np.empty(0, TRACK), _LEAST_ROOM)
        self._make_room_for_detections(_LEAST_ROOM)

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
        found: Integers = self._track_id[: self._state.detection_count].copy()
        return found

    @property
    def ended_ids(self) -> Integers:
        """A copy of the ids of the confirmed tracks that the latest frame ended."""
        ended: Integers = self._ended[: self._state.ended_count].copy()
        return ended

    @property
    def next_number(self) -> int:
        """The number that the next track gets."""
        return int(self._state.next_number)

    def take(
        self,
        xyxy: npt.NDArray[np.float32],
        confidence: npt.NDArray[np.float32],
        class_id: npt.NDArray[np.integer],
    ) -> None:
        """Copy the detections of the next frame. Raises ValueError on wrong shapes."""
        check_columns(xyxy, confidence, class_id)
        count, tracks = len(xyxy), self._state.track_count
        if count > len(self._detections):
            self._make_room_for_detections(2 * count)
        if tracks + count > len(self._tracks):
            self._make_room_for_tracks(self._tracks[:tracks], 2 * (tracks + count))
        if not tracks * count <= len(self._margin) <= _MOST_KEPT:
            self._margin = np.empty(max(tracks * count, _LEAST_ROOM**2), np.float32)
            self._state.margin = self._margin.ctypes.data
        self._xyxy[:count], self._confidence[:count], self._class_id[:count] = xyxy, confidence, class_id
        self._state.detection_count = count

    def track(self, *, now_ns: int, oldest_ns: int, ahead_seconds: float, interval_seconds: float) -> None:
        """Track the detections by their boxes alone: `begin`, `match`, `correct` and `end`."""
        way, weight = self._way_margin * interval_seconds, _weight_of_latest(interval_seconds)
        _track_frame(self._address, now_ns, oldest_ns, ahead_seconds, way, weight)

    def begin(self, *, now_ns: int, oldest_ns: int, ahead_seconds: float) -> None:
        """Sort detections into bands, end tracks that were last seen before `oldest_ns`, and move the others ahead."""
        _begin_frame(self._address, now_ns, oldest_ns, ahead_seconds)

    def match(self, *, interval_seconds: float, support: Floats | None = None) -> None:
        """Match detections with tracks, in rounds. `support` (tracks, detections) is added to similarities."""
        way = self._way_margin * interval_seconds
        if support is None:
            _match_detections(self._address, way, None)
            return
        if support.shape != (self._state.track_count, self._state.detection_count):
            raise ValueError(f"support has the shape {support.shape}, not (tracks, detections)")
        _match_detections(self._address, way, pointer(np.ascontiguousarray(support, np.float32)))

    def correct(self) -> None:
        """Correct tracks by their detections, change their states, and begin tracks with the other detections."""
        _correct_tracks(self._address)

    def end(self, *, interval_seconds: float) -> None:
        """Give ids to confirmed tracks that have none, learn the usual confidence, and drop forgotten tracks."""
        _end_frame(self._address, _weight_of_latest(interval_seconds))

    def _make_room_for_tracks(self, tracks: npt.NDArray[np.void], room: int) -> None:
        self._tracks = np.zeros(room, TRACK)
        self._tracks[: len(tracks)] = tracks
        scratch = np.empty((4, room), np.int64)
        self._ended, state = scratch[0], self._state
        state.track = self._tracks.ctypes.data
        state.ended_id, state.open_track, state.column_of, state.row_scratch = (row.ctypes.data for row in scratch)

    def _make_room_for_detections(self, room: int) -> None:
        self._detections = np.zeros(room, DETECTION)
        columns = Detections(self._detections)
        self._xyxy, self._confidence, self._class_id = columns.xyxy, columns.confidence, columns.class_id
        self._track_id = columns.track_id
        self._open, self._column_scratch = np.empty(room, np.int64), np.empty(5 * room)
        state = self._state
        state.detection, state.open_detection = self._detections.ctypes.data, self._open.ctypes.data
        state.column_scratch = self._column_scratch.ctypes.data


def _weight_of_latest(interval_seconds: float) -> float:
    """Return the weight of the latest detections in the usual confidence."""
    return 1 - math.exp(-interval_seconds / _MEMORY_SECONDS)
