"""A fake GPU with a fake decoder, and a check that nothing stays on it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.runtime.threads import Worker
from tests.fakes import FakeCudaDriver, FakeNvdec, FakeNvenc, fake_nvdec, fake_nvenc
from tests.fakes.nvdec import HOPPER
from tests.fakes.onnxruntime import FakeOnnxRuntime, fake_onnxruntime
from tests.fakes.tensorrt import FakeTensorRt, fake_tensorrt
from tests.integration.gpu.small_clips import SIZES, write_small_clip


@pytest.fixture(scope="session")
def clips(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small clips of different sizes."""
    folder = tmp_path_factory.mktemp("clips")
    return {name: write_small_clip(repository / "sample_videos" / f"{name}.mp4", folder) for name in SIZES}


_threads_of_others: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def _others_have_threads() -> None:
    """Tests of hangs leave threads behind, which no other test waits for."""
    _threads_of_others.clear()
    _threads_of_others.update(threading.enumerate())


def let_go() -> None:
    """Release what nobody needs; a run does not wait long for an input, which then ends by itself."""
    for thread in threading.enumerate():
        if isinstance(thread, Worker) and thread not in _threads_of_others:
            thread.join(60)
    gc.collect()


@pytest.fixture
def driver() -> FakeCudaDriver:
    return FakeCudaDriver(memory_bytes=2**29, pinned_bytes=2**28)


@pytest.fixture
def gpu(driver: FakeCudaDriver) -> Iterator[CudaDevice]:
    """When the test is over, nobody may hold any of its memory, and nothing may have been done that a GPU does not
    forgive.
    """
    gpu = CudaDevice(driver)
    yield gpu
    let_go()
    held = gpu.memory.lent, gpu.pinned.lent
    gpu.close()
    assert (held, driver.is_closed, driver.live_bytes) == ((0, 0), True, (0, 0))
    driver.check()


@pytest.fixture
def nvdec(gpu: CudaDevice) -> Iterator[FakeNvdec]:
    """Its decoder; all that were opened have to be closed."""
    library = fake_nvdec(gpu, caps=HOPPER)
    yield library
    let_go()
    assert library.open_count == 0


@pytest.fixture
def tensorrt(gpu: CudaDevice) -> FakeTensorRt:
    """TensorRT-RTX for it."""
    return fake_tensorrt(gpu)


@pytest.fixture
def onnxruntime(gpu: CudaDevice, driver: FakeCudaDriver) -> FakeOnnxRuntime:
    """ONNX Runtime's CUDA provider for it."""
    return fake_onnxruntime(gpu, driver)


@pytest.fixture
def nvenc(gpu: CudaDevice) -> Iterator[FakeNvenc]:
    """Its encoder; all that were opened have to be closed."""
    library = fake_nvenc(gpu)
    yield library
    let_go()
    assert library.open_count == 0
