"""What heads find on the device: candidates of a batch, in memory that the caller lends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline_plugins.kernels.device_data import DeviceData, check_array
from sightline_plugins.nms.options import MAX_CANDIDATES

DETECTION = np.dtype(
    [("xyxy", "<f4", (4,)), ("confidence", "<f4"), ("class_id", "<i4"), ("index", "<i4"), ("unused", "<i4")]
)
"""A box in pixels of the network's input; `index` is its place among all boxes of the model's outputs."""
INT = np.dtype(np.int32)
FLOAT = np.dtype(np.float32)
COUNTS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Finds:
    """Where heads put what they find in the images of a batch, in no particular order.

    detections  DETECTION (images, capacity); with as much room as a model has boxes, none is ever lost
    counts      int32 (images, 2): how many were found (perhaps more than there is room for), and how many of the
                others were no finite numbers
    limits      float32 (classes + 1,): the least confidence for each class, the last one for classes beyond; None for
                none besides the head's own
    """

    detections: DeviceData
    counts: DeviceData
    limits: DeviceData | None = None

    def __post_init__(self) -> None:
        check_array(self.detections, what="room for candidates", dtype=DETECTION, shape=(None, None))
        check_array(self.counts, what="their counts", dtype=INT, shape=(self.images, COUNTS))
        if self.limits is not None:
            check_array(self.limits, what="least confidences", dtype=FLOAT, shape=(None,))

    @property
    def images(self) -> int:
        """How many images there is room for."""
        return self.detections.shape[0]

    @property
    def capacity(self) -> int:
        """For how many candidates of an image there is room."""
        return self.detections.shape[1]

    @property
    def most_ranked(self) -> int:
        """How many candidates of an image suppression looks at: `MAX_CANDIDATES`, or all there is room for."""
        return min(self.capacity, MAX_CANDIDATES)

    def arguments(self) -> tuple[DeviceData | int | None, ...]:
        """What kernels of heads are given, last: the arrays, the capacity, and how many limits there are."""
        limits = self.limits
        return self.detections, self.counts, limits, self.capacity, 0 if limits is None else limits.shape[0]
