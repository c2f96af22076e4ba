"""Views of frames in a GPU's memory are computed there, and have the pixels of the CPU."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import KernelSource
from sightline.graph import RunsOn
from sightline.media import Batch, Memory, PixelFormat, Surface
from sightline.testing import make_frames
from sightline.testing.run import site_for
from sightline_plugins import Dewarp
from sightline_plugins.warp.cuda import SOURCE, PackedMaps, jobs_of, launch
from sightline_plugins.warp.remap import PlaneMap, plane_shifts, remap
from tests.fakes import FakeCudaDriver, HostKernels
from tests.parity.kernels.images import noise, view
from tests.unit.cuda.host_arrays import dense

FORMATS = [PixelFormat.NV12, PixelFormat.I420]
FROM_WH, TO_WH = (150, 97), (121, 64)


def maps_of(pixel_format: PixelFormat) -> tuple[PlaneMap, ...]:
    """A turned and bent image, a part of which nothing is seen in, with places on its edges and between its pixels."""
    maps = []
    for shift in plane_shifts(pixel_format):
        width, height = (-(-size // (1 << bits)) for size, bits in zip(TO_WH, shift, strict=True))
        x, y = np.meshgrid(
            (np.arange(width) + 0.5) * (1 << shift[0]), (np.arange(height) + 0.5) * (1 << shift[1]), indexing="xy"
        )
        pixels = np.stack([1.3 * x - 0.4 * y + 0.002 * x * y, 0.3 * x + 1.5 * y - 12], axis=-1)
        pixels[(x > 90) & (y < 20)] = np.nan
        maps.append(PlaneMap.of(pixels, size_wh=FROM_WH, shift=shift))
    return tuple(maps)


def made_by_kernel(frames: list[Surface], *, source: KernelSource | Path = SOURCE) -> list[Surface]:
    luma, chroma = maps_of(frames[0].format)
    packed = PackedMaps.of((luma, chroma))
    made = [noise(frame.format, TO_WH) for frame in frames]
    jobs = jobs_of([(view(frame), view(into)) for frame, into in zip(frames, made, strict=True)], packed)
    launch(HostKernels(source), dense(jobs), maps=dense(packed.content), size_wh=TO_WH, count=len(frames))
    return made


def differing(made: Surface, frame: Surface) -> int:
    """How many samples are not those of the CPU."""
    wanted = remap(frame, maps_of(frame.format), size_wh=TO_WH)
    return sum(int(np.count_nonzero(one != other)) for one, other in zip(made.planes, wanted.planes, strict=True))


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_every_sample_is_that_of_the_cpu(pixel_format: PixelFormat) -> None:
    frames = [noise(pixel_format, FROM_WH, seed=seed) for seed in range(3)]

    made = made_by_kernel(frames)

    assert [differing(one, frame) for one, frame in zip(made, frames, strict=True)] == [0, 0, 0]
    assert (made[0].planes[0] == 16).any(), "some of it is black"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("within & 31, within >> 5", "within >> 5, within & 31"),
        ("+ 512) >> 10", ") >> 10"),
        ("job.black", "0"),
        ("mixed(place, a.v, b.v, c.v, d.v)", "mixed(place, a.u, b.u, c.u, d.u)"),
        ("y * job.to_chroma_wh[0] + x", "y * job.to.width + x"),
    ],
    ids=["axes swapped", "cut down", "another black", "one chroma", "rows of luma"],
)
def test_a_wrong_kernel_is_noticed(old: str, new: str) -> None:
    frame = noise(PixelFormat.NV12, FROM_WH)

    (made,) = made_by_kernel([frame], source=KernelSource.read(SOURCE).replaced(old, new))

    assert differing(made, frame) > 100


def assert_views_are_those_of_the_cpu(gpu: CudaDevice, folder: Path, pixel_format: PixelFormat) -> None:
    """Two batches with a frame in host memory among those of the GPU, also where the format is not taken."""
    element = Dewarp.model_validate(
        {"lens": {"fov": 180}, "views": {"a": {"size": [64, 48]}, "b": {"yaw": 40, "size": [64, 48]}}}
    )
    frames = make_frames(3, size_wh=(128, 128), pixel_format=pixel_format)
    there = [dataclasses.replace(frame, surface=frame.surface.to_device(gpu)) for frame in frames[:2]]
    on_cpu = element.build(site_for("dewarp", folder))
    on_gpu = element.build(site_for("dewarp", folder, gpu=gpu))

    wanted = on_cpu.process(Batch(tuple(frames)))
    first = on_gpu.process(Batch((there[0], frames[2], there[1])))
    made = on_gpu.process(Batch((there[0], frames[2], there[1])))

    assert isinstance(wanted, Batch)
    assert isinstance(first, Batch)
    assert isinstance(made, Batch)
    is_taken = pixel_format in FORMATS
    memory = [Memory.CUDA, Memory.HOST, Memory.CUDA] if is_taken else [Memory.HOST] * 3
    assert [frame.surface.memory for frame in made.frames] == memory
    for one, other in zip(made.frames, [wanted.frames[row] for row in (0, 2, 1)], strict=True):
        assert one.views is not None
        assert other.views is not None
        assert one.views.names == other.views.names
        for plane, expected in zip(one.surface.to_host().planes, other.surface.planes, strict=True):
            assert np.array_equal(plane, expected)
    reason = "2 of 6 images lay in host memory, or were not 4:2:0 of 8 bits" if is_taken else ""
    assert on_gpu.runs_on() == RunsOn("cuda:0", reason) or not is_taken
    assert on_cpu.runs_on() == RunsOn()


@pytest.mark.parametrize("pixel_format", [*FORMATS, PixelFormat.BGR24])
def test_frames_on_a_gpu_become_the_views_of_the_cpu(
    gpu: CudaDevice, driver: FakeCudaDriver, tmp_path: Path, pixel_format: PixelFormat
) -> None:
    assert_views_are_those_of_the_cpu(gpu, tmp_path, pixel_format)

    assert driver.launched.count("remap_images") == (2 if pixel_format in FORMATS else 0)
