"""Pre-processing as its definition says it, in double precision and with loops over nothing but channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media import PixelFormat, Surface
from sightline.media.color import rgb_from_yuv
from sightline.media.convert import yuv444_from_surface
from sightline_plugins.preprocess.cpu import cut_for
from sightline_plugins.preprocess.definition import Preprocessing
from sightline_plugins.preprocess.placement import Placement

Floats = npt.NDArray[np.float64]
AnyFloats = npt.NDArray[np.floating[Any]]


def plain_input(surface: Surface, placement: Placement, definition: Preprocessing) -> Floats:
    """The levels (height, width, 3) of a bilinear or nearest input in RGB, rounded wherever there are levels."""
    width, height = placement.size_wh
    canvas = np.full((height, width, 3), float(definition.pad[0]))
    left, top, inner_width, inner_height = placement.inner_xywh
    u, v = (np.arange(start, start + size) + 0.5 for start, size in ((left, inner_width), (top, inner_height)))
    colors = _colors(surface, placement, definition, *np.meshgrid(u, v))
    canvas[top : top + inner_height, left : left + inner_width] = np.rint(colors)
    return canvas


def _colors(surface: Surface, placement: Placement, definition: Preprocessing, u: AnyFloats, v: AnyFloats) -> Floats:
    (a, b, x0), (c, d, y0) = placement.image_from_network
    x, y = a * u + b * v + x0, c * u + d * v + y0
    part = cut_for(placement, size_wh=surface.size_wh, chroma_shift=surface.format.chroma_shift, averages=False).part
    if definition.convert == "image" or not surface.format.is_yuv:
        image = _image_colors(surface)
        channels = [_sampled(image[..., n], x, y, part=part, definition=definition) for n in range(3)]
        return np.stack(channels, axis=-1)
    across, down = (1 << bits for bits in surface.format.chroma_shift)
    chroma_part = part[0] // across, part[1] // down, -(-part[2] // across), -(-part[3] // down)
    luma, *chroma = _planes(surface)
    levels = [np.rint(_sampled(luma, x, y, part=part, definition=definition))]
    levels += [
        np.rint(_sampled(plane, x / across, y / down, part=chroma_part, definition=definition)) for plane in chroma
    ]
    affine = rgb_from_yuv(surface.matrix, surface.range)
    return np.clip(np.stack(levels, axis=-1) @ affine[:, :3].T + affine[:, 3], 0, 255)


def _planes(surface: Surface) -> list[Floats]:
    luma = surface.planes[0].astype(np.float64)
    if surface.format is PixelFormat.GRAY8:
        return [luma, np.full(luma.shape, 128.0), np.full(luma.shape, 128.0)]
    if surface.format is PixelFormat.NV12:
        return [luma, *(surface.planes[1][..., n].astype(np.float64) for n in (0, 1))]
    return [luma, *(plane.astype(np.float64) for plane in surface.planes[1:])]


def _image_colors(surface: Surface) -> Floats:
    if not surface.format.is_yuv:
        return surface.planes[0][..., :: 1 if surface.format is PixelFormat.RGB24 else -1].astype(np.float64)
    affine = rgb_from_yuv(surface.matrix, surface.range)
    return np.clip(yuv444_from_surface(surface) @ affine[:, :3].T + affine[:, 3], 0, 255)


def _sampled(
    plane: Floats, x: AnyFloats, y: AnyFloats, *, part: tuple[int, int, int, int], definition: Preprocessing
) -> Floats:
    """A plane's values at positions in samples, of which each covers 1 x 1; `part`'s edge is repeated around it."""
    left, top, right, bottom = part

    def at(columns: AnyFloats, rows: AnyFloats) -> Floats:
        inside = np.clip(rows, top, bottom - 1).astype(int), np.clip(columns, left, right - 1).astype(int)
        return np.asarray(plane[inside])

    if definition.resize == "nearest":
        return at(np.floor(x), np.floor(y))
    column, row = np.floor(x - 0.5), np.floor(y - 0.5)
    to_right, to_bottom = x - 0.5 - column, y - 0.5 - row
    upper = at(column, row) * (1 - to_right) + at(column + 1, row) * to_right
    lower = at(column, row + 1) * (1 - to_right) + at(column + 1, row + 1) * to_right
    return np.asarray(upper * (1 - to_bottom) + lower * to_bottom)
