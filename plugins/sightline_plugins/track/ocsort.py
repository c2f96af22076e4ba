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

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sightline.graph.fields import Fraction
from sightline.graph.tracker import NO_TRACK, Tracker
from sightline.media.boxes import Boxes
from sightline_plugins.track.cascade import Floats, Indices, Mask, Pairwise, Round, overlaps
from sightline_plugins.track.frame_tracker import (
    IGNORED,
    Confidences,
    FrameTracker,
    FrameTrackerOptions,
    Integers,
    Similarity,
)
from sightline_plugins.track.motion import AreaMotion, Motion
from sightline_plugins.track.tracks import Detections

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


@dataclass(slots=True, eq=False)
class Observations:
    """What OC-SORT knows of each track beside its filter; rows as in `Tracks`."""

    latest: Boxes
    """(N, 4): the box last observed."""
    recent: Boxes
    """(N, frames + 1, 4): observations of this frame and the frames before, NaN where there was none; without the
    first one of the track."""
    direction: Doubles
    """(N, 2): unit vector of the way that the centre went; 0 until the second observation."""
    streak: Integers
    """Observations in a row, without the first one of the track."""
    mean: Doubles
    """(N, 2, 4): the filter's mean at the first missed frame."""
    covariance: Doubles
    """(N, 3, 4): the filter's covariance at the first missed frame."""

    def select(self, rows: Mask) -> Self:
        """Return a copy with these rows only."""
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))

    def joined(self, younger: Self) -> Self:
        """Return a copy with the rows of `younger` after these."""
        names = [field.name for field in fields(self)]
        return type(self)(*(np.concatenate([getattr(self, name), getattr(younger, name)]) for name in names))

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
        )
        self._options = options
        self._active_frames = 0
        """Frames so far with detections or tracks."""
        self._observed = self._observations(np.empty((0, 4), np.float32))

    def update(
        self, xyxy: Boxes, confidence: Confidences, class_id: npt.NDArray[np.integer], *, pts_ns: int
    ) -> Integers:
        """Match the detections of the frame at `pts_ns`, and return their tracks; see `FrameTracker.update`."""
        is_active = len(xyxy) > 0 or len(self._tracks) > 0
        track_id = super().update(xyxy, confidence, class_id, pts_ns=pts_ns)
        self._active_frames += is_active
        return track_id

    def _rounds(self, boxes: Boxes, seen: Detections) -> Iterable[Round]:
        options = self._options
        every, usable = np.ones(len(boxes), np.bool_), seen.band != IGNORED
        preference = self._preference(boxes, seen)
        yield Round(every, usable, overlaps(boxes, seen.xyxy), least=options.iou_threshold, preference=preference)
        known = self._tracks.hits >= self.least_observations
        yield Round(known, usable, overlaps(self._observed.latest, seen.xyxy), least=options.iou_threshold)

    def _preference(self, boxes: Boxes, seen: Detections) -> Pairwise | None:
        """Return what the first round adds to the overlap of tracks, expected at `boxes`, with detections: momentum."""
        del boxes
        options, observed = self._options, self._observed

        def momentum(rows: Indices, columns: Indices) -> Floats:
            way = _directions(observed.reference()[rows][:, None], seen.xyxy[columns])
            cosine = np.clip((way * observed.direction[rows][:, None]).sum(axis=2), -1, 1)
            agreement = (0.5 - np.arccos(cosine) / np.pi) * seen.confidence[columns] * options.direction_weight
            weighted: Floats = agreement.astype(np.float32)
            return weighted

        return momentum if options.direction_weight else None

    def _advance(self) -> None:
        tracks, observed = self._tracks, self._observed
        first_missed = tracks.missed == 1
        observed.mean[first_missed] = tracks.mean[first_missed]
        observed.covariance[first_missed] = tracks.covariance[first_missed]
        observed.streak[tracks.missed > 0] = 0
        observed.recent[:, 1:] = observed.recent[:, :-1].copy()
        observed.recent[:, 0] = np.nan
        super()._advance()

    def _see(self, rows: Indices, columns: Indices, seen: Detections) -> None:
        observed, xyxy = self._observed, seen.xyxy[columns]
        moved = self._tracks.hits[rows] > 1
        observed.direction[rows[moved]] = _directions(observed.reference()[rows[moved]], xyxy[moved])
        gone = (self._tracks.missed[rows] > 1) & (self._tracks.hits[rows] >= self.least_observations)
        if gone.any():
            self._update_again(rows[gone], xyxy[gone])
        observed.streak[rows] += 1
        observed.latest[rows] = xyxy
        observed.recent[rows, 0] = xyxy
        super()._see(rows, columns, seen)

    def _update_again(self, rows: Indices, xyxy: Boxes) -> None:
        """Give the tracks `rows`, found again at `xyxy`, the state as if seen on a straight line through the gap."""
        tracks, observed = self._tracks, self._observed
        mean, covariance = observed.mean[rows], observed.covariance[rows]
        begun, gap = observed.latest[rows], tracks.missed[rows]
        for step in range(1, int(gap.max()) + 1):
            on = (step <= gap).nonzero()[0]
            between = begun[on] + (xyxy[on] - begun[on]) * (step / gap[on])[:, None]
            own_mean, own_covariance = self.boxes_moved.correct(
                mean[on], covariance[on], self.boxes_moved.measured(between.astype(np.float32))
            )
            ahead = step < gap[on]
            further_mean, further_covariance = own_mean[ahead], own_covariance[ahead]
            self.boxes_moved.predict(further_mean, further_covariance)
            own_mean[ahead], own_covariance[ahead] = further_mean, further_covariance
            mean[on], covariance[on] = own_mean, own_covariance
        tracks.mean[rows], tracks.covariance[rows] = mean, covariance

    def _is_confirmed(self, rows: Indices) -> Mask:
        """Return which tracks have enough observations in a row, or more than one on the first frames."""
        enough: Mask = self._observed.streak[rows] >= self._min_hits
        if self._active_frames <= self._min_hits:
            enough = enough | (self._tracks.hits[rows] > 1)
        return enough

    def _shown_ids(self, rows: Indices) -> Integers:
        return np.where(self._is_confirmed(rows), self._tracks.track_id[rows], NO_TRACK)

    def _keep(self, kept: Mask) -> None:
        super()._keep(kept)
        self._observed = self._observed.select(kept)

    def _append(self, seen: Detections, columns: Indices) -> None:
        self._observed = self._observed.joined(self._observations(seen.xyxy[columns]))
        super()._append(seen, columns)

    def _observations(self, xyxy: Boxes) -> Observations:
        count, frames = len(xyxy), self._options.direction_frames
        return Observations(
            latest=xyxy,
            recent=np.full((count, frames + 1, 4), np.nan, np.float32),
            direction=np.zeros((count, 2)),
            streak=np.zeros(count, np.int64),
            mean=np.zeros((count, 2, 4)),
            covariance=np.zeros((count, 3, 4)),
        )


def _directions(origin: Boxes, target: Boxes) -> Doubles:
    """Return unit vectors (..., 2) from the centres of boxes (..., 4) to those of others."""
    way = (target[..., :2] + target[..., 2:] - origin[..., :2] - origin[..., 2:]).astype(np.float64) / 2
    directions: Doubles = way / (np.linalg.norm(way, axis=-1, keepdims=True) + 1e-6)
    return directions
