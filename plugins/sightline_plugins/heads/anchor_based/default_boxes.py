"""The default boxes of SSD: which boxes the corrections are of. Made from a few numbers, as training code does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt

from sightline_plugins.heads.head import SizeWh

Style = Literal["mobilenet", "vgg", "torchvision_ssd300", "torchvision_ssdlite320", "tensorflow"]
Order = Literal["squares_first", "ratios_first"]
Ratios = tuple[tuple[float, ...], ...]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Layout:
    """What default boxes are made from.

    `scales` are sizes of boxes as shares of the input, for each map and one more; `ratios` the shapes besides the
    square (each and its inverse); `steps` the pixels of the input from cell to cell, None where the cells divide it
    evenly. `maps` are columns and rows of the maps; None where the first is the input over `first_stride` and each next
    one half of the one before, rounded up. Each cell has, `squares_first`: a square, a larger one (the root of this
    scale and the next), then each ratio and its inverse; `ratios_first`: a square, each ratio and its inverse, then the
    larger square, all shares of the input's shorter side, and on the first map only a small square and the first ratio
    (`reduced`). `clip` cuts centres and sizes to 0..1.
    """

    scales: tuple[float, ...]
    ratios: Ratios
    maps: tuple[tuple[int, int], ...] | None = None
    steps: tuple[float, ...] | None = None
    first_stride: int = 16
    order: Order = "squares_first"
    reduced: bool = False
    clip: bool = False

    @property
    def consistent(self) -> bool:
        """Whether there is something of everything for each map."""
        maps = len(self.ratios)
        counts = (len(self.scales) - 1, *(len(given) for given in (self.maps, self.steps) if given is not None))
        return all(count == maps for count in counts)


_EVEN = tuple(0.2 + 0.15 * number for number in range(6))
_TWO_AND_THREE: Ratios = ((2, 3),) * 6
_VGG_MAPS = ((38, 38), (19, 19), (10, 10), (5, 5), (3, 3), (1, 1))
_VGG_RATIOS: Ratios = ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,))
_VGG_STEPS = (8.0, 16.0, 32.0, 64.0, 100.0, 300.0)

LAYOUTS: Mapping[Style, Layout] = MappingProxyType(
    {
        "mobilenet": Layout(
            scales=tuple(size / 300 for size in (60, 105, 150, 195, 240, 285, 330)),
            ratios=_TWO_AND_THREE,
            maps=tuple((cells, cells) for cells in (19, 10, 5, 3, 2, 1)),
            steps=(16, 32, 64, 100, 150, 300),
            clip=True,
        ),
        "vgg": Layout(
            scales=tuple(size / 300 for size in (30, 60, 111, 162, 213, 264, 315)),
            ratios=_VGG_RATIOS,
            maps=_VGG_MAPS,
            steps=_VGG_STEPS,
            clip=True,
        ),
        "torchvision_ssd300": Layout(
            scales=(0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05),
            ratios=_VGG_RATIOS,
            maps=_VGG_MAPS,
            steps=_VGG_STEPS,
            clip=True,
        ),
        "torchvision_ssdlite320": Layout(scales=(*_EVEN, 1.0), ratios=_TWO_AND_THREE, clip=True),
        "tensorflow": Layout(scales=(*_EVEN, 1.0), ratios=_TWO_AND_THREE, order="ratios_first", reduced=True),
    }
)
"""`mobilenet`, `vgg`: qfgaohao/pytorch-ssd, `vision/ssd/config`; `torchvision_...`: pytorch/vision, `models/detection`
(`ssd.py`, `ssdlite.py`, `anchor_utils.py`); `tensorflow`: tensorflow/models, `research/object_detection/
anchor_generators/multiple_grid_anchor_generator.py`, create_ssd_anchors, with the ratios of
`samples/configs/ssd_mobilenet_v1_coco.config`."""


@lru_cache(maxsize=16)
def default_boxes(layout: Layout, size_wh: SizeWh) -> Floats:
    """The default boxes (N, 4): centre, width and height as shares of the input. Nobody writes to them."""
    boxes = [_of_map(layout, number, grid, size_wh) for number, grid in enumerate(maps_of(layout, size_wh))]
    every = np.concatenate(boxes)
    if layout.clip:
        every = every.clip(0, 1)
    found = every.astype(np.float32)
    found.flags.writeable = False
    return found


def count_boxes(layout: Layout, size_wh: SizeWh) -> int:
    """How many default boxes there are."""
    return sum(
        columns * rows * len(_shapes(layout, number)) for number, (columns, rows) in enumerate(maps_of(layout, size_wh))
    )


def maps_of(layout: Layout, size_wh: SizeWh) -> Sequence[tuple[int, int]]:
    """Columns and rows of each map."""
    if layout.maps is not None:
        return layout.maps
    columns, rows = (-(-side // layout.first_stride) for side in size_wh)
    maps = []
    for _ in layout.ratios:
        maps.append((columns, rows))
        columns, rows = -(-columns // 2), -(-rows // 2)
    return maps


def _of_map(layout: Layout, number: int, grid: tuple[int, int], size_wh: SizeWh) -> npt.NDArray[np.float64]:
    columns, rows = grid
    step = None if layout.steps is None else layout.steps[number]
    across, down = (columns, rows) if step is None else (size_wh[0] / step, size_wh[1] / step)
    x, y = np.meshgrid((np.arange(columns) + 0.5) / across, (np.arange(rows) + 0.5) / down)
    shapes = np.array(_shapes(layout, number))
    if layout.order == "ratios_first":
        shapes = shapes * (min(size_wh) / np.array(size_wh))
    centres = np.stack([x.ravel(), y.ravel()], axis=1)
    return np.concatenate(
        [np.repeat(centres, len(shapes), axis=0), np.tile(shapes, (len(centres), 1))],
        axis=1,
    )


def _shapes(layout: Layout, number: int) -> list[tuple[float, float]]:
    """Widths and heights of the boxes in a cell of a map."""
    scale, after, ratios = layout.scales[number], layout.scales[number + 1], layout.ratios[number]
    larger = (scale * after) ** 0.5
    turned = [shape for ratio in ratios for shape in _both(scale, ratio)]
    if layout.order == "squares_first":
        return [(scale, scale), (larger, larger), *turned]
    if layout.reduced and number == 0:
        return [(0.1, 0.1), *turned[:2]]
    return [(scale, scale), *turned, (larger, larger)]


def _both(scale: float, ratio: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """The shape of that ratio (width over height), and the same turned."""
    long, short = scale * ratio**0.5, scale / ratio**0.5
    return (long, short), (short, long)
