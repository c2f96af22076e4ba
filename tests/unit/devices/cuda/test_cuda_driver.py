"""The real driver on machines that have none: nothing is imported early, and what is missing is named."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from sightline.devices.cuda import cuda_driver, opening
from sightline.devices.cuda.cuda_driver import CudaDriver
from sightline.devices.cuda.driver import DriverError, Harm, PackedArguments, Span
from sightline.devices.cuda.libcuda import driver_facts
from sightline.devices.cuda.opening import open_cuda
from sightline.errors import CudaError, DeviceUnavailable, MissingExtra
from tests.unit.devices.cuda.bindings import CODES, CUDA, SUCCESS, Bindings, driver_with

without_driver = pytest.mark.skipif(not driver_facts().reason, reason="this machine has a GPU")


def test_importing_the_driver_imports_no_gpu_library() -> None:
    program = "import sys, sightline.devices.cuda.cuda_driver as _; print([n for n in sys.modules if n in {names}])"
    names = {"cuda.bindings", "cuda.bindings.driver"}

    done = subprocess.run(
        [sys.executable, "-c", program.format(names=names)], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


@without_driver
def test_without_a_driver_the_bindings_say_what_is_missing() -> None:
    program = "from sightline.devices.cuda.cuda_driver import CudaDriver; CudaDriver(0)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert "DeviceUnavailable: cuda:0 cannot be used: no NVIDIA driver on this machine" in done.stderr


@without_driver
def test_a_gpu_that_is_not_there_does_not_open() -> None:
    with pytest.raises(DeviceUnavailable, match="cuda:0 cannot be used: no NVIDIA driver on this machine"):
        open_cuda(0)


def test_a_missing_package_is_named_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)

    with pytest.raises(MissingExtra, match=r"'cuda-bindings': pip install 'sightline\[gpu\]'"):
        CudaDriver(0)


def test_a_package_that_can_not_be_imported_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str) -> None:
        raise ImportError("libstdc++.so.6: cannot open shared object file")

    monkeypatch.setattr(cuda_driver, "import_module", fails)

    with pytest.raises(DeviceUnavailable, match=r"needs cuda-bindings, which cannot be imported: libstdc"):
        CudaDriver(0)


def test_a_gpu_that_gives_no_context_is_an_error_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(index: int) -> CudaDriver:
        raise DriverError("cuDevicePrimaryCtxRetain failed: out of memory")

    monkeypatch.setattr(opening, "why_not", lambda index: None)
    monkeypatch.setattr(cuda_driver, "CudaDriver", refuses)

    with pytest.raises(CudaError, match="cuda:1 cannot be opened: cuDevicePrimaryCtxRetain failed"):
        open_cuda(1)


SPOILED = CODES.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
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


def test_the_host_waits_for_events_without_spinning_and_without_timing() -> None:
    cuda = Bindings()

    driver_with(cuda).create_event()

    flags = CUDA.CUevent_flags
    assert cuda.calls == [("cuEventCreate", flags.CU_EVENT_BLOCKING_SYNC | flags.CU_EVENT_DISABLE_TIMING)]


def test_streams_do_not_wait_for_the_default_stream() -> None:
    cuda = Bindings()

    driver_with(cuda).create_stream()

    assert cuda.calls == [("cuStreamCreate", CUDA.CUstream_flags.CU_STREAM_NON_BLOCKING)]


@pytest.mark.parametrize(
    ("target", "source", "width_bytes", "rows"),
    [
        (Span(0x100, 0), Span(0x200, 0, on_host=True), 30, 1),
        (Span(0x100, 512), Span(0x200, 256, on_host=True), 30, 1),
        (Span(0x100, 10), Span(0x200, 10, on_host=True), 10, 3),
    ],
)
def test_rows_that_touch_each_other_are_copied_as_one_piece(
    target: Span, source: Span, width_bytes: int, rows: int
) -> None:
    cuda = Bindings()

    driver_with(cuda).copy(target, source, width_bytes=width_bytes, rows=rows, stream=5)

    assert cuda.calls == [("cuMemcpyAsync", 0x100, 0x200, 30, 5)]


def test_rows_that_lie_apart_are_copied_as_rows_from_where_they_are_to_where_they_are() -> None:
    cuda = Bindings()

    driver_with(cuda).copy(Span(0x100, 64), Span(0x200, 10, on_host=True), width_bytes=10, rows=3, stream=5)

    ((name, passed, stream),) = cuda.calls
    assert (name, stream) == ("cuMemcpy2DAsync", 5)
    copy = CUDA.CUDA_MEMCPY2D(ctypes.addressof(passed))  # type: ignore[arg-type]  # as CUDA's header has it
    found = {
        "to": (copy.dstMemoryType, int(copy.dstDevice), copy.dstPitch),
        "from": (copy.srcMemoryType, int(copy.srcHost), copy.srcPitch),
        "rows": (copy.WidthInBytes, copy.Height),
    }
    kinds = CUDA.CUmemorytype
    assert found == {
        "to": (kinds.CU_MEMORYTYPE_DEVICE, 0x100, 64),
        "from": (kinds.CU_MEMORYTYPE_HOST, 0x200, 10),
        "rows": (10, 3),
    }


def test_a_kernel_is_launched_with_the_address_of_its_arguments() -> None:
    cuda, arguments = Bindings(), PackedArguments([])

    driver_with(cuda).launch(7, arguments, grid=(1, 2, 3), block=(4, 5, 6), shared_bytes=8, stream=9)

    assert cuda.calls == [("cuLaunchKernel", 7, 1, 2, 3, 4, 5, 6, 8, 9, arguments.address, 0)]


def test_the_gpu_is_described_as_its_driver_does() -> None:
    driver = driver_with(Bindings(cuDeviceGetAttribute=(SUCCESS, 9)))

    assert (driver.index, driver.name, driver.compute_capability) == (0, "A GPU", (9, 9))


def test_a_closed_driver_has_destroyed_what_nobody_else_did() -> None:
    cuda = Bindings()
    driver = driver_with(cuda)
    handles = [driver.allocate(10), driver.allocate_pinned(10), driver.create_event(), driver.create_stream()]
    driver.free(driver.allocate(10))

    driver.close()

    destroyed = [call for call in cuda.calls if call[0] in cuda_driver._DESTROYERS]
    quiet = driver._quiet_stream
    assert destroyed[0] == ("cuMemFree", handles[3] + 1)
    assert destroyed[1:] == [
        ("cuEventDestroy", handles[2]),
        *(("cuStreamDestroy", stream) for stream in (quiet, handles[3])),
        ("cuMemFree", handles[0]),
        ("cuMemFreeHost", handles[1]),
    ]


def test_what_could_not_be_destroyed_is_destroyed_when_the_driver_closes() -> None:
    cuda = Bindings()
    driver = driver_with(cuda)
    address = driver.allocate(10)
    cuda.answers["cuMemFree"] = (CODES.CUDA_ERROR_INVALID_VALUE,)
    with pytest.raises(DriverError, match="cuMemFree: CUDA_ERROR_INVALID_VALUE"):
        driver.free(address)
    del cuda.answers["cuMemFree"]

    driver.close()

    assert cuda.calls.count(("cuMemFree", address)) == 2


def test_a_broken_gpu_is_asked_to_destroy_nothing() -> None:
    cuda = Bindings()
    driver = driver_with(cuda)
    driver.allocate(10)
    cuda.answers["cuStreamQuery"] = (CODES.CUDA_ERROR_ILLEGAL_ADDRESS,)

    driver.close()

    assert cuda.names() == [
        "cuMemAlloc",
        "cuCtxPushCurrent",
        "cuStreamQuery",
        "cuCtxPopCurrent",
        "cuDevicePrimaryCtxRelease",
    ]


@pytest.mark.parametrize(
    ("code", "state", "harm"),
    [
        (CODES.CUDA_ERROR_OUT_OF_MEMORY, SUCCESS, Harm.MEMORY),
        (CODES.CUDA_ERROR_INVALID_VALUE, SUCCESS, Harm.NONE),
        (CODES.CUDA_ERROR_INVALID_VALUE, CODES.CUDA_ERROR_NOT_READY, Harm.NONE),
        (CODES.CUDA_ERROR_ILLEGAL_ADDRESS, CODES.CUDA_ERROR_ILLEGAL_ADDRESS, Harm.DEVICE),
    ],
)
def test_an_error_says_what_still_works(code: object, state: object, harm: Harm) -> None:
    cuda = Bindings()
    driver = driver_with(cuda)
    cuda.answers |= {"cuMemAlloc": (code, None), "cuStreamQuery": (state,)}

    with pytest.raises(DriverError, match="cuMemAlloc: CUDA_ERROR_") as raised:
        driver.allocate(10)

    assert raised.value.harm is harm


@pytest.mark.parametrize("unknown", [KeyError(12345), ValueError("12345 is not a valid CUresult")])
def test_an_error_that_these_bindings_do_not_know_is_an_error_of_cuda(unknown: Exception) -> None:
    cuda = Bindings()
    driver = driver_with(cuda)
    cuda.answers["cuMemAlloc"] = unknown

    with pytest.raises(DriverError, match="cuMemAlloc: CUDA_ERROR_UNKNOWN"):
        driver.allocate(10)


def test_an_event_that_is_not_reached_is_not_done() -> None:
    cuda = Bindings()
    driver = driver_with(cuda)
    cuda.answers["cuEventQuery"] = (CODES.CUDA_ERROR_NOT_READY,)

    assert not driver.is_done(5)
    del cuda.answers["cuEventQuery"]
    assert driver.is_done(5)
