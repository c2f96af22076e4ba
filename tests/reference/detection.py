"""Detection by the published recipes, written as plainly as possible: what `detect` is compared with.

Whole images in BGR as OpenCV and PyAV give them, `cv2.resize`, ONNX Runtime on the file as it is, heads and
suppression in simple NumPy. Slow on purpose; nothing of it is shared with the product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt
import onnxruntime

from sightline.media import ColorMatrix, ColorRange, Frame, Objects, PixelFormat, Stream, Surface

Floats = npt.NDArray[np.float64]
Image = npt.NDArray[np.uint8]

MATCH_IOU = 0.9
MATCH_CONFIDENCE = 0.05


@dataclass(frozen=True)
class Found:
    """Boxes (N, 4) in pixels of the image, clipped to it; confidences (N,); classes (N,)."""

    xyxy: Floats
    confidence: Floats
    class_id: npt.NDArray[np.int64]


@cache
def session(model: Path) -> onnxruntime.InferenceSession:
    """ONNX Runtime on the file as it is, one thread; loaded once."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def fastestdet(
    bgr: Image, model: onnxruntime.InferenceSession, *, confidence: float, interpolation: int = cv2.INTER_AREA
) -> Found:
    """The published recipe of FastestDet: stretched by area, BGR / 255, one suppression for all classes at 0.45."""
    resized = cv2.resize(bgr, (352, 352), interpolation=interpolation)
    return fastestdet_from_input(resized, model, confidence=confidence, size_wh=(bgr.shape[1], bgr.shape[0]))


def fastestdet_from_input(
    resized: Image, model: onnxruntime.InferenceSession, *, confidence: float, size_wh: tuple[int, int]
) -> Found:
    """The part of the recipe after resizing; boxes in pixels of an image of `size_wh`."""
    tensor = (resized.astype(np.float32) / np.float32(255)).transpose(2, 0, 1)[None]
    cells = run(model, tensor)[0].astype(np.float64).reshape(85, 22 * 22)
    score = cells[0] ** 0.6 * cells[5:].max(axis=0) ** 0.4
    place = np.flatnonzero(score > confidence)
    cells, score = cells[:, place], score[place]
    centre_x = (place % 22 + np.tanh(cells[1])) / 22
    centre_y = (place // 22 + np.tanh(cells[2])) / 22
    width, height = 1 / (1 + np.exp(-cells[3])), 1 / (1 + np.exp(-cells[4]))
    shares = [centre_x - width / 2, centre_y - height / 2, centre_x + width / 2, centre_y + height / 2]
    boxes = np.stack(shares, axis=1) * (size_wh * 2)
    kept = suppress(boxes, score, limit=0.45)
    return _clipped(Found(boxes[kept], score[kept], cells[5:].argmax(axis=0)[kept]), size_wh)


def yolox(bgr: Image, model: onnxruntime.InferenceSession, *, confidence: float) -> Found:
    """The published recipe of YOLOX at 416 x 416: top left, padded with 114, BGR, suppression by class at 0.45."""
    height, width = bgr.shape[:2]
    factor = min(416 / width, 416 / height)
    inner_wh = (int(width * factor), int(height * factor))
    canvas = np.full((416, 416, 3), 114, np.uint8)
    canvas[: inner_wh[1], : inner_wh[0]] = cv2.resize(bgr, inner_wh, interpolation=cv2.INTER_LINEAR)
    cells = run(model, canvas.astype(np.float32).transpose(2, 0, 1)[None])[0][0].astype(np.float64)
    corners, strides = [], []
    for stride in (8, 16, 32):
        x, y = np.meshgrid(np.arange(416 // stride), np.arange(416 // stride))
        corners.append(np.stack([x.ravel(), y.ravel()], axis=1))
        strides.append(np.full((x.size, 1), stride))
    stride_of = np.concatenate(strides)
    centre = (cells[:, :2] + np.concatenate(corners)) * stride_of
    size = np.exp(cells[:, 2:4]) * stride_of
    scores = cells[:, 4:5] * cells[:, 5:]
    best, class_id = scores.max(axis=1), scores.argmax(axis=1)
    boxes = np.concatenate([centre - size / 2, centre + size / 2], axis=1) / factor
    likely = best > confidence
    boxes, best, class_id = boxes[likely], best[likely], class_id[likely]
    kept = suppress(boxes + class_id[:, None] * 10_000.0, best, limit=0.45)
    return _clipped(Found(boxes[kept], best[kept], class_id[kept]), (width, height))


def run(model: onnxruntime.InferenceSession, tensor: npt.NDArray[np.float32]) -> list[npt.NDArray[Any]]:
    """All outputs for one input tensor."""
    outputs: list[npt.NDArray[Any]] = model.run(None, {model.get_inputs()[0].name: tensor})
    return outputs


def suppress(boxes: Floats, score: Floats, *, limit: float) -> npt.NDArray[np.int64]:
    """Greedy non-maximum suppression, box by box."""
    kept: list[int] = []
    for row in np.argsort(-score, kind="stable").tolist():
        if all(iou(boxes[row : row + 1], boxes[other : other + 1])[0, 0] <= limit for other in kept):
            kept.append(row)
    return np.array(kept, np.int64)


def iou(a: Floats, b: Floats) -> Floats:
    """Intersection over union of each box of `a` with each of `b`."""
    sides = np.minimum(a[:, None, 2:], b[None, :, 2:]) - np.maximum(a[:, None, :2], b[None, :, :2])
    both = np.maximum(sides, 0).prod(axis=2)
    area_a, area_b = (a[:, 2:] - a[:, :2]).prod(axis=1), (b[:, 2:] - b[:, :2]).prod(axis=1)
    shared: Floats = both / (area_a[:, None] + area_b[None] - both)
    return shared


def matched(expected: Found, given: Found) -> int:
    """How many of `expected` are in `given` with an overlap of 0.9 and a confidence that differs by 0.05 at most."""
    if not len(expected.xyxy) or not len(given.xyxy):
        return 0
    near = np.abs(expected.confidence[:, None] - given.confidence[None]) <= MATCH_CONFIDENCE
    return int(((iou(expected.xyxy, given.xyxy) >= MATCH_IOU) & near).any(axis=1).sum())


def found_in(objects: Objects) -> Found:
    """What `detect` found on one frame."""
    return Found(
        objects.xyxy.astype(np.float64), objects.confidence.astype(np.float64), objects.class_id.astype(np.int64)
    )


def sampled_frames(path: Path, *, step: int, most: int = 10_000) -> Iterator[tuple[Frame, Image]]:
    """Every `step`-th frame of a yuv420p video: as a frame of the framework, and in BGR as PyAV gives it."""
    with av.open(str(path)) as container:
        for index, frame in enumerate(container.decode(video=0)):
            if index % step:
                continue
            if index // step >= most:
                return
            planes = tuple(
                np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: plane.height, : plane.width].copy()  # type: ignore[call-overload]
                for plane in frame.planes
            )
            surface = Surface(
                PixelFormat.I420, (frame.width, frame.height), planes, ColorMatrix.BT601, ColorRange.LIMITED
            )
            bgr: Image = frame.to_ndarray(format="bgr24")  # type: ignore[assignment]
            yield Frame(Stream(path.stem), index // step, index * 40_000_000, surface), bgr


def _clipped(found: Found, size_wh: tuple[int, int]) -> Found:
    return Found(np.clip(found.xyxy, 0, size_wh * 2), found.confidence, found.class_id)
