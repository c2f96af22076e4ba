"""The reference of `verify`: whole images, OpenCV's resize, NumPy, ONNX Runtime on the unchanged file.

Slow on purpose and written as in a notebook. It uses nothing of the pipeline's pre-processing, graph rewriting,
suppression or placing; the head is the pipeline's (its own tests compare it with each family's published layout).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from sightline.errors import ModelError
from sightline_plugins.engines.onnxruntime import FAILURES
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.nms.options import NmsOptions
from sightline_plugins.opencv import cv2
from sightline_plugins.preprocess.definition import Preprocessing

Rgb = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

_INTERPOLATION = {"bilinear": cv2.INTER_LINEAR, "area": cv2.INTER_AREA, "nearest": cv2.INTER_NEAREST_EXACT}


@dataclass(frozen=True, slots=True)
class ReferencePlacement:
    """Where an image lies in the network's input: origin of the crop, scales, and offset in the input."""

    left: float
    top: float
    across: float
    down: float
    begins_x: int
    begins_y: int

    def boxes(self, xyxy: Array, *, size_wh: tuple[int, int]) -> Floats:
        """Convert boxes of the network's input to pixels of the image, clipped to it."""
        found = np.asarray(xyxy, np.float64).copy()
        found[:, 0::2] = (found[:, 0::2] - self.begins_x) * self.across + self.left
        found[:, 1::2] = (found[:, 1::2] - self.begins_y) * self.down + self.top
        found[:, 0::2] = np.clip(found[:, 0::2], 0, size_wh[0])
        found[:, 1::2] = np.clip(found[:, 1::2], 0, size_wh[1])
        return found


class ReferenceModel:
    """The model as a notebook runs it."""

    def __init__(self, model: Path, plan: ModelPlan) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        try:
            self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        except FAILURES as error:
            raise ModelError(f"model {str(model)!r}: the reference, ONNX Runtime, cannot load it: {error}") from error
        self._plan = plan

    def levels(self, rgb: Rgb) -> tuple[Floats, ReferencePlacement]:
        """Return the network's input as levels 0..255, (h, w, C) in its channel order, and where the image lies."""
        wanted = self._plan.preprocessing
        cut, left, top = _cut(rgb, wanted)
        height, width = cut.shape[:2]
        inner, size_wh = _sizes(width, height, wanted)
        resized = _resized(cut, inner, wanted)
        begins_x = begins_y = 0
        if wanted.fit == "letterbox" and wanted.align == "center":
            begins_x, begins_y = (size_wh[0] - inner[0]) // 2, (size_wh[1] - inner[1]) // 2
        canvas = np.empty((size_wh[1], size_wh[0], resized.shape[2]))
        canvas[:] = wanted.pad if resized.shape[2] > 1 else wanted.pad[0]
        canvas[begins_y : begins_y + inner[1], begins_x : begins_x + inner[0]] = resized
        return canvas, ReferencePlacement(left, top, width / inner[0], height / inner[1], begins_x, begins_y)

    def run(self, levels: Array) -> tuple[Array, ...]:
        """Return the outputs of the unchanged file for levels (h, w, C)."""
        wanted, inputs = self._plan.preprocessing, self._plan.inputs
        fed: dict[str, Array] = {}
        for number, port in enumerate(self._session.get_inputs()):
            if number == inputs.image:
                fed[port.name] = _as_input(levels, port, wanted)
            else:
                height, width = levels.shape[:2]
                values = {"size_wh": (width, height), "size_hw": (height, width), "scale": (1, 1)}
                fed[port.name] = np.array([values[inputs.extras[number]]], _TYPES[port.type])
        return tuple(np.asarray(output) for output in self._session.run(None, fed))


_TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}


def _as_input(levels: Array, port: onnxruntime.NodeArg, wanted: Preprocessing) -> Array:
    values = (levels - np.array(wanted.mean)) / np.array(wanted.scale)
    if port.shape[1] in (1, 3):
        values = values.transpose(2, 0, 1)
    batch = port.shape[0] if isinstance(port.shape[0], int) else 1
    return np.ascontiguousarray(np.repeat(values[None], batch, axis=0).astype(_TYPES[port.type]))


