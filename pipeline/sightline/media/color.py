"""Colour matrices and ranges: the one place that holds their numbers.

The coefficients are those of ITU-R BT.601-7, BT.709-6 and BT.2020-2. With Y in [0, 1] and U, V in [-0.5, 0.5],
R = Y + r_v V, G = Y - g_u U - g_v V, B = Y + b_u U, all of which follow from the weights (k_r, k_b).
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache

import numpy as np
import numpy.typing as npt


class ColorMatrix(StrEnum):
    """Which standard's weights relate Y'CbCr to R'G'B'."""

    BT601 = "bt601"
    BT709 = "bt709"
    BT2020 = "bt2020"


class ColorRange(StrEnum):
    """Whether 8-bit luma spans 16..235 (`limited`) or 0..255 (`full`)."""

    LIMITED = "limited"
    FULL = "full"


_WEIGHTS = {
    ColorMatrix.BT601: (0.299, 0.114),
    ColorMatrix.BT709: (0.2126, 0.0722),
    ColorMatrix.BT2020: (0.2627, 0.0593),
}


@cache
def rgb_from_yuv(matrix: ColorMatrix, color_range: ColorRange) -> npt.NDArray[np.float64]:
    """The affine map from 8-bit (Y, U, V) to (R, G, B) in 0..255: `rgb = m[:, :3] @ yuv + m[:, 3]`.

    Shape (3, 4), read-only, always the same array for the same matrix and range.
    """
    k_r, k_b = _WEIGHTS[matrix]
    k_g = 1.0 - k_r - k_b
    full = color_range is ColorRange.FULL
    luma, chroma, black = (1.0, 1.0, 0.0) if full else (255 / 219, 255 / 224, 16.0)
    r_v, b_u = 2 * (1 - k_r) * chroma, 2 * (1 - k_b) * chroma
    g_u, g_v = -b_u * k_b / k_g, -r_v * k_r / k_g
    linear = np.array([[luma, 0.0, r_v], [luma, g_u, g_v], [luma, b_u, 0.0]])
    affine = np.column_stack([linear, -linear @ np.array([black, 128.0, 128.0])])
    affine.setflags(write=False)
    return affine


def yuv_from_rgb(matrix: ColorMatrix, color_range: ColorRange) -> npt.NDArray[np.float64]:
    """The inverse of `rgb_from_yuv`, in the same form and shape (3, 4)."""
    forward = rgb_from_yuv(matrix, color_range)
    inverse = np.linalg.inv(forward[:, :3])
    return np.column_stack([inverse, -inverse @ forward[:, 3]])
