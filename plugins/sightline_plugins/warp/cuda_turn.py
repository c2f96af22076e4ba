"""Turn, scale and shift images in a GPU's memory, there: the twin of `remap.turn`, to the level."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import Kernels, blocks_for
from sightline.media import Memory, PixelFormat, Surface
from sightline_plugins.cuda.records import SURFACE, Bytes, DeviceData, SurfaceView
from sightline_plugins.preprocess.cuda_maps import PLANE_MAP, warped_map
from sightline_plugins.warp.remap import Border, Turning, black_of, turn_matrices

SOURCE = Path(__file__).with_suffix(".cu")
JOB = np.dtype(
    [
        ("from", SURFACE),
        ("to", SURFACE),
        ("luma", PLANE_MAP),
        ("chroma", PLANE_MAP),
        ("chroma_wh", "<i4", (2,)),
        ("black", "<i4"),
        ("unused", "<i4"),
    ],
    align=True,
)
_BLOCK = (32, 8)


def jobs_of(moves: Sequence[tuple[SurfaceView, SurfaceView, Turning]], *, border: Border) -> Bytes:
    """The table for what makes the second image of each move of the first one; both have one format and size."""
    table = np.zeros(len(moves), JOB)
    for number, (frame, made, turning) in enumerate(moves):
        row = table[number]
        row["from"], row["to"] = frame.record, made.record
        matrices = turn_matrices(frame.format, frame.size_wh, turning=turning)
        shapes = frame.format.plane_shapes(frame.size_wh)
        for name, (height, width, *_), matrix in zip(("luma", "chroma"), shapes, matrices, strict=False):
            row[name] = warped_map((width, height), matrix, around=0 if border == "edge" else 1)
        row["chroma_wh"] = shapes[1][1], shapes[1][0]
        row["black"] = black_of(frame.format, frame.range)[0]
    return table.view(np.uint8)


def launch(kernels: Kernels, jobs: DeviceData, *, size_wh: tuple[int, int], count: int, stream: object = None) -> None:
    """Queue the kernel for so many images, none larger than that. The caller lets the stream wait for them."""
    width, height = size_wh
    kernels["turn_images"](
        jobs,
        grid=(blocks_for(width, block=_BLOCK[0]), blocks_for(height, block=_BLOCK[1]), count),
        block=_BLOCK,
        stream=stream,
    )


class CudaTurner:
    """Moves images on one GPU, on a stream of its own; used by one thread."""

    def __init__(self, gpu: CudaDevice) -> None:
        self._gpu = gpu
        self._kernels = gpu.kernels(SOURCE)
        self._stream = gpu.stream("steadied images")

    def __str__(self) -> str:
        return str(self._gpu)

    def takes(self, surface: Surface) -> bool:
        """Whether an image lies in a GPU's memory, in a format that it makes: 4:2:0 of 8 bits."""
        is_known = surface.format in (PixelFormat.NV12, PixelFormat.I420)
        return surface.memory is Memory.CUDA and is_known and not surface.is_wide

    def turned(self, images: Sequence[tuple[Surface, Turning]], *, border: Border) -> list[Surface]:
        """Return images that it takes as they are when they are moved like that, exclusive, in GPU memory. Returns
        before they are there.
        """
        if not images:
            return []
        stream, moves, made = self._stream, [], []
        for image, turning in images:
            own = image.to_device(self._gpu, stream=stream)
            into = self._gpu.new_surface(
                own.format, size_wh=own.size_wh, stream=stream, matrix=own.matrix, color_range=own.range
            )
            made.append(into)
            before, after = (SurfaceView.of(one, one.arrays_on(stream)) for one in (own, into))
            moves.append((before, after, turning))
        [jobs] = self._gpu.upload([jobs_of(moves, border=border)], stream=stream)
        width, height = (max(sides) for sides in zip(*[image.size_wh for image in made], strict=True))
        launch(self._kernels, jobs, size_wh=(width, height), count=len(made), stream=stream)
        done = stream.record()
        return [one.written(done) for one in made]
