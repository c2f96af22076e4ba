"""Recipes of the shared models that `detection.py` does not hold, as plainly as possible: DEIMv2 and YuNet."""

from __future__ import annotations

import cv2
import numpy as np
import onnxruntime

from tests.reference.detection import Floats, Found, Image, suppress


def deimv2(bgr: Image, model: onnxruntime.InferenceSession, *, confidence: float) -> Found:
    """Stretched to 320 x 320, RGB / 255, told the size of the image; nothing is suppressed."""
    height, width = bgr.shape[:2]
    resized = cv2.resize(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), (320, 320), interpolation=cv2.INTER_LINEAR)
    tensor = (resized.astype(np.float32) / np.float32(255)).transpose(2, 0, 1)[None]
    size = np.array([[width, height]], np.int64)
    labels, boxes, scores = (
        np.asarray(output)[0] for output in model.run(None, {"images": tensor, "orig_target_sizes": size})
    )
    sure = scores > confidence
    inside = np.clip(boxes[sure].astype(np.float64), 0, (width, height) * 2)
    return Found(inside, scores[sure].astype(np.float64), labels[sure])


def yunet(bgr: Image, model: onnxruntime.InferenceSession, *, confidence: float) -> tuple[Found, Floats]:
    """BGR as it is, padded at the right and the bottom to a multiple of 32; suppression at 0.3. Also the landmarks
    (N, 5, 2).
    """
    height, width = bgr.shape[:2]
    canvas = np.zeros((-(-height // 32) * 32, -(-width // 32) * 32, 3), np.uint8)
    canvas[:height, :width] = bgr
    names = [output.name for output in model.get_outputs()]
    raw = model.run(None, {"input": canvas.astype(np.float32).transpose(2, 0, 1)[None]})
    values = {name: np.asarray(output)[0].astype(np.float64) for name, output in zip(names, raw, strict=True)}
    boxes, scores, marks = [], [], []
    for stride in (8, 16, 32):
        columns = canvas.shape[1] // stride
        score = np.sqrt(values[f"cls_{stride}"][:, 0] * values[f"obj_{stride}"][:, 0])
        for place in np.flatnonzero(score > confidence).tolist():
            column, row = place % columns, place // columns
            dx, dy, dw, dh = values[f"bbox_{stride}"][place]
            x, y, w, h = (column + dx) * stride, (row + dy) * stride, np.exp(dw) * stride, np.exp(dh) * stride
            boxes.append([x - w / 2, y - h / 2, x + w / 2, y + h / 2])
            scores.append(score[place])
            points = values[f"kps_{stride}"][place].reshape(5, 2)
            marks.append([[(column + px) * stride, (row + py) * stride] for px, py in points])
    xyxy, confidences = np.array(boxes).reshape(-1, 4), np.array(scores)
    kept = suppress(xyxy, confidences, limit=0.3)
    found = Found(np.clip(xyxy[kept], 0, (width, height) * 2), confidences[kept], np.zeros(len(kept), np.int64))
    return found, np.array(marks).reshape(-1, 5, 2)[kept]
