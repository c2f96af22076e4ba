"""Models on a real GPU: on each of its engines they say what the CPU says, and nothing but that comes down.

What an engine does not take is skipped, with the reason that it gives: `pytest -rs` shows them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from sightline.errors import DeviceUnavailable, MissingExtra, ModelError
from sightline.graph import Message
from sightline.runtime.stats.report import Report
from sightline.testing import FrameOrder, assert_accounted
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from sightline_plugins.engines.onnxruntime_cuda import why_not
from sightline_plugins.engines.tensorrt_library import library_for
from tests.gpu.alike import assert_alike, assert_same_areas, share_found_again
from tests.gpu.model_cases import OWN, SHARED, Case, own_case, shared_case
from tests.integration.test_plates import chain, read_lines, read_texts

pytestmark = pytest.mark.gpu
ENGINES = ("tensorrt", "onnxruntime")
COMPILED_SECONDS = 300.0
"""TensorRT may take so long for one of this project's models."""
LEAST_FOUND_AGAIN = 0.97
"""By halves: what is at a limit of confidence or of suppression may go either way."""
VISITS = 12
SLACK_BYTES = 64 * 2**20


def record(
    case: Case,
    folder: Path,
    *,
    engine: str = "auto",
    gpu: CudaDevice | None = None,
    size: int = 32,
    frames: int | None = None,
) -> tuple[Report, dict[str, bytes]]:
    """The report, and what was found on each stream."""
    steps: list[Any] = [*case.steps_by(engine), {"jsonl": {"path": "{stream}.jsonl", "embeddings": True}}]
    batch = {"size": size, "timeout": "10s"}
    pipeline = Pipeline(sources=case.sources, steps=steps, outputs=folder, gpu=gpu, batch=batch)
    report = pipeline.run(frames=frames)
    assert_accounted(report)
    return report, {path.stem: path.read_bytes() for path in sorted(folder.iterdir())}


def record_on(
    gpu: CudaDevice, case: Case, folder: Path, *, engine: str, size: int = 32, frames: int | None = None
) -> tuple[Report, dict[str, bytes]]:
    """See `record`; skips what the engine does not take."""
    try:
        report, files = record(case, folder, engine=engine, gpu=gpu, size=size, frames=frames)
    except (ModelError, DeviceUnavailable) as error:
        pytest.skip(str(error))
    for told in report.totals.values():
        if told.get("engine_runs_on", str(gpu)) != str(gpu):
            pytest.skip(told["engine_runs_on"])
    return report, files


def assert_as_on_the_cpu(case: Case, expected: dict[str, bytes], found: dict[str, bytes]) -> None:
    assert found.keys() == expected.keys() == case.sources.keys()
    together = [b"".join(files[name] for name in case.sources) for files in (expected, found)]
    if "segment" in case.steps[-1]:
        assert_same_areas(*together)
    else:
        assert_alike(*together, least=case.least)


@pytest.fixture(scope="module", autouse=True)
def _models_and_kernels_are_compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIGHTLINE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def on_the_cpu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """What the CPU found, by the name of the model: both engines are compared with it."""
    return {}


def tensorrt_or_skip(gpu: CudaDevice) -> None:
    try:
        library_for(gpu)
    except (MissingExtra, DeviceUnavailable) as error:
        pytest.skip(str(error))


def onnxruntime_or_skip(gpu: CudaDevice) -> None:
    if (reason := why_not(gpu)) is not None:
        pytest.skip(reason)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, gpu: CudaDevice) -> str:
    """What computes on the GPU."""
    name: str = request.param
    (tensorrt_or_skip if name == "tensorrt" else onnxruntime_or_skip)(gpu)
    return name


@pytest.mark.parametrize("model", SHARED)
def test_a_shared_model_finds_what_it_finds_on_the_cpu(
    shared_data: Path, tmp_path: Path, gpu: CudaDevice, engine: str, on_the_cpu: dict[str, dict[str, bytes]], model: str
) -> None:
    case = shared_case(shared_data, model)

    _, found = record_on(gpu, case, tmp_path / "gpu", engine=engine)

    expected = on_the_cpu[model] = on_the_cpu.get(model) or record(case, tmp_path / "cpu")[1]
    assert_as_on_the_cpu(case, expected, found)


@pytest.mark.parametrize("model", OWN)
def test_a_model_of_this_project_finds_what_it_finds_on_the_cpu(
    repository: Path, tmp_path: Path, gpu: CudaDevice, engine: str, on_the_cpu: dict[str, dict[str, bytes]], model: str
) -> None:
    case = own_case(repository, model)

    _, found = record_on(gpu, case, tmp_path / "gpu", engine=engine)

    expected = on_the_cpu[model] = on_the_cpu.get(model) or record(case, tmp_path / "cpu")[1]
    assert_as_on_the_cpu(case, expected, found)


def test_vehicles_get_the_plates_that_they_get_on_the_cpu(
    repository: Path, tmp_path: Path, gpu: CudaDevice, engine: str
) -> None:
    case = Case({"gate": str(repository / "sample_videos" / "gate.mp4")}, tuple(chain()))

    report, _ = record_on(gpu, case, tmp_path / "gpu", engine=engine, size=8)

    record(case, tmp_path / "cpu", size=8)
    texts = [read_texts(read_lines(tmp_path / place / "gate.jsonl")) for place in ("gpu", "cpu")]
    assert texts[0] == texts[1]
    assert len(texts[0]) >= 9
    assert len([told for told in report.totals.values() if told.get("engine_runs_on") == str(gpu)]) == 3


