"""Take the pixels of images in a GPU's memory from elsewhere, there: the twin of `remap.remap`, to the level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import Kernels, blocks_for
from sightline.media import Memory, PixelFormat, Surface
from sightline.media.device_array import DeviceArray
from sightline_plugins.cuda.records import SURFACE, Bytes, DeviceData, Packing, SurfaceView
from sightline_plugins.warp.remap import PlaneMap, black_of

SOURCE = Path(__file__).with_suffix(".cu")
_MAPS = ("luma_whole", "luma_part", "chroma_whole", "chroma_part")
JOB = np.dtype(
    [
        ("from", SURFACE),
        ("to", SURFACE),
        *((name, "<i8") for name in _MAPS),
        ("from_chroma_wh", "<i4", (2,)),
        ("to_chroma_wh", "<i4", (2,)),
        ("black", "<i4"),
        ("unused", "<i4"),
    ],
    align=True,
)
_BLOCK = (32, 8)


@dataclass(frozen=True, slots=True, eq=False)
class PackedMaps:
    """The maps of luma and chroma in one array, which is to be copied to the device, and where each part begins."""

    content: Bytes
    places: tuple[int, ...]

    @classmethod
    def of(cls, maps: tuple[PlaneMap, PlaneMap]) -> PackedMaps:
        """Pack the maps of an image with chroma."""
        packing = Packing()
        places = tuple([packing.place(array) for one in maps for array in (one.whole, one.part)])
        return cls(packing.joined(), places)


def jobs_of(pairs: Sequence[tuple[SurfaceView, SurfaceView]], maps: PackedMaps) -> Bytes:
    """The table for what makes the second image of each pair of the first one."""
    table = np.zeros(len(pairs), JOB)
    for number, (frame, made) in enumerate(pairs):
        row = table[number]
        row["from"], row["to"] = frame.record, made.record
        for name, place in zip(_MAPS, maps.places, strict=True):
            row[name] = place
        for name, one in (("from_chroma_wh", frame), ("to_chroma_wh", made)):
            height, width = one.format.plane_shapes(one.size_wh)[1][:2]
            row[name] = width, height
        row["black"] = black_of(frame.format, frame.range)[0]
    return table.view(np.uint8)


def launch(
    kernels: Kernels, jobs: DeviceData, *, maps: DeviceData, size_wh: tuple[int, int], count: int, stream: object = None
) -> None:
    """Queue the kernel for so many images of that size. The caller lets the stream wait for what they are made of."""
    width, height = size_wh
    kernels["remap_images"](
        jobs,
        maps,
        grid=(blocks_for(width, block=_BLOCK[0]), blocks_for(height, block=_BLOCK[1]), count),
        block=_BLOCK,
        stream=stream,
    )


class CudaRemapper:
    """Makes images on one GPU, on a stream of its own; used by one thread. Maps are copied to the GPU once."""

    def __init__(self, gpu: CudaDevice) -> None:
        self._gpu = gpu
        self._kernels = gpu.kernels(SOURCE)
        self._stream = gpu.stream("views")

    def __str__(self) -> str:
        return str(self._gpu)

    def takes(self, surface: Surface) -> bool:
        """Whether an image lies in a GPU's memory, in a format that it makes: 4:2:0 of 8 bits."""
        is_known = surface.format in (PixelFormat.NV12, PixelFormat.I420)
        return surface.memory is Memory.CUDA and is_known and not surface.is_wide

    def put(self, maps: tuple[PlaneMap, ...]) -> tuple[PackedMaps, DeviceArray]:
        """Copy the maps of luma and chroma to the GPU."""
        luma, chroma = maps
        packed = PackedMaps.of((luma, chroma))
        [content] = self._gpu.upload([packed.content], stream=self._stream)
        return packed, content

    def remapped(
        self, images: Sequence[Surface], maps: tuple[PackedMaps, DeviceArray], *, size_wh: tuple[int, int]
    ) -> list[Surface]:
        """Return images of that size, exclusive, in GPU memory; those that it takes share the maps, a format and a
        size. Returns before they are there.
        """
        stream, (packed, content) = self._stream, maps
        pairs, made = [], []
        for image in images:
            own = image.to_device(self._gpu, stream=stream)
            into = self._gpu.new_surface(
                own.format, size_wh=size_wh, stream=stream, matrix=own.matrix, color_range=own.range
            )
            made.append(into)
            pairs.append((SurfaceView.of(own, own.arrays_on(stream)), SurfaceView.of(into, into.arrays_on(stream))))
        [jobs] = self._gpu.upload([jobs_of(pairs, packed)], stream=stream)
        launch(self._kernels, jobs, maps=content, size_wh=size_wh, count=len(images), stream=stream)
        done = stream.record()
        return [one.written(done) for one in made]
