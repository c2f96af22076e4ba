"""Images as a video decoder gives them, as planes of a surface: the right way up, with levels of 8 bits.

Equal to what the CPU decoder's images become (`decode/surfaces.py`, `decode/orientation.py`), to the level: samples
of 10 and 12 bits are dithered by place as FFmpeg's swscale 9.5 does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag
from pathlib import Path

import numpy as np

from sightline.devices.cuda.driver import Kernels, blocks_for
from sightline_plugins.cuda.records import DeviceData

SOURCE = Path(__file__).with_suffix(".cu")
DEPTHS = (8, 10, 12)
"""How many bits a decoded sample may have."""
_BLOCK = (32, 8)


class Turn(IntFlag):
    """How stored pixels become the image: rows and columns exchanged first, then mirrored along x and y."""

    NONE = 0
    TRANSPOSED = 1
    FLIP_X = 2
    FLIP_Y = 4


def place_decoded(
    kernels: Kernels,
    sources: Sequence[DeviceData],
    *,
    targets: Sequence[DeviceData],
    bits: int,
    turn: Turn = Turn.NONE,
    is_luma_scaled: bool = False,
    stream: object = None,
) -> None:
    """Write the planes `sources` into `targets`, in their order; a plane is (rows, columns) or (rows, columns, 2).

    Sources hold bytes, or with 10 or 12 `bits` unsigned words of 16 bits of which the upper ones count; targets hold
    bytes and have the sizes of the sources, exchanged where `turn` transposes. `is_luma_scaled` is so for full range
    and for images without chroma. Raises ValueError for planes that do not fit.
    """
    if bits not in DEPTHS:
        raise ValueError(f"samples have {', '.join(map(str, DEPTHS))} bits, not {bits}")
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        _check(source, target, bits=bits, turn=turn)
        height, width = target.shape[:2]
        channels = 1 if len(target.shape) == 2 else target.shape[2]
        kernels["plane_from_decoded"](
            source,
            source.strides[0],
            bits,
            is_luma_scaled and number == 0,
            target,
            target.strides[0],
            width,
            height,
            channels,
            int(turn),
            grid=(blocks_for(width, block=_BLOCK[0]), blocks_for(height, block=_BLOCK[1])),
            block=_BLOCK,
            stream=stream,
        )


def _check(source: DeviceData, target: DeviceData, *, bits: int, turn: Turn) -> None:
    sample = np.dtype(np.uint8 if bits == 8 else np.uint16)
    height, width = target.shape[:2]
    shape = (width, height, *target.shape[2:]) if turn & Turn.TRANSPOSED else tuple(target.shape)
    if tuple(source.shape) != shape or source.dtype != sample or target.dtype != np.uint8:
        raise ValueError(
            f"a plane of {target.shape} is made of one of {sample}, {shape}, not of {source.dtype}, {source.shape}"
        )