@pytest.mark.parametrize("size", [1, 3, 8])
def test_results_do_not_depend_on_the_size_of_batches(
    repository: Path, tmp_path: Path, gpu: CudaDevice, engine: str, size: int
) -> None:
    case = detecting(repository)

    _, found = record_on(gpu, case, tmp_path / "some", engine=engine, size=size, frames=100)
    _, expected = record_on(gpu, case, tmp_path / "all", engine=engine, size=32, frames=100)

    assert_as_on_the_cpu(case, expected, found)


def detecting(repository: Path, **options: Any) -> Case:
    """Every frame of the street looked at."""
    detect = {"detect": {"model": str(repository / "models" / "street.onnx"), "confidence": 0.3, **options}}
    return Case({"street": str(repository / "sample_videos" / "street.mp4")}, (detect,), 0.3)


def test_small_things_are_found_on_tiles_as_on_the_cpu(
    repository: Path, tmp_path: Path, gpu: CudaDevice, engine: str
) -> None:
    case = detecting(repository, tiles={"size": [320, 240]}, every=10)

    _, found = record_on(gpu, case, tmp_path / "gpu", engine=engine, frames=200)

    assert_as_on_the_cpu(case, record(case, tmp_path / "cpu", frames=200)[1], found)


def test_only_what_was_found_comes_down(repository: Path, tmp_path: Path, gpu: CudaDevice, engine: str) -> None:
    case = detecting(repository, max_detections=50)

    report, _ = record_on(gpu, case, tmp_path, engine=engine, size=4, frames=200)

    assert report.transfers is not None
    assert report.totals["detect-1"]["heads_run_on"] == str(gpu)
    compared = 640 * 360 * 3 // 2  # the first frame, with the CPU's
    assert report.transfers.device_to_host_copies == 50 + 1
    assert report.transfers.device_to_host_bytes == 50 * (4 * 50 * 32 + 256) + compared


def test_batches_by_tensorrt_are_graphs(repository: Path, tmp_path: Path, gpu: CudaDevice) -> None:
    tensorrt_or_skip(gpu)

    report, _ = record_on(gpu, detecting(repository), tmp_path, engine="tensorrt", size=4, frames=60)

    assert report.totals["detect-1"]["graphs"] == [4]
    assert "no_graphs" not in report.totals["detect-1"]


def test_why_batches_by_onnx_runtime_are_no_graphs_is_told(repository: Path, tmp_path: Path, gpu: CudaDevice) -> None:
    onnxruntime_or_skip(gpu)

    report, _ = record_on(gpu, detecting(repository), tmp_path, engine="onnxruntime", size=4, frames=60)

    assert "graphs" not in report.totals["detect-1"]
    assert report.totals["detect-1"]["no_graphs"].startswith("ONNX Runtime")


@pytest.mark.parametrize("precision", ["fp16", "auto"])
def test_less_exact_forms_find_the_same_things(
    repository: Path, tmp_path: Path, gpu: CudaDevice, engine: str, precision: str
) -> None:
    case = detecting(repository, confidence=0.6, every=10)

    report, found = record_on(
        gpu, detecting(repository, confidence=0.6, every=10, precision=precision), tmp_path / "less", engine=engine
    )

    _, expected = record_on(gpu, case, tmp_path / "all", engine=engine)
    assert report.totals["detect-1"]["precision"] in ("fp32", "fp16")
    assert report.totals["detect-1"]["precision_reason"]
    assert share_found_again(expected["street"], found["street"]) >= LEAST_FOUND_AGAIN


def test_a_camera_is_served_while_tensorrt_compiles_and_then_by_that(
    repository: Path, tmp_path: Path, gpu: CudaDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensorrt_or_skip(gpu)
    onnxruntime_or_skip(gpu)
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    is_compiled, order = threading.Event(), FrameOrder()

    def note(message: Message) -> None:
        if "runs with TensorRT from now on" in message.text or "continuing with" in message.text:
            is_compiled.set()

    clip = load_clip(str(repository / "sample_videos" / "street.mp4"))
    with FakeCamera(clip, options=CameraOptions()) as camera:
        pipeline = Pipeline(
            sources={"street": camera.url},
            steps=[{"detect": {"model": str(repository / "models" / "street.onnx")}}],
            gpu=gpu,
        )
        pipeline.on_message(note)
        pipeline.probe("detect-1", order)
        with pipeline:
            assert is_compiled.wait(COMPILED_SECONDS)
    report = pipeline.wait()

    said = report.totals["detect-1"]
    if said["engine"] != "tensorrt":
        pytest.skip("TensorRT does not take the model on this GPU: see the other tests for the reason")
    assert_accounted(report, stopped=True)
    assert not order.wrong
    assert said["served_before"] == "onnxruntime, CUDA"
    assert said["runs_before"] > 0


def test_models_that_come_and_go_leave_the_memory_of_the_gpu_as_it_was(
    repository: Path, tmp_path: Path, gpu: CudaDevice, engine: str
) -> None:
    free = []
    for number in range(VISITS):
        record_on(gpu, detecting(repository), tmp_path / str(number), engine=engine, frames=8)
        with gpu.guard("asking for its memory") as driver:
            free.append(driver.free_memory_bytes()[0])

    assert gpu.memory.lent == gpu.pinned.lent == 0
    assert free[-1] >= free[2] - SLACK_BYTES
