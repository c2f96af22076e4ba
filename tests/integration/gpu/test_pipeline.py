"""Whole pipelines on a GPU, whose double refuses what no GPU forgives: what comes out is what the CPU makes."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from sightline.errors import OperatorError
from sightline.media import Batch
from sightline.runtime.stats.report import Report
from sightline.testing import FrameOrder, assert_accounted
from sightline_plugins.preprocess.cuda import JOB
from tests.fakes import FakeCudaDriver, FakeNvdec
from tests.integration.gpu.small_clips import COUNT, SIZES
from tests.integration.sources.clips import SMALL, TALL, write_changing

INPUT_BYTES = 128 * 128 * 3
ALIGNED_BYTES = 16
"""What a batch sends up is padded to a multiple of it."""
LIMIT_SECONDS = 300.0
Steps = Sequence[Any]


def look(repository: Path, model: str = "plate", **options: Any) -> list[Any]:
    """Find and follow; the network that finds plates is the smallest."""
    return [{"detect": {"model": str(repository / "models" / f"{model}.onnx"), **options}}, "track"]


def everything(repository: Path) -> list[Any]:
    """Find, follow, count, hide, draw and write."""
    return [
        *look(repository, "street"),
        {"lines": {"middle": {"from": [0.5, 0], "to": [0.5, 1]}}},
        {"privacy": {"on": "person", "detector": "detect-1"}},
        {"draw": {"clock": True}},
        {"video": {"path": "{stream}.mp4", "encoder": "cpu"}},
        {"jsonl": {"path": "{stream}.jsonl"}},
    ]


def motion() -> list[Any]:
    """Steady, measure what moves, draw and write."""
    return [
        {"stabilise": {"id": "steady", "border": "crop"}},
        {"flow": {"mode": "dense", "size": 96}},
        {"flow": {"mode": "sparse", "size": 128, "arrows": True}},
        "draw",
        {"video": {"path": "{stream}.mp4", "encoder": "cpu"}},
        {"jsonl": {"path": "{stream}.jsonl", "tensors": True}},
    ]


def run(
    clips: Mapping[str, Path],
    steps: Steps,
    folder: Path,
    *,
    gpu: CudaDevice | None = None,
    size: int = 8,
    probed: str = "detect-1",
) -> tuple[Report, dict[str, bytes]]:
    """The report, and all files that were written."""
    sources = {name: str(path) for name, path in clips.items()}
    pipeline = Pipeline(sources=sources, steps=steps, outputs=folder, gpu=gpu, batch={"size": size})
    order = FrameOrder()
    pipeline.probe(probed, order)
    report = pipeline.run()
    assert_accounted(report)
    order.check(report)
    return report, {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def image_bytes(name: str) -> int:
    width, height = SIZES[name]
    return width * height * 3 // 2


def transfers(report: Report) -> tuple[int, int]:
    assert report.transfers is not None
    return report.transfers.host_to_device_bytes, report.transfers.device_to_host_bytes


@pytest.fixture(scope="module")
def on_the_cpu(repository: Path, clips: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the CPU writes."""
    return run(clips, everything(repository), tmp_path_factory.mktemp("cpu"))[1]


@pytest.mark.parametrize("size", [1, 8])
def test_records_and_videos_are_the_cpus_to_the_byte(
    repository: Path,
    clips: dict[str, Path],
    tmp_path: Path,
    on_the_cpu: dict[str, bytes],
    size: int,
    gpu: CudaDevice,
    nvdec: FakeNvdec,
) -> None:
    report, written = run(clips, everything(repository), tmp_path, gpu=gpu, size=size)

    assert written == on_the_cpu
    assert b'"track_id"' in written["street.jsonl"]
    assert {stream.decoder for stream in report.streams} == {"nvdec"}
    assert len(nvdec.made) == len(clips)
    assert [name for name, place in report.runs_on.items() if place == "cuda:0"] == ["detect-1", "privacy-1", "draw-1"]
    said = report.totals["detect-1"]["engine_runs_on"]
    assert said.startswith("cpu (")
    assert "ONNX Runtime has no CUDA provider for cuda:0" in said


