"""Which engine a model would use on a GPU, found out without compiling it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.devices import Device, DeviceKind
from sightline.devices.cuda.device import CudaDevice
from sightline.graph import Site
from sightline_plugins import Detect
from sightline_plugins.engines.opening import EnginePreview
from sightline_plugins.engines.tensorrt_model import TensorRtModel
from sightline_plugins.infer.opening import preview_engine
from sightline_plugins.infer.precision import Chosen
from tests.fakes.tensorrt import FakeTensorRt
from tests.unit.infer.cuda.predictors import planned


def preview_both(detect: Detect, gpu: CudaDevice) -> tuple[EnginePreview, Chosen]:
    site = Site(device=Device(DeviceKind.CUDA, gpu.index), element_id="detect-1", gpu=gpu)
    return preview_engine(detect, planned(detect)[0], site=site)


def preview(detect: Detect, gpu: CudaDevice) -> EnginePreview:
    return preview_both(detect, gpu)[0]


def test_tensorrt_is_named_and_whether_it_has_compiled_the_model(
    gpu: CudaDevice, tensorrt: FakeTensorRt, detect: Detect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))

    before = preview(detect, gpu)
    TensorRtModel(str(detect.model), gpu=gpu, size_wh=(32, 32)).compile()
    after = preview(detect, gpu)

    assert before.name.startswith("TensorRT")
    assert before.runs_on == "cuda:0"
    assert (before.is_compiled, after.is_compiled) == (False, True)


def test_an_engine_on_the_cpu_comes_with_the_reason(gpu: CudaDevice, tensorrt: FakeTensorRt, detect: Detect) -> None:
    found = preview(detect.model_copy(update={"engine": "openvino"}), gpu)

    assert (found.name, found.runs_on) == ("openvino", "cpu")
    assert found.reason == "engine openvino takes images one by one"


def test_a_precision_that_is_not_measured_yet_is_left_open(
    gpu: CudaDevice, tensorrt: FakeTensorRt, detect: Detect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))

    _, chosen = preview_both(detect.model_copy(update={"precision": "auto"}), gpu)

    assert (chosen.precision, chosen.reason) == ("fp32", "measured when it runs")
    assert tensorrt.calls == []


def test_a_precision_that_was_named_is_previewed(
    gpu: CudaDevice, tensorrt: FakeTensorRt, detect: Detect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    TensorRtModel(str(detect.model), gpu=gpu, size_wh=(32, 32)).compile()

    found, chosen = preview_both(detect.model_copy(update={"precision": "fp16"}), gpu)

    assert (chosen.precision, chosen.reason) == ("fp16", "asked for")
    assert found.is_compiled is False
