"""How exactly models are computed on a GPU: whichever is the fastest within its budget, unless another is named."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from sightline.runtime.stats.report import Report
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from sightline_plugins.engines.onnxruntime_cuda import OnnxRuntimeCuda
from sightline_plugins.heads.head import Candidates
from sightline_plugins.infer import agreement
from sightline_plugins.infer.precision import Candidate
from sightline_plugins.infer.precision_speeds import GpuSpeeds
from sightline_plugins.infer.targets import InferenceTarget
from tests.fakes import FakeNvdec
from tests.fakes.onnxruntime import FakeOnnxRuntime
from tests.fakes.tensorrt import FakeTensorRt, fake_tensorrt
from tests.fakes.tensorrt_names import TensorRtFaults
from tests.integration.gpu.agreement import overlap
from tests.integration.gpu.test_compiling import Until
from tests.integration.gpu.test_engines import recorded


def seeing(repository: Path, **options: Any) -> list[Any]:
    return [{"detect": {"model": str(repository / "models" / "street.onnx"), "confidence": 0.6, **options}}]


def boxes(content: bytes) -> list[list[list[float]]]:
    """The boxes of each frame."""
    return [[thing["box"] for thing in json.loads(line).get("objects", ())] for line in content.splitlines()]


def overlaps(one: bytes, other: bytes) -> list[float]:
    """The overlap of each box with its counterpart, in whatever order they stand."""
    frames = zip(boxes(one), boxes(other), strict=True)
    return [max(overlap(box, known) for known in exact) for found, exact in frames for box in found]


@pytest.mark.parametrize("engine", ["tensorrt", "onnxruntime"])
def test_halves_find_what_the_file_finds(
    repository: Path, tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec, engine: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(engine)
    clip = repository / "sample_videos" / "street.mp4"

    report, halved = recorded(clip, seeing(repository, precision="fp16"), tmp_path / "half", frames=6, gpu=gpu)

    _, exact = recorded(clip, seeing(repository), tmp_path / "exact", frames=6)
    assert report.totals["detect-1"]["precision"] == "fp16"
    assert [len(found) for found in boxes(halved)] == [len(found) for found in boxes(exact)]
    found = overlaps(halved, exact)
    assert min(found) > 0.8  # of two candidates for one thing, the other may be the surer one
    assert mean(found) > 0.99


@pytest.fixture
def nothing_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a user's machine: a cache, and no precision in the environment; few frames are judged."""
    monkeypatch.delenv("SIGHTLINE_PRECISION")
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(agreement, "FRAMES", 8)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Precisions that were measured: each is found to be twice as fast as fp32."""
    precisions: list[str] = []

    def twice_as_fast(self: GpuSpeeds, candidates: Sequence[Candidate]) -> Sequence[float]:
        del self
        precisions.extend(candidate.precision for candidate in candidates[1:])
        return [1.0, 0.5]

    monkeypatch.setattr(GpuSpeeds, "_measured", twice_as_fast)
    return precisions


@pytest.mark.parametrize("engine", ["tensorrt", "onnxruntime"])
def test_fp16_is_the_default_where_it_is_faster_and_finds_the_same(
    repository: Path,
    tmp_path: Path,
    gpu: CudaDevice,
    nvdec: FakeNvdec,
    engine: str,
    nothing_named: None,
    measured: list[str],
    request: pytest.FixtureRequest,
) -> None:
    library = request.getfixturevalue(engine)
    clip = repository / "sample_videos" / "street.mp4"
    place = "TensorRT-RTX 1.7.1.0" if engine == "tensorrt" else OnnxRuntimeCuda.library()

    runs = [recorded(clip, seeing(repository), tmp_path / name, frames=2, gpu=gpu)[0] for name in ("first", "again")]

    for report in runs:
        found = report.totals["detect-1"]
        assert found["precision"] == "fp16"
        reason = re.fullmatch(
            rf"fp16 is 2\.00 times as fast as fp32 with {place} on cuda:0; "
            r"(\d+\.\d)% of its results agree with those of fp32",
            found["precision_reason"],
        )
        assert reason is not None
        assert float(reason[1]) >= 98
    assert measured == ["fp16"]
    if engine == "tensorrt":
        assert library.calls.count("parse") == 2  # both precisions, once


@pytest.mark.parametrize("named", ["option", "environment"])
def test_fp32_is_one_word_away(
    repository: Path,
    tmp_path: Path,
    gpu: CudaDevice,
    nvdec: FakeNvdec,
    tensorrt: object,
    nothing_named: None,
    measured: list[str],
    named: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if named == "environment":
        monkeypatch.setenv("SIGHTLINE_PRECISION", "fp32")
    steps = seeing(repository, **({"precision": "fp32"} if named == "option" else {}))

    report, _ = recorded(repository / "sample_videos" / "street.mp4", steps, tmp_path / "out", frames=2, gpu=gpu)

    assert report.totals["detect-1"]["precision"] == "fp32"
    assert "precision_reason" not in report.totals["detect-1"]
    assert measured == []


def test_fp16_that_finds_other_objects_is_not_taken(
    repository: Path,
    tmp_path: Path,
    gpu: CudaDevice,
    nvdec: FakeNvdec,
    tensorrt: object,
    nothing_named: None,
    measured: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def moved(self: agreement._Decoder, outputs: Sequence[Any], target: InferenceTarget, batch: object) -> Any:
        """Read boxes, and miss every eighth of those of the precision that is judged."""
        found: Any = read(self, outputs, target, batch)  # type: ignore[arg-type]
        readings.append(found)
        return found if len(readings) % 2 else found.select(np.arange(len(found)) % 8 != 0)

    readings: list[Candidates] = []
    read = agreement._Decoder.read
    monkeypatch.setattr(agreement._Decoder, "read", moved)
    clip = repository / "sample_videos" / "street.mp4"

    report, _ = recorded(clip, seeing(repository), tmp_path / "out", frames=2, gpu=gpu)

    found = report.totals["detect-1"]
    assert found["precision"] == "fp32"
    assert "but 9" in found["precision_reason"]
    assert found["precision_reason"].endswith("of its results agree with those of fp32, and 98% have to")


def test_the_fastest_is_measured_once_and_the_reason_is_reported(
    repository: Path,
    tmp_path: Path,
    gpu: CudaDevice,
    nvdec: FakeNvdec,
    tensorrt: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    clip = repository / "sample_videos" / "gate.mp4"
    steps = [{"detect": {"model": str(repository / "models" / "plate.onnx"), "precision": "auto"}}]

    first, _ = recorded(clip, steps, tmp_path / "first", frames=2, gpu=gpu)
    again, _ = recorded(clip, steps, tmp_path / "again", frames=2, gpu=gpu)

    found = first.totals["detect-1"]
    assert found["precision"] in ("fp32", "fp16")
    assert "times as fast" in found["precision_reason"]
    assert again.totals["detect-1"]["precision_reason"] == found["precision_reason"]


def watch(repository: Path, camera: FakeCamera, folder: Path, gpu: CudaDevice, probe: Until) -> Report:
    """Watch a camera until the probe has seen enough; return the report."""
    pipeline = Pipeline(sources={"street": camera.url}, steps=seeing(repository), outputs=folder, gpu=gpu)
    pipeline.probe("detect-1", probe)
    pipeline.start()
    probe.wait()
    pipeline.stop()
    return pipeline.wait()


@pytest.fixture
def camera(clips: dict[str, Path]) -> Iterator[FakeCamera]:
    with FakeCamera(load_clip(str(clips["street"])), options=CameraOptions()) as camera:
        yield camera


def test_cameras_alone_wait_for_no_measurement_and_the_reason_is_reported(
    repository: Path,
    tmp_path: Path,
    gpu: CudaDevice,
    nvdec: FakeNvdec,
    camera: FakeCamera,
    onnxruntime: FakeOnnxRuntime,
    tensorrt: FakeTensorRt,
    nothing_named: None,
    measured: list[str],
) -> None:
    report = watch(repository, camera, tmp_path, gpu, Until(lambda: tensorrt.calls.count("execute") > 4))

    found = report.totals["detect-1"]
    assert (found["engine"], found["precision"]) == ("tensorrt", "fp32")
    assert found["precision_reason"] == "fp16 was not judged: there are no files among the sources to judge it on"
    assert measured == []


def test_a_camera_is_served_in_fp32_until_tensorrt_was_measured_and_judged_by_a_run_on_a_file(
    repository: Path,
    tmp_path: Path,
    gpu: CudaDevice,
    nvdec: FakeNvdec,
    camera: FakeCamera,
    onnxruntime: FakeOnnxRuntime,
    tensorrt: FakeTensorRt,
    nothing_named: None,
    measured: list[str],
) -> None:
    recorded(repository / "sample_videos" / "street.mp4", seeing(repository), tmp_path / "file", frames=1, gpu=gpu)
    before = tensorrt.calls.count("execute")

    report = watch(repository, camera, tmp_path, gpu, Until(lambda: tensorrt.calls.count("execute") > before + 4))

    found = report.totals["detect-1"]
    assert (found["engine"], found["precision"]) == ("tensorrt", "fp16")
    assert "% of its results agree" in found["precision_reason"]
    assert found["served_before"] == "onnxruntime, CUDA"
    assert measured == ["fp16", "fp16"]  # in batches of four of the file, and of one of the camera


def test_a_run_that_is_stopped_waits_for_no_measurement(
    repository: Path,
    tmp_path: Path,
    gpu: CudaDevice,
    nvdec: FakeNvdec,
    camera: FakeCamera,
    onnxruntime: FakeOnnxRuntime,
    nothing_named: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_compile = threading.Event()  # which it never does
    fake_tensorrt(gpu, faults=TensorRtFaults(may_build=may_compile))
    monkeypatch.setattr(agreement.PrecisionJudge, "obstacle", lambda self, precision: None)

    report = watch(repository, camera, tmp_path, gpu, Until(lambda: bool(onnxruntime.batches)))

    assert report.totals["detect-1"]["engine"] == "onnxruntime, CUDA"
