"""Make frames in a GPU's memory as small as their tiles, there: the twin of `FrameResizer.shrunk`.

So what comes down to the host is the tile, and not the frame. All frames of a moment are shrunk in one launch, by the
filters and in the arithmetic of the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import Kernels, blocks_for
from sightline.media import Memory, PixelFormat, Surface
from sightline_plugins.cuda.records import SURFACE, Bytes, DeviceData, Packing, SurfaceView
from sightline_plugins.preprocess.cuda_maps import PLANE_MAP, PlaneMap, resized_map
from sightline_plugins.tile.canvas import is_averaged

SOURCE = Path(__file__).with_suffix(".cu")
JOB = np.dtype([("from", SURFACE), ("to", SURFACE), ("luma", PLANE_MAP), ("chroma", PLANE_MAP)], align=True)
_BLOCK = (32, 8)


@dataclass(frozen=True, slots=True, eq=False)
class Shrinking:
    """Frames and what is made of them: `content` is to be copied to the device, `data` says where its lists begin.

    It holds addresses: surfaces stay where they are until the kernel is done. `size_wh` is the largest that is made.
    """

    content: Bytes
    data: int
    count: int
    size_wh: tuple[int, int]


def pack(pairs: Sequence[tuple[SurfaceView, SurfaceView]]) -> Shrinking:
    """What makes the second of each pair, with even sides, of the first."""
    table, data = np.zeros(len(pairs), JOB), Packing()
    for number, (frame, tile) in enumerate(pairs):
        table[number]["from"], table[number]["to"] = frame.record, tile.record
        shapes, made = frame.format.plane_shapes(frame.size_wh), tile.format.plane_shapes(tile.size_wh)
        for name, plane, into in zip(("luma", "chroma"), shapes, made, strict=False):
            _map((plane[1], plane[0]), (into[1], into[0])).write(table[name], number, data)
    content = Packing()
    content.place(table)
    start = content.nest(data)
    sizes = [tile.size_wh for _, tile in pairs]
    return Shrinking(
        content.joined(), start, len(pairs), (max(width for width, _ in sizes), max(height for _, height in sizes))
    )


def shrink(kernels: Kernels, shrinking: Shrinking, *, content: DeviceData, stream: object = None) -> None:
    """Queue the kernel; `content` is that of `shrinking` on the device. The caller lets the stream wait for frames."""
    width, height = shrinking.size_wh
    kernels["shrink"](
        content,
        shrinking.data,
        grid=(blocks_for(width, block=_BLOCK[0]), blocks_for(height, block=_BLOCK[1]), shrinking.count),
        block=_BLOCK,
        stream=stream,
    )


class CudaShrinker:
    """Shrinks frames on one GPU, on a stream of its own; used by one thread."""

    def __init__(self, gpu: CudaDevice) -> None:
        self._gpu = gpu
        self._kernels = gpu.kernels(SOURCE)
        self._stream = gpu.stream("tiles")

    def takes(self, surface: Surface) -> bool:
        """Whether a frame lies in a GPU's memory, in a format that it shrinks: 4:2:0, of 8 bits or more."""
        return surface.memory is Memory.CUDA and surface.format in (PixelFormat.NV12, PixelFormat.I420)

    def shrunk(self, frames: Sequence[tuple[Surface, tuple[int, int]]]) -> list[Surface]:
        """Frames that it takes at their sizes, which are even, in GPU memory. Returns before they are there."""
        if not frames:
            return []
        stream, pairs, tiles = self._stream, [], []
        for surface, size_wh in frames:
            own = surface.to_device(self._gpu, stream=stream)
            tile = self._gpu.new_surface(
                own.format, size_wh=size_wh, stream=stream, matrix=own.matrix, color_range=own.range
            )
            tiles.append(tile)
            pairs.append((SurfaceView.of(own, own.arrays_on(stream)), SurfaceView.of(tile, tile.arrays_on(stream))))
        shrinking = pack(pairs)
        [content] = self._gpu.upload([shrinking.content], stream=stream)
        shrink(self._kernels, shrinking, content=content, stream=stream)
        done = stream.record()
        return [tile.written(done).shared() for tile in tiles]


@lru_cache(maxsize=1024)
def _map(size_wh: tuple[int, int], target_wh: tuple[int, int]) -> PlaneMap:
    averages = is_averaged(size_wh, target_wh=target_wh)
    return resized_map(size_wh, target_wh=target_wh, resize="area" if averages else "bilinear")
