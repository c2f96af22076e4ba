"""Appearance in the default tracker: a vector for each track, and the gallery."""

from __future__ import annotations

import numpy as np

from sightline.graph.tracker import NO_TRACK, Vectors
from sightline.media.boxes import iou_pairs
from sightline_plugins.track.adaptive_options import AdaptiveOptions
from sightline_plugins.track.appearance import AppearanceScale, blended
from sightline_plugins.track.association import assign
from sightline_plugins.track.gallery import Gallery
from sightline_plugins.track.tracks import HIGH, Detections, Floats, Integers, TrackColumns, TrackState

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
WIDE_ROUND, RECOGNISED_ROUND = 4, 5
"""Numbers of the rounds with enlarged boxes (`matching.c`), and by appearance alone."""
FORGOTTEN = -1
"""State of a track that is dropped at the end of the frame."""
NOTHING = np.zeros((0, 0), np.float32)


class AdaptiveAppearance:
    """Appearance of one stream's objects. For each frame: `take`, `keep`, `compare`, `recognise`, `correct`, `end`."""

    def __init__(self, options: AdaptiveOptions) -> None:
        self._scale = AppearanceScale()
        self._gallery = Gallery(keep_ns=options.reidentify_within) if options.reidentify_within > 0 else None
        self._vectors, self._seen = NOTHING, NOTHING
        """(N, D) of the tracks, NaN where unknown, and (M, D) of the detections."""
        self._alike, self._ratio = NOTHING, NOTHING
        """(N, M): similarity of tracks and detections, and the log-likelihood ratio that it stands for."""

    def take(self, appearance: Vectors, *, tracks: int) -> None:
        """Take the embeddings (M, D) of the next detections; `tracks` is the number of tracks."""
        self._seen = appearance
        if appearance.shape[1] != self._vectors.shape[1]:
            self._vectors = np.full((tracks, appearance.shape[1]), np.nan, np.float32)

    def keep(self, rows: Integers) -> None:
        """Keep the vectors of the tracks that are in these rows, which ascend."""
        if len(rows) < len(self._vectors):
            self._vectors = self._vectors[rows]

    def compare(self, tracks: TrackColumns) -> Floats:
        """Return what appearance adds to the similarity of tracks and detections, (N, M)."""
        self._alike = self._vectors @ self._seen.T
        self._ratio = self._scale.log_ratio(self._alike)
        weight = np.where(self._ratio < 0, STRANGER_WEIGHT[tracks.state][:, None], APPEARANCE_WEIGHT)
        support: Floats = weight * self._ratio
        return support

    def recognise(self, tracks: TrackColumns, seen: Detections) -> None:
        """Learn from the pairs that match, and add those that look alike."""
        columns = (seen.track >= 0).nonzero()[0]
        is_steady = (seen.round[columns] < WIDE_ROUND) & (seen.overlap[columns] > STEADY_OVERLAP)
        columns = columns[is_steady & (tracks.state[seen.track[columns]] == TrackState.TRACKED)]
        self._scale.learn(self._alike[np.ix_(seen.track[columns], columns)])
        self._match_alike(tracks, seen)

    def _match_alike(self, tracks: TrackColumns, seen: Detections) -> None:
        """Match confirmed tracks and high detections that look alike, where the object can have gone there."""
        left_rows = ((tracks.state != TrackState.TENTATIVE) & (tracks.detection < 0)).nonzero()[0]
        left_columns = ((seen.band >= HIGH) & (seen.track < 0)).nonzero()[0]
        if not len(left_rows) or not len(left_columns):
            return
        reach = REACH_DEVIATIONS * np.sqrt(tracks.covariance[left_rows, 0, 0]) + np.sqrt(tracks.area[left_rows])
        away = np.abs(tracks.mean[left_rows, 0, :2][:, None] - seen.box[left_columns, :2]).max(axis=2)
        margin = self._ratio[np.ix_(left_rows, left_columns)] - RECOGNISED
        margin[away > reach[:, None]] = -1
        rows, columns = assign(margin)
        rows, columns = left_rows[rows], left_columns[columns]
        tracks.detection[rows] = columns
        seen.track[columns], seen.round[columns] = rows, RECOGNISED_ROUND
        seen.overlap[columns] = iou_pairs(tracks.expected[rows], seen.xyxy[columns])

    def correct(self, tracks: TrackColumns, seen: Detections, *, now_ns: int) -> None:
        """Learn the vectors of tracks that were seen and that began; give those that are confirmed now the ids of lost
        tracks that look like them.
        """
        before = len(self._vectors)
        rows = (tracks.detection[:before] >= 0).nonzero()[0]
        columns = tracks.detection[rows]
        self._vectors[rows] = blended(self._vectors[rows], self._seen[columns], certainty=seen.certainty[columns])
        self._vectors = np.concatenate([self._vectors, self._seen[tracks.detection[before:]]])
        if self._gallery is not None:
            self._name(tracks, self._gallery, now_ns)

    def _name(self, tracks: TrackColumns, gallery: Gallery, now_ns: int) -> None:
        is_tracked = tracks.state == TrackState.TRACKED
        rows = (is_tracked & (tracks.track_id == NO_TRACK)).nonzero()[0]
        if not len(rows):
            return
        track_id = gallery.recognize(
            self._vectors[rows],
            class_id=tracks.class_id[rows],
            number=tracks.number[rows],
            in_view=tracks.track_id[is_tracked],
            now_ns=now_ns,
        )
        tracks.state[np.isin(tracks.track_id, track_id[track_id != NO_TRACK])] = FORGOTTEN
        tracks.track_id[rows] = track_id

    def end(self, tracks: TrackColumns, seen: Detections, *, next_number: int, now_ns: int) -> None:
        """Drop the vectors of forgotten tracks, and note in the gallery how confirmed ones look."""
        self.keep(tracks.row)
        if self._gallery is not None:
            known = seen.track_id != NO_TRACK
            self._gallery.note(
                seen.track_id[known],
                vector=self._seen[known],
                class_id=seen.class_id[known],
                next_number=next_number,
                now_ns=now_ns,
            )
