"""`bytetrack`: match tracks with high-confidence detections first, and what is left with the others.

Zhang et al., "ByteTrack: Multi-Object Tracking by Associating Every Detection Box", ECCV 2022. A detection with low
confidence is mostly an object half hidden: it keeps a track and begins none. As in the `trackers` package (2.6.1), the
filter works on the corners of boxes, and every track takes part in both rounds, with every detection (in the paper's
own code, those below 0.1 are left out: `low_confidence`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from sightline.graph.fields import Fraction
from sightline.graph.tracker import Tracker
from sightline.media.boxes import Boxes
from sightline_plugins.track.cascade import Round, overlaps
from sightline_plugins.track.frame_tracker import HIGH, LOW, BandedOptions, FrameTracker, Similarity
from sightline_plugins.track.motion import CornerMotion
from sightline_plugins.track.tracks import Detections


class ByteTrackOptions(BandedOptions):
    """Options of `ByteTrackTracker`, for detectors that pass low-confidence boxes on."""

    name: ClassVar[str] = "bytetrack"

    low_confidence: Fraction = 0.0
    """Detections below are not used."""
    iou_threshold: Similarity = 0.1
    """Overlap (IoU) with the expected box from which a detection continues a track, in both rounds."""

    def build(self, *, first_id: int = 1) -> Tracker:
        """Make the tracker of one stream."""
        return ByteTrackTracker(self, first_id=first_id)


class ByteTrackTracker(FrameTracker):
    """ByteTrack, for one stream."""

    def __init__(self, options: ByteTrackOptions, *, first_id: int = 1) -> None:
        super().__init__(
            options,
            motion=CornerMotion(),
            limits=(options.low_confidence, options.high_confidence),
            new_track_threshold=max(options.new_track_threshold, options.high_confidence),
            first_id=first_id,
        )
        self._options = options

    def _rounds(self, boxes: Boxes, seen: Detections) -> Iterable[Round]:
        every, overlap, least = np.ones(len(boxes), np.bool_), overlaps(boxes, seen.xyxy), self._options.iou_threshold
        yield Round(tracks=every, detections=seen.band == HIGH, similarity=overlap, least=least)
        yield Round(tracks=every, detections=seen.band == LOW, similarity=overlap, least=least)
