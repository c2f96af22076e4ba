"""Masks: made of prototypes and score maps at frame resolution, and moved along with their objects. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media import Mask
from sightline_plugins.heads.head import Candidates
from sightline_plugins.opencv import cv2
from sightline_plugins.preprocess.placement import Placement

Floats = npt.NDArray[np.float32]
Window = tuple[int, int, int, int]
"""Left, top, right, bottom in whole pixels (or samples of a map), half-open."""

_MARGIN = 2
"""Samples beyond a window that are kept, so that its edge is interpolated correctly."""


def cut_masks(found: Candidates, placement: Placement) -> npt.NDArray[Any] | None:
    """Return the mask of each row, whose boxes are in frame pixels, as an object column (N,); None without masks.

    Coefficients times prototypes are computed for the part of the prototypes below the box only, sampled at the pixels
    of the frame whose centre lies in the box, and thresholded at 0: the method of YOLACT
    (https://arxiv.org/abs/1904.02689, section 3) at frame resolution, like Ultralytics' `retina_masks`.
    """
    coefficients, prototypes = found.masks, found.prototypes
    if coefficients is None or prototypes is None:
        return None
    masks = np.empty(len(found), np.object_)
    map_hw = prototypes.shape[1], prototypes.shape[2]
    for row, box in enumerate(found.xyxy.tolist()):
        window = pixels_in(box)
        part = map_part(map_hw, placement, window)
        logits = np.tensordot(coefficients[row], prototypes[:, part[1] : part[3], part[0] : part[2]], axes=1)
        values = sampled(logits, placement, window, part=part, map_hw=map_hw)
        masks[row] = Mask(window[0], window[1], values > 0)
    return masks


def moved_mask(mask: Mask, *, scale: Floats, shift: Floats) -> Mask:
    """Return a mask moved with its object: position times `scale` (2,) plus `shift` (2,), to whole pixels."""
    rows, columns = mask.bits.shape
    corners = np.array([[mask.left, mask.top], [mask.left + columns, mask.top + rows]], np.float64)
    left, top, right, bottom = pixels_in((corners * scale + shift).reshape(-1).tolist())
    bits = mask.bits
    if (bottom - top, right - left) != bits.shape:
        size_wh = (right - left, bottom - top)
        bits = cv2.resize(bits.view(np.uint8), size_wh, interpolation=cv2.INTER_NEAREST_EXACT).astype(np.bool_)
    return Mask(left, top, bits)


def united(masks: Sequence[Mask]) -> Mask:
    """Return the mask of all pixels that any of the masks covers; a single one is returned as it is."""
    if len(masks) == 1:
        return masks[0]
    left, top = min(mask.left for mask in masks), min(mask.top for mask in masks)
    right = max(mask.left + mask.bits.shape[1] for mask in masks)
    bottom = max(mask.top + mask.bits.shape[0] for mask in masks)
    bits = np.zeros((bottom - top, right - left), np.bool_)
    for mask in masks:
        rows, columns = mask.bits.shape
        bits[mask.top - top : mask.top - top + rows, mask.left - left : mask.left - left + columns] |= mask.bits
    return Mask(left, top, bits)


def pixels_in(xyxy: Sequence[float]) -> Window:
    """Return the pixels whose centre lies in a box, at least one in each direction."""
    left, top, right, bottom = (int(np.ceil(edge - 0.5)) for edge in xyxy)
    return left, top, max(right, left + 1), max(bottom, top + 1)


def map_part(map_hw: tuple[int, int], placement: Placement, window: Window) -> Window:
    """Return the part of a map over the network's whole input that shows a window of the frame.

    It excludes the padding of a letterbox, so that the frame's edge is not interpolated with padding.
    """
    left, top, right, bottom = window
    corners = np.array([[left, top, 1], [right, top, 1], [right, bottom, 1], [left, bottom, 1]], np.float64)
    seen = corners @ _map_from_frame(map_hw, placement).T
    across, down = _samples_per_pixel(map_hw, placement)
    x, y, wide, high = placement.inner_xywh
    inner = (x * across, y * down, (x + wide) * across, (y + high) * down)
    edges = []
    for axis in (0, 1):
        first = max(int(np.floor(inner[axis] + 1e-6)), int(np.floor(seen[:, axis].min())) - _MARGIN, 0)
        last = min(int(np.ceil(inner[axis + 2] - 1e-6)), int(np.ceil(seen[:, axis].max())) + _MARGIN)
        first = min(first, map_hw[1 - axis] - 1)
        edges.append((first, min(max(last, first + 1), map_hw[1 - axis])))
    return edges[0][0], edges[1][0], edges[0][1], edges[1][1]


def sampled(values: Floats, placement: Placement, window: Window, *, part: Window, map_hw: tuple[int, int]) -> Floats:
    """Return the values (rows, columns) of `part` of a map at the pixel centres of a window of the frame.

    Bilinear with half-pixel centres, as a resize of the whole map to the frame would give; beyond the part its edge is
    repeated.
    """
    left, top, right, bottom = window
    size_wh = (right - left, bottom - top)
    matrix = _map_from_frame(map_hw, placement)
    whole = np.array([[left, top, 1], [right, bottom, 1]]) @ matrix.T - part[:2]
    plain = np.ascontiguousarray(values, np.float32)
    corners = np.array([[0, 0], [part[2] - part[0], part[3] - part[1]]])
    if placement.turned is None and (np.abs(whole - corners) <= 1e-3 + 1e-5 * corners).all():
        resized: Floats = cv2.resize(plain, size_wh, interpolation=cv2.INTER_LINEAR)
        return resized
    matrix = matrix.copy()
    matrix[:, 2] += matrix[:, :2] @ [left + 0.5, top + 0.5] - 0.5 - np.array(part[:2])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    warped: Floats = cv2.warpAffine(plain, matrix, size_wh, flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return warped


@lru_cache(maxsize=64)
def _map_from_frame(map_hw: tuple[int, int], placement: Placement) -> npt.NDArray[np.float64]:
    """Return the affine map (2, 3) from positions in the frame to positions in a map over the network's input.

    Read-only: all objects of a frame, and all frames of a stream, have the same.
    """
    frame_from_network = np.array([*placement.image_from_network, (0.0, 0.0, 1.0)])
    across, down = _samples_per_pixel(map_hw, placement)
    matrix: npt.NDArray[np.float64] = np.diag([across, down, 1.0])[:2] @ np.linalg.inv(frame_from_network)
    matrix.flags.writeable = False
    return matrix


def _samples_per_pixel(map_hw: tuple[int, int], placement: Placement) -> tuple[float, float]:
    width, height = placement.size_wh
    return map_hw[1] / width, map_hw[0] / height
