"""How often the real driver calls CUDA, exactly: whoever changes a number here changes what each frame costs.

What belongs together is done in one block, which pushes the GPU's context and pops it again. Memory that goes back when
the host has seen that its work is done asks for nothing. What is made is made once and used again.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.media import PixelFormat, Surface
from sightline.testing import make_frames
from sightline_plugins.preprocess.cuda import CudaPreprocessor
from sightline_plugins.preprocess.definition import Part, Preprocessing
from tests.null_driver import NullCudaDriver, NullDriver, fresh_null_driver

DEFINITION = Preprocessing((64, 48))
WARM_ROUNDS = 12


@pytest.fixture
def null() -> NullDriver:
    return fresh_null_driver()


@pytest.fixture
def gpu(null: NullDriver) -> Iterator[CudaDevice]:
    """Closed after the test, when nothing may be left."""
    gpu = CudaDevice(NullCudaDriver())
    yield gpu
    gc.collect()
    gpu.close()
    null.check_nothing_left()


def surfaces(count: int) -> list[Surface]:
    return [frame.surface for frame in make_frames(count, size_wh=(128, 90), pixel_format=PixelFormat.NV12)]


def steady(null: NullDriver, work: Callable[[], object]) -> Counter[str]:
    """The calls of some work that was done often enough to have all memory, streams and events that it needs."""
    for _ in range(WARM_ROUNDS):
        work()
    with null.counting() as counter:
        work()
    return counter


def context_calls(count: int) -> dict[str, int]:
    return {"cuCtxPushCurrent": count, "cuCtxPopCurrent": count}


def test_opening_and_closing_a_gpu(null: NullDriver) -> None:
    with null.counting() as opening:
        gpu = CudaDevice(NullCudaDriver())
    with null.counting() as closing:
        gpu.close()

    assert opening == {
        "cuInit": 1,
        "cuDeviceGet": 1,
        "cuDeviceGetName": 1,
        "cuDeviceGetAttribute": 2,
        "cuDevicePrimaryCtxRetain": 1,
        "cuStreamCreate": 1,
        "cuMemGetInfo": 1,
        **context_calls(2),
    }
    assert closing == {"cuStreamQuery": 1, "cuStreamDestroy": 1, "cuDevicePrimaryCtxRelease": 1, **context_calls(2)}


def test_the_upload_of_a_frame(gpu: CudaDevice, null: NullDriver) -> None:
    [surface] = surfaces(1)

    calls = steady(null, lambda: gpu.upload(surface.planes))

    assert calls == {
        "cuMemcpy2DAsync": 2,
        "cuEventRecord": 1,
        "cuEventQuery": 2,  # nobody has waited for the uploads before it
        **context_calls(1),
    }


def test_the_download_of_a_frame(gpu: CudaDevice, null: NullDriver) -> None:
    arrays = gpu.upload(surfaces(1)[0].planes)

    calls = steady(null, lambda: gpu.download(arrays).wait())

    assert calls == {
        "cuMemcpy2DAsync": 2,
        "cuEventRecord": 1,
        "cuEventSynchronize": 1,
        **context_calls(2),
    }


@pytest.mark.parametrize("count", [1, 4, 8])
def test_a_batch_costs_one_launch_two_copies_and_one_wait(gpu: CudaDevice, null: NullDriver, count: int) -> None:
    """Frames on the GPU become a network's input, which is copied to the host: each costs one call to wait for it."""
    place = DEFINITION.place((0, 0, 128, 90))
    preprocessor = CudaPreprocessor(DEFINITION, gpu=gpu)

    for _ in range(WARM_ROUNDS):
        parts: list[Part] = [(surface.to_device(gpu), place) for surface in surfaces(count)]
        with null.counting() as calls:
            list(preprocessor.prepare_all(parts))
            parts.clear()  # the frames go back, too

    assert calls == {
        "cuLaunchKernel": 1,
        "cuMemcpyAsync": 2,
        "cuEventSynchronize": 1,
        "cuEventRecord": 2,
        "cuStreamWaitEvent": count,
        **context_calls(2),
    }


def test_a_graph_is_launched_by_one_call(gpu: CudaDevice, null: NullDriver) -> None:
    stream = gpu.stream("work")
    array = gpu.fill(gpu.empty((16,), np.uint8, stream=stream), 1, stream=stream)
    graph = gpu.capture(stream, lambda: gpu.fill(array, 2, stream=stream), name="fill", keep=array)

    calls = steady(null, graph.launch)

    assert calls == {"cuGraphLaunch": 1, **context_calls(1)}
