"""A GPU that is a double, with the certainty that nothing was done with it that a real one would not forgive; and the
compiled part with sanitizers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sightline.devices.cuda.device import CudaDevice
from tests.conftest import missing
from tests.fakes.cuda_driver import FakeCudaDriver
from tests.fakes.native_build import build_sanitized, has_compiler


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


@pytest.fixture(scope="session")
def sanitized_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled part, built with the address and undefined-behaviour sanitizers."""
    if not has_compiler():
        missing("gcc is not installed (Debian: gcc)")
    library = tmp_path_factory.mktemp("sanitized") / "libsightline.so"
    build_sanitized(library)
    return library
