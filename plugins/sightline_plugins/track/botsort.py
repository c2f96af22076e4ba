"""`botsort`: ByteTrack's rounds with overlap weighted by confidence, and a filter of centre, width and height.

Aharon, Orfaig, Bobrovsky, "BoT-SORT: Robust Associations Multi-Pedestrian Tracking", 2022, without its appearance
vectors. With `camera_motion` the expected boxes follow the motion of the camera, found by sparse optical flow. Tracks
that are not confirmed are matched last, and only with high-confidence detections. Defaults as in the
`trackers` package (2.6.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import NO_TRACK, Luma, Tracker
from sightline.media.boxes import Boxes
from sightline_plugins.flow.camera_motion import CameraMotion
from sightline_plugins.track.cascade import Floats, Indices, Mask, Pairwise, Round, overlaps
from sightline_plugins.track.frame_tracker import (
    HIGH,
    LOW,
    BandedOptions,
    Confidences,
    FrameTracker,
    Integers,
    Similarity,
)
from sightline_plugins.track.motion import Floats as Doubles
from sightline_plugins.track.motion import SizeMotion
from sightline_plugins.track.tracks import Detections


class BotSortOptions(BandedOptions):
    """Options of `BotSortTracker`, for crowds, with `camera_motion` also for cameras that move.

    On the first frame a track is confirmed by its first detection.
    """

    name: ClassVar[str] = "botsort"

    iou_threshold: Similarity = 0.2
    """Overlap times confidence from which a high-confidence detection continues a confirmed track."""
    iou_threshold_low: Similarity = 0.5
    """Overlap from which a low-confidence detection continues a track seen on the frame before."""
    iou_threshold_tentative: Similarity = 0.3
    """Overlap times confidence from which a detection continues a track that is not confirmed."""

    camera_motion: bool = False
    """Whether expected boxes follow the camera's motion, which is measured in the images; 10 ms a frame and more."""

    @property
    def needs_images(self) -> bool:
        """The option `camera_motion`."""
        return self.camera_motion

    def build(self, *, first_id: int = 1) -> Tracker:
        """Make the tracker of one stream."""
        return BotSortTracker(self, first_id=first_id)


class BotSortTracker(FrameTracker):
    """BoT-SORT without appearance, for one stream."""

    def __init__(self, options: BotSortOptions, *, first_id: int = 1) -> None:
        super().__init__(
            options,
            motion=SizeMotion(),
            limits=(options.low_confidence, options.high_confidence),
            new_track_threshold=max(options.new_track_threshold, options.high_confidence),
            first_id=first_id,
        )
        self._options = options
        self._camera = CameraMotion()

    def look(self, image: Luma) -> None:
        """Note how the camera moved since the frame before."""
        self._camera.look(image)

    def update(
        self, xyxy: Boxes, confidence: Confidences, class_id: npt.NDArray[np.integer], *, pts_ns: int
    ) -> Integers:
        """Match the detections of the frame at `pts_ns`, and return their tracks; see `FrameTracker.update`."""
        track_id = super().update(xyxy, confidence, class_id, pts_ns=pts_ns)
        self._camera.restart()
        return track_id

    def _advance(self) -> None:
        super()._advance()
        if self._options.camera_motion:
            mean = self.tracks.mean
            mean[:, 0, :2], mean[:, 1, :2] = self._camera.follow(mean[:, 0, :2], mean[:, 1, :2])

    def _expected(self, mean: Doubles, frames: float) -> Boxes:
        position = mean[:, 0] + mean[:, 1] * frames
        if self._options.camera_motion:
            position[:, :2], _ = self._camera.follow(position[:, :2], mean[:, 1, :2])
        return self._motion.boxes(position)

    def _rounds(self, boxes: Boxes, seen: Detections) -> Iterable[Round]:
        overlap = self._overlap(boxes, seen.xyxy, is_low=False)
        plain = self._overlap(boxes, seen.xyxy, is_low=True)

        def weighted(rows: Indices, columns: Indices) -> Floats:
            return overlap(rows, columns) * seen.confidence[columns]

        options, tracks = self._options, self.tracks
        confirmed, high = tracks.track_id != NO_TRACK, seen.band == HIGH
        seen_before = confirmed & (tracks.missed == 1)
        yield Round(confirmed, high, weighted, least=options.iou_threshold)
        yield Round(seen_before, seen.band == LOW, plain, least=options.iou_threshold_low)
        yield Round(~confirmed, high, weighted, least=options.iou_threshold_tentative)

    def _overlap(self, tracks: Boxes, detections: Boxes, *, is_low: bool) -> Pairwise:
        """Return the overlap of boxes (N, 4) and (M, 4), in the round of low confidence or in another one."""
        del is_low
        return overlaps(tracks, detections)

    def _is_confirmed(self, rows: Indices) -> Mask:
        enough: Mask = super()._is_confirmed(rows) | (self._of_tracks("frames", rows) == 1)
        return enough
