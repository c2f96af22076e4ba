"""Images of noise for pre-processing, and the network's input as OpenCV and swscale make it, step by step."""

from __future__ import annotations

import cv2
import numpy as np

from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline.media.surface import Plane
from sightline_plugins.preprocess.colors import ImageColors, PlaneResizer, colors_from_planes, cut_planes
from sightline_plugins.preprocess.cpu import cut_for
from sightline_plugins.preprocess.definition import Image, Preprocessing
from sightline_plugins.preprocess.placement import Placement

WITH_CHROMA = (PixelFormat.I420, PixelFormat.NV12, PixelFormat.I422, PixelFormat.I444)


def noise(
    pixel_format: PixelFormat,
    size_wh: tuple[int, int],
    *,
    matrix: ColorMatrix = ColorMatrix.BT601,
    color_range: ColorRange = ColorRange.LIMITED,
    gap_bytes: int = 0,
    seed: int = 1,
) -> Surface:
    """An image of noise, half of whose samples are the least and the greatest level, with gaps between its rows.

    There is nothing behind the last row.
    """
    random = np.random.default_rng(seed)
    planes: list[Plane] = []
    for shape in pixel_format.plane_shapes(size_wh):
        row_bytes = int(np.prod(shape[1:]))
        memory = np.empty((row_bytes + gap_bytes) * (shape[0] - 1) + row_bytes, np.uint8)
        strides = (row_bytes + gap_bytes, *(int(np.prod(shape[axis + 1 :])) for axis in range(1, len(shape))))
        plane = np.ndarray(shape, np.uint8, memory, strides=strides)
        levels = random.integers(-128, 384, shape)
        plane[...] = np.clip(levels, 0, 255)
        plane.setflags(write=False)
        planes.append(plane)
    return Surface(pixel_format, size_wh, tuple(planes), matrix, color_range)


def by_libraries(surface: Surface, placement: Placement, definition: Preprocessing) -> Image | None:
    """The network's input (1, height, width, 3) for a part that is resized; None for one that is sampled."""
    is_image = definition.convert == "image"
    averages = definition.resize in ("area", "antialias")
    cut = cut_for(placement, size_wh=surface.size_wh, chroma_shift=surface.format.chroma_shift, averages=averages)
    if cut.resizing is None:
        return None
    planes = ImageColors().planes(surface, cut.part) if is_image else cut_planes(surface, cut.part)
    resizer, (x, y) = PlaneResizer(definition.resize), cut.resizing.first_xy
    left, top, width, height = placement.inner_xywh
    resized = tuple(
        resizer.resize(plane, size_wh=cut.resizing.size_wh)[y : y + height, x : x + width] for plane in planes
    )
    image: Image = np.empty((1, *placement.size_wh[::-1], 3), np.uint8)
    image[:] = definition.pad
    inner = image[0, top : top + height, left : left + width]
    if is_image:
        inner[:] = cv2.merge(resized if definition.color == "rgb" else resized[::-1])
    else:
        colors_from_planes(resized, surface, order=definition.color, out=inner)
    return image
