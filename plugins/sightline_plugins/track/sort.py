"""`sort`: a Kalman filter for each track, and one assignment by overlap.

Bewley, Ge, Ott, Ramos, Upcroft, "Simple Online and Realtime Tracking", ICIP 2016. As in the `trackers` package (2.6.1),
the filter works on the corners of boxes, and a confirmed track is kept for `max_lost` (in the paper: one frame).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from sightline.graph.fields import Fraction
from sightline.graph.tracker import Tracker
from sightline.media.boxes import Boxes
from sightline_plugins.track.cascade import Round, overlaps
from sightline_plugins.track.frame_tracker import IGNORED, FrameTracker, FrameTrackerOptions, Similarity
from sightline_plugins.track.motion import CornerMotion
from sightline_plugins.track.tracks import Detections


class SortOptions(FrameTrackerOptions):
    """Options of `SortTracker`: the plain baseline, for detectors with few false alarms."""

    name: ClassVar[str] = "sort"

    min_hits: Annotated[int, Field(ge=1)] = 3
    """Detections before a track is confirmed and gets its id."""
    new_track_threshold: Fraction = 0.25
    """Detections from here on may begin a track; those below still continue one."""
    iou_threshold: Similarity = 0.3
    """Overlap (IoU) with the expected box from which a detection continues a track."""

    def build(self, *, first_id: int = 1) -> Tracker:
        """Make the tracker of one stream."""
        return SortTracker(self, first_id=first_id)


class SortTracker(FrameTracker):
    """SORT, for one stream."""

    def __init__(self, options: SortOptions, *, first_id: int = 1) -> None:
        super().__init__(
            options,
            motion=CornerMotion(),
            limits=(0.0,),
            new_track_threshold=options.new_track_threshold,
            first_id=first_id,
        )
        self._options = options

    def _rounds(self, boxes: Boxes, seen: Detections) -> Iterable[Round]:
        yield Round(
            tracks=np.ones(len(boxes), np.bool_),
            detections=seen.band != IGNORED,
            similarity=overlaps(boxes, seen.xyxy),
            least=self._options.iou_threshold,
        )
