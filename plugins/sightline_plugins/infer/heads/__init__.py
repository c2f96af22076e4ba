"""Heads: what turns a model's raw outputs into candidates. One pure module each; `HEADS` holds them by name."""

from collections.abc import Mapping
from types import MappingProxyType

from sightline_plugins.infer.heads import end_to_end, fastestdet, yolo, yolox
from sightline_plugins.infer.heads.head import Candidates, Head

HEADS: Mapping[str, Head] = MappingProxyType(
    {
        head.name: head
        for head in (
            fastestdet.HEAD,
            yolox.HEAD,
            yolo.YOLOV5,
            yolo.YOLOV8,
            end_to_end.END_TO_END,
            end_to_end.NORMALIZED,
        )
    }
)

__all__ = ["HEADS", "Candidates", "Head"]
