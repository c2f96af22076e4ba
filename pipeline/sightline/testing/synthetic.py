"""Synthetic frames and batches with known pixels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.media import Batch, ColorMatrix, ColorRange, Frame, PixelFormat, Stream, Surface


def make_frames(
    count: int,
    *,
    stream: str = "cam",
    size_wh: tuple[int, int] = (64, 48),
    fps: int = 25,
    pixel_format: PixelFormat = PixelFormat.I420,
    matrix: ColorMatrix = ColorMatrix.BT601,
    color_range: ColorRange = ColorRange.LIMITED,
    seed: int = 0,
) -> list[Frame]:
    """Frames of one stream with seeded random pixels and timestamps at `fps`; equal arguments give equal frames."""
    random = np.random.default_rng(seed)
    source = Stream(stream)
    frames = []
    for index in range(count):
        planes = tuple(
            random.integers(16, 236, shape, np.uint8, endpoint=True) for shape in pixel_format.plane_shapes(size_wh)
        )
        surface = Surface(pixel_format, size_wh, planes, matrix, color_range)
        frames.append(Frame(source, index, round(index * 1_000_000_000 / fps), surface))
    return frames


def make_batches(frames: Sequence[Frame], *, size: int = 1) -> list[Batch]:
    """The frames in batches of `size`, the last one perhaps shorter."""
    return [Batch(tuple(frames[start : start + size])) for start in range(0, len(frames), size)]
