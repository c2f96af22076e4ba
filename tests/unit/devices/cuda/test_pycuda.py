"""pycuda beside Sightline: the real pycuda and the real driver layer, over the null driver."""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sightline.devices.cuda import opening
from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.opening import open_cuda
from sightline.devices.cuda.pycuda import Pycuda, current_context, primary_context
from sightline.errors import CudaError, CudaFailed, MissingExtra, SurfaceReleased
from sightline.testing import make_frames
from sightline_plugins.engines import onnxruntime_cuda
from tests.null_driver import NullDriver, fresh_null_driver

COPIES = {"cuMemcpyAsync", "cuMemcpy2DAsync", "cuMemcpyDtoDAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"}


@pytest.fixture(scope="module")
def fresh() -> Iterator[NullDriver]:
    """One for all tests: what pycuda frees later must still be known then, or pycuda crashes."""
    yield fresh_null_driver(gpus=2)
    gc.collect()


@pytest.fixture
def null(fresh: NullDriver, monkeypatch: pytest.MonkeyPatch) -> Iterator[NullDriver]:
    """Nothing is left after a test."""
    monkeypatch.setattr(opening, "why_not", lambda index: None)
    yield fresh
    gc.collect()
    fresh.check_nothing_left()


@pytest.fixture
def pycuda(null: NullDriver) -> Any:
    """`pycuda.driver`; it is linked with calls that the null driver lacks, and does not make them."""
    if importlib.util.find_spec("pycuda") is None:
        pytest.skip("pycuda is not installed: pip compiles it, with the CUDA toolkit")
    flags = sys.getdlopenflags()
    sys.setdlopenflags(os.RTLD_LAZY)
    try:
        driver = importlib.import_module("pycuda.driver")
    finally:
        sys.setdlopenflags(flags)
    driver.init()
    return driver


@pytest.fixture
def context(pycuda: Any) -> Iterator[Any]:
    """The context of a program that uses pycuda."""
    context = pycuda.Device(0).make_context()
    yield context
    gc.collect()
    pycuda.Context.pop()
    context.detach()
    del context
    gc.collect()


def release(primary: Any) -> None:
    """Release a primary context that pycuda retained: it is on top then, and its end leaves it on CUDA's stack."""
    primary.push()
    primary.detach()
    importlib.import_module("cuda.bindings.driver").cuCtxPopCurrent()


@pytest.fixture
def gpu(null: NullDriver, context: Any) -> Iterator[CudaDevice]:
    gpu = open_cuda(0)
    yield gpu
    gc.collect()
    gpu.close()


def test_a_program_s_context_is_adopted_instead_of_a_second_one(context: Any, null: NullDriver) -> None:
    with null.counting() as counter:
        gpu = open_cuda(0)

    assert gpu.foreign_context == gpu.pycuda_context.handle == context.handle
    assert null.live["contexts"] == 1
    assert counter["cuDevicePrimaryCtxRetain"] == 0
    gpu.close()


def test_memory_of_both_lies_in_one_context(gpu: CudaDevice, pycuda: Any) -> None:
    array = gpu.fill(gpu.empty((16,), np.uint8, stream=gpu.main_stream), 7, stream=gpu.main_stream)
    found = np.zeros(16, np.uint8)

    with Pycuda(gpu):
        gpu.main_stream.record().wait()
        pycuda.memcpy_dtoh(found, array.address)

    assert set(found.tolist()) == {7}


def test_another_gpu_is_opened_by_its_primary_context(context: Any, null: NullDriver) -> None:
    with null.counting() as counter:
        gpu = open_cuda(1)

    assert current_context(1) is None
    assert (gpu.foreign_context, gpu.pycuda_context) == (0, None)
    assert counter["cuDevicePrimaryCtxRetain"] == 1
    gpu.close()


def test_pycuda_s_primary_context_is_the_one_of_everybody(pycuda: Any, null: NullDriver) -> None:
    context = pycuda.Device(0).retain_primary_context()
    context.push()
    gpu = open_cuda(0)

    assert gpu.pycuda_context.handle == context.handle
    assert gpu.foreign_context == 0
    assert null.live["contexts"] == 1
    gpu.close()
    pycuda.Context.pop()
    release(context)


def test_onnx_runtime_does_not_work_in_another_context(gpu: CudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnxruntime_cuda, "onnxruntime_too_new", lambda: None)

    reason = onnxruntime_cuda.why_not(gpu)

    assert reason is not None
    assert "retain_primary_context" in reason


def test_a_thread_without_pycuda_s_context_opens_the_primary_one(context: Any) -> None:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(current_context(0)))
    thread.start()
    thread.join()

    assert found == [None]


def test_without_a_context_of_the_program_pycuda_enters_the_primary_one(pycuda: Any, null: NullDriver) -> None:
    gpu = open_cuda(0)

    with null.counting() as counter:
        for _ in range(2):
            with Pycuda(gpu):
                stream = pycuda.Stream()
                del stream

    assert null.live["contexts"] == 1
    assert (counter["cuCtxCreate"], counter["cuDevicePrimaryCtxRetain"]) == (0, 1)
    gpu.close()
    release(primary_context(0))
    primary_context.cache_clear()


