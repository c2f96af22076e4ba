"""Models that TensorRT has to compile first: cameras do not wait for it, files do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from sightline.errors import ModelError
from sightline.graph import Message, MessageKind
from sightline.media import Batch
from sightline.testing import FrameOrder, assert_accounted
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from tests.fakes import FakeNvdec
from tests.fakes.onnxruntime import FakeOnnxRuntime
from tests.fakes.tensorrt import fake_tensorrt
from tests.fakes.tensorrt_names import TensorRtFaults

LIMIT_SECONDS = 300.0


class Until:
    """A probe that tells when something has come true."""

    def __init__(self, is_true: Callable[[], bool]) -> None:
        self._is_true = is_true
        self._came = threading.Event()

    def __call__(self, batch: Batch) -> None:
        if self._is_true():
            self._came.set()

    def wait(self) -> None:
        assert self._came.wait(LIMIT_SECONDS)


@pytest.fixture
def may_compile() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@contextmanager
def watching(repository: Path, clip: Path, folder: Path, gpu: CudaDevice, **options: Any) -> Iterator[Pipeline]:
    """A pipeline on a camera that shows that clip."""
    steps = [
        {"detect": {"model": str(repository / "models" / "plate.onnx"), **options}},
        {"jsonl": {"path": "{stream}.jsonl"}},
    ]
    with FakeCamera(load_clip(str(clip)), options=CameraOptions()) as camera:
        yield Pipeline(sources={"gate": camera.url}, steps=steps, outputs=folder, gpu=gpu)


def texts(told: list[Message], kind: MessageKind) -> list[str]:
    return [message.text for message in told if message.kind is kind]


def test_a_camera_is_served_by_onnx_runtime_until_tensorrt_has_compiled_the_model(
    repository: Path,
    clips: dict[str, Path],
    tmp_path: Path,
    gpu: CudaDevice,
    nvdec: FakeNvdec,
    onnxruntime: FakeOnnxRuntime,
    may_compile: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    tensorrt = fake_tensorrt(gpu, faults=TensorRtFaults(may_build=may_compile))
    told: list[Message] = []
    order = FrameOrder()
    served, changed = Until(lambda: bool(onnxruntime.batches)), Until(lambda: tensorrt.calls.count("execute") > 4)

    with watching(repository, clips["gate"], tmp_path, gpu) as pipeline:
        pipeline.on_message(told.append)
        for probe in (order, served, changed):
            pipeline.probe("detect-1", probe)
        pipeline.start()
        served.wait()
        may_compile.set()
        changed.wait()
        pipeline.stop()
        report = pipeline.wait()

    assert_accounted(report, stopped=True)
    assert not order.wrong
    said = report.totals["detect-1"]
    assert (said["engine"], said["served_before"]) == ("tensorrt", "onnxruntime, CUDA")
    assert said["runs_before"] > 0
    assert any("compiles it" in text for text in texts(told, MessageKind.MODEL))
    assert any("runs with TensorRT from now on" in text for text in texts(told, MessageKind.MODEL))


def test_a_run_that_is_stopped_does_not_wait_for_the_compiler(
    repository: Path,
    clips: dict[str, Path],
    tmp_path: Path,
    gpu: CudaDevice,
    nvdec: FakeNvdec,
    onnxruntime: FakeOnnxRuntime,
    may_compile: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    fake_tensorrt(gpu, faults=TensorRtFaults(may_build=may_compile))
    served = Until(lambda: bool(onnxruntime.batches))

    with watching(repository, clips["gate"], tmp_path, gpu) as pipeline:
        pipeline.probe("detect-1", served)
        pipeline.start()
        served.wait()
        pipeline.stop()
        report = pipeline.wait()

    assert not may_compile.is_set()
    assert report.totals["detect-1"]["engine"] == "onnxruntime, CUDA"


def test_a_model_that_was_compiled_before_serves_from_the_first_frame(
    repository: Path, clips: dict[str, Path], tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec, tensorrt: object
) -> None:
    Pipeline(
        sources={"gate": str(clips["gate"])},
        steps=[{"detect": {"model": str(repository / "models" / "plate.onnx")}}],
        gpu=gpu,
        batch={"size": 1},
    ).run(frames=1)
    seen = Until(lambda: True)

    with watching(repository, clips["gate"], tmp_path, gpu) as pipeline:
        pipeline.probe("detect-1", seen)
        pipeline.start()
        seen.wait()
        pipeline.stop()
        report = pipeline.wait()

    said = report.totals["detect-1"]
    assert (said["engine"], said["model"]) == ("tensorrt", "cached")
    assert "served_before" not in said


def test_who_asks_for_tensorrt_waits_for_it(
    repository: Path,
    clips: dict[str, Path],
    tmp_path: Path,
    gpu: CudaDevice,
    nvdec: FakeNvdec,
    onnxruntime: FakeOnnxRuntime,
    tensorrt: object,
) -> None:
    seen = Until(lambda: True)

    with watching(repository, clips["gate"], tmp_path, gpu, engine="tensorrt") as pipeline:
        pipeline.probe("detect-1", seen)
        pipeline.start()
        seen.wait()
        pipeline.stop()
        report = pipeline.wait()

    assert report.totals["detect-1"]["engine"] == "tensorrt"
    assert onnxruntime.batches == []


def test_a_model_that_tensorrt_refuses_is_computed_by_onnx_runtime_and_that_is_told(
    repository: Path,
    clips: dict[str, Path],
    gpu: CudaDevice,
    nvdec: FakeNvdec,
    onnxruntime: FakeOnnxRuntime,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    fake_tensorrt(gpu, faults=TensorRtFaults(untaken=frozenset({"Conv"})))
    pipeline = Pipeline(
        sources={"gate": str(clips["gate"])},
        steps=[{"detect": {"model": str(repository / "models" / "plate.onnx")}}],
        gpu=gpu,
    )

    report = pipeline.run(frames=2)

    said = report.totals["detect-1"]
    assert said["engine"] == "onnxruntime, CUDA"
    assert "Conv" in said["no_tensorrt"]


def test_who_asks_for_tensorrt_is_told_why_it_can_not_be_had(
    repository: Path,
    clips: dict[str, Path],
    gpu: CudaDevice,
    nvdec: FakeNvdec,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    fake_tensorrt(gpu, faults=TensorRtFaults(untaken=frozenset({"Conv"})))
    steps = [{"detect": {"model": str(repository / "models" / "plate.onnx"), "engine": "tensorrt"}}]

    with pytest.raises(ModelError, match=r"plate\.onnx.*Conv.*use engine: onnxruntime"):
        Pipeline(sources={"gate": str(clips["gate"])}, steps=steps, gpu=gpu).run(frames=2)
