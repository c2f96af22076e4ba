"""Reduce the brightness of frames in a GPU's memory, there: the twin of `luma.LumaReducer`, to the level.

So what comes down to the host is a small image, and not the frame. All frames of a batch are reduced in one launch, by
the filters and in the arithmetic of the CPU, and come down in one copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import Kernels, blocks_for
from sightline.graph.tracker import Luma
from sightline.media import Memory, PixelFormat, Surface
from sightline_plugins.cuda.records import SURFACE, Bytes, DeviceData, Packing, SurfaceView
from sightline_plugins.flow.luma import SizeWh, is_far
from sightline_plugins.preprocess.cuda_maps import PLANE_MAP, PlaneMap, resized_map

SOURCE = Path(__file__).with_suffix(".cu")
JOB = np.dtype([("from", SURFACE), ("luma", PLANE_MAP), ("to", "<i8"), ("size_wh", "<i4", (2,))], align=True)
_BLOCK = (32, 8)


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """Frames and the sizes of what is made of them: `content` is to be copied to the device, `data` says where its
    lists begin, and `starts` where each image begins in what is made, of `size_bytes`.

    It holds addresses: surfaces stay where they are until the kernel is done.
    """

    content: Bytes
    data: int
    sizes: tuple[SizeWh, ...]
    starts: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """All images together, one behind the other."""
        width, height = self.sizes[-1]
        return self.starts[-1] + width * height

    def images(self, made: Bytes) -> list[Luma]:
        """Each image (h, w), as a copy of its part of what was made (`size_bytes`,)."""
        return [
            made[start : start + width * height].reshape(height, width).copy()
            for start, (width, height) in zip(self.starts, self.sizes, strict=True)
        ]


def pack(frames: Sequence[tuple[SurfaceView, SizeWh]]) -> Reduction:
    """What reduces the luma of frames, one or more, to these sizes."""
    table, data, starts = np.zeros(len(frames), JOB), Packing(), [0]
    for number, (frame, size_wh) in enumerate(frames):
        row = table[number]
        row["from"], row["to"], row["size_wh"] = frame.record, starts[-1], size_wh
        _map(frame.size_wh, size_wh).write(table["luma"], number, data)
        starts.append(starts[-1] + size_wh[0] * size_wh[1])
    content = Packing()
    content.place(table)
    start = content.nest(data)
    return Reduction(content.joined(), start, tuple(size_wh for _, size_wh in frames), tuple(starts[:-1]))


def reduce_luma(
    kernels: Kernels, reduction: Reduction, *, content: DeviceData, made: DeviceData, stream: object = None
) -> None:
    """Queue the kernel; `content` is that of `reduction` on the device, `made` (`size_bytes`,) is written. The caller
    lets the stream wait for the frames.
    """
    width, height = (max(sides) for sides in zip(*reduction.sizes, strict=True))
    kernels["reduce_luma"](
        content,
        reduction.data,
        made,
        grid=(blocks_for(width, block=_BLOCK[0]), blocks_for(height, block=_BLOCK[1]), len(reduction.sizes)),
        block=_BLOCK,
        stream=stream,
    )


class CudaLumaReducer:
    """Reduces the brightness of frames on one GPU, on a stream of its own; used by one thread."""

    def __init__(self, gpu: CudaDevice) -> None:
        self._gpu = gpu
        self._kernels = gpu.kernels(SOURCE)
        self._stream = gpu.stream("brightness")

    def __str__(self) -> str:
        return str(self._gpu)

    def takes(self, surface: Surface) -> bool:
        """Whether a frame lies in a GPU's memory, in a format with luma: YUV or grey, of 8 bits or as decoders give
        more.
        """
        has_luma = surface.format.is_yuv or surface.format is PixelFormat.GRAY8
        is_known = surface.format is PixelFormat.NV12 or not surface.is_wide
        return surface.memory is Memory.CUDA and has_luma and is_known

    def reduced(self, frames: Sequence[tuple[Surface, SizeWh]]) -> list[Luma]:
        """Return the brightness of frames that it takes, one or more, each at its size: new images (h, w) in host
        memory. Waits for them, without the GIL.
        """
        stream, views, held = self._stream, [], []
        for surface, size_wh in frames:
            own = surface.to_device(self._gpu, stream=stream)
            held.append(own)
            views.append((SurfaceView.of(own, own.arrays_on(stream)), size_wh))
        reduction = pack(views)
        [content] = self._gpu.upload([reduction.content], stream=stream)
        made = self._gpu.empty((reduction.size_bytes,), np.uint8, stream=stream)
        reduce_luma(self._kernels, reduction, content=content, made=made, stream=stream)
        [images] = self._gpu.download([made.written(stream.record())]).wait()
        return reduction.images(images)


@lru_cache(maxsize=256)
def _map(size_wh: SizeWh, target_wh: SizeWh) -> PlaneMap:
    return resized_map(size_wh, target_wh=target_wh, resize="area" if is_far(size_wh, target_wh) else "bilinear")
