"""From luma and chroma to red, green and blue in whole numbers: the record of `color.cuh`.

`rounded`  is what OpenCV's `transform` does with 8-bit samples: factors in 1/1024, half a level added, bits cut off.
`stepwise` is what FFmpeg's swscale does for 4:2:0 and 4:2:2 (libswscale, `yuv2rgb.c` and `x86/yuv_2_rgb.asm`): factors
           in 1/8192, and every product is cut down to a whole level, so green comes out a level darker than it is.
`summed`   is what it does for 4:4:4 (`yuv2gbrp_full_X` in `output.c`): the same factors, and the sum is rounded.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media import ColorMatrix, ColorRange
from sightline.media.color import rgb_from_yuv

COLORS = np.dtype(
    [
        ("rounded", "<i4", (3, 4)),
        ("shift", "<i4"),
        ("luma", "<i4"),
        ("black", "<i4"),
        ("red_v", "<i4"),
        ("green_u", "<i4"),
        ("green_v", "<i4"),
        ("blue_u", "<i4"),
        ("gray_factor", "<f4"),
        ("gray_offset", "<f4"),
    ]
)
_BITS = 10
_SWSCALE = {
    ColorMatrix.BT601: (104597, 132201, 25675, 53279),
    ColorMatrix.BT709: (117489, 138438, 13975, 34925),
    ColorMatrix.BT2020: (110013, 140363, 12277, 42626),
}
"""What `sws_getCoefficients` gives: of v for red, u for blue, u and v for green, in 1/65536, for limited range."""


@lru_cache(maxsize=64)
def colors_record(matrix: ColorMatrix, color_range: ColorRange) -> npt.NDArray[Any]:
    """One COLORS, shape (), read-only, for surfaces of that matrix and range."""
    affine = rgb_from_yuv(matrix, color_range)
    record = np.zeros((), COLORS)
    record["rounded"][:, :3] = np.rint(affine[:, :3] * (1 << _BITS))
    record["rounded"][:, 3] = np.rint((affine[:, 3] + 0.5) * (1 << _BITS))
    record["shift"] = _BITS
    record["gray_factor"] = affine[0, 0]
    record["gray_offset"] = affine[0] @ (0, 128, 128, 1)
    red_v, blue_u, green_u, green_v = _SWSCALE[matrix]
    luma, black = (1 << 16) * 255 // 219, 16
    if color_range is ColorRange.FULL:
        luma, black = 1 << 16, 0
        red_v, blue_u, green_u, green_v = (factor * 224 // 255 for factor in (red_v, blue_u, green_u, green_v))
    for name, factor in (("luma", luma), ("red_v", red_v), ("blue_u", blue_u)):
        record[name] = _in_8192ths(factor)
    record["green_u"], record["green_v"] = _in_8192ths(-green_u), _in_8192ths(-green_v)
    record["black"] = 8 * black
    record.setflags(write=False)
    return record


def _in_8192ths(factor: int) -> int:
    """From 1/65536, rounded up from the half on, to the 16 bits that it is kept in."""
    return max(min(((factor << 13) + (1 << 15)) >> 16, 32767), -32768)
