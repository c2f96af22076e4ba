"""`deepocsort`: OC-SORT that compares appearance, for crowds whose people look different.

Maggiolino, Ahmad, Cao, Kitani, "Deep OC-SORT: Multi-Pedestrian Tracking by Adaptive Re-Identification", ICIP 2023. It
adds to OC-SORT:

- *dynamic appearance*: a detection changes the vector of its track the more, the surer it is;
- *adaptive weighting*: similarity counts more for objects that resemble one other object much more than the rest;
- the filter of BoT-SORT, and the motion of the camera.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sightline.graph.fields import Fraction
from sightline.graph.tracker import Luma, Tracker, Vectors
from sightline.media.boxes import Boxes, iou_matrix
from sightline_plugins.flow.camera_motion import CameraMotion
from sightline_plugins.track.appearance import unit
from sightline_plugins.track.cascade import Floats, Indices, Mask, Pairwise
from sightline_plugins.track.frame_tracker import Confidences, Integers
from sightline_plugins.track.motion import Motion, SizeMotion
from sightline_plugins.track.ocsort import OCSortOptions, OCSortTracker
from sightline_plugins.track.tracks import Detections

Doubles = npt.NDArray[np.float64]

CERTAIN = np.float32(100.0)
"""Preference of pairs that nothing competes with."""


class DeepOCSortOptions(OCSortOptions):
    """Options of `DeepOCSortTracker`, for crowds whose people look different; `embed` comes before `track`."""

    name: ClassVar[str] = "deepocsort"

    appearance_weight: Annotated[float, Field(ge=0, le=10)] = 0.75
    """Weight of the similarity of embeddings beside the overlap."""
    appearance_memory: Fraction = 0.95
    """What of a track's vector a detection of full confidence leaves; less sure ones leave more."""
    camera_motion: bool = False
    """Whether expected boxes follow the camera's motion, which is measured in the images; 10 ms a frame and more."""

    @property
    def needs_images(self) -> bool:
        """The option `camera_motion`."""
        return self.camera_motion

    @property
    def needs_appearance(self) -> bool:
        """Always."""
        return True

    def build(self, *, first_id: int = 1) -> Tracker:
        """Make the tracker of one stream."""
        return DeepOCSortTracker(self, first_id=first_id)


class PixelMotion(SizeMotion):
    """The filter of the authors' code for the way through a gap, where all noise is one pixel."""

    def process_noise(self, position: Doubles) -> Doubles:
        """Return the same noise for all (1, 2, 4)."""
        del position
        return np.ones((1, 2, 4))

    def measurement_noise(self, position: Doubles) -> Doubles:
        """Return the same noise for all (1, 4)."""
        del position
        return np.ones((1, 4))