def _cut(rgb: Rgb, wanted: Preprocessing) -> tuple[Rgb, float, float]:
    """Return the part of the image that the model sees, and its origin: all, or with `cover` the middle."""
    if wanted.fit != "cover" or wanted.size_wh is None:
        return rgb, 0.0, 0.0
    height, width = rgb.shape[:2]
    factor = wanted.crop * min(width / wanted.size_wh[0], height / wanted.size_wh[1])
    across, down = round(wanted.size_wh[0] * factor), round(wanted.size_wh[1] * factor)
    left, top = (width - across) // 2, (height - down) // 2
    return rgb[top : top + down, left : left + across], float(left), float(top)


def _sizes(width: int, height: int, wanted: Preprocessing) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the size of the resized image, and that of the network's input."""
    if wanted.size_wh is None:
        step = wanted.multiple
        return (width, height), (-(-width // step) * step, -(-height // step) * step)
    if wanted.fit == "letterbox":
        scale = min(wanted.size_wh[0] / width, wanted.size_wh[1] / height)
        whole = int if wanted.align == "top_left" else round  # as the training code of the two families does
        return (max(whole(width * scale), 1), max(whole(height * scale), 1)), wanted.size_wh
    if wanted.fit == "height":
        across = math.ceil(width * wanted.size_wh[1] / height)  # as PaddleOCR does
        return (min(max(across, 1), wanted.size_wh[0]), wanted.size_wh[1]), wanted.size_wh
    return wanted.size_wh, wanted.size_wh


def _resized(rgb: Rgb, size_wh: tuple[int, int], wanted: Preprocessing) -> Floats:
    image = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)[..., None] if wanted.color == "gray" else rgb
    image = image[..., ::-1] if wanted.color == "bgr" else image
    if wanted.resize == "antialias":
        return _antialiased(image, size_wh)
    resized = cv2.resize(np.ascontiguousarray(image), size_wh, interpolation=_INTERPOLATION[wanted.resize])
    values: Floats = resized.reshape(size_wh[1], size_wh[0], -1).astype(np.float64)
    return values


def _antialiased(image: Rgb, size_wh: tuple[int, int]) -> Floats:
    """Return the bilinear filter of Pillow: a triangle as wide as two new samples."""
    down, across = _triangle(image.shape[0], size_wh[1]), _triangle(image.shape[1], size_wh[0])
    values: Floats = np.einsum("yh,hwc,xw->yxc", down, image, across, optimize=True)
    return np.clip(np.rint(values), 0, 255)


def _triangle(old: int, new: int) -> Floats:
    scale = max(old / new, 1.0)
    centre = (np.arange(new) + 0.5) * old / new
    distance = np.abs(np.arange(old) + 0.5 - centre[:, None]) / scale
    weights = np.maximum(1 - distance, 0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float64)


def reference_nms(xyxy: Array, confidence: Array, class_id: Array, *, options: NmsOptions) -> list[int]:
    """Return the indices that greedy suppression keeps, the most confident first.

    The most confident box stays, boxes that overlap it by more than the limit go, and so on with the rest.
    """
    boxes = np.asarray(xyxy, np.float64)
    rest = np.array(sorted(range(len(confidence)), key=lambda row: (-float(confidence[row]), row)), np.int64)
    kept: list[int] = []
    while len(rest):
        best, rest = int(rest[0]), rest[1:]
        kept.append(best)
        if options.iou < 1:
            are_apart = _iou(boxes[best], boxes[rest]) <= options.iou
            rest = rest[are_apart if options.class_agnostic else are_apart | (class_id[rest] != class_id[best])]
    return kept[: options.max_detections]


def _iou(box: Floats, others: Floats) -> Floats:
    """Return intersection over union of a box with each of (N, 4) others."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    both = np.maximum(sides, 0).prod(axis=1)
    areas = (others[:, 2:] - others[:, :2]).prod(axis=1) + (box[2:] - box[:2]).prod()
    shares: Floats = np.divide(both, areas - both, out=np.zeros(len(others)), where=both > 0)
    return shares
