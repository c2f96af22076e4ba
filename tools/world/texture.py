"""Tileable noise and its use as a texture of the ground."""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
from tools.world.arrays import Floats, Image

TILE = 256


@lru_cache(maxsize=16)
def noise_tile(*, seed: int, cells: int) -> Image:
    """Smooth tileable noise, TILE x TILE, mean about 0, standard deviation 1; `cells` bumps per side."""
    grid = np.random.default_rng(seed).normal(size=(cells, cells)).astype(np.float32)
    wrapped = np.pad(grid, 2, mode="wrap")
    scale = TILE // cells
    large = cv2.resize(wrapped, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
    tile: Image = large[2 * scale : 2 * scale + TILE, 2 * scale : 2 * scale + TILE]
    tile = (tile - tile.mean()) / (tile.std() + 1e-6)
    tile.flags.writeable = False
    return tile


def over_ground(tile: Image, *, x: Floats, y: Floats, metres: float, metres_per_pixel: Floats) -> Image:
    """The tile laid on the ground, one tile each `metres`; it fades where a pixel covers more than a texel."""
    across = np.nan_to_num(x / metres * TILE, posinf=0).astype(np.int64) % TILE
    along = np.nan_to_num(y / metres * TILE, posinf=0).astype(np.int64) % TILE
    fade = 1.0 / (1.0 + (np.nan_to_num(metres_per_pixel, nan=1e3) * TILE / metres / 6) ** 2)
    laid: Image = (tile[along, across] * fade).astype(np.float32)
    return laid


def stripe(distance: Floats, *, half_width: float, metres_per_pixel: Floats) -> Image:
    """How much of each pixel a stripe covers, given the pixel's distance from the middle of the stripe."""
    covered: Image = np.clip((half_width - np.abs(distance)) / metres_per_pixel + 0.5, 0, 1).astype(np.float32)
    return np.nan_to_num(covered)
