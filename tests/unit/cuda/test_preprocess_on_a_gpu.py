"""Pre-processing as a run does it: surfaces, table and input in a GPU's memory, in the order of streams."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.media import PixelFormat, Surface
from sightline_plugins.cuda.records import SurfaceView
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.cuda import SOURCE, TensorForm, pack, preprocess
from sightline_plugins.preprocess.definition import Preprocessing
from tests.fakes.cuda_driver import FakeCudaDriver

DEFINITION = Preprocessing((64, 48))
FORM = TensorForm("nhwc")


@pytest.fixture
def gpu() -> Iterator[CudaDevice]:
    driver = FakeCudaDriver(memory_bytes=2**24, pinned_bytes=2**24)
    gpu = CudaDevice(driver)
    yield gpu
    gpu.close()
    driver.check()


def images() -> list[Surface]:
    random = np.random.default_rng(1)
    surfaces = []
    for kind, size_wh in ((PixelFormat.NV12, (131, 77)), (PixelFormat.I420, (64, 90)), (PixelFormat.BGR24, (33, 20))):
        surface = Surface.allocate(kind, size_wh=size_wh)
        for plane in surface.planes:
            plane[:] = random.integers(0, 256, plane.shape, np.uint8)
        surfaces.append(surface)
    return surfaces


def test_a_batch_of_surfaces_becomes_the_cpus_input(gpu: CudaDevice) -> None:
    surfaces = images()
    places = [DEFINITION.place_fractions((0.0, 0.0, 1.0, 1.0), surface) for surface in surfaces]
    on_gpu = [surface.to_device(gpu) for surface in surfaces]
    stream = gpu.stream("work")
    views = [SurfaceView.of(surface, surface.arrays_on(stream)) for surface in on_gpu]
    jobs = pack(list(zip(views, places, strict=True)), DEFINITION)
    (content,) = gpu.upload([jobs.content], stream=stream)
    out = gpu.empty(FORM.shape(3, channels=3, size_wh=(64, 48)), FORM.dtype, stream=stream)

    preprocess(gpu.kernels(SOURCE), jobs, content=content, out=out, definition=DEFINITION, form=FORM, stream=stream)

    prepared = out.written(stream.record()).to_host()
    expected = [
        HostPreprocessor(DEFINITION).prepare(*part).image[0] / 255 for part in zip(surfaces, places, strict=True)
    ]
    assert np.allclose(prepared, expected, atol=1.01 / 255)
    assert np.mean(~np.isclose(prepared, expected)) < 0.001
