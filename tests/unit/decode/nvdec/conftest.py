"""A GPU that is a double, closed and checked after every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sightline.devices.gpu.gpu import Gpu
from sightline.testing.gpu import DoubleDriver


@pytest.fixture
def driver() -> DoubleDriver:
    return DoubleDriver(memory_bytes=2**26, pinned_bytes=2**26)


@pytest.fixture
def gpu(driver: DoubleDriver) -> Iterator[Gpu]:
    gpu = Gpu(driver)
    yield gpu
    gpu.close()
    driver.check()
