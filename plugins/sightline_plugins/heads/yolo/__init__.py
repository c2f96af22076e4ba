"""The YOLO family: one module for each way in which its members give their boxes; `HEADS` holds all heads."""

from __future__ import annotations

from typing import Any

from sightline_plugins.heads.head import Head
from sightline_plugins.heads.yolo import (
    anchors,
    decoded,
    dfl,
    fastestv2,
    nas,
    oriented,
    pose,
    segmentation,
    yolox,
)

HEADS: tuple[Head[Any], ...] = (
    yolox.HEAD,
    decoded.YOLOV5,
    decoded.YOLOV8,
    anchors.HEAD,
    dfl.HEAD,
    fastestv2.HEAD,
    nas.YOLO_NAS,
    nas.YOLO_NAS_ROWS,
    oriented.YOLOV8_OBB,
    oriented.END_TO_END_OBB,
    segmentation.YOLOV5_SEG,
    segmentation.YOLOV8_SEG,
    segmentation.END_TO_END_SEG,
    pose.YOLOV8_POSE,
    pose.END_TO_END_POSE,
)
