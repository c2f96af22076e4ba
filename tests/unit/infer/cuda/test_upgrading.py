from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.errors import ModelError
from sightline_plugins import Detect
from sightline_plugins.engines.cache import ModelCache
from sightline_plugins.engines.cuda_model import prepare_batches
from sightline_plugins.engines.onnxruntime_cuda import OnnxRuntimeCuda
from sightline_plugins.infer.cuda_predictor import CudaPredictor
from sightline_plugins.infer.detections import DetectionPostprocessor
from sightline_plugins.infer.requests import Predictor, UpgradingPredictor
from tests.fakes import FakeCudaDriver
from tests.fakes.onnxruntime import fake_onnxruntime
from tests.fakes.tensorrt import FakeTensorRt
from tests.unit.infer.cuda.predictors import CELLS, batch_of, by_tensorrt, cells_of, expected, find, inputs_of, planned

LIMIT_SECONDS = 300


@dataclass(slots=True)
class Compiler:
    """Makes the faster predictor when the test lets it, and keeps the messages."""

    make: Callable[[], Predictor]
    may_end: threading.Event = field(default_factory=threading.Event)
    has_ended: threading.Event = field(default_factory=threading.Event)
    messages: list[str] = field(default_factory=list)

    def work(self) -> Predictor:
        try:
            assert self.may_end.wait(LIMIT_SECONDS)
            return self.make()
        finally:
            self.has_ended.set()

    def finish(self, predictor: UpgradingPredictor) -> None:
        self.may_end.set()
        predictor.wait_for_making(LIMIT_SECONDS)


@pytest.fixture
def postprocessor(detect: Detect) -> DetectionPostprocessor:
    return planned(detect)[1]


@pytest.fixture
def serving(gpu: CudaDevice, driver: FakeCudaDriver, detect: Detect) -> CudaPredictor:
    """ONNX Runtime."""
    fake_onnxruntime(gpu, driver)
    plan, postprocessor = planned(detect)
    stream = gpu.stream("served")
    cache = ModelCache(None, warn=print)
    model = prepare_batches(str(detect.model), size_wh=(32, 32), precision="fp32", input_range=(0.0, 1.0), cache=cache)
    engine = OnnxRuntimeCuda(model, gpu=gpu, stream=stream)
    return CudaPredictor(plan, engine=engine, postprocessor=postprocessor, gpu=gpu, stream=stream)


@pytest.fixture
def compiler(gpu: CudaDevice, tensorrt: FakeTensorRt, detect: Detect) -> Compiler:
    return Compiler(lambda: by_tensorrt(detect, gpu=gpu, stream=gpu.stream("better"))[0])


@pytest.fixture
def upgrading(serving: CudaPredictor, compiler: Compiler) -> Iterator[UpgradingPredictor]:
    predictor = UpgradingPredictor(
        serving,
        make=compiler.work,
        stop=compiler.may_end.set,
        ready=lambda: compiler.messages.append("ready"),
        warn=compiler.messages.append,
    )
    yield predictor
    predictor.close()


def test_the_first_one_serves_until_the_better_one_is_made(
    upgrading: UpgradingPredictor,
    compiler: Compiler,
    postprocessor: DetectionPostprocessor,
    detect: Detect,
    gpu: CudaDevice,
) -> None:
    before = find(upgrading, postprocessor, detect, CELLS[:5], gpu=gpu)
    engine_before = upgrading.report["engine"]

    compiler.finish(upgrading)
    after = find(upgrading, postprocessor, detect, CELLS[5:9], gpu=gpu)

    assert (before, after) == (expected(CELLS[:5]), expected(CELLS[5:9]))
    assert (engine_before, upgrading.report["engine"]) == ("onnxruntime, CUDA", "tensorrt")
    assert compiler.messages == ["ready"]


def test_the_report_tells_how_many_looks_the_first_one_served(
    upgrading: UpgradingPredictor,
    compiler: Compiler,
    postprocessor: DetectionPostprocessor,
    detect: Detect,
    gpu: CudaDevice,
) -> None:
    find(upgrading, postprocessor, detect, CELLS[:5], gpu=gpu)
    compiler.finish(upgrading)

    find(upgrading, postprocessor, detect, CELLS[:3], gpu=gpu)

    assert (upgrading.report["served_before"], upgrading.report["runs_before"]) == ("onnxruntime, CUDA", 5)


def test_requests_of_the_first_predictor_are_read_after_the_upgrade(
    upgrading: UpgradingPredictor,
    compiler: Compiler,
    postprocessor: DetectionPostprocessor,
    detect: Detect,
    gpu: CudaDevice,
) -> None:
    batch = batch_of(CELLS[:4], gpu=gpu)
    inputs = inputs_of(batch, detect)
    requests = list(upgrading.submit(inputs))

    compiler.finish(upgrading)
    find(upgrading, postprocessor, detect, CELLS[4:6], gpu=gpu)

    assert upgrading.report["engine"] == "tensorrt"
    assert cells_of(requests, postprocessor, inputs, batch) == expected(CELLS[:4])


def test_where_the_better_one_can_not_be_made_the_first_one_goes_on_and_says_why(
    upgrading: UpgradingPredictor,
    compiler: Compiler,
    postprocessor: DetectionPostprocessor,
    detect: Detect,
    gpu: CudaDevice,
) -> None:
    def refuse() -> Predictor:
        raise ModelError("it has an operator that nobody knows")

    compiler.make = refuse
    compiler.finish(upgrading)

    found = find(upgrading, postprocessor, detect, CELLS[:2], gpu=gpu)

    assert found == expected(CELLS[:2])
    assert compiler.messages == ["continuing with onnxruntime, CUDA: it has an operator that nobody knows"]
    assert upgrading.report["engine"] == "onnxruntime, CUDA"


def test_closing_ends_the_making(serving: CudaPredictor, compiler: Compiler, detect: Detect) -> None:
    predictor = UpgradingPredictor(
        serving, make=compiler.work, stop=compiler.may_end.set, ready=lambda: None, warn=compiler.messages.append
    )

    predictor.close()

    assert compiler.has_ended.is_set()
    assert compiler.messages == []
