"""`ocsort`: SORT that trusts observations more than its filter, for objects that turn and stop.

Cao, Pang, Weng, Khirodkar, Kitani, "Observation-Centric SORT: Rethinking SORT for Robust Multi-Object Tracking", CVPR
2023. It adds three parts to SORT:

- *momentum* (OCM): pairs that go on in the direction in which a track went are preferred;
- *recovery* (OCR): tracks left over are matched by the box last observed instead of the expected one;
- *re-update* (ORU): a track that is found again after a gap goes back to its state before the gap and is corrected
  along a straight line from the box last observed to the new one.

As in the `trackers` package (2.6.1), detections below `high_confidence` are not used at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sightline.graph.fields import Fraction
from sightline.graph.tracker import NO_TRACK, Tracker
from sightline.media.boxes import Boxes
from sightline_plugins.track.cascade import Floats, Indices, Mask, Pairwise, Round, overlaps
from sightline_plugins.track.frame_tracker import (
    IGNORED,
    FrameTracker,
    FrameTrackerOptions,
    Integers,
    Similarity,
    Tracks,
)
from sightline_plugins.track.motion import AreaMotion, Motion
from sightline_plugins.track.tracks import Column, Detections

Doubles = npt.NDArray[np.float64]


class OCSortOptions(FrameTrackerOptions):
    """Options of `OCSortTracker`, for crowds that move irregularly (dancers, players)."""

    name: ClassVar[str] = "ocsort"

    min_hits: Annotated[int, Field(ge=1)] = 3
    """Detections in a row, after the first one, from which a track has its id; after a gap it needs as many again."""
    high_confidence: Fraction = 0.6
    """Detections below are not used."""
    iou_threshold: Similarity = 0.3
    """Overlap (IoU) with the expected box, or with the box last observed, from which a detection continues a track."""
    direction_weight: Annotated[float, Field(ge=0, le=10)] = 0.2
    """Weight of the direction beside the overlap; 0: no part."""
    direction_frames: Annotated[int, Field(ge=1, le=30)] = 3
    """Frames back to the observation from which the direction is measured."""

    def build(self, *, first_id: int = 1) -> Tracker:
        """Make the tracker of one stream."""
        return OCSortTracker(self, first_id=first_id)


class ObservedTracks(Tracks):
    """Tracks with what OC-SORT knows of each beside its filter."""

    latest: Column[Boxes] = Column()
    """(N, 4): the box last observed."""
    recent: Column[Boxes] = Column()
    """(N, frames + 1, 4): observations of this frame and the frames before, NaN where there was none; without the
    first one of the track."""
    direction: Column[Doubles] = Column()
    """(N, 2): unit vector of the way that the centre went; 0 until the second observation."""
    streak: Column[Integers] = Column()
    """Observations in a row, without the first one of the track."""
    gap_mean: Column[Doubles] = Column()
    """(N, 2, 4): the filter's mean at the first missed frame."""
    gap_covariance: Column[Doubles] = Column()
    """(N, 3, 4): the filter's covariance at the first missed frame."""

    def reference(self) -> Boxes:
        """Return the oldest observation in reach, or the latest one where there is none, (N, 4)."""
        boxes = self.latest.copy()
        for back in range(1, self.recent.shape[1]):
            known = ~np.isnan(self.recent[:, back, 0])
            boxes[known] = self.recent[known, back]
        return boxes


