"""A GPU that is a double, and the certainty that nothing was done with it that a real one would not forgive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sightline.devices.gpu.gpu import Gpu
from sightline.testing.gpu.double import DoubleDriver


@pytest.fixture
def driver() -> DoubleDriver:
    return DoubleDriver(memory_bytes=2**26, pinned_bytes=2**26)


@pytest.fixture
def gpu(driver: DoubleDriver) -> Iterator[Gpu]:
    """Closed and checked after the test."""
    gpu = Gpu(driver)
    yield gpu
    gpu.close()
    driver.check()
