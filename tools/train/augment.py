"""Cuts tiles of network scale from rendered images: flipped, scaled, recoloured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt
import torch

from tools.train.loss import Targets
from tools.train.samples import Sample
from tools.world.arrays import Floats, RgbImage

NETWORK_WH = (512, 288)
PAD_LEVEL = 114
RARITY = np.array([1.0, 3.0, 1.5, 3.0, 6.0, 5.0])
"""How often a tile is cut around an object of each class, relative to a person."""

LEAST_VISIBLE = 0.2
LEAST_SIDE_PX = 4.2
"""Smaller than this, at network scale, an object is neither wanted nor forbidden."""

TILES: tuple[tuple[tuple[int, int], int], ...] = (
    ((224, 160), 32),
    ((224, 160), 32),
    ((288, 192), 20),
    ((512, 288), 8),
)
"""Sizes of tiles and how many make a batch; the network is convolutional, so small tiles teach more per second."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A piece of an image (height, width, RGB) and its rows: class id, x0, y0, x1, y1, 1 when it is wanted."""

    image: RgbImage
    rows: Floats


def cut(sample: Sample, *, rng: np.random.Generator, size_wh: tuple[int, int]) -> Tile:
    """A random tile of a sample at about the scale at which the network will see the image."""
    image, rows = sample.image, sample.rows
    height, width = image.shape[:2]
    scale = min(NETWORK_WH[0] / width, NETWORK_WH[1] / height) * np.exp(rng.uniform(np.log(0.82), np.log(1.2)))
    flip = rng.uniform() < 0.5
    move = _placement(rows, rng=rng, scale=scale, flip=flip, image_wh=(width, height), tile_wh=size_wh)
    border = (PAD_LEVEL, PAD_LEVEL, PAD_LEVEL)
    tile = cv2.warpAffine(
        image, move, size_wh, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=border
    )
    return Tile(_recoloured(tile, rng), _moved(rows, move=move, size_wh=size_wh))


def _placement(
    rows: Floats,
    *,
    rng: np.random.Generator,
    scale: float,
    flip: bool,
    image_wh: tuple[int, int],
    tile_wh: tuple[int, int],
) -> Floats:
    """RgbImage to tile; mostly a tile around some object."""
    centre = rng.uniform(0, 1, 2) * image_wh
    if len(rows) and rng.uniform() < 0.8:
        rarity = RARITY[rows[:, 0].astype(int)]
        wanted = rows[rng.choice(len(rows), p=rarity / rarity.sum())]
        centre = np.array([wanted[1] + wanted[3], wanted[2] + wanted[4]]) / 2
    offset = (rng.uniform(0.15, 0.85, 2)) * tile_wh
    if tile_wh == NETWORK_WH:
        centre, offset = np.array(image_wh) / 2.0, (0.5 + rng.normal(0, 0.06, 2)) * tile_wh
    if flip:
        centre[0] = image_wh[0] - centre[0]
    spare = np.array(tile_wh) - scale * np.array(image_wh)
    shift = np.clip(offset - scale * centre, np.minimum(spare, 0) - 6, np.maximum(spare, 0) + 6)
    if flip:
        return np.array([[-scale, 0, shift[0] + scale * image_wh[0]], [0, scale, shift[1]]])
    return np.array([[scale, 0, shift[0]], [0, scale, shift[1]]])


def _moved(rows: Floats, *, move: Floats, size_wh: tuple[int, int]) -> Floats:
    x = np.sort(rows[:, [1, 3]] * move[0, 0] + move[0, 2], axis=1)
    y = rows[:, [2, 4]] * move[1, 1] + move[1, 2]
    boxes = np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], axis=1)
    whole = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    limit = np.array([*size_wh, *size_wh])
    boxes = np.clip(boxes, 0, limit)
    sides = boxes[:, 2:] - boxes[:, :2]
    share = sides.prod(axis=1) / np.maximum(whole, 1e-6) * rows[:, 5]
    wanted = (share >= LEAST_VISIBLE) & (sides.min(axis=1) >= LEAST_SIDE_PX)
    kept = sides.min(axis=1) > 0.5
    moved: Floats = np.concatenate([rows[:, :1], boxes, wanted[:, None]], axis=1)[kept]
    return moved


def _recoloured(tile: RgbImage, rng: np.random.Generator) -> RgbImage:
    """Another exposure, gamma and tint, sometimes blurred."""
    levels = np.linspace(0, 1, 256)[:, None]
    gain = rng.uniform(0.75, 1.3) * rng.uniform(0.93, 1.07, 3)
    table = np.clip((levels ** rng.uniform(0.8, 1.25)) * gain + rng.uniform(-0.06, 0.06), 0, 1) * 255
    coloured: RgbImage = cv2.LUT(tile, table.astype(np.uint8)[:, None, :].reshape(256, 1, 3).transpose(1, 0, 2))
    if rng.uniform() < 0.12:
        coloured = cv2.GaussianBlur(coloured, (0, 0), rng.uniform(0.3, 0.8))
    return coloured


def batches(samples: list[Sample], *, rng: np.random.Generator) -> Iterator[tuple[torch.Tensor, Targets]]:
    """Endless batches of tiles: images (N, 3, H, W), 0 to 1, and their targets."""
    worth = np.array([2.5 if (sample.rows[:, 0] > 0).any() else 1.0 for sample in samples])
    worth /= worth.sum()
    while True:
        size_wh, count = TILES[rng.integers(len(TILES))]
        chosen = rng.choice(len(samples), size=count, p=worth)
        yield collate([cut(samples[index], rng=rng, size_wh=size_wh) for index in chosen])


def collate(tiles: list[Tile]) -> tuple[torch.Tensor, Targets]:
    """Tiles as one batch."""
    images = torch.from_numpy(np.stack([tile.image for tile in tiles])).permute(0, 3, 1, 2).float() / 255
    wanted = [tile.rows[tile.rows[:, 5] > 0] for tile in tiles]
    ignored = [tile.rows[tile.rows[:, 5] == 0] for tile in tiles]
    rows, real = _padded(wanted)
    other, _ = _padded(ignored)
    return images, Targets(
        torch.from_numpy(rows[..., 0]).long(),
        torch.from_numpy(rows[..., 1:5]).float(),
        torch.from_numpy(real),
        torch.from_numpy(other[..., 1:5]).float(),
    )


def _padded(tables: list[Floats]) -> tuple[Floats, npt.NDArray[np.float32]]:
    longest = max(1, *(len(table) for table in tables))
    rows = np.zeros((len(tables), longest, 6))
    real = np.zeros((len(tables), longest), np.float32)
    for index, table in enumerate(tables):
        rows[index, : len(table)] = table
        real[index, : len(table)] = 1
    return rows, real
