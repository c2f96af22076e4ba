"""ByteTrack: follows objects by where their boxes are.

Zhang et al., "ByteTrack: Multi-Object Tracking by Associating Every Detection Box", ECCV 2022: tracks are matched
first to the sure detections, then those left to the doubtful ones, which are mostly objects half hidden. Added here:
real time instead of frame counts, edges instead of centre and aspect ratio in the filter, doubt of a box as measurement
noise, births on evidence (a doubtful object needs more detections to be believed), a memory of how surely each track
is usually seen, which tells what is doubtful for it (track confidence as in Yang et al., "Hybrid-SORT: Weak Cues Matter
for Online Multi-Object Tracking", AAAI 2024), a last round with grown boxes (Yang et al., "Hard to Track Objects with
Irregular Motions and Similar Appearances? Make It Easier by Buffering the Matching Space", WACV 2023), and a preference
for the same class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import iou_matrix
from sightline_plugins.track.association import Indices, assign, assign_in_rounds
from sightline_plugins.track.detections import FAIR, HIGH, Detections, sorted_into_bands
from sightline_plugins.track.kalman import Propagator, correct, initiate
from sightline_plugins.track.options import TrackerOptions
from sightline_plugins.track.pairing import ROUNDS, floors, kinds
from sightline_plugins.track.tracks import Floats, Integers, TrackColumns, TrackState, no_tracks

NANOSECOND = 1e-9
TENTATIVE, TRACKED, LOST = (int(state) for state in TrackState)
FORGOTTEN = -1

EVIDENCE_PER_CONFIDENCE, LEAST_EVIDENCE = np.float32(2.0), np.float32(0.1)
ROUNDING = 1e-3
"""Sums of evidence may miss a whole number by this."""
CONFIDENCE_MEMORY = np.float32(0.2)
"""Share of the latest detection in a track's usual confidence."""
STATE_WHEN_MISSED = np.array([FORGOTTEN, LOST, LOST])
STATE_WHEN_SEEN = np.array([TENTATIVE, TRACKED, TRACKED])


@dataclass(frozen=True, slots=True, eq=False)
class TrackUpdate:
    """What became of one frame's detections."""

    track_id: Integers
    """(N,) id of each detection's confirmed track, -1 for none; in the order of the detections."""
    ended_ids: Integers
    """Confirmed tracks given up since the last update; their ids never come again."""


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """Where confirmed tracks should be at a time without detections; columns over N tracks, oldest first."""

    track_id: Integers
    xyxy: Floats
    confidence: Floats
    class_id: Integers


