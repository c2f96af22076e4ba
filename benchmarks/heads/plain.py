"""The same results by plain NumPy: each family's demo code, which computes every row and then keeps the good ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
CONFIDENCE, IOU = 0.25, 0.45
FRAME_WH = (1280, 720)


def poses(outputs: Sequence[Array]) -> object:
    """YOLO pose: every row transposed and converted, then those above the confidence suppressed."""
    rows = np.ascontiguousarray(outputs[0][0].T)
    score = rows[:, 4]
    boxes = corners(rows[:, :4])
    points = rows[:, 5:].reshape(len(rows), -1, 3)
    kept = score >= CONFIDENCE
    boxes, score, points = boxes[kept], score[kept], points[kept]
    stay = suppressed(boxes, score)
    return boxes[stay], score[stay], points[stay]


def boxes(outputs: Sequence[Array]) -> object:
    """YOLO: every row transposed and converted, its best class, then those above the confidence suppressed."""
    rows = np.ascontiguousarray(outputs[0][0].T)
    class_id, score = rows[:, 4:].argmax(axis=1), rows[:, 4:].max(axis=1)
    found = corners(rows[:, :4])
    kept = score >= CONFIDENCE
    stay = suppressed(found[kept] + class_id[kept, None] * 10_000, score[kept])
    return found[kept][stay], score[kept][stay], class_id[kept][stay]


def instances(outputs: Sequence[Array]) -> object:
    """YOLO segmentation: whole masks of all objects, after the logistic function, resized to the network's input."""
    rows = np.ascontiguousarray(outputs[0][0].T)
    prototypes = outputs[1][0]
    masks = len(prototypes)
    scores = rows[:, 4:-masks]
    class_id, score = scores.argmax(axis=1), scores.max(axis=1)
    boxes = corners(rows[:, :4])
    kept = score >= CONFIDENCE
    boxes, score, class_id, own = boxes[kept], score[kept], class_id[kept], rows[kept, -masks:]
    stay = suppressed(boxes + class_id[:, None] * 10_000, score)
    maps = 1 / (1 + np.exp(-(own[stay] @ prototypes.reshape(masks, -1))))
    found = []
    for box, values in zip(boxes[stay], maps, strict=True):
        wide = cv2.resize(values.reshape(prototypes.shape[1:]), FRAME_WH, interpolation=cv2.INTER_LINEAR)
        left, top, right, bottom = box.clip(0).astype(int)
        inside = np.zeros(wide.shape, np.bool_)
        inside[top:bottom, left:right] = wide[top:bottom, left:right] > 0.5
        found.append(inside)
    return boxes[stay], score[stay], class_id[stay], found


def class_map(outputs: Sequence[Array]) -> object:
    """All scores resized to the frame, the highest at each pixel, and a mask of each class that is there."""
    values = outputs[0][0]
    values = values if values.shape[0] > values.shape[2] else values.transpose(1, 2, 0)
    wide = np.stack([cv2.resize(values[..., one], FRAME_WH) for one in range(values.shape[2])])
    winners = wide.argmax(axis=0)
    shares = np.exp(wide - wide.max(axis=0))
    certainty = 1 / shares.sum(axis=0)
    return [(winners == one, certainty[winners == one].mean()) for one in np.unique(winners) if one]


def priors(outputs: Sequence[Array], anchors: Array, *, logits: bool) -> object:
    """SSD and RetinaNet: every score and every box, then each class by itself."""
    offsets, scores = outputs[0][0], outputs[1][0]
    shares = 1 / (1 + np.exp(-scores)) if logits else scores
    centre = anchors[:, :2] + offsets[:, :2] * 0.1 * anchors[:, 2:]
    size = anchors[:, 2:] * np.exp(offsets[:, 2:] * 0.2)
    boxes = corners(np.concatenate([centre, size], axis=1))
    found = []
    for class_id in np.flatnonzero(shares.max(axis=0) >= CONFIDENCE):
        kept = shares[:, class_id] >= CONFIDENCE
        stay = suppressed(boxes[kept], shares[kept, class_id])
        found.append((boxes[kept][stay], shares[kept, class_id][stay]))
    return found


def faces(outputs: Sequence[Array], anchors: Array) -> object:
    """RetinaFace: every box and landmark, then the good ones."""
    score = outputs[1][0, :, 1]
    offsets, marks = outputs[0][0], outputs[2][0].reshape(-1, 5, 2)
    centre = anchors[:, :2] + offsets[:, :2] * 0.1 * anchors[:, 2:]
    boxes = corners(np.concatenate([centre, anchors[:, 2:] * np.exp(offsets[:, 2:] * 0.2)], axis=1))
    points = anchors[:, None, :2] + marks * 0.1 * anchors[:, None, 2:]
    kept = score >= CONFIDENCE
    stay = suppressed(boxes[kept], score[kept])
    return boxes[kept][stay], score[kept][stay], points[kept][stay]


def face_cells(outputs: Sequence[Array], anchors: Array) -> object:
    """YuNet: every cell of every level."""
    scores = [one for one in outputs if one.shape[-1] == 1]
    half = len(scores) // 2
    score = np.sqrt(np.concatenate(scores[:half], axis=1)[0, :, 0] * np.concatenate(scores[half:], axis=1)[0, :, 0])
    offsets, marks = (np.concatenate([one for one in outputs if one.shape[-1] == n], axis=1)[0] for n in (4, 10))
    return faces([offsets[None], np.stack([1 - score, score], axis=1)[None], marks[None]], anchors)


def corners(cxcywh: Array) -> Array:
    """Corners (N, 4) of boxes (N, 4) that are given as centre and size."""
    half = cxcywh[:, 2:] / 2
    return np.concatenate([cxcywh[:, :2] - half, cxcywh[:, :2] + half], axis=1)


def suppressed(boxes: Array, score: Array) -> list[int]:
    """The rows that stay, each compared with all that are left."""
    order = score.argsort()[::-1]
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept = []
    while order.size:
        best = order[0]
        kept.append(int(best))
        low = np.maximum(boxes[best, :2], boxes[order[1:], :2])
        high = np.minimum(boxes[best, 2:], boxes[order[1:], 2:])
        shared = np.maximum(high - low, 0).prod(axis=1)
        order = order[1:][shared <= IOU * (area[best] + area[order[1:]] - shared)]
    return kept
