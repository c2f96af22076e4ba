"""Whole pipelines on doubles of several GPUs: what one GPU gives, and what becomes of it when one of them breaks."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from sightline.errors import OperatorError
from sightline.graph import Message, MessageKind
from sightline.media import Batch
from sightline.runtime.stats.report import Report
from sightline.testing import FrameOrder, assert_accounted
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from tests.fakes import FakeCudaDriver, fake_nvdec
from tests.fakes.nvdec import HOPPER
from tests.integration.gpu.conftest import let_go
from tests.integration.gpu.small_clips import COUNT
from tests.waiting import wait_until

LIMIT_SECONDS = 300.0
CAUSE = "CUDA_ERROR_ILLEGAL_ADDRESS"
RECORDS = {"jsonl": {"path": "{stream}.jsonl"}}
Drivers = list[FakeCudaDriver]
Gpus = list[CudaDevice]


@pytest.fixture
def drivers() -> Drivers:
    return [FakeCudaDriver(index=index, memory_bytes=2**27, pinned_bytes=2**26) for index in range(3)]


@pytest.fixture
def gpus(drivers: Drivers) -> Iterator[Gpus]:
    """Three GPUs with decoders; those that work have to be given back whole."""
    gpus = [CudaDevice(driver) for driver in drivers]
    libraries = [fake_nvdec(gpu, caps=HOPPER) for gpu in gpus]
    yield gpus
    let_go()
    for gpu, driver, library in zip(gpus, drivers, libraries, strict=True):
        is_broken = gpu.guard.cause is not None
        gpu.close()
        assert is_broken or (driver.is_closed, driver.live_bytes, library.open_count) == (True, (0, 0), 0)
        driver.check()


@pytest.fixture
def sources(clips: dict[str, Path]) -> dict[str, str]:
    """Four streams of two clips."""
    return {f"{name}-{number}": str(path) for number in (1, 2) for name, path in clips.items()}


def endless(sources: Mapping[str, str]) -> dict[str, Any]:
    return {name: {"uri": uri, "loop": True} for name, uri in sources.items()}


def look(repository: Path, model: str = "plate", **options: Any) -> list[Any]:
    """Find and follow; the network that finds plates is the smallest."""
    return [{"detect": {"model": str(repository / "models" / f"{model}.onnx"), **options}}, "track"]


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def lost(report: Report) -> Counter[str]:
    """How many frames of each stream were lost with a GPU."""
    return Counter({one.stream.name: one.dropped["gpu lost"] for one in report.streams})


class Breaks:
    """A probe that lets a GPU break at the frame of that number, of a stream that is on it."""

    def __init__(self, driver: FakeCudaDriver, *, stream: str, frame: int) -> None:
        self._driver, self._stream, self._frame = driver, stream, frame
        self._is_done = False

    def __call__(self, batch: Batch) -> None:
        here = any((one.stream.name, one.index >= self._frame) == (self._stream, True) for one in batch.frames)
        if here and not self._is_done:
            self._is_done = True
            self._driver.fail_next("launch", CAUSE)


@pytest.mark.parametrize(("count", "model"), [(2, "street"), (3, "plate")])
def test_records_and_videos_are_those_of_one_gpu_to_the_byte(
    repository: Path, sources: dict[str, str], tmp_path: Path, gpus: Gpus, count: int, model: str
) -> None:
    steps = [*look(repository, model), {"video": {"path": "{stream}.mp4"}}, RECORDS]
    order = FrameOrder()

    Pipeline(sources=sources, steps=steps, outputs=tmp_path / "one", gpu=gpus[0]).run()
    pipeline = Pipeline(sources=sources, steps=steps, outputs=tmp_path / "several", gpu=gpus[:count])
    pipeline.probe("detect-1", order)
    report = pipeline.run()

    assert_accounted(report)
    order.check(report)
    assert written(tmp_path / "several") == written(tmp_path / "one")
    assert model != "street" or b'"track_id"' in (tmp_path / "several" / "street-1.jsonl").read_bytes()
    assert report.runs_on["detect-1"] == "; ".join(f"cuda:{number}" for number in range(count))
    assert {one.decoder for one in report.streams} == {"nvdec"}
    assert all(gpu.transfers.counts.device_to_host_bytes for gpu in gpus[:count])


def test_all_streams_may_be_written_into_one_file(
    repository: Path, sources: dict[str, str], tmp_path: Path, gpus: Gpus
) -> None:
    steps = [*look(repository), {"jsonl": {"path": "all.jsonl"}}]

    for name, own in (("one", gpus[:1]), ("two", gpus[:2])):
        Pipeline(sources=sources, steps=steps, outputs=tmp_path / name, gpu=own).run()

    of_one, of_two = ((tmp_path / name / "all.jsonl").read_text().splitlines() for name in ("one", "two"))
    assert sorted(of_two) == sorted(of_one)
    for stream in sources:
        mine = [line["frame"] for line in map(json.loads, of_two) if line["stream"] == stream]
        assert mine == list(range(COUNT))


def test_files_go_on_on_another_gpu_when_theirs_breaks(
    repository: Path, sources: dict[str, str], tmp_path: Path, gpus: Gpus, drivers: Drivers
) -> None:
    steps = [*look(repository), RECORDS]
    Pipeline(sources=endless(sources), steps=steps, outputs=tmp_path / "one", gpu=gpus[1]).run(frames=40)
    pipeline = Pipeline(sources=endless(sources), steps=steps, outputs=tmp_path / "two", gpu=gpus[:2])
    told: list[Message] = []
    pipeline.on_message(told.append)
    pipeline.probe("detect-1", Breaks(drivers[0], stream="street-1", frame=10))

    report = pipeline.run(frames=40)

    assert_accounted(report, gpu_lost=True)
    assert {one.received for one in report.streams} == {40}
    assert len([one for one in told if "cuda:0 cannot be used any more" in one.text]) == 1
    for name in sources:
        seen = [line["frame"] for line in lines(tmp_path / "two" / f"{name}.jsonl")]
        assert seen == sorted(set(seen))
        assert seen[-1] == 39
        assert 40 - len(seen) <= lost(report)[name]
        if not lost(report)[name]:
            assert written(tmp_path / "two")[f"{name}.jsonl"] == written(tmp_path / "one")[f"{name}.jsonl"]
    assert {name for name, count in lost(report).items() if count} <= {"street-1", "street-2"}
    assert lost(report).total() > 0


def test_a_camera_is_connected_again_on_another_gpu(
    repository: Path, clips: dict[str, Path], tmp_path: Path, gpus: Gpus, drivers: Drivers
) -> None:
    with FakeCamera(load_clip(str(clips["street"])), options=CameraOptions()) as camera:
        sources = dict.fromkeys(("yard", "gate"), camera.url)
        pipeline = Pipeline(sources=sources, steps=[*look(repository), RECORDS], outputs=tmp_path, gpu=gpus[:2])
        order, back = FrameOrder(), threading.Event()
        pipeline.probe("detect-1", Breaks(drivers[0], stream="yard", frame=5))
        pipeline.probe("jsonl-1", order)
        pipeline.on_message(lambda message: back.set() if message.kind is MessageKind.STREAM_BACK else None)
        pipeline.start()
        assert back.wait(LIMIT_SECONDS)
        there = order.frames("yard")
        wait_until(lambda: order.frames("yard") > there + 3)
        pipeline.stop()
        report = pipeline.wait()

    assert_accounted(report, stopped=True, gpu_lost=True)
    assert not order.wrong
    assert {one.stream.name: one.reconnects for one in report.streams} == {"yard": 1, "gate": 0}
    assert {one.decoder for one in report.streams} == {"nvdec"}


def test_with_the_last_gpu_the_run_ends_with_the_cause(
    repository: Path, sources: dict[str, str], tmp_path: Path, gpus: Gpus, drivers: Drivers
) -> None:
    pipeline = Pipeline(sources=endless(sources), steps=[*look(repository), RECORDS], outputs=tmp_path, gpu=gpus[:2])
    pipeline.probe("detect-1", Breaks(drivers[0], stream="street-1", frame=5))
    pipeline.probe("track-1", Breaks(drivers[1], stream="street-1", frame=30))

    with pytest.raises(OperatorError, match=rf"cuda:1 cannot be used any more: .*{CAUSE}"):
        pipeline.run()

    assert pipeline.report is not None
    assert_accounted(pipeline.report, stopped=True, gpu_lost=True)
    assert len(lines(tmp_path / "gate-1.jsonl")) > 5


def test_steps_are_exchanged_while_two_gpus_work(
    repository: Path, sources: dict[str, str], tmp_path: Path, gpus: Gpus
) -> None:
    pipeline = Pipeline(sources=endless(sources), steps=[*look(repository), RECORDS], outputs=tmp_path, gpu=gpus[:2])
    order = FrameOrder()
    pipeline.probe("track-1", order)
    pipeline.start()
    wait_until(lambda: all(order.frames(name) for name in sources))

    changed = Pipeline(sources=endless(sources), steps=[*look(repository, confidence=0.3), RECORDS])
    pipeline.reload(changed.description, prove=0).wait(LIMIT_SECONDS)
    there = {name: order.frames(name) for name in sources}
    wait_until(lambda: all(order.frames(name) > there[name] for name in sources))
    pipeline.stop()
    report = pipeline.wait()

    assert_accounted(report, stopped=True)
    order.check(report)
    for name in sources:
        numbers = [line["frame"] for line in lines(tmp_path / f"{name}.jsonl")]
        assert numbers == list(range(len(numbers)))
    assert {"detect-1", "detect-1 before reload 1"} <= {*report.totals}
