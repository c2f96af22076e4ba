"""The default tracker: associate detections with tracks by the overlap of their boxes, at any frame rate.

It takes its rounds from ByteTrack (Zhang et al., "ByteTrack: Multi-Object Tracking by Associating Every Detection Box",
ECCV 2022): tracks are matched first to detections of high certainty, then the remaining ones to those of low certainty,
which are mostly objects half hidden. What makes it adapt:

- confidences are read relative to what the detector usually gives (`certainty.py`), so that one set of thresholds
  serves weak and strong detectors;
- real time instead of frame counts, in the life of tracks as in the Kalman filter;
- boxes that are enlarged in a last round by the way that the object may have gone since the last frame, which is much
  at low frame rates (after the buffered IoU of Yang et al., "Hard to Track Objects with Irregular Motions and Similar
  Appearances? Make It Easier by Buffering the Matching Space", WACV 2023);
- confirmation on evidence: an object of low certainty needs more detections;
- a running mean of each track's certainty, which decides what is low for it (track confidence as in Yang et al.,
  "Hybrid-SORT: Weak Cues Matter for Online Multi-Object Tracking", AAAI 2024);
- low certainty as measurement noise, and a preference for the same class;
- with `appearance`, a gallery of all tracks, from which an object that was away gets its id (`gallery.py`).

Defaults were chosen on public and made sequences at several frame rates (docs/benchmarks/tracking.md).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import Luma, Matches, Predictions, Tracker, Vectors
from sightline.media.boxes import iou_matrix
from sightline_plugins.track.adaptive_options import AdaptiveOptions, MatchingThresholds
from sightline_plugins.track.appearance import AppearanceScale, blended
from sightline_plugins.track.association import Indices, assign, assign_in_rounds, wide_iou
from sightline_plugins.track.camera_motion import CameraMotion
from sightline_plugins.track.certainty import CertaintyScale
from sightline_plugins.track.gallery import Gallery
from sightline_plugins.track.kalman import MotionModel, Propagator, correct, expected_overlap, initiate
from sightline_plugins.track.tracks import (
    FAIR,
    HIGH,
    Detections,
    Floats,
    Integers,
    MatchNotes,
    TrackColumns,
    TrackState,
    corners,
    no_tracks,
    sorted_into_bands,
)
from sightline_plugins.track.visual import FollowerModel, VisualFollower

NANOSECOND = 1e-9
TENTATIVE, TRACKED, LOST = (int(state) for state in TrackState)
FORGOTTEN = -1
FAIR_TRACKS = 2
"""Added to the state `TRACKED` or `LOST`, it gives the kind of a track whose detections are mostly fair."""
ROUNDS = np.array([[0, 0, 3, 3], [0, 2, 2, 0], [0, 0, 2, 0], [0, 2, 1, 0], [0, 0, 1, 0]], np.int8)
"""The round that matches a kind of track (row) with a band (column): confirmed and high; fair and fair; confirmed and
low for that track; tentative and fair or high."""

EVIDENCE_PER_CERTAINTY, LEAST_EVIDENCE = np.float32(1.35), np.float32(0.1)
APPEARANCE_WEIGHT = np.float32(0.04)
"""Similarity that a log-likelihood ratio of appearance adds."""
STRANGER_WEIGHT = np.array([0.04, 0.04, 0.15], np.float32)
"""The same for ratios below 0, by state of the track: where a lost object is, is less sure. Ratios above 0 must not
count more for lost tracks: of two tracks of one object, the lost one would win at each frame."""
RECOGNISED = np.float32(3.0)
"""Log-likelihood ratio from which appearance alone matches a track with a detection in reach."""
REACH_DEVIATIONS = np.float32(3.0)
"""The reach of a track: so many standard deviations of its position, and its size."""
STEADY_OVERLAP = 0.5
ROUNDING = 1e-3
"""Tolerance of sums of evidence."""
CERTAINTY_MEMORY = np.float32(0.2)
"""Weight of the latest detection in a track's mean certainty."""
STATE_WHEN_MISSED = np.array([FORGOTTEN, LOST, LOST])
STATE_WHEN_SEEN = np.array([TENTATIVE, TRACKED, TRACKED])


