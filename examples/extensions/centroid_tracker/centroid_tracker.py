"""A tracker of your own: each detection continues the track whose centre was nearest on the frame before."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sightline.graph.tracker import NO_TRACK, Tracker, TrackerOptions
from sightline.media.boxes import Boxes


class CentroidOptions(TrackerOptions):
    """Track objects by the distance of their centres. Fast and simple; it loses objects that are occluded."""

    name: ClassVar[str] = "centroid"

    max_distance: Annotated[float, Field(gt=0)] = 50.0
    """Pixels that a centre may move from one frame to the next."""

    def build(self, *, first_id: int = 1) -> Tracker:
        """Return the tracker of one stream."""
        return CentroidTracker(self.max_distance, first_id)


class CentroidTracker(Tracker):
    """Match greedily, the nearest pair first."""

    def __init__(self, max_distance: float, first_id: int) -> None:
        self.max_distance, self.next_id = max_distance, first_id
        self.centres, self.ids = np.empty((0, 2)), np.empty(0, np.int64)

    def update(
        self,
        xyxy: Boxes,
        confidence: npt.NDArray[np.float32],
        class_id: npt.NDArray[np.int64],
        *,
        pts_ns: int,
    ) -> npt.NDArray[np.int64]:
        """Return the track id of each detection."""
        del confidence, class_id, pts_ns
        centres = (xyxy[:, :2] + xyxy[:, 2:]) / 2
        ids = np.full(len(xyxy), NO_TRACK)
        distances = np.linalg.norm(centres[:, None] - self.centres[None], axis=2)
        while distances.size and distances.min() <= self.max_distance:
            row, track = np.unravel_index(distances.argmin(), distances.shape)
            ids[row] = self.ids[track]
            distances[row], distances[:, track] = np.inf, np.inf
        for row in np.flatnonzero(ids == NO_TRACK):
            ids[row], self.next_id = self.next_id, self.next_id + 1
        self.centres, self.ids = centres, ids
        return ids
