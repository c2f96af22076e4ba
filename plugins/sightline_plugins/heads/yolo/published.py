"""The anchors and formulas that the authors of the versions published, for COCO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

Version = Literal[
    "yolov3", "yolov3-tiny", "yolov4", "yolov4-tiny", "yolov5", "yolov5-p6", "yolov7", "yolov7-tiny", "yolov7-p6"
]
Anchors = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Published:
    """How a version makes boxes of its maps, one entry for each stride, the finest first.

    anchors   widths and heights by turns, in pixels of the network's input
    scale_xy  how far a centre may leave its cell: offset = logistic * scale - (scale - 1) / 2
    squared   sizes are (2 * logistic)^2 * anchor; else exp(value) * anchor
    """

    anchors: Anchors
    scale_xy: tuple[float, ...]
    squared: bool


_V3: Anchors = ((10, 13, 16, 30, 33, 23), (30, 61, 62, 45, 59, 119), (116, 90, 156, 198, 373, 326))
_V4: Anchors = ((12, 16, 19, 36, 40, 28), (36, 75, 76, 55, 72, 146), (142, 110, 192, 243, 459, 401))
_V3_TINY: Anchors = ((10, 14, 23, 27, 37, 58), (81, 82, 135, 169, 344, 319))
_V4_TINY: Anchors = ((23, 27, 37, 58, 81, 82), (81, 82, 135, 169, 344, 319))
_P6: Anchors = (
    (19, 27, 44, 40, 38, 94),
    (96, 68, 86, 152, 180, 137),
    (140, 301, 303, 264, 238, 542),
    (436, 615, 739, 380, 925, 792),
)

PUBLISHED: Mapping[Version, Published] = MappingProxyType(
    {
        "yolov3": Published(_V3, (1.0, 1.0, 1.0), False),
        "yolov3-tiny": Published(_V3_TINY, (1.0, 1.0), False),
        "yolov4": Published(_V4, (1.2, 1.1, 1.05), False),
        "yolov4-tiny": Published(_V4_TINY, (1.05, 1.05), False),
        "yolov5": Published(_V3, (2.0, 2.0, 2.0), True),
        "yolov5-p6": Published(_P6, (2.0, 2.0, 2.0, 2.0), True),
        "yolov7": Published(_V4, (2.0, 2.0, 2.0), True),
        "yolov7-tiny": Published(_V3, (2.0, 2.0, 2.0), True),
        "yolov7-p6": Published(_P6, (2.0, 2.0, 2.0, 2.0), True),
    }
)
"""AlexeyAB/darknet `cfg/yolov3.cfg`, `yolov3-tiny.cfg`, `yolov4.cfg`, `yolov4-tiny.cfg`; ultralytics/yolov5
`models/yolov5s.yaml`, `models/hub/yolov5s6.yaml`; WongKinYiu/yolov7 `cfg/deploy/yolov7.yaml`, `yolov7-tiny.yaml`,
`yolov7-w6.yaml`."""
VERSIONS: tuple[Version, ...] = get_args(Version)
