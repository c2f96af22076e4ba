"""Models that a GPU's engines compute, on the double: they say what the CPU says, and only metadata comes down."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from sightline.graph import Message
from sightline.runtime.stats.report import Report
from tests.fakes import FakeCudaDriver, FakeNvdec
from tests.fakes.onnxruntime import fake_onnxruntime
from tests.integration.gpu.agreement import assert_agree
from tests.integration.gpu.test_models import LINES, SHARED, VEHICLES
from tests.integration.test_plates import chain

ENGINES = ("tensorrt", "onnxruntime")
FIXED: dict[str, dict[str, Any]] = {"yunet_n_dynamic": {"size": [448, 256]}}
"""Sizes for models that take any: in batches all images are of one."""
SIZES = (1, 4, 5)
"""Of batches: what is computed in batches of several sizes, and some of them padded."""


def recorded(
    clip: Path, steps: Sequence[Any], folder: Path, *, frames: int, size: int = 4, gpu: CudaDevice | None = None
) -> tuple[Report, bytes]:
    steps = [*steps, {"jsonl": {"path": "clip.jsonl"}}]
    pipeline = Pipeline(
        sources={"clip": str(clip)}, steps=steps, outputs=folder, gpu=gpu, batch={"size": size, "timeout": "10s"}
    )
    report = pipeline.run(frames=frames)
    return report, (folder / "clip.jsonl").read_bytes()


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, gpu: CudaDevice, nvdec: FakeNvdec) -> str:
    """What computes on the GPU."""
    name: str = request.param
    request.getfixturevalue(name)
    return name


@pytest.fixture(scope="module")
def on_the_cpu(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bytes]:
    """What the CPU finds on the first frames of a clip, computed once for all engines."""
    known: dict[str, bytes] = {}

    def found(clip: Path, steps: Sequence[Any], *, frames: int) -> bytes:
        asked = repr((clip, steps, frames))
        if asked not in known:
            known[asked] = recorded(clip, steps, tmp_path_factory.mktemp("cpu"), frames=frames)[1]
        return known[asked]

    return found


def detect(repository: Path, **options: Any) -> dict[str, Any]:
    return {"detect": {"model": str(repository / "models" / "street.onnx"), **options}}


def test_the_street_is_seen_and_followed_as_on_the_cpu(
    repository: Path, tmp_path: Path, gpu: CudaDevice, engine: str, on_the_cpu: Callable[..., bytes]
) -> None:
    clip = repository / "sample_videos" / "street.mp4"
    steps = [
        detect(repository),
        "track",
        LINES,
        {"classify": {"model": str(repository / "models" / "vehicle.onnx"), "on": {"label": VEHICLES}}},
    ]

    report, found = recorded(clip, steps, tmp_path, frames=24, gpu=gpu)

    assert_agree(found, on_the_cpu(clip, steps, frames=24))
    assert all(report.totals[step]["engine_runs_on"] == "cuda:0" for step in ("detect-1", "classify-1"))
    assert report.totals["detect-1"]["heads_run_on"] == "cuda:0"


def test_plates_are_found_and_read_as_on_the_cpu(
    repository: Path, tmp_path: Path, gpu: CudaDevice, engine: str, on_the_cpu: Callable[..., bytes]
) -> None:
    clip = repository / "sample_videos" / "gate.mp4"

    report, found = recorded(clip, chain(), tmp_path, frames=48, gpu=gpu)

    assert b'"label":"plate"' in found
    assert_agree(found, on_the_cpu(clip, chain(), frames=48))
    assert {told["engine_runs_on"] for told in report.totals.values() if "engine_runs_on" in told} == {"cuda:0"}


@pytest.mark.parametrize("model", SHARED)
def test_a_shared_model_finds_what_it_finds_on_the_cpu(
    shared_data: Path, tmp_path: Path, gpu: CudaDevice, engine: str, model: str, on_the_cpu: Callable[..., bytes]
) -> None:
    clip, element, options = SHARED[model]
    models = shared_data / "models"
    given = {**options, **({"labels": str(models / options["labels"])} if "labels" in options else {})}
    given |= FIXED.get(model, {})
    steps: list[Any] = [{element: {"model": str(models / f"{model}.onnx"), **given}}]
    path = shared_data / "videos" / f"{clip}.mp4"

    report, found = recorded(path, steps, tmp_path, frames=6, gpu=gpu)

    assert b'"confidence"' in found
    assert_agree(found, on_the_cpu(path, steps, frames=6))
    assert report.totals[f"{element}-1"]["engine_runs_on"] == "cuda:0"


@pytest.mark.parametrize("size", SIZES)
def test_results_do_not_depend_on_the_size_of_batches(
    repository: Path,
    tmp_path: Path,
    gpu: CudaDevice,
    nvdec: FakeNvdec,
    tensorrt: object,
    size: int,
    on_the_cpu: Callable[..., bytes],
) -> None:
    clip = repository / "sample_videos" / "entrance.mp4"
    steps = [detect(repository), "track"]

    _, found = recorded(clip, steps, tmp_path, frames=9, gpu=gpu, size=size)

    assert_agree(found, on_the_cpu(clip, steps, frames=9))


@pytest.mark.parametrize(
    ("size", "options", "batch"),
    [
        (1, {}, "1 to 2, tuned for 1"),
        (5, {}, "1 to 8, tuned for 6"),
        (4, {"regions": [[0, 0, 0.5, 1], [0.5, 0, 1, 1]]}, "1 to 12, tuned for 8"),
        (5, {"tiles": {"size": [320, 240]}}, "1 to 32, tuned for 8"),
    ],
    ids=["one frame", "five frames", "two regions of four frames", "tiles"],
)
def test_a_model_is_compiled_for_the_batches_of_the_pipeline(
    repository: Path,
    tmp_path: Path,
    gpu: CudaDevice,
    nvdec: FakeNvdec,
    tensorrt: object,
    size: int,
    options: dict[str, Any],
    batch: str,
) -> None:
    clip = repository / "sample_videos" / "street.mp4"

    report, _ = recorded(clip, [detect(repository, **options)], tmp_path, frames=1, size=size, gpu=gpu)

    assert report.totals["detect-1"]["batch"] == batch


def test_only_what_was_found_comes_down(repository: Path, tmp_path: Path, gpu: CudaDevice, engine: str) -> None:
    clip = repository / "sample_videos" / "street.mp4"

    report, _ = recorded(clip, [detect(repository, max_detections=50), "track"], tmp_path, frames=16, gpu=gpu)

    assert report.transfers is not None
    compared = 640 * 360 * 3 // 2  # the first frame, with the CPU's
    assert report.transfers.device_to_host_bytes == 16 * 50 * 32 + 4 * 256 + compared
    assert report.transfers.device_to_host_copies == 4 + 1


def test_small_things_are_found_on_tiles_as_on_the_cpu(
    repository: Path,
    tmp_path: Path,
    gpu: CudaDevice,
    nvdec: FakeNvdec,
    tensorrt: object,
    on_the_cpu: Callable[..., bytes],
) -> None:
    clip = repository / "sample_videos" / "street.mp4"
    steps = [detect(repository, tiles={"size": [320, 240], "whole": True}), "track"]

    _, found = recorded(clip, steps, tmp_path, frames=5, gpu=gpu)

    assert_agree(found, on_the_cpu(clip, steps, frames=5))


def test_after_some_batches_the_whole_step_is_one_graph(
    repository: Path, tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec, tensorrt: object
) -> None:
    clip = repository / "sample_videos" / "street.mp4"

    report, _ = recorded(clip, [detect(repository)], tmp_path, frames=16, size=2, gpu=gpu)

    assert report.totals["detect-1"]["graphs"] == [2]
    assert "no_graphs" not in report.totals["detect-1"]


def test_why_there_is_no_graph_is_told(
    repository: Path, tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec, onnxruntime: object
) -> None:
    clip = repository / "sample_videos" / "street.mp4"

    report, _ = recorded(clip, [detect(repository)], tmp_path, frames=16, size=2, gpu=gpu)

    assert "graphs" not in report.totals["detect-1"]
    assert report.totals["detect-1"]["no_graphs"].startswith("ONNX Runtime")


def test_operators_that_onnx_runtime_computes_on_the_cpu_are_reported(
    repository: Path, tmp_path: Path, gpu: CudaDevice, driver: FakeCudaDriver, nvdec: FakeNvdec
) -> None:
    fake_onnxruntime(gpu, driver, on_cpu=frozenset({"Resize"}))
    told: list[Message] = []
    model = str(repository / "models" / "street.onnx")
    clip = str(repository / "sample_videos" / "street.mp4")
    pipeline = Pipeline(sources={"clip": clip}, steps=[{"detect": {"model": model}}], outputs=tmp_path, gpu=gpu)
    pipeline.on_message(told.append)

    report = pipeline.run(frames=2)

    found = report.totals["detect-1"]["operators_on_cpu"]
    assert re.fullmatch(r"\d Resize \(of \d+\)", found)
    assert f"operators that ONNX Runtime computes on the CPU: {found}" in [message.text for message in told]


def test_heads_without_a_kernel_read_on_the_cpu_and_that_is_told(
    repository: Path, tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec, tensorrt: object
) -> None:
    clip = repository / "sample_videos" / "street.mp4"

    report, _ = recorded(clip, [detect(repository, nms="soft")], tmp_path, frames=4, gpu=gpu)

    said = report.totals["detect-1"]["heads_run_on"]
    assert said == "cpu (suppression by the method soft has no kernel)"
