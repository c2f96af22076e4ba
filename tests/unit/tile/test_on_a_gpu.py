"""Frames in a GPU's memory become small there, and have the pixels of the CPU."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import KernelSource
from sightline.media import Batch, Memory, PixelFormat, Stream, Surface
from sightline.testing import make_frames
from sightline.testing.run import site_for
from sightline_plugins import Tile
from sightline_plugins.cuda.records import SurfaceView
from sightline_plugins.tile.canvas import FrameResizer
from sightline_plugins.tile.cuda import SOURCE, CudaShrinker, pack, shrink
from tests.fakes import FakeCudaDriver, HostKernels
from tests.parity.kernels.images import noise, view, wide_view
from tests.unit.cuda.host_arrays import dense
from tests.unit.tile.test_tile import decoded

SIZES = [((640, 360), (480, 270)), ((640, 360), (160, 90)), ((333, 201), (66, 40)), ((640, 360), (320, 180))]
FORMATS = [PixelFormat.NV12, PixelFormat.I420]


def made_by_kernel(
    frames: list[SurfaceView], sizes: list[tuple[int, int]], *, source: KernelSource | Path = SOURCE
) -> list[Surface]:
    tiles = [noise(frame.format, size_wh) for frame, size_wh in zip(frames, sizes, strict=True)]
    shrinking = pack([(frame, view(tile)) for frame, tile in zip(frames, tiles, strict=True)])
    shrink(HostKernels(source), shrinking, content=dense(shrinking.content))
    return tiles


def differing(made: Surface, frame: Surface) -> int:
    """How many samples are not those of the CPU."""
    wanted = FrameResizer().shrunk(frame, made.size_wh)
    return sum(int(np.count_nonzero(one != other)) for one, other in zip(made.planes, wanted.planes, strict=True))


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_every_sample_is_that_of_the_cpu(pixel_format: PixelFormat) -> None:
    frames = [noise(pixel_format, size_wh, seed=number) for number, (size_wh, _) in enumerate(SIZES)]

    made = made_by_kernel([view(frame) for frame in frames], [target_wh for _, target_wh in SIZES])

    assert [differing(tile, frame) for tile, frame in zip(made, frames, strict=True)] == [0] * len(SIZES)


def test_samples_of_16_bits_become_levels() -> None:
    frame = noise(PixelFormat.NV12, (320, 180))

    (made,) = made_by_kernel([wide_view(frame, bits=10)], [(240, 136)])

    wanted = FrameResizer().shrunk(frame, (240, 136))
    assert (
        max(int(np.abs(one.astype(int) - other).max()) for one, other in zip(made.planes, wanted.planes, strict=True))
        <= 1
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("put_luma(job.to, x, y", "put_luma(job.to, x, job.to.height - 1 - y"),
        ("{chroma.of[0], chroma.of[1]}", "{chroma.of[1], chroma.of[0]}"),
        ("x >= job.to.width >> 1", "x >= job.to.width >> 2"),
    ],
    ids=["upside down", "swapped chroma", "half of the chroma"],
)
def test_a_wrong_kernel_is_noticed(old: str, new: str) -> None:
    frame = noise(PixelFormat.NV12, (128, 96))

    (made,) = made_by_kernel([view(frame)], [(96, 72)], source=KernelSource.read(SOURCE).replaced(old, new))

    assert differing(made, frame) > 1000


def test_frames_that_it_cannot_shrink_are_left(gpu: CudaDevice) -> None:
    shrinker = CudaShrinker(gpu)

    assert shrinker.shrunk([]) == []
    assert not shrinker.takes(noise(PixelFormat.NV12, (64, 48)))
    assert not shrinker.takes(noise(PixelFormat.RGB24, (64, 48)).to_device(gpu))


def test_a_wall_of_frames_on_a_gpu_is_that_of_the_cpu_and_only_tiles_come_down(
    gpu: CudaDevice, driver: FakeCudaDriver, tmp_path: Path
) -> None:
    streams = {
        name: make_frames(6, stream=name, size_wh=(160, 90), pixel_format=PixelFormat.NV12, seed=seed)
        for seed, name in enumerate(("a", "b"))
    }
    element = Tile.model_validate({"size": [256, 72], "video": {"path": "wall.mp4", "quality": 0}})
    for where in ("cpu", "gpu"):
        used = gpu if where == "gpu" else None
        operator = element.build(site_for("wall", tmp_path / where, gpu=used, streams=tuple(streams)))
        for frames in zip(*streams.values(), strict=True):
            there = (
                frames
                if used is None
                else [dataclasses.replace(frame, surface=frame.surface.to_device(used)) for frame in frames]
            )
            assert {frame.surface.memory for frame in there} == {Memory.HOST if used is None else Memory.CUDA}
            operator.process(Batch(tuple(there)))
        for name in streams:
            operator.end_stream(Stream(name))
        operator.drain()
        operator.close()

    by_cpu, by_gpu = (decoded(tmp_path / where / "wall.mp4") for where in ("cpu", "gpu"))
    assert len(by_cpu) == len(by_gpu) == 6
    assert all(np.array_equal(one, other) for one, other in zip(by_cpu, by_gpu, strict=True))
    assert set(driver.launched) == {"shrink"}
    tile_bytes = 128 * 72 * 3 // 2
    assert gpu.transfers.counts.device_to_host_bytes <= 12 * 1.6 * tile_bytes
