"""Random input for the C functions that read boxes, in a process with a sanitized library (`native_build.py`).

Sanitizers end the process at the first access outside of an array. `--wrong` lets a function write behind one.
"""

from __future__ import annotations

import sys

import numpy as np

from sightline_plugins import native
from sightline_plugins.heads.head import Candidates, DecodeContext
from sightline_plugins.heads.yolo.fastest import decode_fastestdet
from sightline_plugins.infer.postprocessing import DetectionRules, all_finite
from sightline_plugins.infer.selection import BoxSelector
from sightline_plugins.nms import cpu
from sightline_plugins.nms.options import NmsOptions
from sightline_plugins.preprocess.placement import place

ODD = (np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-40, 0.0)
CLASSES = (-(2**31), -1, 0, 1, 2, 3, 2**31 - 1)


def odd(random: np.random.Generator, *shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Return float32 values from -100 to 500, some of them odd."""
    values = random.uniform(-100, 500, shape).astype(np.float32)
    is_odd = random.random(shape) < 0.05
    values[is_odd] = random.choice(ODD, int(is_odd.sum()))
    return values


def candidates(random: np.random.Generator, count: int) -> Candidates:
    """Return so many candidates, with many equal confidences."""
    confidence = (np.round(random.random(count) * 20) / 20).astype(np.float32)
    confidence[random.random(count) < 0.02] = np.nan
    return Candidates(odd(random, count, 4), confidence, random.choice(CLASSES, count).astype(np.int32))


def main() -> None:
    """Drive everything."""
    random = np.random.default_rng(1)
    placement = place((0, 0, 640, 360), size_wh=(320, 320))
    if "--wrong" in sys.argv:
        boxes, order, room = np.zeros((4, 4), np.float32), np.arange(4), np.empty((3, 5))
        cpu._suppress_boxes(native.pointer(boxes), None, 4, 0.5, 4, native.pointer(order), native.pointer(room))
    for classes in (0, 3):
        for options in (NmsOptions(), NmsOptions(class_agnostic=True, max_detections=5), NmsOptions(method="none")):
            limits = random.uniform(0, 0.5, classes + 1).astype(np.float32)
            selector = BoxSelector(DetectionRules(options, 0.1, limits, limits > 0.2))
            for count in [0, 1, 2, 23, 24, 25, 49, 300, 12_000]:
                found = candidates(random, count)
                selector.select(found, placement, size_wh=(640, 360))
                finite = found.finite()
                cpu.suppress(finite.xyxy, finite.confidence, finite.class_id, options=options)
    for channels, rows, columns in ((6, 1, 1), (85, 22, 22), (5, 3, 2)):
        for confidence in (0.0, 0.5, 1.0):
            cells = odd(random, 1, channels, rows, columns)
            all_finite([cells])
            decode_fastestdet([cells], DecodeContext((320, 320), confidence, (), ()))


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
