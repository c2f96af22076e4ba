"""The same shapes drawn by the host's functions and by the kernel of the host build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sightline.devices.cuda.driver import KernelSource
from sightline.media import HeatLayer, PixelFormat, Surface
from sightline.media.shapes import Mask
from sightline_plugins.draw import cpu as cpu_draw
from sightline_plugins.draw import cuda_draw
from sightline_plugins.draw.cpu import Colors, Kind, Points, Rect, Rgb, Samples, TextMask, layers_of
from sightline_plugins.draw.cuda_list import DrawList
from sightline_plugins.draw.heat import Heat
from tests.fakes import HostKernels, Order
from tests.parity.kernels.images import noise
from tests.unit.cuda.host_arrays import HostArray, dense


class Both:
    """An image that is drawn on at once, and a list of the same for the kernel."""

    def __init__(self, pixel_format: PixelFormat, size_wh: tuple[int, int], *, seed: int = 1) -> None:
        self.drawn = noise(pixel_format, size_wh, seed=seed)
        self.by_kernel = copied(self.drawn)
        self.noted = DrawList(pixel_format, size_wh=size_wh)
        self.size_wh = size_wh
        self._layers = layers_of(self.drawn)
        self._inks = Colors(Kind.of(self.drawn))

    def fill(self, rect: Rect, color: Rgb) -> None:
        cpu_draw.fill(self._layers, rect, self._inks.ink(color))
        self.noted.fill(rect, self._inks.ink(color))

    def outline(self, rect: Rect, color: Rgb, *, thickness: int) -> None:
        cpu_draw.outline(self._layers, rect, self._inks.ink(color), thickness=thickness)
        self.noted.outline(rect, self._inks.ink(color), thickness=thickness)

    def polylines(
        self, lines: Points, color: Rgb, *, thickness: int, closed: bool, smooth: bool, luma_only: bool = False
    ) -> None:
        ink, layers = self._inks.ink(color), self._layers[:1] if luma_only else self._layers
        cpu_draw.polylines(layers, lines, ink, thickness=thickness, closed=closed, smooth=smooth)
        self.noted.polylines(lines, ink, thickness=thickness, closed=closed, smooth=smooth, luma_only=luma_only)

    def tint(self, mask: Mask, color: Rgb, *, opacity: float) -> None:
        cpu_draw.tint(self._layers, mask, self._inks.ink(color), opacity=opacity)
        self.noted.tint(mask, self._inks.ink(color), opacity=opacity)

    def polygon(self, points: Points, color: Rgb, *, opacity: float) -> None:
        cpu_draw.polygon(self._layers, points, self._inks.ink(color), opacity=opacity)
        self.noted.polygon(points, self._inks.ink(color), opacity=opacity)

    def text(self, mask: TextMask, back: Rgb, front: Rgb, *, left: int, top: int) -> None:
        tables = self._inks.tables(back, front)
        cpu_draw.text(self._layers, mask, left=left, top=top, tables=tables)
        self.noted.text(mask, left=left, top=top, tables=tables)

    def heat(self, layer: HeatLayer) -> None:
        heat = Heat(layer, kind=Kind.of(self.drawn))
        heat.draw(self._layers)
        self.noted.heat(heat)


def draw_noted(
    images: Sequence[Both], *, source: KernelSource | Path = cuda_draw.SOURCE, order: Order = "forward"
) -> None:
    """Draw the lists by the kernel, all in one launch."""
    arrays = [tuple(HostArray(plane) for plane in both.by_kernel.planes) for both in images]
    drawing = cuda_draw.pack(list(zip(arrays, (both.noted for both in images), strict=True)))
    if drawing is not None:
        cuda_draw.draw(HostKernels(source, order=order), drawing, content=dense(drawing.content))


def differing(images: Sequence[Both]) -> int:
    """How many samples of the two ways differ."""
    return sum(
        int(np.count_nonzero(one != other))
        for both in images
        for one, other in zip(both.drawn.planes, both.by_kernel.planes, strict=True)
    )


def copied(surface: Surface) -> Surface:
    """The same image in memory of its own, with the same gaps between its rows."""
    planes = []
    for plane in surface.planes:
        pitch, row_bytes = plane.strides[0], plane[0].nbytes
        memory = np.empty(pitch * (len(plane) - 1) + row_bytes, np.uint8)
        copy: Samples = np.ndarray(plane.shape, np.uint8, memory, strides=plane.strides)
        copy[...] = plane
        planes.append(copy)
    return replace(surface, pixels=tuple(planes))
