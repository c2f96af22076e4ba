"""A GPU that is a double, and the certainty that nothing was done with it that a real one would not forgive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sightline.devices.cuda.device import CudaDevice
from tests.fakes.cuda_driver import FakeCudaDriver


@pytest.fixture
def driver() -> FakeCudaDriver:
    return FakeCudaDriver(memory_bytes=2**26, pinned_bytes=2**26)


@pytest.fixture
def gpu(driver: FakeCudaDriver) -> Iterator[CudaDevice]:
    """Closed and checked after the test."""
    gpu = CudaDevice(driver)
    yield gpu
    gpu.close()
    driver.check()