class ByteTracker:
    """Tracker of one stream: feed it each frame's detections in order. Deterministic; ids count 1, 2, 3, ...

    Not thread-safe. Arrays passed in are not kept or changed; arrays returned belong to the caller.

    >>> tracker = ByteTracker(TrackerOptions())
    >>> box = np.array([[10, 10, 50, 90]], np.float32)
    >>> for frame in range(3):
    ...     seen = tracker.update(box + frame, np.array([0.9]), np.array([0]), pts_ns=frame * 40_000_000)
    >>> seen.track_id
    array([1])
    """

    def __init__(self, options: TrackerOptions, *, first_id: int = 1) -> None:
        self._options = options
        self._propagator = Propagator(options.motion)
        self._tracks = no_tracks()
        self._now_ns = 0
        self._interval_ns = 0
        self._last_pts_ns: int | None = None
        self._next_id = first_id
        self._any_started = False
        self._floors = floors(options)
        fair = min(options.new_track_threshold, options.high_confidence)
        limits = (options.low_confidence, fair, options.high_confidence)
        self._limits = np.array(limits, np.float32)

    @property
    def next_id(self) -> int:
        """The id of the next track."""
        return self._next_id

    @property
    def tracks(self) -> TrackColumns:
        """A copy of all tracks as they were after the last update, the tentative and lost ones too."""
        return self._tracks.select(np.arange(len(self._tracks)))

    def update(
        self,
        xyxy: npt.NDArray[np.float32],
        confidence: npt.NDArray[np.float32],
        class_id: npt.NDArray[np.integer],
        *,
        pts_ns: int,
    ) -> TrackUpdate:
        """Matches the detections of the frame at `pts_ns`: boxes (N, 4) in pixels, confidences (N,), classes (N,).

        Time that stands still or runs backward (a file that starts again) counts as no time passed. Detections that are
        not finite are ignored. Raises ValueError on wrong shapes.
        """
        seen = sorted_into_bands(xyxy, confidence=confidence, class_id=class_id, limits=self._limits)
        ended_ids = self._advance(pts_ns)
        rows, columns = self._match(seen)
        track_id = np.full(len(seen), -1, np.int64)
        if len(rows):
            self._correct(rows, columns=columns, seen=seen)
        if len(self._tracks):
            self._change_states(rows)
            track_id[columns] = self._tracks.track_id[rows]
            self._drop_forgotten()
        if len(rows) < len(seen):
            self._start_tracks(seen, track_id=track_id, matched=columns)
        return TrackUpdate(track_id=track_id, ended_ids=ended_ids)

    def predict(self, *, pts_ns: int) -> Predictions:
        """Confirmed tracks seen by the last update, moved to `pts_ns`; none after `max_lost_ns`. Changes nothing."""
        elapsed_ns = self._elapsed_ns(pts_ns)
        tracks = self._tracks
        rows = (tracks.state == TRACKED).nonzero()[0]
        if elapsed_ns > self._patience_ns():
            rows = rows[:0]
        mean = tracks.mean[:, rows]
        return Predictions(
            track_id=tracks.track_id[rows],
            xyxy=mean[0] + mean[1] * np.float32(elapsed_ns * NANOSECOND),
            confidence=tracks.confidence[rows],
            class_id=tracks.class_id[rows],
        )

    def _elapsed_ns(self, pts_ns: int) -> int:
        return 0 if self._last_pts_ns is None else max(0, pts_ns - self._last_pts_ns)

    def _patience_ns(self) -> int:
        """How long a track may go unseen; two frames at the least, lest slow streams never keep one."""
        return max(self._options.max_lost_ns, 2 * self._interval_ns)

    def _advance(self, pts_ns: int) -> Integers:
        """Moves the clock and the tracks to this frame; gives up what was lost too long and returns those ids."""
        elapsed_ns = self._elapsed_ns(pts_ns)
        oldest_ns = self._now_ns + elapsed_ns - self._patience_ns()
        self._last_pts_ns, self._interval_ns = pts_ns, elapsed_ns
        self._now_ns += elapsed_ns
        tracks = self._tracks
        if not len(tracks):
            return tracks.track_id
        ended_ids = tracks.track_id[:0]
        if tracks.seen_ns.min() < oldest_ns:
            alive = tracks.seen_ns >= oldest_ns
            ended_ids = tracks.track_id[~alive & (tracks.state != TENTATIVE)]
            self._tracks = tracks = tracks.select(alive)
        if elapsed_ns:
            tracks.covariance = self._propagator.predict(
                tracks.mean, tracks.covariance, area=tracks.area, dt_seconds=elapsed_ns * NANOSECOND
            )
        return ended_ids

    def _match(self, seen: Detections) -> tuple[Indices, Indices]:
        tracks = self._tracks
        if not len(tracks) or not len(seen):
            nothing = np.zeros(0, np.intp)
            return nothing, nothing
        kind = kinds(tracks, high_confidence=self._options.high_confidence)
        weights = self._weights(seen)
        similarity = iou_matrix(tracks.mean[0], seen.xyxy) * weights
        margin = similarity - self._floors.take(kind, axis=0).take(seen.band, axis=1)
        rows, columns = assign_in_rounds(margin, rounds=ROUNDS, row_kind=kind, column_kind=seen.band)
        if len(rows) < min(len(tracks), len(seen)) and self._options.wide_margin:
            return self._match_wide(rows, columns=columns, seen=seen, weights=weights)
        return rows, columns

    def _weights(self, seen: Detections) -> Floats:
        """(N, M) or (M,): what overlap is multiplied with, by class and confidence."""
        same_class = self._tracks.class_id[:, None] == seen.class_id
        if same_class.all():
            return seen.weight
        weights: Floats = np.where(
            same_class, seen.weight, seen.weight * np.float32(self._options.class_mismatch_weight)
        )
        return weights

    def _match_wide(
        self, rows: Indices, *, columns: Indices, seen: Detections, weights: Floats
    ) -> tuple[Indices, Indices]:
        """Adds the round with grown boxes to the pairs found so far."""
        open_rows, open_columns = self._tracks.state != TENTATIVE, seen.band >= HIGH
        open_rows[rows] = False
        open_columns[columns] = False
        left_rows, left_columns = open_rows.nonzero()[0], open_columns.nonzero()[0]
        if not len(left_rows) or not len(left_columns):
            return rows, columns
        grown_tracks = _grown(self._tracks.mean[0, left_rows], self._options.wide_margin)
        grown_seen = _grown(seen.xyxy[left_columns], self._options.wide_margin)
        similarity = iou_matrix(grown_tracks, grown_seen)
        similarity = (
            similarity * np.broadcast_to(weights, (len(self._tracks), len(seen)))[np.ix_(left_rows, left_columns)]
        )
        more_rows, more_columns = assign(similarity - self._options.min_similarity_wide)
        return (
            np.concatenate([rows, left_rows[more_rows]]),
            np.concatenate([columns, left_columns[more_columns]]),
        )

    def _correct(self, rows: Indices, *, columns: Indices, seen: Detections) -> None:
        tracks = self._tracks
        xyxy, confidence, area = seen.xyxy.take(columns, axis=0), seen.confidence[columns], seen.area[columns]
        tracks.mean[:, rows], tracks.covariance[:, rows] = correct(
            tracks.mean.take(rows, axis=1), tracks.covariance.take(rows, axis=1),
            xyxy=xyxy, confidence=confidence, area=area, model=self._options.motion,
        )  # fmt: skip
        tracks.area[rows] = area
        tracks.confidence[rows] = confidence
        tracks.class_id[rows] = seen.class_id[columns]
        tracks.seen_ns[rows] = self._now_ns
        if not tracks.state.all():
            tracks.evidence[rows] += self._evidence(confidence)
        usual = tracks.usual_confidence[rows]
        tracks.usual_confidence[rows] = usual + CONFIDENCE_MEMORY * (confidence - usual)

    def _evidence(self, confidence: Floats) -> Floats:
        """What one detection of each of these confidences counts for an object being real, 0.1 to 1."""
        lacking = np.float32(self._options.high_threshold) - confidence
        evidence: Floats = np.minimum(np.maximum(1 - lacking * EVIDENCE_PER_CONFIDENCE, LEAST_EVIDENCE), np.float32(1))
        return evidence

    def _is_enough(self, evidence: Floats) -> npt.NDArray[np.bool_]:
        enough: npt.NDArray[np.bool_] = evidence >= self._options.min_hits - ROUNDING
        return enough

    def _change_states(self, rows: Indices) -> None:
        """Moves every track to its next state, the `rows` as seen, and gives ids to the newly confirmed."""
        tracks = self._tracks
        state = STATE_WHEN_MISSED[tracks.state]
        state[rows] = STATE_WHEN_SEEN[tracks.state[rows]]
        tracks.state = state
        if state.min() >= TRACKED:
            return
        confirmed = ((state == TENTATIVE) & self._is_enough(tracks.evidence)).nonzero()[0]
        state[confirmed] = TRACKED
        tracks.track_id[confirmed] = self._new_ids(len(confirmed))

    def _drop_forgotten(self) -> None:
        remembered = self._tracks.state != FORGOTTEN
        if not remembered.all():
            self._tracks = self._tracks.select(remembered)

    def _start_tracks(self, seen: Detections, *, track_id: Integers, matched: Indices) -> None:
        """Starts tracks for what matched nothing; writes their ids to `track_id` where they are confirmed at once."""
        starting = seen.confidence >= np.float32(self._options.new_track_threshold)
        starting &= seen.band >= FAIR
        starting[matched] = False
        columns = starting.nonzero()[0]
        if not len(columns):
            return
        area, confidence = seen.area[columns], seen.confidence[columns]
        evidence = self._evidence(confidence)
        if not self._any_started:
            evidence += self._options.min_hits - 1
            self._any_started = True
        confirmed = self._is_enough(evidence)
        track_id[columns[confirmed]] = self._new_ids(int(confirmed.sum()))
        mean, covariance = initiate(seen.xyxy[columns], area=area, model=self._options.motion)
        started = TrackColumns(
            mean=mean,
            covariance=covariance,
            area=area,
            confidence=confidence,
            class_id=seen.class_id[columns],
            track_id=track_id[columns],
            state=np.where(confirmed, TRACKED, TENTATIVE),
            evidence=evidence,
            usual_confidence=confidence.copy(),
            seen_ns=np.full(len(columns), self._now_ns),
        )
        self._tracks = self._tracks.joined(started)

    def _new_ids(self, count: int) -> Integers:
        first = self._next_id
        self._next_id += count
        return np.arange(first, self._next_id)


def _grown(xyxy: Floats, share: float) -> Floats:
    margin = (xyxy[:, 2:] - xyxy[:, :2]) * np.float32(share)
    return np.concatenate([xyxy[:, :2] - margin, xyxy[:, 2:] + margin], axis=1)