class OCSortTracker(FrameTracker):
    """OC-SORT, for one stream."""

    keeps_tentative = True
    columns_of_tracks = ObservedTracks
    tracks: ObservedTracks

    boxes_move: ClassVar[Motion] = AreaMotion()
    """The filter of boxes."""
    boxes_moved: ClassVar[Motion] = boxes_move
    """The filter that updates again along the way through a gap."""
    least_observations: ClassVar[int] = 1
    """Observations that a track needs for recovery and re-update."""

    def __init__(self, options: OCSortOptions, *, first_id: int = 1) -> None:
        super().__init__(
            options,
            motion=self.boxes_move,
            limits=(options.high_confidence,),
            new_track_threshold=options.high_confidence,
            first_id=first_id,
            more_columns=(
                ("latest", np.float32, (4,)),
                ("recent", np.float32, (options.direction_frames + 1, 4)),
                ("direction", np.float64, (2,)),
                ("streak", np.int64),
                ("gap_mean", np.float64, (2, 4)),
                ("gap_covariance", np.float64, (3, self.boxes_move.noise_columns)),
            ),
        )
        self._options = options

    def track_frames(self, seen: Detections, of_seen: Indices, *, pts_ns: Sequence[int]) -> Integers:
        of_tracks, streams = self.tracks.stream, len(self.streams)
        is_active = (np.bincount(of_seen, minlength=streams) > 0) | (np.bincount(of_tracks, minlength=streams) > 0)
        track_id = super().track_frames(seen, of_seen, pts_ns=pts_ns)
        self.streams["active_frames"] += is_active
        return track_id

    def _rounds(self, boxes: Boxes, seen: Detections) -> Iterable[Round]:
        options = self._options
        every, usable = np.ones(len(boxes), np.bool_), seen.band != IGNORED
        preference = self._preference(boxes, seen)
        yield Round(every, usable, overlaps(boxes, seen.xyxy), least=options.iou_threshold, preference=preference)
        known = self.tracks.hits >= self.least_observations
        yield Round(known, usable, overlaps(self.tracks.latest, seen.xyxy), least=options.iou_threshold)

    def _preference(self, boxes: Boxes, seen: Detections) -> Pairwise | None:
        """Return what the first round adds to the overlap of tracks, expected at `boxes`, with detections: momentum."""
        del boxes
        options, tracks = self._options, self.tracks

        def momentum(rows: Indices, columns: Indices) -> Floats:
            way = _directions(tracks.reference()[rows], seen.xyxy[columns])
            cosine = np.clip(_sum_of_two(way * tracks.direction[rows]), -1, 1)
            agreement = (0.5 - np.arccos(cosine) / np.pi) * seen.confidence[columns] * options.direction_weight
            weighted: Floats = agreement.astype(np.float32)
            return weighted

        return momentum if options.direction_weight else None

    def _advance(self) -> None:
        tracks = self.tracks
        first_missed = tracks.missed == 1
        tracks.gap_mean[first_missed] = tracks.mean[first_missed]
        tracks.gap_covariance[first_missed] = tracks.covariance[first_missed]
        tracks.streak[tracks.missed > 0] = 0
        tracks.recent[:, 1:] = tracks.recent[:, :-1].copy()
        tracks.recent[:, 0] = np.nan
        super()._advance()

    def _see(self, rows: Indices, columns: Indices, seen: Detections) -> None:
        tracks, xyxy = self.tracks, seen.xyxy[columns]
        moved = tracks.hits[rows] > 1
        tracks.direction[rows[moved]] = _directions(tracks.reference()[rows[moved]], xyxy[moved])
        gone = (tracks.missed[rows] > 1) & (tracks.hits[rows] >= self.least_observations)
        if gone.any():
            self._update_again(rows[gone], xyxy[gone])
        tracks.streak[rows] += 1
        tracks.latest[rows] = xyxy
        tracks.recent[rows, 0] = xyxy
        super()._see(rows, columns, seen)

    def _update_again(self, rows: Indices, xyxy: Boxes) -> None:
        """Give the tracks `rows`, found again at `xyxy`, the state as if seen on a straight line through the gap."""
        tracks = self.tracks
        mean, covariance = tracks.gap_mean[rows], tracks.gap_covariance[rows]
        begun, gap = tracks.latest[rows], tracks.missed[rows]
        for step in range(1, int(gap.max()) + 1):
            on = (step <= gap).nonzero()[0]
            between = begun[on] + (xyxy[on] - begun[on]) * (step / gap[on])[:, None]
            self.boxes_moved.correct(mean, covariance, on, self.boxes_moved.measured(between.astype(np.float32)))
            self.boxes_moved.predict(mean, covariance, on[step < gap[on]])
        tracks.mean[rows], tracks.covariance[rows] = mean, covariance

    def _is_confirmed(self, rows: Indices) -> Mask:
        """Return which tracks have enough observations in a row, or more than one on the first frames."""
        enough: Mask = self.tracks.streak[rows] >= self._min_hits
        is_early = self._of_tracks("active_frames", rows) <= self._min_hits
        return enough | (is_early & (self.tracks.hits[rows] > 1))

    def _shown_ids(self, rows: Indices) -> Integers:
        return np.where(self._is_confirmed(rows), self.tracks.track_id[rows], NO_TRACK)

    def _fill(self, begun: Tracks, xyxy: Boxes) -> None:
        assert isinstance(begun, ObservedTracks)
        begun.latest[:] = xyxy
        begun.recent[:] = np.nan


def _directions(origin: Boxes, target: Boxes) -> Doubles:
    """Return unit vectors (N, 2) from the centres of boxes (N, 4) to those of others."""
    way = (target[:, :2] + target[:, 2:] - origin[:, :2] - origin[:, 2:]).astype(np.float64) / 2
    directions: Doubles = way / (np.sqrt(_sum_of_two(way * way)) + 1e-6)[:, None]
    return directions


def _sum_of_two(values: Doubles) -> Doubles:
    """Return the sums (N,) of rows (N, 2), faster than `sum`, which loops over each row."""
    sums: Doubles = values[:, 0] + values[:, 1]
    return sums
