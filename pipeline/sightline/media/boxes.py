"""Boxes as arrays: `xyxy`, float32, pixels of the source image, half-open; the one place that computes with them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Boxes = npt.NDArray[np.float32]


def area(xyxy: Boxes) -> npt.NDArray[np.float32]:
    """Areas of boxes (N, 4) -> (N,); an inverted box has area 0."""
    sides = np.maximum(xyxy[:, 2:] - xyxy[:, :2], 0)
    result: npt.NDArray[np.float32] = sides[:, 0] * sides[:, 1]
    return result


def iou_matrix(a: Boxes, b: Boxes) -> npt.NDArray[np.float32]:
    """Intersection over union of each box of `a` (N, 4) with each of `b` (M, 4) -> (N, M); 0 where both are empty."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    sides = np.maximum(high - low, 0)
    intersection = sides[..., 0] * sides[..., 1]
    union = area(a)[:, None] + area(b)[None, :] - intersection
    result: npt.NDArray[np.float32] = np.divide(intersection, union, out=np.zeros_like(intersection), where=union > 0)
    return result


def iou_pairs(a: Boxes, b: Boxes) -> npt.NDArray[np.float32]:
    """Intersection over union of each box of `a` (N, 4) with that of `b` (N, 4) in the same row -> (N,)."""
    sides = np.maximum(np.minimum(a[:, 2:], b[:, 2:]) - np.maximum(a[:, :2], b[:, :2]), 0)
    intersection = sides[:, 0] * sides[:, 1]
    union = area(a) + area(b) - intersection
    result: npt.NDArray[np.float32] = np.divide(intersection, union, out=np.zeros_like(intersection), where=union > 0)
    return result


def clip(xyxy: Boxes, *, size_wh: tuple[int, int]) -> Boxes:
    """Boxes (N, 4) cut to the image."""
    cut = np.maximum(xyxy, np.float32(0))
    return np.minimum(cut, np.array(size_wh * 2, np.float32), out=cut)


def xyxy_from_cxcywh(cxcywh: Boxes) -> Boxes:
    """Corners from centres and sizes, (N, 4) -> (N, 4)."""
    half = cxcywh[:, 2:] * np.float32(0.5)
    return np.concatenate([cxcywh[:, :2] - half, cxcywh[:, :2] + half], axis=1)


def xyxy_from_ltwh(ltwh: Boxes) -> Boxes:
    """Corners from left, top, width, height, (N, 4) -> (N, 4)."""
    return np.concatenate([ltwh[:, :2], ltwh[:, :2] + ltwh[:, 2:]], axis=1)


def ltwh_from_xyxy(xyxy: Boxes) -> Boxes:
    """Left, top, width, height from corners, (N, 4) -> (N, 4)."""
    return np.concatenate([xyxy[:, :2], xyxy[:, 2:] - xyxy[:, :2]], axis=1)
