"""`iou`: continue each track with the detection that overlaps its last box most, without any motion.

Bochinski, Eiselein, Sikora, "High-Speed Tracking-by-Detection Without Using Image Information", AVSS 2017. As in the
authors' code, tracks choose in turn, the oldest first. That code writes a track as a whole when it has ended; here ids
begin with the detection that confirms the track.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from sightline.graph.fields import Fraction
from sightline.graph.tracker import Tracker
from sightline.media.boxes import Boxes
from sightline.media.time import Duration
from sightline_plugins.track.cascade import Indices, Mask, Round, Way, overlaps
from sightline_plugins.track.frame_tracker import IGNORED, FrameTracker, FrameTrackerOptions, Similarity
from sightline_plugins.track.motion import CornerMotion
from sightline_plugins.track.tracks import Detections

STANDING = CornerMotion(initial=(1.0, 0.0), process=(1.0, 0.0), measurement=0.0)
"""A filter without noise of detections and without velocity: a track is where it was last seen."""


class IouOptions(FrameTrackerOptions):
    """Options of `IouTracker`, for detectors that miss little, at high frame rates: it is fast and explains itself."""

    name: ClassVar[str] = "iou"

    max_lost: Duration = 0
    """How long a track is kept, where it was last seen, without a detection; 0 ends it at the first missed frame."""
    low_confidence: Fraction = 0.0
    """Detections below are not used."""
    high_confidence: Fraction = 0.5
    """A track is confirmed only if one of its detections has this confidence."""
    iou_threshold: Similarity = 0.5
    """Overlap (IoU) from which a detection continues a track."""

    def build(self, *, first_id: int = 1) -> Tracker:
        """Make the tracker of one stream."""
        return IouTracker(self, first_id=first_id)


class IouTracker(FrameTracker):
    """Overlap with the last box, for one stream."""

    def __init__(self, options: IouOptions, *, first_id: int = 1) -> None:
        super().__init__(
            options,
            motion=STANDING,
            limits=(options.low_confidence,),
            new_track_threshold=options.low_confidence,
            first_id=first_id,
        )
        self._options = options

    def _rounds(self, boxes: Boxes, seen: Detections) -> Iterable[Round]:
        yield Round(
            tracks=np.ones(len(boxes), np.bool_),
            detections=seen.band != IGNORED,
            similarity=overlaps(boxes, seen.xyxy),
            least=self._options.iou_threshold,
            way=Way.IN_TURN,
        )

    def _is_confirmed(self, rows: Indices) -> Mask:
        certain: Mask = self.tracks.best_confidence[rows] >= np.float32(self._options.high_confidence)
        return certain & super()._is_confirmed(rows)
