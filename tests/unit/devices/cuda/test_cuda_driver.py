"""The real driver on machines that have none: nothing is imported early, and what is missing is named."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from sightline.devices.cuda import cuda_driver, opening
from sightline.devices.cuda.cuda_driver import CudaDriver
from sightline.devices.cuda.driver import DriverError, Harm, Span
from sightline.devices.cuda.libcuda import driver_facts
from sightline.devices.cuda.opening import open_cuda
from sightline.errors import CudaError, DeviceUnavailable, MissingExtra

CUDA: Any = import_module("cuda.bindings.driver")
CODES = CUDA.CUresult
without_driver = pytest.mark.skipif(not driver_facts().reason, reason="this machine has a GPU")


def test_importing_the_driver_imports_no_gpu_library() -> None:
    program = "import sys, sightline.devices.cuda.cuda_driver as _; print([n for n in sys.modules if n in {names}])"
    names = {"pycuda", "pycuda.driver", "cuda.bindings", "cuda.bindings.driver"}

    done = subprocess.run(
        [sys.executable, "-c", program.format(names=names)], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


@without_driver
def test_a_gpu_that_is_not_there_does_not_open() -> None:
    with pytest.raises(DeviceUnavailable, match="cuda:0 cannot be used: no NVIDIA driver on this machine"):
        open_cuda(0)


@pytest.mark.skipif(find_spec("pycuda") is not None, reason="pycuda is installed")
def test_a_missing_package_is_named_with_the_way_to_install_it() -> None:
    with pytest.raises(MissingExtra, match=r"'pycuda': pip install 'sightline\[gpu\]'"):
        CudaDriver(0)


def test_a_package_that_can_not_be_imported_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str) -> None:
        raise ImportError("libcurand.so.10: cannot open shared object file")

    monkeypatch.setattr(cuda_driver, "import_module", fails)

    with pytest.raises(DeviceUnavailable, match=r"needs pycuda, which cannot be imported: libcurand.so.10"):
        CudaDriver(0)


def test_a_gpu_that_gives_no_context_is_an_error_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(index: int) -> CudaDriver:
        raise DriverError("cuDevicePrimaryCtxRetain failed: out of memory")

    monkeypatch.setattr(opening, "why_not", lambda index: None)
    monkeypatch.setattr(cuda_driver, "CudaDriver", refuses)

    with pytest.raises(CudaError, match="cuda:1 cannot be opened: cuDevicePrimaryCtxRetain failed"):
        open_cuda(1)


def test_host_memory_is_given_to_pycuda_as_a_buffer_of_just_the_rows() -> None:
    backing = bytearray(range(100))
    address = ctypes.addressof(ctypes.c_char.from_buffer(backing))

    buffer = cuda_driver._buffer(Span(address + 10, 20, on_host=True), width_bytes=5, rows=3)

    assert bytes(buffer) == bytes(range(10, 55))


class Bindings:
    """Stands for `cuda.bindings.driver`, with its names and codes: notes calls, and answers on request."""

    CUresult = CODES
    CUstreamCaptureMode = CUDA.CUstreamCaptureMode

    def __init__(self, **answers: tuple[object, ...]) -> None:
        self.calls: list[tuple[object, ...]] = []
        self._answers = answers

    def __getattr__(self, name: str) -> Callable[..., tuple[object, ...]]:
        """A function of that name, which the real library must have."""

        @wraps(getattr(CUDA, name))
        def call(*arguments: object) -> tuple[object, ...]:
            self.calls.append((name, *arguments))
            return self._answers.get(name, (CODES.CUDA_SUCCESS,))

        return call


def driver_with(cuda: Bindings) -> CudaDriver:
    """A driver whose calls of CUDA go there."""
    driver = object.__new__(CudaDriver)
    driver._cuda, driver._quiet_stream = cuda, 99
    return driver


SUCCESS, SPOILED = CODES.CUDA_SUCCESS, CODES.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
NOT_CAPTURED, NOT_SUPPORTED = CODES.CUDA_ERROR_ILLEGAL_STATE, CODES.CUDA_ERROR_NOT_SUPPORTED
NOT_NOW = CODES.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
THREAD_LOCAL = CUDA.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL


def test_a_capture_leaves_other_threads_alone() -> None:
    cuda = Bindings()

    driver_with(cuda).begin_capture(5)

    assert cuda.calls == [("cuStreamBeginCapture", 5, THREAD_LOCAL)]


def test_the_executable_graph_is_kept_and_the_captured_one_is_not() -> None:
    cuda = Bindings(cuStreamEndCapture=(SUCCESS, 7), cuGraphInstantiate=(SUCCESS, 8))

    graph = driver_with(cuda).end_capture(5)

    assert graph == 8
    assert cuda.calls == [("cuStreamEndCapture", 5), ("cuGraphInstantiate", 7, 0), ("cuGraphDestroy", 7)]


def test_a_captured_graph_of_which_none_can_be_made_is_destroyed_all_the_same() -> None:
    cuda = Bindings(cuStreamEndCapture=(SUCCESS, 7), cuGraphInstantiate=(NOT_SUPPORTED, 0))

    with pytest.raises(DriverError, match="cuGraphInstantiate: CUDA_ERROR_NOT_SUPPORTED") as raised:
        driver_with(cuda).end_capture(5)

    assert raised.value.harm is Harm.NONE
    assert cuda.calls[-1] == ("cuGraphDestroy", 7)


def test_a_spoiled_capture_gives_no_graph() -> None:
    cuda = Bindings(cuStreamEndCapture=(SPOILED, 0))

    with pytest.raises(DriverError, match="cuStreamEndCapture: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"):
        driver_with(cuda).end_capture(5)

    assert ("cuGraphDestroy", 0) not in cuda.calls


@pytest.mark.parametrize(("answer", "calls"), [((SUCCESS, 7), ["cuGraphDestroy"]), ((SPOILED, 0), [])])
def test_a_capture_is_abandoned_whether_it_is_spoiled_or_not(answer: tuple[object, int], calls: list[str]) -> None:
    cuda = Bindings(cuStreamEndCapture=answer)

    driver_with(cuda).abandon_capture(5)

    assert [name for name, *_ in cuda.calls] == ["cuStreamEndCapture", *calls]


def test_what_is_not_captured_can_not_be_abandoned() -> None:
    with pytest.raises(DriverError, match="cuStreamEndCapture: CUDA_ERROR_ILLEGAL_STATE"):
        driver_with(Bindings(cuStreamEndCapture=(NOT_CAPTURED, 0))).abandon_capture(5)


def test_a_graph_is_launched_on_a_stream_and_destroyed() -> None:
    cuda = Bindings()
    driver = driver_with(cuda)

    driver.launch_graph(8, stream=5)
    driver.destroy_graph(8)

    assert cuda.calls == [("cuGraphLaunch", 8, 5), ("cuGraphExecDestroy", 8)]


def test_a_refusal_in_a_capture_does_not_pass_for_a_broken_gpu() -> None:
    cuda = Bindings(cuStreamSynchronize=(NOT_NOW,), cuStreamQuery=(NOT_NOW,))

    with pytest.raises(DriverError, match="cuStreamSynchronize: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED") as raised:
        driver_with(cuda).synchronize(5)

    assert raised.value.harm is Harm.NONE