def test_motion_and_steadied_videos_are_the_cpus_to_the_byte(
    clips: dict[str, Path], tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec
) -> None:
    expected = run(clips, motion(), tmp_path / "cpu", probed="steady")[1]
    report, written = run(clips, motion(), tmp_path / "gpu", gpu=gpu, size=5, probed="steady")

    assert written == expected
    assert b"flow-1.vectors" in written["street.jsonl"]
    assert report.runs_on["steady"] == "cuda:0"
    assert report.runs_on["flow-1"] == f"cpu ({COUNT * len(clips)} images were reduced on cuda:0)"


def test_nothing_comes_down_but_what_the_model_looks_at(
    repository: Path, clips: dict[str, Path], tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec
) -> None:
    steps = [*look(repository), {"jsonl": {"path": "{stream}.jsonl"}}]

    report, _ = run(clips, steps, tmp_path, gpu=gpu, size=1)

    frames = COUNT * len(clips)
    job_bytes = -(-JOB.itemsize // ALIGNED_BYTES) * ALIGNED_BYTES
    compared = sum(image_bytes(name) for name in clips)  # the first frame of each, with the CPU's
    assert transfers(report) == (frames * job_bytes, frames * INPUT_BYTES + compared)


def test_a_warning_says_that_the_cpu_computes_the_model(
    repository: Path, clips: dict[str, Path], gpu: CudaDevice, nvdec: FakeNvdec
) -> None:
    pipeline = Pipeline(sources={"gate": str(clips["gate"])}, steps=look(repository), gpu=gpu)
    told: list[str] = []
    pipeline.on_message(lambda message: told.append(message.text))

    pipeline.run(frames=1)

    assert (
        len(
            [
                text
                for text in told
                if text.startswith("the model runs on the CPU") and "ONNX Runtime has no CUDA" in text
            ]
        )
        == 1
    )


def test_images_come_down_once_for_all_that_need_them(
    repository: Path, clips: dict[str, Path], tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec
) -> None:
    videos = {"one": [{"video": {"path": "a-{stream}.mp4"}}], "two": [{"snapshots": {"path": "{stream}-{frame}.jpg"}}]}

    report, _ = run(clips, [*look(repository), "draw", {"tee": videos}], tmp_path, gpu=gpu)

    up, down = transfers(report)
    compared = image_bytes("street")  # first frames, with the CPU's: nothing is drawn on that of the gate
    assert down == COUNT * sum(INPUT_BYTES + image_bytes(name) for name in clips) + compared
    assert up < COUNT * len(clips) * 50_000


def test_where_nvdec_lacks_the_cpu_decodes_and_images_go_up(
    repository: Path, clips: dict[str, Path], tmp_path: Path, gpu: CudaDevice
) -> None:
    steps = [*look(repository), {"video": {"path": "{stream}.mp4"}}, {"jsonl": {"path": "{stream}.jsonl"}}]

    on_cpu = run(clips, steps, tmp_path / "cpu")[1]
    report, on_gpu = run(clips, steps, tmp_path / "gpu", gpu=gpu)

    assert on_gpu == on_cpu
    assert {stream.decoder for stream in report.streams} == {"cpu"}
    assert all(stream.decoder_reason for stream in report.streams)
    assert transfers(report)[0] > COUNT * sum(map(image_bytes, clips))


def test_images_that_are_made_in_host_memory_go_up_once_for_models_and_are_drawn_on_there(
    repository: Path, tmp_path: Path, gpu: CudaDevice
) -> None:
    source = {"test": {"pattern": "moving", "size": [160, 96], "frames": 5}}
    steps = [*look(repository), *look(repository)[:1], {"draw": {"clock": True}}, {"video": {"path": "a.mp4"}}]

    here, there = (
        Pipeline(sources=source, steps=steps, outputs=tmp_path / str(number), gpu=own).run()
        for number, own in enumerate((None, gpu))
    )

    assert (tmp_path / "0" / "a.mp4").read_bytes() == (tmp_path / "1" / "a.mp4").read_bytes()
    assert here.frames == there.frames == 5
    up, down = transfers(there)
    assert 0 < up - 5 * 160 * 96 * 3 // 2 < 2 * 5 * (JOB.itemsize + 16)
    assert down == 2 * 5 * INPUT_BYTES
    assert there.runs_on["draw-1"] == "cpu (5 of 5 images lay in host memory, or had more than 8 bits)"


def test_a_stream_that_breaks_off_is_no_matter_to_the_others(
    repository: Path, clips: dict[str, Path], tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec
) -> None:
    broken, whole = tmp_path / "street.mp4", clips["street"].read_bytes()
    broken.write_bytes(whole[: len(whole) * 2 // 3])
    given = {"street": broken, "gate": clips["gate"]}
    steps = [*look(repository), {"video": {"path": "{stream}.mp4"}}, {"jsonl": {"path": "{stream}.jsonl"}}]

    here, on_cpu = run(given, steps, tmp_path / "cpu")
    there, on_gpu = run(given, steps, tmp_path / "gpu", gpu=gpu)

    assert on_gpu == on_cpu
    assert [stream.state for stream in there.streams] == [stream.state for stream in here.streams]


def test_a_size_that_changes_in_mid_stream_changes_nothing_else(
    repository: Path, tmp_path: Path, gpu: CudaDevice
) -> None:
    clip = {"changing": write_changing(tmp_path / "changing.ts", SMALL, TALL)}
    steps = [*look(repository), {"video": {"path": "{stream}.mp4"}}, {"jsonl": {"path": "{stream}.jsonl"}}]

    on_cpu = run(clip, steps, tmp_path / "cpu")[1]
    on_gpu = run(clip, steps, tmp_path / "gpu", gpu=gpu)[1]

    assert on_gpu == on_cpu


def test_a_reload_takes_over_on_the_gpu(
    repository: Path, clips: dict[str, Path], tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec
) -> None:
    source = {"street": {"uri": str(clips["street"]), "loop": True}}
    tail: list[Any] = [{"jsonl": {"path": "{stream}.jsonl"}}]
    pipeline = Pipeline(sources=source, steps=[*look(repository), *tail], outputs=tmp_path, gpu=gpu)
    came = threading.Event()
    pipeline.probe("track-1", lambda batch: came.set())
    pipeline.start()
    assert came.wait(LIMIT_SECONDS)

    changed = Pipeline(sources=source, steps=[*look(repository, confidence=0.6), *tail])
    pipeline.reload(changed.description, prove=0).wait(LIMIT_SECONDS)
    came.clear()
    assert came.wait(LIMIT_SECONDS)
    pipeline.stop()

    report = pipeline.wait()
    assert_accounted(report, stopped=True)
    numbers = [json.loads(line)["frame"] for line in (tmp_path / "street.jsonl").read_text().splitlines()]
    assert numbers == list(range(len(numbers)))
    assert report.runs_on["detect-1"] == "cuda:0"


def fails_late(batch: Batch) -> Batch:
    if batch.frames[-1].index > 4:
        raise ValueError("for the test")
    return batch


def test_a_step_that_fails_leaves_nothing_on_the_gpu(
    repository: Path, clips: dict[str, Path], tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec
) -> None:
    steps = [*look(repository), "draw", {"apply": {"function": f"{__name__}:fails_late"}}]

    with pytest.raises(OperatorError, match="for the test"):
        run(clips, steps, tmp_path, gpu=gpu)


def test_a_run_that_is_stopped_leaves_nothing_on_the_gpu(
    repository: Path, clips: dict[str, Path], tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec
) -> None:
    sources = {name: {"uri": str(path), "loop": True} for name, path in clips.items()}
    steps = [*look(repository), {"draw": {"clock": True}}, {"video": {"path": "{stream}.mp4"}}]
    pipeline = Pipeline(sources=sources, steps=steps, outputs=tmp_path, gpu=gpu)
    came = threading.Event()
    pipeline.probe("draw-1", lambda batch: came.set())

    pipeline.start()
    assert came.wait(LIMIT_SECONDS)
    pipeline.stop()

    assert_accounted(pipeline.wait(), stopped=True)


def test_a_gpu_that_breaks_in_mid_run_ends_it_with_the_cause(
    repository: Path, clips: dict[str, Path], tmp_path: Path, driver: FakeCudaDriver
) -> None:
    gpu = CudaDevice(driver)
    sources, batch = {"street": str(clips["street"])}, {"size": 1}  # so that launches follow the first result
    pipeline = Pipeline(sources=sources, steps=look(repository), outputs=tmp_path, gpu=gpu, batch=batch)
    pipeline.probe("detect-1", lambda batch: driver.fail_next("launch", "CUDA_ERROR_ILLEGAL_ADDRESS"))

    with pytest.raises(OperatorError, match=r"cuda:0 cannot be used any more: .*CUDA_ERROR_ILLEGAL_ADDRESS"):
        pipeline.run()

    gpu.close()
    driver.check()