class DeepOCSortTracker(OCSortTracker):
    """Deep OC-SORT, for one stream."""

    boxes_move: ClassVar[Motion] = SizeMotion()
    boxes_moved: ClassVar[Motion] = PixelMotion()
    least_observations: ClassVar[int] = 2
    """The authors' code does not count the detection that a track begins with."""

    def __init__(self, options: DeepOCSortOptions, *, first_id: int = 1) -> None:
        super().__init__(options, first_id=first_id)
        self._deep = options
        self._camera = CameraMotion()
        self._seen_vectors = np.zeros((0, 0), np.float32)
        self._vectors = np.zeros((0, 0), np.float32)
        """Of the tracks, (N, D); NaN where unknown."""

    def look(self, image: Luma) -> None:
        """Note how the camera moved since the frame before."""
        self._camera.look(image)

    def compare_by(self, appearance: Vectors) -> None:
        """Take the embeddings of the next detections."""
        self._seen_vectors = appearance
        if appearance.shape[1] != self._vectors.shape[1]:
            self._vectors = np.full((len(self.tracks), appearance.shape[1]), np.nan, np.float32)

    def update(
        self, xyxy: Boxes, confidence: Confidences, class_id: npt.NDArray[np.integer], *, pts_ns: int
    ) -> Integers:
        """Match the detections of the frame at `pts_ns`, and return their tracks; see `FrameTracker.update`."""
        if len(self._seen_vectors) != len(xyxy):
            self.compare_by(np.full((len(xyxy), self._vectors.shape[1]), np.nan, np.float32))
        track_id = super().update(xyxy, confidence, class_id, pts_ns=pts_ns)
        self._camera.restart()
        return track_id

    def _advance(self) -> None:
        tracks = self.tracks
        first_missed = tracks.missed == 1
        before = tracks.mean[first_missed].copy()
        tracks.mean[tracks.missed > 0, 1, 2:] = 0
        super()._advance()
        tracks.gap_mean[first_missed] = before
        if self._deep.camera_motion:
            mean, recent = tracks.mean, tracks.recent
            mean[:, 0, :2], mean[:, 1, :2] = self._camera.follow(mean[:, 0, :2], mean[:, 1, :2])
            tracks.latest[:] = self._shifted(tracks.latest)
            recent[:] = self._shifted(recent.reshape(-1, 4)).reshape(recent.shape)

    def _shifted(self, boxes: Boxes) -> Boxes:
        """Return boxes (N, 4) with their centres where the camera's motion puts them."""
        centre = (boxes[:, :2] + boxes[:, 2:]) / 2
        moved, _ = self._camera.follow(centre, np.zeros_like(centre))
        shifted: Boxes = (boxes + np.tile(moved - centre, 2)).astype(np.float32)
        return shifted

    def _preference(self, boxes: Boxes, seen: Detections) -> Pairwise:
        momentum, options = super()._preference(boxes, seen), self._deep

        def preference(rows: Indices, columns: Indices) -> Floats:
            count = int((rows == rows[0]).sum())  # all are of one stream: each track with all detections
            own, others = rows[::count], columns[:count]
            enough = iou_matrix(boxes[own], seen.xyxy[others]) > options.iou_threshold
            if enough.any() and enough.sum(axis=0).max() == enough.sum(axis=1).max() == 1:
                certain: Floats = (enough * CERTAIN).ravel()
                return certain
            alike = np.nan_to_num(self._vectors[own] @ self._seen_vectors[others].T)
            weighted: Floats = (alike * (np.float32(options.appearance_weight) + _distinction(alike))).ravel()
            return weighted if momentum is None else weighted + momentum(rows, columns)

        return preference

    def _see(self, rows: Indices, columns: Indices, seen: Detections) -> None:
        least = np.float32(self._deep.high_confidence)
        trust = (seen.confidence[columns] - least) / np.maximum(1 - least, np.float32(1e-6))
        rate = ((1 - np.float32(self._deep.appearance_memory)) * trust)[:, None]
        old, new = self._vectors[rows], self._seen_vectors[columns]
        mixed = unit((1 - rate) * old + rate * new).astype(np.float32)
        self._vectors[rows] = np.where(np.isnan(new), old, np.where(np.isnan(old), new, mixed))
        super()._see(rows, columns, seen)

    def _is_confirmed(self, rows: Indices) -> Mask:
        """Return which tracks have enough observations in a row; on the first frames all."""
        enough: Mask = self.tracks.streak[rows] >= self._min_hits
        return enough | (self._of_tracks("frames", rows) <= self._min_hits)

    def _keep(self, kept: Mask) -> None:
        super()._keep(kept)
        self._vectors = self._vectors[kept]

    def _append(self, seen: Detections, of_seen: Indices, columns: Indices) -> None:
        self._vectors = np.concatenate([self._vectors, self._seen_vectors[columns]])
        super()._append(seen, of_seen, columns)


def _distinction(alike: Floats, *, most: float = 0.5) -> Floats:
    """Return by how much the best of each row and of each column is ahead of the second best, half of each (N, M)."""
    found = np.zeros_like(alike)
    for axis in (1, 0):
        if alike.shape[axis] >= 2:
            ahead = np.diff(np.partition(alike, -2, axis=axis).take([-2, -1], axis=axis), axis=axis)
            found += np.minimum(ahead, np.float32(most)) / 2
    return found
