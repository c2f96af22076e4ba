"""Suppression on the device: of two boxes that overlap too much the less confident is dropped.

The order, the ties and the arithmetic are those of `infer/nms/greedy.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sightline.devices.gpu.launching import Kernels, blocks_for
from sightline_plugins.kernels.detections import DETECTION, INT, Finds
from sightline_plugins.kernels.device_data import DeviceData, check_array
from sightline_plugins.nms.options import NmsOptions

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

    def check(self, finds: Finds) -> None:
        """Raises ValueError when it does not fit what was found."""
        images = finds.images
        check_array(self.ranked, what="room for ranked candidates", dtype=DETECTION, shape=(images, finds.most_ranked))
        check_array(self.detections, what="room for what stays", dtype=DETECTION, shape=(images, None))
        check_array(self.counts, what="counts of what stays", dtype=INT, shape=(images, len(KEPT_COUNTS)))


def suppress(kernels: Kernels, finds: Finds, *, kept: Kept, options: NmsOptions, stream: object = None) -> None:
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
        np.float32(np.inf if options.method == "none" else options.iou),
        options.class_agnostic,
        kept.detections,
        kept.detections.shape[1],
        kept.counts,
        grid=finds.images,
        block=_THREADS,
        stream=stream,
    )
