"""Images of another format than those with which a video began: converted on the CPU, which seldom happens."""

from __future__ import annotations

import numpy as np

from sightline.media import PixelFormat, Surface
from sightline_plugins.encode.images import ImageMaker

_AV_NAMES = {PixelFormat.NV12: "nv12", PixelFormat.I420: "yuv420p"}


def as_format(surface: Surface, pixel_format: PixelFormat) -> Surface:
    """The surface itself where it has that format, of 8 bits, else a new one in host memory; its size must be even.

    That happens where a stream goes on with another decoder: its images come down, and what is made of them goes up.
    """
    if surface.format is pixel_format and not surface.is_wide:
        return surface
    samples = ImageMaker(_AV_NAMES[pixel_format]).from_surface(surface).to_ndarray().reshape(-1)
    shapes = pixel_format.plane_shapes(surface.size_wh)
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    parts = np.split(samples.astype(np.uint8, copy=False), ends[:-1])
    planes = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
    return Surface(pixel_format, surface.size_wh, tuple(planes), surface.matrix, surface.range)
