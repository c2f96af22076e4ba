"""Frames in a GPU's memory are steadied there, and have the pixels of the CPU."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import KernelSource
from sightline.graph import RunsOn
from sightline.media import Batch, Frame, Memory, PixelFormat, Stream, Surface
from sightline.media.frame import NANOSECONDS
from sightline.testing.run import site_for
from sightline_plugins import Stabilise
from sightline_plugins.warp.cuda_turn import SOURCE, jobs_of, launch
from sightline_plugins.warp.remap import Border, Turning, turn
from tests.fakes import FakeCudaDriver, HostKernels
from tests.parity.kernels.images import noise, view
from tests.unit.cuda.host_arrays import dense
from tests.unit.warp.test_stabilise import RATE, SIZE_WH, seen, shaking

FORMATS = [PixelFormat.NV12, PixelFormat.I420]
BORDERS: list[Border] = ["edge", "black"]
TURNINGS = [
    Turning((3.3, -7.8), 0.02),
    Turning((-41.0, 18.25), -0.087, 1.25),
    Turning((0.0, 0.0), 0.0, 1.1),
    Turning((5.0, 2.0), 0.0),
]
SIZES = [(150, 97), (151, 64), (320, 180), (33, 21)]


def made_by_kernel(frames: list[Surface], *, border: Border, source: KernelSource | Path = SOURCE) -> list[Surface]:
    made = [noise(frame.format, frame.size_wh, seed=99) for frame in frames]
    moves = [(view(one), view(other), how) for one, other, how in zip(frames, made, TURNINGS, strict=False)]
    launch(HostKernels(source), dense(jobs_of(moves, border=border)), size_wh=(320, 180), count=len(frames))
    return made


def differing(made: Surface, frame: Surface, turning: Turning, *, border: Border) -> int:
    """How many samples are not those of the CPU."""
    wanted = turn(frame, turning, border=border)
    return sum(int(np.count_nonzero(one != other)) for one, other in zip(made.planes, wanted.planes, strict=True))


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("pixel_format", FORMATS)
def test_every_sample_is_that_of_the_cpu(pixel_format: PixelFormat, border: Border) -> None:
    frames = [noise(pixel_format, size_wh, seed=seed) for seed, size_wh in enumerate(SIZES)]

    made = made_by_kernel(frames, border=border)

    rows = zip(made, frames, TURNINGS, strict=True)
    assert [differing(one, frame, how, border=border) for one, frame, how in rows] == [0] * len(SIZES)


@pytest.mark.parametrize("border", BORDERS)
def test_chroma_in_pairs_is_that_of_planes(border: Border) -> None:
    planes = noise(PixelFormat.I420, (150, 98))
    luma, u, v = planes.planes
    pairs = Surface(PixelFormat.NV12, planes.size_wh, (luma, np.stack([u, v], axis=-1)))

    by_planes, by_pairs = (turn(one, TURNINGS[0], border=border) for one in (planes, pairs))

    assert np.array_equal(np.stack(by_planes.planes[1:], axis=-1), by_pairs.planes[1])


@pytest.mark.parametrize(
    ("old", "new", "border"),
    [
        ("map.warped_y(column, row)", "map.warped_y(column, row + 1)", "edge"),
        ("mixed(across - x, down - y)", "mixed(down - y, across - x)", "edge"),
        ("{{job.black}}", "{{0}}", "black"),
        ("{{128, 128}}", "{{0, 0}}", "black"),
        ("moved<2>(job.chroma", "moved<2>(job.luma", "edge"),
        ("x >= job.chroma_wh[0]", "x >= job.chroma_wh[0] - 4", "edge"),
    ],
    ids=["a row too far", "axes swapped", "another black", "another grey", "places of luma", "too little chroma"],
)
def test_a_wrong_kernel_is_noticed(old: str, new: str, border: Border) -> None:
    frame = noise(PixelFormat.NV12, SIZES[0])

    [made] = made_by_kernel([frame], border=border, source=KernelSource.read(SOURCE).replaced(old, new))

    assert differing(made, frame, TURNINGS[0], border=border) > 100


def on_the_mast(pixel_format: PixelFormat) -> list[Frame]:
    """What a shaking camera sees, with some colour."""
    frames = []
    for index, path in enumerate(shaking(5)):
        surface = Surface.allocate(pixel_format, size_wh=SIZE_WH)
        surface.planes[0][...] = seen(path).reshape(*SIZE_WH[::-1], *(1,) * (surface.planes[0].ndim - 2))
        for plane in surface.planes[1:]:
            plane[...] = np.arange(plane.size, dtype=np.uint8).reshape(plane.shape)
        frames.append(Frame(Stream("mast"), index, index * NANOSECONDS // RATE, surface.shared()))
    return frames


def assert_steadied_as_on_the_cpu(gpu: CudaDevice, folder: Path, pixel_format: PixelFormat, border: str) -> None:
    """A batch with a frame in host memory among those of the GPU, also where the format is not taken."""
    element = Stabilise.model_validate({"border": border})
    frames = on_the_mast(pixel_format)
    there = [
        frame if frame.index == 3 else dataclasses.replace(frame, surface=frame.surface.to_device(gpu))
        for frame in frames
    ]
    on_cpu = element.build(site_for("stabilise", folder))
    on_gpu = element.build(site_for("stabilise", folder, gpu=gpu))

    wanted, made = on_cpu.process(Batch(tuple(frames))), on_gpu.process(Batch(tuple(there)))

    assert isinstance(wanted, Batch)
    assert isinstance(made, Batch)
    for one, other in zip(made.frames, wanted.frames, strict=True):
        assert other.index == 0 or border == "crop" or one.surface is not there[one.index].surface
        for plane, expected in zip(one.surface.to_host().planes, other.surface.planes, strict=True):
            assert np.array_equal(plane, expected)
    for mine, its in zip(made.tensors, wanted.tensors, strict=True):
        np.testing.assert_array_equal(mine.values, its.values)
    is_taken = pixel_format in FORMATS
    assert [frame.surface.memory for frame in made.frames[1:]] == (
        [Memory.CUDA, Memory.CUDA, Memory.HOST, Memory.CUDA] if is_taken else [Memory.HOST] * 4
    )
    copied = 3 + (border == "crop")
    assert on_gpu.runs_on() == (
        RunsOn(str(gpu)) if is_taken else RunsOn(reason=f"{copied} images were copied from a GPU")
    )
    assert on_cpu.runs_on() == RunsOn()


@pytest.mark.parametrize(
    ("pixel_format", "border"),
    [(PixelFormat.NV12, "edge"), (PixelFormat.I420, "black"), (PixelFormat.NV12, "crop"), (PixelFormat.BGR24, "crop")],
)
def test_frames_on_a_gpu_are_steadied_as_on_the_cpu(
    gpu: CudaDevice, tmp_path: Path, pixel_format: PixelFormat, border: str
) -> None:
    assert_steadied_as_on_the_cpu(gpu, tmp_path, pixel_format, border)


def test_only_the_brightness_comes_down(gpu: CudaDevice, driver: FakeCudaDriver, tmp_path: Path) -> None:
    frames = [
        dataclasses.replace(frame, surface=frame.surface.to_device(gpu)) for frame in on_the_mast(PixelFormat.NV12)
    ]

    Stabilise().build(site_for("stabilise", tmp_path, gpu=gpu)).process(Batch(tuple(frames)))

    width, height = SIZE_WH
    assert driver.launched == ["reduce_luma", "turn_images"]
    assert gpu.transfers.counts.device_to_host_bytes == len(frames) * width * height
    assert gpu.transfers.counts.device_to_host_copies == 1
