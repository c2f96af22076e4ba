"""Brightness of frames in a GPU's memory is reduced there, and what moves is what moves on the CPU."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import KernelSource
from sightline.graph import RunsOn
from sightline.graph.tracker import Luma
from sightline.media import Batch, PixelFormat, Surface
from sightline.media.convert import luma_from_surface
from sightline.testing import make_frames
from sightline.testing.run import site_for
from sightline_plugins import Flow
from sightline_plugins.flow.cuda import SOURCE, CudaLumaReducer, pack, reduce_luma
from sightline_plugins.flow.luma import LumaReducer, SizeWh
from tests.fakes import FakeCudaDriver, HostKernels
from tests.parity.kernels.images import noise, view, wide_view
from tests.unit.cuda.host_arrays import dense, unset

SIZES: list[tuple[SizeWh, SizeWh]] = [
    *(((640, 360), (320, 180)), ((641, 361), (320, 180)), ((333, 201), (320, 193)), ((300, 200), (300, 200))),
    *(((640, 360), (160, 90)), ((768, 432), (320, 180)), ((333, 201), (66, 40)), ((200, 10), (200, 16))),
]
FORMATS = [PixelFormat.NV12, PixelFormat.I420, PixelFormat.I444, PixelFormat.GRAY8]


def frames_of(pixel_format: PixelFormat) -> list[tuple[Surface, SizeWh]]:
    """A frame of noise for each pair of sizes, and the size to which it is reduced."""
    return [(noise(pixel_format, size_wh, seed=seed), small_wh) for seed, (size_wh, small_wh) in enumerate(SIZES)]


def made_by_kernel(
    frames: list[tuple[Surface, SizeWh]], *, source: KernelSource | Path = SOURCE, bits: int = 8
) -> list[Luma]:
    views = [(view(one) if bits == 8 else wide_view(one, bits=bits), size_wh) for one, size_wh in frames]
    reduction = pack(views)
    made = unset(reduction.size_bytes, dtype=np.uint8)
    reduce_luma(HostKernels(source), reduction, content=dense(reduction.content), made=made)
    return reduction.images(made.values)


def differing(made: list[Luma], frames: list[tuple[Surface, SizeWh]]) -> list[int]:
    """How many samples of each image are not those of the CPU."""
    wanted = [LumaReducer().reduced(luma_from_surface(frame), size_wh) for frame, size_wh in frames]
    return [int(np.count_nonzero(one != other)) for one, other in zip(made, wanted, strict=True)]


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_every_sample_is_that_of_the_cpu(pixel_format: PixelFormat) -> None:
    frames = frames_of(pixel_format)

    assert differing(made_by_kernel(frames), frames) == [0] * len(SIZES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("job.to + (long long)y", "job.to + (long long)(job.height - 1 - y)"),
        ("content + data", "content + data + 16"),
        ("y * job.width + x", "x * job.height + y"),
    ],
    ids=["upside down", "other lists", "turned"],
)
def test_a_wrong_kernel_is_noticed(old: str, new: str) -> None:
    frames = [(noise(PixelFormat.NV12, (128, 96)), (60, 40))]

    made = made_by_kernel(frames, source=KernelSource.read(SOURCE).replaced(old, new))

    assert differing(made, frames)[0] > 500


def assert_reduced_as_on_the_cpu(gpu: CudaDevice) -> None:
    """All formats and sizes, in one launch for each format; of 10 bits, too."""
    for pixel_format in FORMATS:
        frames = frames_of(pixel_format)
        there = [(frame.to_device(gpu), size_wh) for frame, size_wh in frames]
        assert all(CudaLumaReducer(gpu).takes(frame) for frame, _ in there)

        assert differing(CudaLumaReducer(gpu).reduced(there), frames) == [0] * len(SIZES)


def test_frames_on_a_gpu_are_reduced_as_on_the_cpu(gpu: CudaDevice) -> None:
    assert_reduced_as_on_the_cpu(gpu)
    assert not CudaLumaReducer(gpu).takes(noise(PixelFormat.NV12, (64, 48)))
    assert not CudaLumaReducer(gpu).takes(noise(PixelFormat.RGB24, (64, 48)).to_device(gpu))


def test_samples_of_16_bits_become_levels_as_on_the_way_to_the_host() -> None:
    frame = noise(PixelFormat.NV12, (320, 180))

    [made] = made_by_kernel([(frame, (150, 80))], bits=10)

    wanted = LumaReducer().reduced(luma_from_surface(frame), (150, 80))
    assert np.abs(made.astype(int) - wanted).max() <= 1


def assert_flow_is_that_of_the_cpu(gpu: CudaDevice, folder: Path, mode: str) -> None:
    """Two streams in batches with a frame in host memory among those of the GPU."""
    element = Flow.model_validate({"mode": mode, "size": 64})
    clips = [
        make_frames(4, stream=name, size_wh=(192, 128), pixel_format=PixelFormat.NV12, seed=seed)
        for seed, name in enumerate(("a", "b"))
    ]
    on_cpu = element.build(site_for("flow", folder))
    on_gpu = element.build(site_for("flow", folder, gpu=gpu))

    for index, frames in enumerate(zip(*clips, strict=True)):
        there = [
            frame if index == 1 else dataclasses.replace(frame, surface=frame.surface.to_device(gpu))
            for frame in frames
        ]
        wanted, made = on_cpu.process(Batch(frames)), on_gpu.process(Batch(tuple(there)))
        assert isinstance(wanted, Batch)
        assert isinstance(made, Batch)
        assert len(made.tensors) == (2 if index else 0)
        for one, other in zip(made.tensors, wanted.tensors, strict=True):
            np.testing.assert_array_equal(one.values, other.values)
    assert on_gpu.runs_on() == RunsOn(reason=f"6 images were reduced on {gpu}")
    assert on_cpu.runs_on() == RunsOn()


@pytest.mark.parametrize("mode", ["dense", "sparse"])
def test_flow_of_frames_on_a_gpu_is_that_of_the_cpu_and_only_small_images_come_down(
    gpu: CudaDevice, driver: FakeCudaDriver, tmp_path: Path, mode: str
) -> None:
    assert_flow_is_that_of_the_cpu(gpu, tmp_path, mode)

    assert driver.launched.count("reduce_luma") == 3
    assert gpu.transfers.counts.device_to_host_bytes == 6 * 64 * 43
    assert gpu.transfers.counts.device_to_host_copies == 3
