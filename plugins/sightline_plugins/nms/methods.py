"""All methods behind one function."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes
from sightline_plugins.nms.fusion import fuse, fuse_oriented
from sightline_plugins.nms.greedy import Index, by_confidence, suppress, suppress_oriented
from sightline_plugins.nms.options import NmsOptions
from sightline_plugins.nms.overlap import gaussians, oriented_overlap, upright_overlap
from sightline_plugins.nms.soft import soften


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What stays: `rows` (M,) by falling confidence, and what has become of them; None where nothing changed.

    xyxy        float32 (M, 4)
    confidence  float32 (M,)
    corners     float32 (M, 4, 2)
    """

    rows: Index
    xyxy: Boxes | None = None
    confidence: npt.NDArray[np.float32] | None = None
    corners: npt.NDArray[np.float32] | None = None


def thin_out(
    xyxy: Boxes,
    confidence: npt.NDArray[np.float32],
    class_id: npt.NDArray[np.int32],
    *,
    options: NmsOptions,
    corners: npt.NDArray[np.float32] | None = None,
    least: float = 0.0,
) -> Kept:
    """The boxes (N, 4) that stay by `options.method`, as oriented ones where `corners` (N, 4, 2) are given.

    `least` is the confidence below which a box is dropped that lost some to others (`soft`). Boxes must be finite. Of
    equal confidences the first goes first; at most `MAX_CANDIDATES` of the most confident boxes are looked at.
    """
    if options.method == "none" or len(confidence) < 2:
        return Kept(by_confidence(confidence)[: options.max_detections])
    if options.method == "soft":
        shapes = xyxy.astype(np.float64) if corners is None else gaussians(corners)
        overlap = upright_overlap if corners is None else oriented_overlap
        rows, values = soften(shapes, confidence, class_id, overlap=overlap, options=options, least=least)
        return Kept(rows, confidence=values)
    if options.iou >= 1:
        return Kept(by_confidence(confidence)[: options.max_detections])
    if corners is None:
        if options.method == "hard":
            return Kept(suppress(xyxy, confidence, class_id, options=options))
        rows, fused = fuse(xyxy, confidence, class_id, options=options)
        return Kept(rows, xyxy=fused)
    if options.method == "hard":
        return Kept(suppress_oriented(corners, confidence, class_id, options=options))
    rows, turned = fuse_oriented(corners, confidence, class_id, options=options)
    return Kept(rows, xyxy=np.concatenate([turned.min(axis=1), turned.max(axis=1)], axis=1), corners=turned)
