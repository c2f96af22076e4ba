"""Figures of objects: masks, boxes upright and oriented, skeletons and landmarks."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from sightline.media import Objects, Skeleton
from sightline.media.shapes import Mask
from sightline_plugins.draw.layout import Rect
from sightline_plugins.draw.palette import BLACK, WHITE
from sightline_plugins.draw.sheet import Sheet
from sightline_plugins.raster.inks import Rgb

_MASK_OPACITY = 0.4
_HEIGHT_OF_A_PIXEL = 90
"""Height of an object, in pixels, for each pixel of its skeleton's lines: small people get fine lines."""


def draw_masks(sheet: Sheet, objects: Objects, colors: Sequence[Rgb]) -> None:
    """Tint the pixels of each mask and draw its edge."""
    masks = objects.extra.get("mask")
    if masks is None:
        return
    for mask, color in zip(masks.tolist(), colors, strict=True):
        if mask is not None and mask.bits.size:
            sheet.canvas.tint(mask, sheet.inks.ink(color), opacity=_MASK_OPACITY)
            for edge in _edges(mask):
                sheet.canvas.polyline(edge, sheet.inks.ink(color), thickness=sheet.style.thin, closed=True)


def draw_boxes(sheet: Sheet, objects: Objects, rects: Sequence[Rect], colors: Sequence[Rgb]) -> None:
    """Draw the box of each object: oriented where it has corners, thin where it was found on another object."""
    corners = objects.extra.get("corners")
    turned = [None] * len(objects) if corners is None else [None if np.isnan(own).any() else own for own in corners]
    usual, thin = sheet.style.thickness, sheet.style.thin
    for parent, own, rect, color in zip(objects.parent.tolist(), turned, rects, colors, strict=True):
        thickness = usual if parent < 0 else thin
        if own is None:
            sheet.canvas.outline(rect, sheet.inks.ink(color), thickness=thickness)
        else:
            sheet.canvas.polyline(own, sheet.inks.ink(color), thickness=thickness, closed=True)


def draw_keypoints(sheet: Sheet, objects: Objects, colors: Sequence[Rgb], *, confidence: float) -> None:
    """Draw the keypoints of each object that are sure enough, and the lines that join them."""
    column = objects.extra.get("keypoints")
    if column is None:
        return
    skeletons = objects.extra.get("skeleton", np.full(len(objects), None)).tolist()
    sure = (column[..., 2] >= confidence) & np.isfinite(column[..., :2]).all(axis=2)
    heights = (objects.xyxy[:, 3] - objects.xyxy[:, 1]).tolist()
    for row in np.flatnonzero(sure.any(axis=1)).tolist():
        width = min(sheet.style.thickness, max(1, round(heights[row] / _HEIGHT_OF_A_PIXEL)))
        _draw_skeleton(sheet, column[row, :, :2], sure[row], skeletons[row], color=colors[row], width=width)


def _draw_skeleton(
    sheet: Sheet,
    points: npt.NDArray[np.float32],
    sure: npt.NDArray[np.bool_],
    skeleton: Skeleton | None,
    *,
    color: Rgb,
    width: int,
) -> None:
    joined = () if skeleton is None else skeleton.edges
    known = set(np.flatnonzero(sure).tolist())
    pairs = np.array([pair for pair in joined if known.issuperset(pair)], np.intp).reshape(-1, 2)
    bones = points[pairs]
    if len(bones):
        sheet.canvas.polylines(bones, sheet.inks.ink(BLACK), thickness=width + 2, smooth=False, luma_only=True)
        sheet.canvas.polylines(bones, sheet.inks.ink(color), thickness=width)
    dots = np.repeat(points[sure][:, None], 2, axis=1)
    sheet.canvas.polylines(dots, sheet.inks.ink(BLACK), thickness=2 * width + 2, smooth=False, luma_only=True)
    sheet.canvas.polylines(dots, sheet.inks.ink(WHITE if len(bones) else color), thickness=2 * width)


def _edges(mask: Mask) -> list[npt.NDArray[np.int32]]:
    found, _ = cv2.findContours(mask.bits.view(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    corner = np.array([mask.left, mask.top], np.int32)
    return [points.reshape(-1, 2) + corner for points in found]
