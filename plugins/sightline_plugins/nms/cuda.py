"""Suppression on a CUDA device, the twin of `cpu.py`.

The order, the ties and the arithmetic are those of `infer/nms/greedy.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sightline.devices.cuda.driver import Kernels, blocks_for
from sightline_plugins.cuda.records import DeviceData, check_array
from sightline_plugins.nms.options import MAX_CANDIDATES, NmsOptions

DETECTION = np.dtype(
    [("xyxy", "<f4", (4,)), ("confidence", "<f4"), ("class_id", "<i4"), ("index", "<i4"), ("unused", "<i4")]
)
"""A box in pixels of the network's input; `index` is its place among all boxes of the model's outputs."""
INT = np.dtype(np.int32)
FLOAT = np.dtype(np.float32)
COUNTS = 2


@dataclass(frozen=True, slots=True, eq=False)
class DetectionBuffers:
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


SOURCE = Path(__file__).with_suffix(".cu")
KEPT_COUNTS = ("kept", "found", "invalid", "lost")
"""What is told of each image: boxes that stay, that were found, that were no finite numbers, that found no room."""
_THREADS = 256


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What stays of the candidates of a batch.

    ranked      DETECTION (images, `Finds.most_ranked`): the candidates by falling confidence, of equal ones the first
                of the model's boxes first; what is behind an image's candidates is not written
    detections  DETECTION (images, most): those that stay, in the same order
    counts      int32 (images, 4): `KEPT_COUNTS`
    """

    ranked: DeviceData
    detections: DeviceData
    counts: DeviceData

    def check(self, finds: DetectionBuffers) -> None:
        """Raises ValueError when it does not fit what was found."""
        images = finds.images
        check_array(self.ranked, what="room for ranked candidates", dtype=DETECTION, shape=(images, finds.most_ranked))
        check_array(self.detections, what="room for what stays", dtype=DETECTION, shape=(images, None))
        check_array(self.counts, what="counts of what stays", dtype=INT, shape=(images, len(KEPT_COUNTS)))


def suppress(
    kernels: Kernels, finds: DetectionBuffers, *, kept: Kept, options: NmsOptions, stream: object = None
) -> None:
    """Rank the candidates and drop those that overlap others; two launches. `options.method` is `hard` or `none`.

    As many stay as `kept.detections` has room for, which is `options.max_detections` of the caller.
    """
    if options.method not in ("hard", "none"):
        raise ValueError(f"boxes are suppressed on the device by the methods hard and none, not by {options.method}")
    kept.check(finds)
    room = finds.most_ranked
    kernels["rank"](
        finds.detections,
        finds.counts,
        finds.capacity,
        kept.ranked,
        room,
        grid=(blocks_for(finds.capacity, block=_THREADS), finds.images),
        block=_THREADS,
        stream=stream,
    )
    kernels["suppress"](
        kept.ranked,
        finds.counts,
        finds.capacity,
        room,
        np.float64(np.inf if options.method == "none" else options.iou),
        options.class_agnostic,
        kept.detections,
        kept.detections.shape[1],
        kept.counts,
        grid=finds.images,
        block=_THREADS,
        stream=stream,
    )
