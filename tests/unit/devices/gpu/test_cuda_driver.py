"""The real driver on machines that have none: nothing is imported early, and what is missing is said."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from importlib.util import find_spec

import pytest

from sightline.devices.gpu import cuda_driver, opening
from sightline.devices.gpu.cuda_driver import CudaDriver
from sightline.devices.gpu.driver import DriverError, Span
from sightline.devices.gpu.libcuda import driver_facts
from sightline.devices.gpu.opening import open_gpu
from sightline.errors import DeviceUnavailable, GpuError, MissingExtra

without_driver = pytest.mark.skipif(not driver_facts().reason, reason="this machine has a GPU")


def test_importing_the_driver_imports_no_gpu_library() -> None:
    program = "import sys, sightline.devices.gpu.cuda_driver as _; print([n for n in sys.modules if n in {names}])"
    names = {"pycuda", "pycuda.driver", "cuda.bindings", "cuda.bindings.driver"}

    done = subprocess.run(
        [sys.executable, "-c", program.format(names=names)], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


@without_driver
def test_a_gpu_that_is_not_there_does_not_open() -> None:
    with pytest.raises(DeviceUnavailable, match="cuda:0 can not be used: no NVIDIA driver on this machine"):
        open_gpu(0)


@pytest.mark.skipif(find_spec("pycuda") is not None, reason="pycuda is installed")
def test_a_missing_package_is_named_with_the_way_to_install_it() -> None:
    with pytest.raises(MissingExtra, match=r"'pycuda': pip install 'sightline\[gpu\]'"):
        CudaDriver(0)


def test_a_package_that_can_not_be_imported_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str) -> None:
        raise ImportError("libcurand.so.10: cannot open shared object file")

    monkeypatch.setattr(cuda_driver, "import_module", fails)

    with pytest.raises(DeviceUnavailable, match=r"needs pycuda, which can not be imported: libcurand.so.10"):
        CudaDriver(0)


def test_a_gpu_that_gives_no_context_is_an_error_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(index: int) -> CudaDriver:
        raise DriverError("cuDevicePrimaryCtxRetain failed: out of memory")

    monkeypatch.setattr(opening, "why_not", lambda index: None)
    monkeypatch.setattr(cuda_driver, "CudaDriver", refuses)

    with pytest.raises(GpuError, match="cuda:1 can not be opened: cuDevicePrimaryCtxRetain failed"):
        open_gpu(1)


def test_host_memory_is_given_to_pycuda_as_a_buffer_of_just_the_rows() -> None:
    backing = bytearray(range(100))
    address = ctypes.addressof(ctypes.c_char.from_buffer(backing))

    buffer = cuda_driver._buffer(Span(address + 10, 20, on_host=True), width_bytes=5, rows=3)

    assert bytes(buffer) == bytes(range(10, 55))
