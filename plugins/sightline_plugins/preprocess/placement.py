"""Place a region of a frame on a network's input, and map results back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Literal

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes

Fit = Literal["letterbox", "stretch", "expand", "cover", "height", "native"]
Align = Literal["center", "top_left"]
Rounding = Literal["nearest", "down"]
SizeWh = tuple[int, int]
Region = tuple[float, float, float, float]
Points = npt.NDArray[np.float32]
Matrix = tuple[tuple[float, float, float], tuple[float, float, float]]

_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Placement:
    """A region of the image and the rectangle of the network's input that it fills.

    `region_xyxy` is in pixels of the image, half-open, and may reach beyond it; `inner_xywh` in whole pixels of the
    network's input, which is `size_wh` large. `turned` is set where the image is turned as well (a face that is
    aligned): positions of the image from positions of the network's input, in the place of the two rectangles.
    """

    region_xyxy: Region
    inner_xywh: tuple[int, int, int, int]
    size_wh: SizeWh
    turned: Matrix | None = None

    @property
    def scale_xy(self) -> tuple[float, float]:
        """Pixels of the image in one pixel of the network, across and down."""
        left, top, right, bottom = self.region_xyxy
        return (right - left) / self.inner_xywh[2], (bottom - top) / self.inner_xywh[3]

    @property
    def image_from_network(self) -> Matrix:
        """The affine map from positions in the network's input to positions in the image, in pixels of each."""
        if self.turned is not None:
            return self.turned
        (across, down), (left, top) = self.scale_xy, self.inner_xywh[:2]
        return (
            (across, 0.0, self.region_xyxy[0] - left * across),
            (0.0, down, self.region_xyxy[1] - top * down),
        )

    def relative_to(self, left: int, top: int) -> Placement:
        """The same placement in an image whose origin is at (left, top) of this one."""
        x1, y1, x2, y2 = self.region_xyxy
        turned = self.turned
        if turned is not None:
            (a, b, x), (c, d, y) = turned
            turned = (a, b, x - left), (c, d, y - top)
        return replace(self, region_xyxy=(x1 - left, y1 - top, x2 - left, y2 - top), turned=turned)

    def boxes_in_image(self, xyxy: Boxes) -> Boxes:
        """Boxes (N, 4) in pixels of the network's input -> in pixels of the image, not clipped.

        Where the image was turned, the upright boxes around the turned ones.
        """
        (a, b, x), (c, d, y) = self.image_from_network
        if b == 0 and c == 0:
            return xyxy * np.array((a, d, a, d), np.float32) + np.array((x, y, x, y), np.float32)
        corners = self.points_in_image(xyxy[:, [[0, 1], [2, 1], [2, 3], [0, 3]]])
        return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)

    def points_in_image(self, xy: Points) -> Points:
        """Points (..., 2) in pixels of the network's input -> in pixels of the image."""
        matrix = np.array(self.image_from_network, np.float32)
        return xy @ matrix[:, :2].T + matrix[:, 2]


