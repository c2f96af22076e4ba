"""Runs on a GPU: elements get it, copies are counted in the report, and it is released with the last frame."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from sightline import Pipeline
from sightline.devices import DeviceKind
from sightline.devices.cuda.device import CudaDevice
from sightline.errors import CudaFailed, OperatorError
from sightline.graph import Element, Operator, RunsOn, Site
from sightline.media import Batch, Memory
from sightline_plugins import Draw, Jsonl
from tests.fakes import FakeCudaDriver

SOURCE = {"pattern": "moving", "size": [64, 48], "frames": 5}
IMAGE_BYTES = 64 * 48 * 3 // 2


class ToGpu(Element):
    """Brings images to the GPU."""

    name: ClassVar[str] = "to_gpu"

    def build(self, site: Site) -> Operator:
        assert site.gpu is not None
        assert site.device.kind is DeviceKind.CUDA
        return Mover(site.gpu)


class Mover(Operator):
    def __init__(self, gpu: CudaDevice) -> None:
        self.gpu = gpu

    def process(self, batch: Batch) -> Batch:
        return batch.with_surfaces([frame.surface.to_device(self.gpu) for frame in batch.frames])

    def runs_on(self) -> RunsOn:
        return RunsOn(str(self.gpu), "for the test")


class Fails(Element):
    """Fails on its first batch."""

    name: ClassVar[str] = "fails"

    def build(self, site: Site) -> Operator:
        return Failing()


class Failing(Operator):
    def process(self, batch: Batch) -> Batch:
        raise ValueError("for the test")


def test_elements_get_the_gpu_and_the_report_counts_the_copies(gpu: CudaDevice) -> None:
    report = Pipeline(sources={"cam": SOURCE}, steps=[ToGpu()], gpu=gpu).run().to_json()

    assert (report["device"], report["device_reason"]) == ("cuda:0", "given by the program: double")
    assert report["transfers"] == {
        "host_to_device_bytes": 5 * IMAGE_BYTES,
        "device_to_host_bytes": 0,
        "host_to_device_copies": 10 + 5,
        "device_to_host_copies": 0,
        "host_to_device_bytes_per_frame": IMAGE_BYTES,
        "device_to_host_bytes_per_frame": 0,
    }


def test_the_report_says_how_much_memory_the_gpu_gave(gpu: CudaDevice) -> None:
    memory = Pipeline(sources={"cam": SOURCE}, steps=[ToGpu()], gpu=gpu).run().to_json()["gpu_memory"]["cuda:0"]

    assert memory["peak_bytes"] >= IMAGE_BYTES
    assert memory["used_bytes"] == sum(memory["by_pool"].values()) <= memory["limit_bytes"]


def test_the_report_says_where_each_element_works(gpu: CudaDevice, tmp_path: Path) -> None:
    steps = [ToGpu(), Draw(clock=True), Jsonl(path="a.jsonl")]

    elements = Pipeline(sources={"cam": SOURCE}, steps=steps, gpu=gpu, outputs=tmp_path).run().to_json()["elements"]

    assert {name: element["runs_on"] for name, element in elements.items()} == {
        "to_gpu-1": "cuda:0 (for the test)",
        "draw-1": "cuda:0",
        "jsonl-1": "cpu",
    }


def test_on_the_cpu_nothing_is_said_of_where_elements_work() -> None:
    report = Pipeline(sources={"cam": SOURCE}, steps=["draw"]).run().to_json()

    assert "runs_on" not in report["elements"]["draw-1"]


def test_each_run_counts_its_own_copies(gpu: CudaDevice) -> None:
    pipeline = Pipeline(sources={"cam": SOURCE}, steps=[ToGpu()], gpu=gpu)

    first, second = pipeline.run(), pipeline.run()

    assert first.transfers == second.transfers
    assert first.transfers is not None


def test_images_on_the_gpu_are_shown_as_on_the_host(gpu: CudaDevice) -> None:
    on_gpu = [frame.rgb() for frame in Pipeline(sources={"cam": SOURCE}, steps=[ToGpu()], gpu=gpu)]
    on_host = [frame.rgb() for frame in Pipeline(sources={"cam": SOURCE}, steps=[])]

    assert all((one == other).all() for one, other in zip(on_gpu, on_host, strict=True))


def test_device_cpu_leaves_a_gpu_alone(gpu: CudaDevice) -> None:
    frames = list(Pipeline(sources={"cam": SOURCE}, steps=[], gpu=gpu, device="cpu"))

    assert {frame.surface.memory for frame in frames} == {Memory.HOST}
    assert gpu.transfers.counts.host_to_device_bytes == 0


def test_images_outlive_the_run_and_the_gpu_goes_with_the_last(driver: FakeCudaDriver) -> None:
    gpu = CudaDevice(driver)
    frames = list(Pipeline(sources={"cam": SOURCE}, steps=[ToGpu()], gpu=gpu))
    gpu.close()

    before, shape = driver.is_closed, frames[0].rgb().shape
    frames.clear()

    assert (before, shape, driver.is_closed) == (False, (48, 64, 3), True)
    driver.check()


def test_a_run_that_fails_lets_go_of_the_gpu(driver: FakeCudaDriver) -> None:
    gpu = CudaDevice(driver)
    try:
        Pipeline(sources={"cam": SOURCE}, steps=[Fails()], gpu=gpu).run()
    except OperatorError as error:
        assert "for the test" in str(error)  # noqa: PT017  pytest.raises would keep the images of the traceback
    gpu.close()

    assert driver.is_closed


def test_a_gpu_that_breaks_stops_the_pipeline_with_the_cause(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    driver.fail_next("copy", "CUDA_ERROR_ECC_UNCORRECTABLE")

    with pytest.raises(OperatorError, match=r"cuda:0 cannot be used any more: .*CUDA_ERROR_ECC_UNCORRECTABLE"):
        Pipeline(sources={"cam": SOURCE}, steps=[ToGpu()], gpu=gpu).run()

    with pytest.raises(CudaFailed, match="CUDA_ERROR_ECC_UNCORRECTABLE"):
        gpu.stream("later")
