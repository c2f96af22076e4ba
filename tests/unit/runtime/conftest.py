"""Doubles of GPUs for runs on several of them."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from sightline.devices.cuda.device import CudaDevice
from tests.fakes import FakeCudaDriver
from tests.unit.runtime.elements import Held
from tests.unit.runtime.several_gpus import Gpus, Worker


@pytest.fixture
def drivers() -> list[FakeCudaDriver]:
    return [FakeCudaDriver(index=index, memory_bytes=2**22, pinned_bytes=2**20) for index in range(3)]


@pytest.fixture
def gpus(drivers: list[FakeCudaDriver]) -> Iterator[Gpus]:
    """Three GPUs; those that work have to be given back whole, and no thread may be left."""
    Worker.built.clear()
    Held.gate.set()
    threads = set(threading.enumerate())
    gpus = [CudaDevice(driver) for driver in drivers]
    yield gpus
    for thread in set(threading.enumerate()) - threads:
        thread.join(60)
        assert not thread.is_alive(), thread.name
    gc.collect()
    broken = [gpu.guard.cause is not None for gpu in gpus]
    for gpu in gpus:
        gpu.close()
    for driver, is_broken in zip(drivers, broken, strict=True):
        assert is_broken or (driver.is_closed, driver.live_bytes) == (True, (0, 0))
        driver.check()
