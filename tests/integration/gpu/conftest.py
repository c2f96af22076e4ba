"""A double of a GPU with a double of its decoder, and the certainty that nothing stays there."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sightline.devices.gpu.gpu import Gpu
from sightline.runtime.threads import Worker
from sightline.testing.gpu import DoubleDriver
from sightline_plugins.testing import NvdecDouble, NvencDouble, nvdec_double, nvenc_double
from sightline_plugins.testing.nvdec_names import HOPPER
from sightline_plugins.testing.onnxruntime_double import OnnxRuntimeDouble, onnxruntime_double
from sightline_plugins.testing.tensorrt_double import TensorRtDouble, tensorrt_double
from tests.integration.gpu.small_clips import SIZES, write_small_clip


@pytest.fixture(scope="session")
def clips(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small clips of different sizes."""
    folder = tmp_path_factory.mktemp("clips")
    return {name: write_small_clip(repository / "sample_videos" / f"{name}.mp4", folder) for name in SIZES}


def let_go() -> None:
    """Let go of what nobody needs any more; a run does not wait long for an input, which then goes by itself."""
    for thread in threading.enumerate():
        if isinstance(thread, Worker):
            thread.join(60)
    gc.collect()


@pytest.fixture
def driver() -> DoubleDriver:
    return DoubleDriver(memory_bytes=2**29, pinned_bytes=2**28)


@pytest.fixture
def gpu(driver: DoubleDriver) -> Iterator[Gpu]:
    """When the test is over, nobody may hold any of its memory, and nothing may have been done that a GPU does not
    forgive.
    """
    gpu = Gpu(driver)
    yield gpu
    let_go()
    held = gpu.memory.lent, gpu.pinned.lent
    gpu.close()
    assert (held, driver.is_closed, driver.live_bytes) == ((0, 0), True, (0, 0))
    driver.check()


@pytest.fixture
def nvdec(gpu: Gpu) -> Iterator[NvdecDouble]:
    """Its decoder; all that were opened have to be closed."""
    library = nvdec_double(gpu, caps=HOPPER)
    yield library
    let_go()
    assert library.open_count == 0


@pytest.fixture
def tensorrt(gpu: Gpu) -> TensorRtDouble:
    """TensorRT-RTX for it."""
    return tensorrt_double(gpu)


@pytest.fixture
def onnxruntime(gpu: Gpu, driver: DoubleDriver) -> OnnxRuntimeDouble:
    """ONNX Runtime's CUDA provider for it."""
    return onnxruntime_double(gpu, driver)


@pytest.fixture
def nvenc(gpu: Gpu) -> Iterator[NvencDouble]:
    """Its encoder; all that were opened have to be closed."""
    library = nvenc_double(gpu)
    yield library
    let_go()
    assert library.open_count == 0
