"""A GPU that is a double, with the certainty that nothing was done with it that a real one would not forgive; and the
compiled part with sanitizers.
"""

from __future__ import annotations

import fcntl
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
def sanitized_library(run_folder: Path) -> Path:
    """The compiled part with the address and undefined-behaviour sanitizers, built once for all processes."""
    if not has_compiler():
        missing("gcc is not installed (Debian: gcc)")
    folder = run_folder / "sanitized"
    folder.mkdir(exist_ok=True)
    library = folder / "libsightline.so"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            build_sanitized(library)
    return library
