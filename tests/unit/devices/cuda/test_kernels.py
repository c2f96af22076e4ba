"""Kernels of `.cu` files: found by name, checked, ordered by streams, their memory kept."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.errors import KernelError, SurfaceReleased
from tests.fakes.cuda import CudaMisuse
from tests.unit.devices.cuda.drivers import TestedDriver
from tests.unit.devices.cuda.programs import ADD


def test_a_kernel_of_a_file_runs_in_the_order_of_its_stream(gpu: CudaDevice, tmp_path: Path) -> None:
    (tmp_path / "add.cu").write_text(ADD.text)
    stream = gpu.stream("work")
    array = gpu.fill(gpu.empty((10,), np.uint8, stream=stream), 1, stream=stream)

    gpu.kernels(tmp_path / "add.cu")["add"](array, 6, 4, grid=1, block=32, stream=stream)

    assert array.written(stream.record()).to_host().tolist() == [5] * 6 + [1] * 4


def test_a_kernel_waits_for_the_content_of_its_arguments(gpu: CudaDevice) -> None:
    array = gpu.fill(gpu.empty((10,), np.uint8, stream=gpu.stream("a")), 1, stream=gpu.stream("a"))
    stream = gpu.stream("b")

    gpu.kernels(ADD)["add"](array, 10, 4, grid=1, block=32, stream=stream)

    assert set(array.written(stream.record()).to_host().tolist()) == {5}


def test_without_a_stream_it_is_the_main_one(gpu: CudaDevice) -> None:
    array = gpu.fill(gpu.empty((10,), np.uint8, stream=gpu.main_stream), 1, stream=gpu.main_stream)

    gpu.kernels(ADD)["add"](array, 10, 1, grid=1, block=32)

    assert set(array.written(gpu.main_stream.record()).to_host().tolist()) == {2}


def test_a_source_is_loaded_once(gpu: CudaDevice) -> None:
    assert gpu.kernels(ADD) is gpu.kernels(ADD)
    assert gpu.kernels(ADD)["add"] is gpu.kernels(ADD)["add"]


def test_an_unknown_name_is_answered_with_those_there_are(gpu: CudaDevice) -> None:
    with pytest.raises(KernelError, match=re.escape("add.cu has no kernel 'ad'; it has add")):
        gpu.kernels(ADD)["ad"]


@pytest.mark.parametrize("stream", [0, "main", object()])
def test_a_stream_that_is_none_is_refused(gpu: CudaDevice, stream: object) -> None:
    array = gpu.empty((10,), np.uint8, stream=gpu.main_stream)

    with pytest.raises(TypeError, match=r"stream is a CudaStream \(gpu.stream\(\)\)"):
        gpu.kernels(ADD)["add"](array, 10, 1, grid=1, block=32, stream=stream)


def test_memory_that_was_given_back_is_no_argument(gpu: CudaDevice) -> None:
    buffer = gpu.memory.lease(16, stream=gpu.main_stream)
    buffer.release()

    with pytest.raises(SurfaceReleased):
        gpu.kernels(ADD)["add"](buffer, 10, 1, grid=1, block=32)


@pytest.mark.fake_driver("memory of the null driver has no fences")
def test_a_kernel_that_writes_beside_its_memory_is_found(driver: TestedDriver) -> None:
    gpu = CudaDevice(driver)
    array = gpu.fill(gpu.empty((256,), np.uint8, stream=gpu.main_stream), 0, stream=gpu.main_stream)

    gpu.kernels(ADD)["add"](array, 257, 1, grid=9, block=32)

    with pytest.raises(CudaMisuse, match="behind the end of 256 bytes of GPU memory"):
        gpu.main_stream.synchronize()
