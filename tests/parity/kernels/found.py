"""What heads and suppression of the host build find, in the columns of `Candidates`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.devices.cuda.driver import KernelSource
from sightline_plugins.heads import cuda as cuda_heads
from sightline_plugins.heads.cuda import plan_decoding
from sightline_plugins.heads.head import Candidates, DecodeContext
from sightline_plugins.nms import cuda as cuda_nms
from sightline_plugins.nms.cuda import COUNTS, DETECTION, DetectionBuffers
from sightline_plugins.nms.options import NmsOptions
from tests.fakes import HostKernels, Order
from tests.unit.cuda.host_arrays import HostArray, dense, unset

Floats = npt.NDArray[np.float32]


def room(
    images: int, capacity: int, *, limits: Sequence[float] | None = None
) -> tuple[DetectionBuffers, HostArray, HostArray]:
    detections, counts = unset(images, capacity, dtype=DETECTION), unset(images, COUNTS, dtype=np.int32)
    known = None if limits is None else dense(np.array(limits, np.float32))
    return DetectionBuffers(detections, counts, known), detections, counts


def candidates(rows: npt.NDArray[Any]) -> Candidates:
    return Candidates.from_arrays(rows["xyxy"], rows["confidence"], rows["class_id"])


def decoded(
    head: str, outputs: Sequence[npt.NDArray[Any]], reading: DecodeContext, *, limits: Sequence[float] | None = None
) -> tuple[list[Candidates], npt.NDArray[np.int32]]:
    """What the kernels find in each image of the batch, in the order of the model's boxes, and the counts."""
    plan = plan_decoding(head, shapes=[output.shape[1:] for output in outputs], context=reading)
    images = len(outputs[0])
    finds, detections, counts = room(images, plan.boxes, limits=limits)
    plan.launch(HostKernels(cuda_heads.SOURCE), [dense(output) for output in outputs], finds=finds)
    rows = [own[: count[0]] for own, count in zip(detections.values, counts.values, strict=True)]
    return [candidates(own[np.argsort(own["index"])]) for own in rows], counts.values


def suppressed(
    images: Sequence[Candidates],
    options: NmsOptions,
    *,
    source: KernelSource | Path = cuda_nms.SOURCE,
    order: Order = "forward",
    capacity: int | None = None,
) -> tuple[list[npt.NDArray[np.int32]], npt.NDArray[np.int32]]:
    """The places of the candidates that stay, for each image, and the counts."""
    capacity = max(max(map(len, images)), 1) if capacity is None else capacity
    finds, detections, counts = room(len(images), capacity)
    random = np.random.default_rng(len(images))
    for row, found in enumerate(images):
        places = random.permutation(len(found))[:capacity]
        own = detections.values[row, : len(places)]
        own["xyxy"], own["confidence"] = found.xyxy[places], found.confidence[places]
        own["class_id"], own["index"] = found.class_id[places], places
        counts.values[row] = len(found), 0
    kept = unset(len(images), options.max_detections, dtype=DETECTION)
    told = unset(len(images), len(cuda_nms.KEPT_COUNTS), dtype=np.int32)
    ranked = unset(len(images), finds.most_ranked, dtype=DETECTION)
    cuda_nms.suppress(HostKernels(source, order=order), finds, kept=cuda_nms.Kept(ranked, kept, told), options=options)
    return [own["index"][: count[0]].copy() for own, count in zip(kept.values, told.values, strict=True)], told.values
