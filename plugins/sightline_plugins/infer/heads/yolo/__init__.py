"""The YOLO family: one module for each way in which its members give their boxes; `HEADS` holds all heads."""

from typing import Any

from sightline_plugins.infer.heads.head import Head
from sightline_plugins.infer.heads.yolo import decoded, yolox

HEADS: tuple[Head[Any], ...] = (yolox.HEAD, decoded.YOLOV5, decoded.YOLOV8)
