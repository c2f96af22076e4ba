"""Pre-processing as a run does it: surfaces, table and input in a GPU's memory, in the order of streams."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from sightline.devices.gpu.gpu import Gpu
from sightline.media import PixelFormat, Surface
from sightline.testing.gpu.double import DoubleDriver
from sightline_plugins.kernels.convert import SOURCE as CONVERT
from sightline_plugins.kernels.convert import convert
from sightline_plugins.kernels.preprocess import SOURCE, pack, preprocess
from sightline_plugins.kernels.surfaces import SurfaceView
from sightline_plugins.kernels.tensor_form import TensorForm
from sightline_plugins.pixels.preprocess import HostPreprocessor, Preprocessing

DEFINITION = Preprocessing((64, 48))
FORM = TensorForm("nhwc")


@pytest.fixture
def gpu() -> Iterator[Gpu]:
    driver = DoubleDriver(memory_bytes=2**24, pinned_bytes=2**24)
    gpu = Gpu(driver)
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


def test_a_batch_of_surfaces_becomes_the_cpus_input(gpu: Gpu) -> None:
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


def test_a_surface_is_converted_into_another(gpu: Gpu) -> None:
    nv12 = images()[0]
    stream = gpu.stream("work")
    source = nv12.to_device(gpu, stream=stream)
    target = gpu.new_surface(PixelFormat.I420, size_wh=nv12.size_wh, stream=stream)

    views = [SurfaceView.of(surface, surface.arrays_on(stream)) for surface in (source, target)]
    convert(gpu.kernels(CONVERT), views[0], target=views[1], stream=stream)

    planes = target.written(stream.record()).to_host().planes
    assert np.array_equal(planes[0], nv12.planes[0])
    assert np.array_equal(np.stack(planes[1:], axis=-1), nv12.planes[1])