@lru_cache(maxsize=1024)
def place(
    region_xyxy: Region,
    *,
    size_wh: SizeWh | None,
    fit: Fit = "letterbox",
    align: Align = "center",
    crop: float = 1.0,
    multiple: int = 32,
    rounding: Rounding = "nearest",
) -> Placement:
    """Put a region into a network input of `size_wh`.

    `stretch`    over all of it
    `letterbox`  as large as fits in its own shape, the rest is padding
    `expand`     as `letterbox`, with what the image shows around the region in the place of padding
    `cover`      the middle of the region (`crop` of its shorter side, in the shape of the input) over all of it
    `height`     as high as the input, as wide as its own shape asks but no wider than the input; padding at the right
    `native`     as it is; the input is as large as the region, rounded up to a `multiple` (`size_wh` is not looked at)

    A letterbox is rounded to whole pixels; when centred, to the nearest, and an odd rest goes to the right and the
    bottom, as the training code of the YOLO family does (with `rounding` downwards, as DeepStream does); at the top
    left downwards, as YOLOX and SCRFD do. The width of
    `height` is rounded up, as PaddleOCR does; `cover` to whole pixels where torchvision does.
    """
    left, top, right, bottom = region_xyxy
    wide, high = right - left, bottom - top
    if fit == "native" or size_wh is None:
        width, height = max(round(wide), 1), max(round(high), 1)
        size_wh = -(-width // multiple) * multiple, -(-height // multiple) * multiple
        return Placement(region_xyxy, (0, 0, width, height), size_wh)
    if fit == "stretch":
        return Placement(region_xyxy, (0, 0, *size_wh), size_wh)
    if fit == "cover":
        return Placement(_covering(region_xyxy, size_wh, crop), (0, 0, *size_wh), size_wh)
    if fit == "expand":
        factor = max(wide / size_wh[0], high / size_wh[1])
        return Placement(_middle(region_xyxy, size_wh, factor), (0, 0, *size_wh), size_wh)
    if fit == "height":
        width = min(max(ceil(wide * size_wh[1] / high - _ROUNDING), 1), size_wh[0])
        return Placement(region_xyxy, (0, 0, width, size_wh[1]), size_wh)
    factor = min(size_wh[0] / wide, size_wh[1] / high)
    if align == "top_left" or rounding == "down":
        width, height = (max(int(side * factor + _ROUNDING), 1) for side in (wide, high))
    else:
        width = min(max(round(wide * factor), 1), size_wh[0])
        height = min(max(round(high * factor), 1), size_wh[1])
    if align == "top_left":
        return Placement(region_xyxy, (0, 0, width, height), size_wh)
    return Placement(region_xyxy, ((size_wh[0] - width) // 2, (size_wh[1] - height) // 2, width, height), size_wh)


def _covering(region_xyxy: Region, size_wh: SizeWh, crop: float) -> Region:
    """What is left of a region that is resized to cover the input divided by `crop`, and cut to its middle.

    Both steps round as torchvision's `Resize` and `CenterCrop` do.
    """
    sides = region_xyxy[2] - region_xyxy[0], region_xyxy[3] - region_xyxy[1]
    factor = max(int(size / crop + _ROUNDING) / side for size, side in zip(size_wh, sides, strict=True))
    edges = []
    for start, side, size in zip(region_xyxy[:2], sides, size_wh, strict=True):
        resized = max(int(side * factor + _ROUNDING), size)
        first = round((resized - size) / 2)
        edges.append((start + first * side / resized, start + (first + size) * side / resized))
    return edges[0][0], edges[1][0], edges[0][1], edges[1][1]


def _middle(region_xyxy: Region, size_wh: SizeWh, factor: float) -> Region:
    """A region around the same middle, `factor` pixels of the image for each of the network's input."""
    left, top, right, bottom = region_xyxy
    across, down = size_wh[0] * factor / 2, size_wh[1] * factor / 2
    x, y = (left + right) / 2, (top + bottom) / 2
    return x - across, y - down, x + across, y + down


@lru_cache(maxsize=1024)
def region_in_pixels(fractions: Region, *, size_wh: SizeWh, chroma_shift: tuple[int, int]) -> Region:
    """A region given in fractions of the image, grown outwards to whole chroma samples and cut to the image."""
    left, top, right, bottom = fractions
    width, height = size_wh
    return whole_samples(
        (left * width, top * height, right * width, bottom * height), size_wh=size_wh, chroma_shift=chroma_shift
    )


def whole_samples(region_xyxy: Region, *, size_wh: SizeWh, chroma_shift: tuple[int, int]) -> tuple[int, int, int, int]:
    """A region in pixels, grown outwards to whole chroma samples and cut to the image; at least one of them."""
    edges = []
    for axis in (0, 1):
        block = 1 << chroma_shift[axis]
        low = int(max(region_xyxy[axis], 0)) // block * block
        high = -(-int(np.ceil(region_xyxy[axis + 2])) // block) * block
        low = min(low, (size_wh[axis] - 1) // block * block)
        edges.append((low, max(min(high, size_wh[axis]), low + 1)))
    return edges[0][0], edges[1][0], edges[0][1], edges[1][1]


_REFERENCE_SIZE = 112
_REFERENCE = np.array(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]], np.float64
)
"""Where eyes, nose and corners of the mouth stand in a face of 112 x 112 (deepinsight/insightface, `face_align.py`)."""


def align_face(points: npt.NDArray[np.float32], *, size_wh: SizeWh) -> Matrix | None:
    """The map from an aligned face of `size_wh` to the image, for landmarks (5+, 2 or 3) in pixels of the image.

    Turn, scale and shift that bring the landmarks closest to their usual places (least squares: S. Umeyama, 1991). None
    when there are fewer than five landmarks or they all fall on one point.
    """
    found = points[:5, :2].astype(np.float64)
    if len(found) < 5 or not np.isfinite(found).all():
        return None
    width, height = size_wh
    usual = _REFERENCE * (height / _REFERENCE_SIZE)
    usual[:, 0] += (width - height) / 2
    from_usual = _similarity(usual, found)
    if from_usual is None:
        return None
    (a, b, x), (c, d, y) = from_usual
    return (float(a), float(b), float(x)), (float(c), float(d), float(y))


def _similarity(source: npt.NDArray[np.float64], target: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
    """The similarity (2, 3) that takes `source` (N, 2) closest to `target`."""
    near, far = source.mean(axis=0), target.mean(axis=0)
    u, v = source - near, target - far
    spread = float((u * u).sum())
    turn = float((u * v).sum())
    cross = float((u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]).sum())
    if spread == 0 or turn * turn + cross * cross == 0:
        return None
    a, b = turn / spread, cross / spread
    linear = np.array([[a, -b], [b, a]])
    return np.concatenate([linear, (far - linear @ near)[:, None]], axis=1)
