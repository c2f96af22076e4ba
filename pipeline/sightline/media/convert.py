"""Surfaces to and from RGB, at the edges: plain and exact, for people, tests and images; no hot path comes here."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media.color import ColorMatrix, ColorRange, rgb_from_yuv, yuv_from_rgb
from sightline.media.surface import PixelFormat, Plane, Surface


def yuv444_from_surface(surface: Surface) -> npt.NDArray[np.uint8]:
    """Luma and chroma at the size of the image, (height, width, 3); chroma samples are repeated."""
    surface = surface.to_host()
    luma = surface.planes[0]
    if surface.format is PixelFormat.GRAY8:
        neutral = np.full_like(luma, 128)
        return np.stack([luma, neutral, neutral], axis=-1)
    if surface.format is PixelFormat.NV12:
        chroma = [surface.planes[1][..., 0], surface.planes[1][..., 1]]
    else:
        chroma = [surface.planes[1], surface.planes[2]]
    right, down = surface.format.chroma_shift
    height, width = luma.shape
    full = [np.repeat(np.repeat(plane, 1 << down, 0), 1 << right, 1)[:height, :width] for plane in chroma]
    return np.stack([luma, *full], axis=-1)


def luma_from_surface(surface: Surface) -> Plane:
    """Brightness (height, width) in the surface's own range: the luma plane itself where there is one, not to be
    changed; of RGB the mean of the channels, rounded down.
    """
    surface = surface.to_host()
    if surface.format.is_yuv or surface.format is PixelFormat.GRAY8:
        return surface.planes[0]
    first, second, third = np.moveaxis(surface.planes[0], 2, 0)
    total = first.astype(np.uint16)
    total += second
    total += third
    total //= 3  # a mean of floats takes ten times as long
    mean: Plane = total.astype(np.uint8)
    return mean


def rgb_from_surface(surface: Surface) -> npt.NDArray[np.uint8]:
    """The image as RGB, (height, width, 3), a new array, by the surface's own matrix and range."""
    surface = surface.to_host()
    if surface.format is PixelFormat.RGB24:
        return surface.planes[0].copy()
    if surface.format is PixelFormat.BGR24:
        return np.ascontiguousarray(surface.planes[0][..., ::-1])
    affine = rgb_from_yuv(surface.matrix, surface.range).astype(np.float32)
    return _round(yuv444_from_surface(surface) @ affine[:, :3].T + affine[:, 3])


def surface_from_rgb(
    rgb: npt.NDArray[np.uint8],
    *,
    pixel_format: PixelFormat = PixelFormat.I420,
    matrix: ColorMatrix = ColorMatrix.BT601,
    color_range: ColorRange = ColorRange.LIMITED,
) -> Surface:
    """A new exclusive surface from an RGB image (height, width, 3); chroma is averaged over the pixels it covers."""
    height, width = rgb.shape[:2]
    surface = Surface.allocate(pixel_format, size_wh=(width, height), matrix=matrix, color_range=color_range)
    if not pixel_format.is_yuv:
        surface.planes[0][:] = rgb if pixel_format is PixelFormat.RGB24 else rgb[..., ::-1]
        return surface
    affine = yuv_from_rgb(matrix, color_range).astype(np.float32)
    yuv = rgb @ affine[:, :3].T + affine[:, 3]
    surface.planes[0][:] = _round(yuv[..., 0])
    if pixel_format is PixelFormat.GRAY8:
        return surface
    u, v = (_shrink(yuv[..., channel], pixel_format.chroma_shift) for channel in (1, 2))
    if pixel_format is PixelFormat.NV12:
        surface.planes[1][..., 0], surface.planes[1][..., 1] = u, v
    else:
        surface.planes[1][:], surface.planes[2][:] = u, v
    return surface


def _shrink(plane: npt.NDArray[np.float32], chroma_shift: tuple[int, int]) -> Plane:
    right, down = chroma_shift
    across, along = 1 << right, 1 << down
    height, width = plane.shape
    padded = np.pad(plane, ((0, -height % along), (0, -width % across)), mode="edge")
    blocks = padded.reshape(padded.shape[0] // along, along, padded.shape[1] // across, across)
    return _round(blocks.mean(axis=(1, 3)))


def _round(values: npt.NDArray[np.floating[Any]]) -> Plane:
    rounded: Plane = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return rounded


def png_from_rgb(rgb: npt.NDArray[np.uint8]) -> bytes:
    """An image (height, width, 3), RGB, as PNG (ISO/IEC 15948): 8 bits, no filter, compressed quickly."""
    height, width = rgb.shape[:2]
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each row begins with the number of its filter: 0, none
    rows[:, 1:] = rgb.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