class AdaptiveTracker(Tracker):
    """The default tracker, for one stream; ids count 1, 2, 3, ...

    >>> tracker = AdaptiveTracker(AdaptiveOptions())
    >>> box = np.array([[10, 10, 50, 90]], np.float32)
    >>> for frame in range(3):
    ...     seen = tracker.update(box + frame, np.array([0.9]), np.array([0]), pts_ns=frame * 40_000_000)
    >>> seen
    array([1])
    """

    def __init__(
        self,
        options: AdaptiveOptions,
        *,
        first_id: int = 1,
        thresholds: MatchingThresholds | None = None,
        motion: MotionModel | None = None,
        follower: FollowerModel | None = None,
    ) -> None:
        self._options = options
        self._thresholds = thresholds or MatchingThresholds()
        self._motion = motion or MotionModel()
        self._propagator = Propagator(self._motion)
        self._tracks = no_tracks()
        self._camera = CameraMotion()
        self._follower = VisualFollower(follower) if options.visual else None
        self._appearance = AppearanceScale()
        reidentifies = options.appearance and options.reidentify_within > 0
        self._gallery = Gallery(keep_ns=options.reidentify_within) if reidentifies else None
        self._vectors = np.zeros((0, 0), np.float32)
        self._now_ns = 0
        self._interval_ns = 0
        self._last_pts_ns: int | None = None
        self._moved_ns: int | None = None
        self._next_id = first_id
        self._next_number = 0
        self._notes = MatchNotes(0)
        self._any_started = False
        self._floors = self._thresholds.floors()
        self._ended_ids = np.empty(0, np.int64)
        fair = min(options.new_track_threshold, options.high_confidence)
        self._scale = CertaintyScale() if options.calibrate else None
        self._limits = np.array((options.low_confidence, fair, options.high_confidence), np.float32)

    @property
    def ended_ids(self) -> Integers:
        """Confirmed tracks that the last update gave up; their ids come again only where an object is recognized."""
        return self._ended_ids

    @property
    def tracks(self) -> TrackColumns:
        """Copy of all tracks after the last update, including tentative and lost ones."""
        return self._tracks.select(np.arange(len(self._tracks)))

    def look(self, image: Luma) -> None:
        """Note how the camera moved since the frame before, and where to search for the objects."""
        if self._options.camera_motion:
            self._camera.look(image)
        if self._follower is not None:
            self._follower.look(image)

    def compare_by(self, appearance: Vectors) -> None:
        """Take the embeddings of the next detections."""
        self._vectors = appearance
        known = self._tracks.vector.shape[1]
        if appearance.shape[1] != known:
            self._tracks.vector = np.full((len(self._tracks), appearance.shape[1]), np.nan, np.float32)

    def update(
        self,
        xyxy: npt.NDArray[np.float32],
        confidence: npt.NDArray[np.float32],
        class_id: npt.NDArray[np.integer],
        *,
        pts_ns: int,
    ) -> Integers:
        """Match the detections of the frame at `pts_ns` and return their confirmed tracks.

        Time that stands still or runs backward counts as no time passed. Detections that are not finite are ignored.
        Raises ValueError on wrong shapes.
        """
        seen = sorted_into_bands(
            xyxy, confidence=confidence, class_id=class_id, limits=self._limits, scale=self._certainty
        )
        self._ended_ids = self._advance(pts_ns)
        self._notes = MatchNotes(len(seen))
        rows, columns = self._match(seen) if self._follower is None else self._match_where_seen(seen)
        track_id = np.full(len(seen), -1, np.int64)
        if len(rows):
            self._correct(rows, columns=columns, seen=seen)
        if len(self._tracks):
            self._change_states(rows)
            track_id[columns] = self._tracks.track_id[rows]
            if self._scale is not None:
                self._scale.learn(seen.confidence[track_id >= 0], elapsed_seconds=self._interval_ns * NANOSECOND)
        if len(rows) < len(seen):
            self._start_tracks(seen, track_id=track_id, matched=columns)
        remembered = self._tracks.state != FORGOTTEN
        if not remembered.all():
            self._tracks = self._tracks.select(remembered)
        if self._gallery is not None:
            known = track_id >= 0
            self._gallery.note(
                track_id[known],
                vector=self._vectors[known],
                class_id=seen.class_id[known],
                next_number=self._next_number,
                now_ns=self._now_ns,
            )
        if self._follower is not None:
            self._follower.learn(self._tracks)
        return track_id

    def matches(self) -> Matches:
        """Return which track each detection of the last update belongs to, and how well it fits."""
        return self._notes.matches()

    def predict(self, *, pts_ns: int) -> Predictions:
        """Return the confirmed tracks seen by the last update, moved to `pts_ns`; none after `max_lost`.

        With `visual`, all tracks move to where the image of this frame shows them; asked again, it answers the same.
        """
        elapsed_ns = self._elapsed_ns(pts_ns)
        if self._follower is not None and self._follower.is_waiting and elapsed_ns <= self._max_lost_ns():
            self._move(pts_ns)
            self._follower.correct(self._tracks, now_ns=self._now_ns + elapsed_ns)
            self._follower.forget_image()
        tracks = self._tracks
        rows = (tracks.state == TRACKED).nonzero()[0]
        if elapsed_ns > self._max_lost_ns():
            rows = rows[:0]
        mean = tracks.mean[:, rows]
        covariance = self._propagator.predict(
            mean, tracks.covariance[:, :, rows], area=tracks.area[rows], dt_seconds=self._ahead_ns(pts_ns) * NANOSECOND
        )
        box = mean[0]
        if self._options.camera_motion:
            box[:, :2], _ = self._camera.follow(box[:, :2], mean[1, :, :2])
        return Predictions(
            track_id=tracks.track_id[rows],
            xyxy=corners(box),
            confidence=tracks.confidence[rows],
            class_id=tracks.class_id[rows],
            certainty=expected_overlap(box, covariance),
        )

    def _certainty(self, confidence: Floats) -> Floats:
        return confidence if self._scale is None else self._scale(confidence)

    def _elapsed_ns(self, pts_ns: int) -> int:
        return 0 if self._last_pts_ns is None else max(0, pts_ns - self._last_pts_ns)

    def _max_lost_ns(self) -> int:
        """Return how long a track may go unseen: at least two frames, so that slow streams keep tracks at all."""
        return max(self._options.max_lost, 2 * self._interval_ns)

    def _advance(self, pts_ns: int) -> Integers:
        """Move the clock and the tracks to this frame; drop tracks lost for too long and return their ids."""
        elapsed_ns = self._elapsed_ns(pts_ns)
        oldest_ns = self._now_ns + elapsed_ns - self._max_lost_ns()
        self._last_pts_ns, self._interval_ns = pts_ns, elapsed_ns
        self._now_ns += elapsed_ns
        tracks = self._tracks
        if not len(tracks):
            self._move(pts_ns)
            return tracks.track_id
        ended_ids = tracks.track_id[:0]
        if tracks.seen_ns.min() < oldest_ns:
            alive = tracks.seen_ns >= oldest_ns
            ended_ids = tracks.track_id[~alive & (tracks.state != TENTATIVE)]
            self._tracks = tracks = tracks.select(alive)
        self._move(pts_ns)
        return ended_ids

    def _ahead_ns(self, pts_ns: int) -> int:
        """Return how far tracks have to be moved to be where they are expected at `pts_ns`."""
        return 0 if self._moved_ns is None else max(0, pts_ns - self._moved_ns)

    def _move(self, pts_ns: int) -> None:
        """Move the tracks to where they are expected at `pts_ns`."""
        tracks, ahead_ns = self._tracks, self._ahead_ns(pts_ns)
        self._moved_ns = pts_ns
        if ahead_ns and len(tracks):
            tracks.covariance = self._propagator.predict(
                tracks.mean, tracks.covariance, area=tracks.area, dt_seconds=ahead_ns * NANOSECOND
            )
        if self._options.camera_motion:
            tracks.mean[:, :, :2] = self._camera.follow(*tracks.mean[:, :, :2])
            self._camera.restart()

    def _match_where_seen(self, seen: Detections) -> tuple[Indices, Indices]:
        """Match detections with tracks where the image shows these. Tracks that match stay where they were expected,
        because what they match is the better measurement.
        """
        tracks = self._tracks
        mean, covariance = tracks.mean.copy(), tracks.covariance.copy()
        assert self._follower is not None
        self._follower.correct(tracks, now_ns=self._now_ns)
        rows, columns = self._match(seen)
        tracks.mean[:, rows], tracks.covariance[:, :, rows] = mean[:, rows], covariance[:, :, rows]
        return rows, columns

    def _match(self, seen: Detections) -> tuple[Indices, Indices]:
        tracks = self._tracks
        if not len(tracks) or not len(seen):
            nothing = np.zeros(0, np.intp)
            return nothing, nothing
        kind = _kinds(tracks, high_confidence=self._options.high_confidence)
        weights = self._weights(seen)
        xyxy = tracks.xyxy
        overlap = iou_matrix(xyxy, seen.xyxy)
        similarity = overlap * weights
        margin = similarity - self._floors.take(kind, axis=0).take(seen.band, axis=1)
        ratio = support = None
        if self._options.appearance:
            alike = tracks.vector @ self._vectors.T
            ratio = self._appearance.log_ratio(alike)
            support = np.where(ratio < 0, STRANGER_WEIGHT[tracks.state][:, None], APPEARANCE_WEIGHT) * ratio
            margin += np.where(overlap > 0, support, 0)
        rows, columns = assign_in_rounds(margin, rounds=ROUNDS, row_kind=kind, column_kind=seen.band)
        if ratio is not None:
            steady = (overlap[rows, columns] > STEADY_OVERLAP) & (tracks.state[rows] == TRACKED)
            self._appearance.learn(alike[np.ix_(rows[steady], columns[steady])])
        if len(rows) < min(len(tracks), len(seen)):
            rows, columns = self._match_wide(
                rows, columns=columns, seen=seen, weights=weights, xyxy=xyxy, support=support
            )
        if ratio is not None and len(rows) < min(len(tracks), len(seen)):
            rows, columns = self._recognise(rows, columns=columns, seen=seen, ratio=ratio)
        self._notes.matched(columns, tracks.number[rows], expected=xyxy[rows], seen=seen.xyxy[columns])
        return rows, columns

    def _recognise(
        self, rows: Indices, *, columns: Indices, seen: Detections, ratio: Floats
    ) -> tuple[Indices, Indices]:
        """Add pairs of confirmed tracks and high detections that look alike, where the object can have gone there."""
        tracks = self._tracks
        open_rows, open_columns = tracks.state != TENTATIVE, seen.band >= HIGH
        open_rows[rows] = False
        open_columns[columns] = False
        left_rows, left_columns = open_rows.nonzero()[0], open_columns.nonzero()[0]
        reach = REACH_DEVIATIONS * np.sqrt(tracks.covariance[0, 0, left_rows]) + np.sqrt(tracks.area[left_rows])
        away = np.abs(tracks.mean[0, left_rows, None, :2] - seen.box[left_columns, :2]).max(axis=2)
        margin = ratio[np.ix_(left_rows, left_columns)] - RECOGNISED
        margin[away > reach[:, None]] = -1
        more_rows, more_columns = assign(margin)
        return np.concatenate([rows, left_rows[more_rows]]), np.concatenate([columns, left_columns[more_columns]])

    def _weights(self, seen: Detections) -> Floats:
        """Return the factors of the overlap by class and confidence, (N, M) or (M,)."""
        same_class = self._tracks.class_id[:, None] == seen.class_id
        if same_class.all():
            return seen.weight
        weights: Floats = np.where(
            same_class, seen.weight, seen.weight * np.float32(self._options.class_mismatch_weight)
        )
        return weights

    def _match_wide(
        self,
        rows: Indices,
        *,
        columns: Indices,
        seen: Detections,
        weights: Floats,
        xyxy: Floats,
        support: Floats | None,
    ) -> tuple[Indices, Indices]:
        """Add the round with enlarged boxes to the pairs found so far."""
        tracks, limits = self._tracks, self._thresholds
        open_rows, open_columns = np.ones(len(tracks), bool), seen.band >= HIGH
        open_rows[rows] = False
        open_columns[columns] = False
        left_rows, left_columns = open_rows.nonzero()[0], open_columns.nonzero()[0]
        if not len(left_rows) or not len(left_columns):
            return rows, columns
        boxes = xyxy[left_rows]
        sizes = boxes[:, 2:] - boxes[:, :2]
        way = limits.way_margin * self._interval_ns * NANOSECOND * np.sqrt(tracks.covariance[2, 0, left_rows])
        margins = np.maximum(way[:, None], limits.least_margin * sizes)
        all_weights = np.broadcast_to(weights, (len(tracks), len(seen)))
        similarity = wide_iou(boxes, seen.xyxy[left_columns], margins=margins)
        similarity *= all_weights[np.ix_(left_rows, left_columns)]
        takes_part = (tracks.state[left_rows] != TENTATIVE) | (way > limits.least_margin * sizes.min(axis=1))
        if support is not None:
            similarity += np.where(similarity > 0, support[np.ix_(left_rows, left_columns)], 0)
        similarity[~takes_part] = 0
        more_rows, more_columns = assign(similarity - limits.min_similarity_wide)
        return np.concatenate([rows, left_rows[more_rows]]), np.concatenate([columns, left_columns[more_columns]])

    def _correct(self, rows: Indices, *, columns: Indices, seen: Detections) -> None:
        tracks = self._tracks
        certainty, area = seen.certainty[columns], seen.area[columns]
        tracks.mean[:, rows], tracks.covariance[:, :, rows] = correct(
            tracks.mean.take(rows, axis=1),
            tracks.covariance.take(rows, axis=2),
            box=seen.box.take(columns, axis=0),
            confidence=certainty,
            area=area,
            model=self._motion,
        )
        if self._options.appearance:
            tracks.vector[rows] = blended(tracks.vector[rows], self._vectors[columns], certainty=certainty)
        tracks.area[rows] = area
        tracks.confidence[rows] = seen.confidence[columns]
        tracks.class_id[rows] = seen.class_id[columns]
        tracks.seen_ns[rows] = self._now_ns
        if not tracks.state.all():
            tracks.evidence[rows] += self._evidence(certainty)
        mean = tracks.mean_certainty[rows]
        tracks.mean_certainty[rows] = mean + CERTAINTY_MEMORY * (certainty - mean)

    def _evidence(self, certainty: Floats) -> Floats:
        """Return the evidence of detections of these certainties, 0.1 to 1, which `min_hits` counts."""
        lacking = np.float32(self._options.high_threshold) - certainty
        evidence: Floats = np.minimum(np.maximum(1 - lacking * EVIDENCE_PER_CERTAINTY, LEAST_EVIDENCE), np.float32(1))
        return evidence

    def _is_enough(self, evidence: Floats) -> npt.NDArray[np.bool_]:
        enough: npt.NDArray[np.bool_] = evidence >= self._options.min_hits - ROUNDING
        return enough

    def _change_states(self, rows: Indices) -> None:
        """Move every track to its next state, the `rows` as seen, and give ids to newly confirmed tracks."""
        tracks = self._tracks
        state = STATE_WHEN_MISSED[tracks.state]
        state[rows] = STATE_WHEN_SEEN[tracks.state[rows]]
        tracks.state = state
        if state.min() >= TRACKED:
            return
        confirmed = ((state == TENTATIVE) & self._is_enough(tracks.evidence)).nonzero()[0]
        state[confirmed] = TRACKED
        tracks.track_id[confirmed] = self._new_ids(
            tracks.vector[confirmed], class_id=tracks.class_id[confirmed], number=tracks.number[confirmed]
        )

    def _start_tracks(self, seen: Detections, *, track_id: Integers, matched: Indices) -> None:
        """Start tracks for unmatched detections; write their ids to `track_id` where they are confirmed at once."""
        starting = (seen.certainty >= np.float32(self._options.new_track_threshold)) & (seen.band >= FAIR)
        starting[matched] = False
        columns = starting.nonzero()[0]
        if not len(columns):
            return
        area, certainty = seen.area[columns], seen.certainty[columns]
        evidence = self._evidence(certainty)
        if not self._any_started:
            evidence += self._options.min_hits - 1
            self._any_started = True
        confirmed = self._is_enough(evidence)
        first, self._next_number = self._next_number, self._next_number + len(columns)
        number = np.arange(first, self._next_number)
        vector = self._vectors[columns] if self._options.appearance else np.zeros((len(columns), 0), np.float32)
        track_id[columns[confirmed]] = self._new_ids(
            vector[confirmed], class_id=seen.class_id[columns[confirmed]], number=number[confirmed]
        )
        self._notes.begun(columns, number)
        mean, covariance = initiate(seen.box[columns], area=area, model=self._motion)
        started = TrackColumns(
            mean=mean,
            covariance=covariance,
            area=area,
            confidence=seen.confidence[columns],
            class_id=seen.class_id[columns],
            track_id=track_id[columns],
            state=np.where(confirmed, TRACKED, TENTATIVE),
            evidence=evidence,
            mean_certainty=certainty.copy(),
            seen_ns=np.full(len(columns), self._now_ns),
            number=number,
            vector=vector,
        )
        self._tracks = self._tracks.joined(started)

    def _new_ids(self, vector: Floats, *, class_id: Integers, number: Integers) -> Integers:
        """Return the ids of tracks that are confirmed now: those of lost tracks that look like them, else new ones."""
        ids = np.full(len(number), -1, np.int64)
        if self._gallery is not None and len(ids):
            tracks = self._tracks
            in_view = tracks.track_id[tracks.state == TRACKED]
            ids = self._gallery.recognize(
                vector, class_id=class_id, number=number, in_view=in_view, now_ns=self._now_ns
            )
            tracks.state[np.isin(tracks.track_id, ids[ids >= 0])] = FORGOTTEN
        new = ids < 0
        ids[new] = np.arange(self._next_id, self._next_id + int(new.sum()))
        self._next_id += int(new.sum())
        return ids


def _kinds(tracks: TrackColumns, *, high_confidence: float) -> Integers:
    """Return the kind of each track (N,): its state, or another kind where its mean certainty is below high."""
    is_fair = tracks.mean_certainty < high_confidence
    if not is_fair.any():
        return tracks.state
    is_fair &= tracks.state != TENTATIVE
    kind: Integers = tracks.state + FAIR_TRACKS * is_fair
    return kind
