"""The best crop of a track: how good a sighting is, and when it is worth another look."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.media import Surface
from sightline.media.convert import rgb_from_surface
from sightline_plugins.delivery.images import cut

Image = npt.NDArray[np.uint8]
Box: TypeAlias = tuple[float, float, float, float]

MARGIN = 0.08
"""How much around an object is in its crop, as a share of its width and height."""
_BETTER = 1.25
_LEAST_SHARPNESS = 0.25
_EDGE = 0.4
"""How much the crop of an object that the edge of the frame cuts off counts."""
_COVERED = 0.8
"""How much less a crop counts that other boxes cover completely."""
_EDGE_PIXELS = 2.0
_FIRST_PAUSE_NS = 250_000_000
_LONGEST_PAUSE_NS = 2_000_000_000
_SHARP_SIDE = 64


class BestCrop:
    """The best crop of a track so far, and its score.

    `consider` is called for every sighting and is cheap for nearly all: a crop is cut out only where area and
    confidence promise more than the best one has, and after a pause, which doubles while nothing better comes.
    """

    __slots__ = ("_again_ns", "_pause_ns", "_score", "confidence", "frame", "image", "version", "xyxy")

    def __init__(self) -> None:
        self.image: Image | None = None
        self.frame = -1
        self.confidence = 0.0
        self.xyxy: Box = (0.0, 0.0, 0.0, 0.0)
        self.version = 0
        """How often a better crop came."""
        self._score = 0.0
        self._again_ns: int | None = None
        self._pause_ns = _FIRST_PAUSE_NS

    def is_promising(self, xyxy: Box, confidence: float, *, pts_ns: int) -> bool:
        """Whether a sighting may be better than the best one, by its size and confidence."""
        if self._again_ns is not None and 0 <= self._again_ns - pts_ns <= _LONGEST_PAUSE_NS:
            return False
        return (xyxy[2] - xyxy[0]) * (xyxy[3] - xyxy[1]) * confidence > self._score * _BETTER

    def consider(
        self,
        surface: Surface,
        xyxy: Box,
        confidence: float,
        *,
        others: npt.NDArray[np.float32],
        frame: int,
        pts_ns: int,
        largest_side: int,
    ) -> None:
        """Take the crop of a promising sighting if it is better. `others` (K, 4): the boxes of the frame, this among
        them; `largest_side`: no image is larger.
        """
        score = (xyxy[2] - xyxy[0]) * (xyxy[3] - xyxy[1]) * confidence
        score *= _openness(xyxy, others) * (_EDGE if _touches_edge(xyxy, surface.size_wh) else 1.0)
        crop = None if score <= self._score * _BETTER else crop_of(surface, xyxy, largest_side=largest_side)
        if crop is not None:
            score *= max(sharpness(crop), _LEAST_SHARPNESS)
        if crop is None or score <= self._score * _BETTER:
            self._again_ns = pts_ns + self._pause_ns
            self._pause_ns = min(self._pause_ns * 2, _LONGEST_PAUSE_NS)
            return
        self._score, self._pause_ns = score, _FIRST_PAUSE_NS
        self._again_ns = pts_ns + _FIRST_PAUSE_NS
        self.image, self.frame, self.confidence, self.xyxy = crop, frame, confidence, xyxy
        self.version += 1


def crop_of(surface: Surface, xyxy: Box, *, largest_side: int) -> Image | None:
    """Return the part of a frame with an object and the margin around it, RGB, a new array; None where none is."""
    from sightline_plugins.opencv import cv2

    left, top, right, bottom = xyxy
    across, along = (right - left) * MARGIN, (bottom - top) * MARGIN
    part = cut(surface, (left - across, top - along, right + across, bottom + along))
    if part is None:
        return None
    rgb = rgb_from_surface(part)
    scale = largest_side / max(rgb.shape[:2])
    if scale < 1:
        size_wh = max(round(rgb.shape[1] * scale), 1), max(round(rgb.shape[0] * scale), 1)
        rgb = cv2.resize(rgb, size_wh, interpolation=cv2.INTER_AREA)
    return np.asarray(rgb, np.uint8)


def sharpness(rgb: Image) -> float:
    """Return how sharp a crop is, from 0 to 1: how much of its contrast is fine detail.

    The standard deviation of the Laplacian beside that of the levels (Pertuz et al. 2013, "Analysis of focus measure
    operators", LAP4), so that the contrast of the scene does not count.
    """
    from sightline_plugins.opencv import cv2

    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    if max(grey.shape) > _SHARP_SIDE:
        scale = _SHARP_SIDE / max(grey.shape)
        size_wh = max(round(grey.shape[1] * scale), 1), max(round(grey.shape[0] * scale), 1)
        grey = cv2.resize(grey, size_wh, interpolation=cv2.INTER_AREA)
    detail = float(cv2.meanStdDev(cv2.Laplacian(grey, cv2.CV_16S))[1][0, 0])
    levels = float(cv2.meanStdDev(grey)[1][0, 0])
    return min(detail / max(levels, 1.0), 1.0)


def _touches_edge(xyxy: Box, size_wh: tuple[int, int]) -> bool:
    left, top, right, bottom = xyxy
    width, height = size_wh
    return left < _EDGE_PIXELS or top < _EDGE_PIXELS or right > width - _EDGE_PIXELS or bottom > height - _EDGE_PIXELS


def _openness(xyxy: Box, others: npt.NDArray[np.float32]) -> float:
    """How much a crop counts for what other boxes cover of it; a box that ends higher in the frame is behind it."""
    in_front = others[others[:, 3] > xyxy[3]]
    if not len(in_front):
        return 1.0
    low, high = np.maximum(in_front[:, :2], xyxy[:2]), np.minimum(in_front[:, 2:], xyxy[2:])
    shared = float(np.prod(np.maximum(high - low, 0), axis=1).max())
    area = max((xyxy[2] - xyxy[0]) * (xyxy[3] - xyxy[1]), 1e-6)
    return 1.0 - _COVERED * min(shared / area, 1.0)
