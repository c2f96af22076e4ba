"""Dewarping in the device's memory: a look-up map says for each pixel where it lies in the image that was taken.

Fisheye lenses, lens distortion and changes of perspective are all such maps; `cv2.initUndistortRectifyMap` and others
make them, once. The pixels are those of `cv2.remap` on every plane, channel by channel.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np

from sightline.devices.gpu.launching import Kernels, blocks_for
from sightline_plugins.kernels.device_data import DeviceData
from sightline_plugins.kernels.surfaces import SurfaceView

SOURCE = Path(__file__).with_suffix(".cu")
_SAMPLES = np.dtype([("start", "<u8"), ("pitch_bytes", "<i8"), ("size_wh", "<i4", (2,))])
_SHEET = np.dtype(
    [
        ("source", _SAMPLES),
        ("target", _SAMPLES),
        ("channels", "<i4"),
        ("across_down", "<i4", (2,)),
        ("border", "<u4"),
    ]
)
_SHEETS = np.dtype([("of", _SHEET, (3,))])
_TILE, _ROWS = 32, 8


def dewarp(
    kernels: Kernels,
    source: SurfaceView,
    *,
    target: SurfaceView,
    xy: DeviceData,
    border: tuple[int, ...],
    stream: object = None,
) -> None:
    """Write `target`, of the same format with 8 bits a sample and any size, from `source`.

    `xy` float32 (height, width, 2), of the target's size, says where the middle of each of its pixels lies in the
    source: (0, 0) is the middle of the first pixel; its rows may be padded. Chroma lies in the middle of its pixels.
    What lies outside of the source has the samples `border`, luma first. Raises ValueError for what does not fit. The
    caller sees to it that the stream waits for the planes (`arrays_on`).
    """
    width, height = target.size_wh
    if xy.dtype != np.float32 or xy.shape != (height, width, 2) or xy.strides[1:] != (8, 4):
        raise ValueError(f"the map for {width}x{height} is float32 (height, width, 2), not {xy.dtype} of {xy.shape}")
    if source.format is not target.format or source.is_wide or target.is_wide:
        raise ValueError(
            f"an image is dewarped in its own format with 8 bits a sample: {source.format} is not {target.format}"
        )
    sheets = np.zeros((), _SHEETS)
    shift, first = target.format.chroma_shift, 0
    for index, (plane, place) in enumerate(zip(source.planes, target.planes, strict=True)):
        channels = plane.shape[2] if len(plane.shape) == 3 else 1
        samples = border[first : first + channels]
        first += channels
        across_down = (1 << shift[0], 1 << shift[1]) if index else (1, 1)
        packed = sum(sample << (8 * number) for number, sample in enumerate(samples))
        sheets["of"][index] = _samples(plane), _samples(place), channels, across_down, packed
    if first != len(border):
        raise ValueError(f"{target.format} has {first} samples around it, not {len(border)}")
    grid = blocks_for(width, block=_TILE), blocks_for(height, block=_TILE), len(target.planes)
    pitch_bytes = xy.strides[0]
    kernels["dewarp"](
        cast("np.void", sheets[()]), xy, pitch_bytes, width, height, grid=grid, block=(_TILE, _ROWS), stream=stream
    )


def _samples(plane: DeviceData) -> tuple[int, int, tuple[int, int]]:
    return plane.address, plane.strides[0], (plane.shape[1], plane.shape[0])
