"""Whole images from one format to another on the device, at the edges; no hot path comes here.

Equal to `sightline.media.convert`, but for the last bits of floats: a level in ten thousand may be the next one.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from sightline.devices.gpu.launching import Kernels, blocks_for
from sightline.media import PixelFormat
from sightline.media.color import rgb_from_yuv, yuv_from_rgb
from sightline_plugins.kernels.surfaces import SurfaceView

SOURCE = Path(__file__).with_suffix(".cu")
_MATRIX = np.dtype([("of", "<f4", (12,))])
_BLOCK = (32, 8)


def convert(kernels: Kernels, source: SurfaceView, *, target: SurfaceView, stream: object = None) -> None:
    """Write the image of `source` in the format of `target`, which has the same size and other memory.

    To red, green and blue from every format, by the matrix and range of the source; from these to every other one, by
    those of the target; else between formats with the same number of chroma samples (NV12 and I420, 16 bits to 8).
    Raises ValueError for other pairs. The caller sees to it that the stream waits for the planes (`arrays_on`).
    """
    if source.size_wh != target.size_wh:
        raise ValueError(f"an image of {source.size_wh} does not fit into one of {target.size_wh}")
    arguments: tuple[np.void, ...]
    if not target.format.is_yuv:
        matrix = _matrix(rgb_from_yuv(source.matrix, source.range))
        name, arguments, shift = "colors_from_planes", (source.record, matrix, target.record), (0, 0)
    elif not source.format.is_yuv:
        matrix = _matrix(yuv_from_rgb(target.matrix, target.range))
        name, arguments, shift = (
            "planes_from_colors",
            (source.record, matrix, target.record),
            target.format.chroma_shift,
        )
    else:
        _check_samples(source, target)
        name, arguments, shift = "planes_from_planes", (source.record, target.record), source.format.chroma_shift
    width, height = (-(-side >> bits) for side, bits in zip(source.size_wh, shift, strict=True))
    grid = blocks_for(width, block=_BLOCK[0]), blocks_for(height, block=_BLOCK[1])
    kernels[name](*arguments, grid=grid, block=_BLOCK, stream=stream)


def _check_samples(source: SurfaceView, target: SurfaceView) -> None:
    """Raises ValueError when chroma or range would have to be converted."""
    is_gray = [view.format is PixelFormat.GRAY8 for view in (source, target)]
    if source.format.chroma_shift != target.format.chroma_shift or is_gray[0] != is_gray[1]:
        raise ValueError(f"{source.format} and {target.format} have different chroma samples: convert to rgb24 first")
    if (source.matrix, source.range) != (target.matrix, target.range):
        raise ValueError("samples are rearranged, not converted: matrix and range must be the same")


def _matrix(affine: npt.NDArray[np.float64]) -> np.void:
    record = np.zeros((), _MATRIX)
    record["of"] = affine.ravel()
    return cast("np.void", record[()])
