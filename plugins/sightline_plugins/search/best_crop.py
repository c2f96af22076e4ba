"""The best crop of a track: how good a sighting is, and when it is worth another look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt

from sightline.media import Frame, Objects, Surface
from sightline.media.convert import luma_from_surface, rgb_from_surface
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

    __slots__ = ("_again_ns", "_image", "_part", "_pause_ns", "_score", "confidence", "frame", "version", "xyxy")

    def __init__(self) -> None:
        self._part: Surface | None = None
        self._image: Image | None = None
        self.frame = -1
        self.confidence = 0.0
        self.xyxy: Box = (0.0, 0.0, 0.0, 0.0)
        self.version = 0
        """How often a better crop came."""
        self._score = 0.0
        self._again_ns: int | None = None
        self._pause_ns = _FIRST_PAUSE_NS

    @property
    def image(self) -> Image | None:
        """The crop as RGB, (height, width, 3); None before there is one. Most crops are never asked for, so that is
        when it is converted.
        """
        if self._part is not None:
            self._image, self._part = rgb_from_surface(self._part), None
        return self._image

    def is_promising(self, worth: float, *, pts_ns: int) -> bool:
        """Whether a sighting may be better than the best one; `worth` is its area in pixels times its confidence."""
        if worth <= self._score * _BETTER:
            return False
        return self._again_ns is None or not 0 <= self._again_ns - pts_ns <= _LONGEST_PAUSE_NS

    def consider(
        self,
        frame: Frame,
        xyxy: Sequence[float],
        confidence: float,
        *,
        others: npt.NDArray[np.float32],
        largest_side: int,
    ) -> None:
        """Take the crop of a promising sighting if it is better. `others` (K, 4): the boxes of the frame, this among
        them; `largest_side`: no image is larger.
        """
        left, top, right, bottom = xyxy
        box, surface = (left, top, right, bottom), frame.surface
        score = (right - left) * (bottom - top) * confidence
        score *= _openness(box, others) * (_EDGE if _touches_edge(box, surface.size_wh) else 1.0)
        part = None if score <= self._score * _BETTER else part_of(surface, box)
        if part is not None:
            score *= max(sharpness(luma_from_surface(part)), _LEAST_SHARPNESS)
        if part is None or score <= self._score * _BETTER:
            self._again_ns = frame.pts_ns + self._pause_ns
            self._pause_ns = min(self._pause_ns * 2, _LONGEST_PAUSE_NS)
            return
        self._score, self._pause_ns = score, _FIRST_PAUSE_NS
        self._again_ns = frame.pts_ns + _FIRST_PAUSE_NS
        self.frame, self.confidence, self.xyxy = frame.index, confidence, box
        self.version += 1
        self._part, self._image = _reduced(part, largest_side), None


def worth_of(objects: Objects, *, min_size: float = 0.0) -> list[float]:
    """Return what each object promises as a crop: its area in pixels times its confidence, and 0 for one that is
    narrower or lower than `min_size`.
    """
    sides = objects.xyxy[:, 2:] - objects.xyxy[:, :2]
    worth = sides[:, 0] * sides[:, 1] * objects.confidence
    worth[sides.min(axis=1) < min_size] = 0
    return cast("list[float]", worth.tolist())


def part_of(surface: Surface, xyxy: Box) -> Surface | None:
    """Return the part of a frame with an object and the margin around it, a view in host memory; None where none is."""
    left, top, right, bottom = xyxy
    across, along = (right - left) * MARGIN, (bottom - top) * MARGIN
    return cut(surface, (left - across, top - along, right + across, bottom + along))


def sharpness(grey: Image) -> float:
    """Return how sharp an image (height, width) is, from 0 to 1: how much of its contrast is fine detail.

    The standard deviation of the Laplacian beside that of the levels (Pertuz et al. 2013, "Analysis of focus measure
    operators", LAP4), so that the contrast of the scene does not count.
    """
    from sightline_plugins.opencv import cv2

    if max(grey.shape) > _SHARP_SIDE:
        scale = _SHARP_SIDE / max(grey.shape)
        size_wh = max(round(grey.shape[1] * scale), 1), max(round(grey.shape[0] * scale), 1)
        grey = np.asarray(cv2.resize(grey, size_wh, interpolation=cv2.INTER_AREA), np.uint8)
    detail = float(cv2.meanStdDev(cv2.Laplacian(grey, cv2.CV_16S))[1][0, 0])
    levels = float(cv2.meanStdDev(grey)[1][0, 0])
    return min(detail / max(levels, 1.0), 1.0)


def _reduced(part: Surface, largest_side: int) -> Surface:
    """A copy of a surface, with no side longer than that."""
    from sightline_plugins.opencv import cv2

    scale = largest_side / max(part.size_wh)
    if scale >= 1:
        return part.writable()
    width, height = (max(round(side * scale), 1) for side in part.size_wh)
    reduced = Surface.allocate(part.format, size_wh=(width, height), matrix=part.matrix, color_range=part.range)
    for plane, target in zip(part.planes, reduced.planes, strict=True):
        cv2.resize(plane, target.shape[1::-1], dst=target, interpolation=cv2.INTER_AREA)
    return reduced


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