def test_pycuda_is_not_imported_for_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pycuda.driver", raising=False)

    assert current_context(0) is None
    assert "pycuda.driver" not in sys.modules


def test_a_missing_pycuda_is_named_with_its_extra(gpu: CudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)

    with pytest.raises(MissingExtra, match=r"pip install 'sightline\[pycuda\]'"):
        Pycuda(gpu)


def test_a_frame_is_a_gpu_array_without_a_copy(gpu: CudaDevice, pycuda: Any, null: NullDriver) -> None:
    surface = make_frames(1, size_wh=(64, 48))[0].surface.to_device(gpu, stream=gpu.main_stream)
    with Pycuda(gpu) as partner:
        stream = pycuda.Stream()
        with null.counting() as counter:
            luma = partner.gpu_array(surface.arrays[0], stream=gpu.stream_of(stream.handle))
        found = luma.get_async(stream)
        stream.synchronize()

        assert not COPIES & set(counter)
        assert counter["cuStreamWaitEvent"] == 1  # the content is there when the stream comes to it
        assert (int(luma.gpudata), luma.shape, luma.strides) == (
            surface.arrays[0].address,
            (48, 64),
            surface.arrays[0].strides,
        )
        assert (found == surface.to_host().planes[0]).all()
        del luma, stream


def test_a_gpu_array_keeps_the_memory_of_its_frame(gpu: CudaDevice, pycuda: Any) -> None:
    pool = gpu.pool("images")
    with Pycuda(gpu) as partner:
        stream = pycuda.Stream()
        array = gpu.empty((16,), np.uint8, stream=gpu.main_stream, pool=pool)
        shared = partner.gpu_array(array, stream=gpu.stream_of(stream.handle))
        del array
        assert pool.lent == 1
        del shared
        assert pool.lent == 0
        del stream


def test_a_gpu_array_is_an_array_of_ours_and_its_content_is_waited_for(
    gpu: CudaDevice, pycuda: Any, null: NullDriver
) -> None:
    gpuarray = importlib.import_module("pycuda.gpuarray")
    with Pycuda(gpu) as partner:
        stream = pycuda.Stream()
        given = gpuarray.empty((4, 6), np.float32)
        pycuda.memcpy_htod_async(given.gpudata, np.full((4, 6), 2.5, np.float32), stream)
        with null.counting() as counter:
            array = partner.array(given, stream=gpu.stream_of(stream.handle))
        address = int(given.gpudata)
        del given

        assert not COPIES & set(counter)
        assert (array.address, array.shape, array.dtype) == (address, (4, 6), np.dtype(np.float32))
        assert set(array.to_host().ravel().tolist()) == {2.5}
        del array, stream


def test_a_gpu_array_whose_rows_are_not_dense_is_refused(gpu: CudaDevice, pycuda: Any) -> None:
    gpuarray = importlib.import_module("pycuda.gpuarray")
    with Pycuda(gpu) as partner:
        given = gpuarray.empty((4, 6), np.float32)
        with pytest.raises(ValueError, match="rows must be dense"):
            partner.array(given[:, ::2], stream=gpu.main_stream)
        del given


def test_memory_that_was_given_back_is_no_gpu_array(gpu: CudaDevice) -> None:
    array = gpu.empty((16,), np.uint8, stream=gpu.main_stream)
    array.owner.release()  # type: ignore[attr-defined]

    with Pycuda(gpu) as partner, pytest.raises(SurfaceReleased):
        partner.gpu_array(array, stream=gpu.main_stream)


def test_blocks_may_be_nested_and_used_in_any_thread(gpu: CudaDevice, pycuda: Any, null: NullDriver) -> None:
    partner, done = Pycuda(gpu), list[int]()

    def work() -> None:
        with partner, partner:
            stream = pycuda.Stream()
            stream.synchronize()
            del stream
        done.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()

    assert len(done) == 3
    with null.counting() as counter, partner:
        pass
    assert (counter["cuCtxPushCurrent"], counter["cuCtxPopCurrent"]) >= (1, 1)


def test_pycuda_does_not_enter_a_gpu_that_was_closed(gpu: CudaDevice) -> None:
    partner = Pycuda(gpu)
    gpu.close()

    with pytest.raises(CudaFailed, match="cuda:0 was closed"), partner:
        pass


def test_an_error_of_pycuda_names_the_gpu(gpu: CudaDevice, null: NullDriver) -> None:
    partner, errors = Pycuda(gpu), list[str]()

    def work() -> None:
        null.fail("cuCtxPushCurrent", code="CUDA_ERROR_INVALID_CONTEXT")
        try:
            partner.__enter__()
        except CudaError as error:
            errors.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert errors == ["cuda:0: pycuda cannot enter its context: cuCtxPushCurrent failed: CUDA_ERROR_INVALID_CONTEXT"]


def test_closing_leaves_the_program_s_context(gpu: CudaDevice, pycuda: Any, null: NullDriver) -> None:
    gpu.close()

    pycuda.Context.synchronize()
    assert null.live == {"contexts": 1}
