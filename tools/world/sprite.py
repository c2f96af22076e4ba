"""Things cut out of the world: painted with several samples a pixel, kept with their coverage."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt
from tools.world.arrays import Colour, Floats, Image

FIXED_POINT_BITS = 4
LARGE_SPRITE_PIXELS = 50_000


@dataclass(frozen=True, slots=True)
class Footprint:
    """The ground rectangle on which a thing stands, metres; it decides what hides what."""

    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class Sprite:
    """A thing as it appears: premultiplied RGB and coverage of the pixels from (left, top) on."""

    left: int
    top: int
    rgb: Image
    coverage: Image
    footprint: Footprint
    xyxy: tuple[float, float, float, float]
    track_id: int = -1

    def shifted(self, *, dx: int, dy: int) -> Sprite:
        """The same thing some whole pixels further."""
        x0, y0, x1, y1 = self.xyxy
        moved = (x0 + dx, y0 + dy, x1 + dx, y1 + dy)
        return Sprite(self.left + dx, self.top + dy, self.rgb, self.coverage, self.footprint, moved, self.track_id)


class Canvas:
    """Paints one thing in pixels of the image, with `oversampling` samples along each side of a pixel."""

    def __init__(self, points_xy: Floats, *, pad_px: float, limit_wh: tuple[int, int]) -> None:
        """Room for the points and `pad_px` around, at most half an image beyond the image."""
        low = np.array([-limit_wh[0] / 2, -limit_wh[1] / 2])
        high = np.array([limit_wh[0] * 1.5, limit_wh[1] * 1.5])
        first = np.floor(np.clip(points_xy.min(axis=0) - pad_px - 1, low, high)).astype(int)
        last = np.ceil(np.clip(points_xy.max(axis=0) + pad_px + 1, low, high)).astype(int)
        width, height = (int(side) for side in np.maximum(last - first, 1))
        self.left, self.top = int(first[0]), int(first[1])
        self.oversampling = 2 if width * height > LARGE_SPRITE_PIXELS else 4
        shape = (height * self.oversampling, width * self.oversampling)
        self._rgb = np.zeros((*shape, 3), np.uint8)
        self._mask = np.zeros(shape, np.uint8)

    def _fixed(self, xy: Floats) -> npt.NDArray[np.int32]:
        inside = (xy - np.array([self.left, self.top])) * self.oversampling - 0.5
        fixed: npt.NDArray[np.int32] = np.round(np.clip(inside, -20_000, 20_000) * (1 << FIXED_POINT_BITS)).astype(
            np.int32
        )
        return fixed

    def polygon(self, xy: Floats, *, colour: Colour, edge: float = 1.0) -> None:
        """A filled polygon of pixels (N, 2); `edge` below 1 darkens its outline by that factor."""
        if len(xy) < 3:
            return
        corners = self._fixed(xy)
        cv2.fillPoly(self._rgb, [corners], colour, shift=FIXED_POINT_BITS)
        cv2.fillPoly(self._mask, [corners], 255, shift=FIXED_POINT_BITS)
        if edge < 1.0:
            darker = tuple(channel * edge for channel in colour)
            cv2.polylines(self._rgb, [corners], True, darker, 1, cv2.LINE_8, FIXED_POINT_BITS)

    def printed(self, xy: Floats, ink: Image, *, colour: Colour) -> None:
        """Ink (height, width, 0 to 1) on a quadrangle: pixels (4, 2) of its lower left, lower right, and so on."""
        corners = (xy - np.array([self.left, self.top])) * self.oversampling - 0.5
        low = np.maximum(np.floor(corners.min(axis=0)).astype(int), 0)
        high = np.minimum(np.ceil(corners.max(axis=0)).astype(int) + 1, np.array(self._mask.shape[::-1]))
        if (high - low).min() < 4:
            return
        width = min(max(round(float(np.hypot(*(corners[1] - corners[0])))), 4), ink.shape[1])
        height = min(max(round(float(np.hypot(*(corners[3] - corners[0])))), 4), ink.shape[0])
        small = cv2.resize(ink, (width, height), interpolation=cv2.INTER_AREA)
        edges = np.array([(0, height), (width, height), (width, 0), (0, 0)]) - 0.5
        move = cv2.getPerspectiveTransform(edges.astype(np.float32), (corners - low).astype(np.float32))
        size = (int(high[0] - low[0]), int(high[1] - low[1]))
        laid = cv2.warpPerspective(small, move, size, flags=cv2.INTER_LINEAR)[..., None]
        part = self._rgb[low[1] : high[1], low[0] : high[0]]
        part[:] = np.rint(part * (1 - laid) + np.array(colour, np.float32) * laid).astype(np.uint8)

    def limb(self, start: Floats, stop: Floats, *, radii_px: tuple[float, float], colour: Colour) -> None:
        """The hull of two discs: an arm, a leg, a trunk."""
        along = stop - start
        length = float(np.hypot(along[0], along[1])) or 1.0
        side = np.array([-along[1], along[0]]) / length
        quad = np.array(
            [
                start + side * radii_px[0],
                stop + side * radii_px[1],
                stop - side * radii_px[1],
                start - side * radii_px[0],
            ]
        )
        self.polygon(quad, colour=colour)
        self.disc(start, radius_px=radii_px[0], colour=colour)
        self.disc(stop, radius_px=radii_px[1], colour=colour)

    def disc(self, centre: Floats, *, radius_px: float, colour: Colour) -> None:
        """A filled disc."""
        point = self._fixed(centre[None])[0]
        radius = max(1, round(radius_px * self.oversampling * (1 << FIXED_POINT_BITS)))
        at = (int(point[0]), int(point[1]))
        cv2.circle(self._rgb, at, radius, colour, -1, cv2.LINE_8, FIXED_POINT_BITS)
        cv2.circle(self._mask, at, radius, 255, -1, cv2.LINE_8, FIXED_POINT_BITS)

    def line(self, xy: Floats, *, width_px: float, colour: Colour) -> None:
        """An open polyline."""
        corners = [self._fixed(xy)]
        width = max(1, round(width_px * self.oversampling))
        cv2.polylines(self._rgb, corners, False, colour, width, cv2.LINE_8, FIXED_POINT_BITS)
        cv2.polylines(self._mask, corners, False, 255, width, cv2.LINE_8, FIXED_POINT_BITS)

    def finish(self, *, footprint: Footprint, track_id: int = -1, ground_shade: float = 1.0) -> Sprite | None:
        """The painted thing, or None when nothing was painted; `ground_shade` darkens its foot."""
        rows, columns = np.flatnonzero(self._mask.any(axis=1)), np.flatnonzero(self._mask.any(axis=0))
        if not len(rows):
            return None
        step = self.oversampling
        box = (
            self.left + columns[0] / step,
            self.top + rows[0] / step,
            self.left + (columns[-1] + 1) / step,
            self.top + (rows[-1] + 1) / step,
        )
        size = (self._mask.shape[1] // step, self._mask.shape[0] // step)
        rgb = cv2.resize(self._rgb, size, interpolation=cv2.INTER_AREA).astype(np.float32)
        coverage = cv2.resize(self._mask, size, interpolation=cv2.INTER_AREA).astype(np.float32) / 255
        if ground_shade < 1.0:
            rgb *= np.linspace(1.04, ground_shade, size[1], dtype=np.float32)[:, None, None]
        return Sprite(self.left, self.top, rgb, coverage, footprint, box, track_id)
