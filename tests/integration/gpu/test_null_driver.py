"""Whole pipelines with the real driver layer, over a null driver: what they cost in calls, and how failures end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.devices import discovery
from sightline.devices.cuda import cuda_driver, opening
from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.libcuda import facts_from
from sightline.errors import OperatorError, SightlineError
from sightline.graph import Message, MessageKind
from sightline.media import Batch
from sightline.runtime import watchdog
from sightline.runtime.stats.report import Report
from sightline.testing import FrameOrder, assert_accounted
from sightline_plugins.engines import tensorrt_library
from tests.integration.gpu.conftest import let_go
from tests.integration.gpu.small_clips import COUNT
from tests.null_driver import NullCudaDriver, NullDriver, fresh_null_driver
from tests.waiting import wait_until

LIMIT_SECONDS = 300.0
DRAWN: list[Any] = [{"draw": {"clock": True}}, {"video": {"path": "{stream}.mp4"}}]
"""Steps without a model: frames are uploaded, drawn on by a kernel, and copied to the host for the encoder."""
BATCHES = COUNT // 4
STEP = 97
"""Every so many calls one fails: in all of them a run would take a minute."""
NOT_READY = 600
OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"

EXACT = (
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuMemcpy2DAsync",
    "cuLaunchKernel",
    "cuMemcpyAsync",
    "cuGraphLaunch",
)
PAIRS = {
    "cuMemAlloc": "cuMemFree",
    "cuMemHostAlloc": "cuMemFreeHost",
    "cuStreamCreate": "cuStreamDestroy",
    "cuEventCreate": "cuEventDestroy",
}

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture
def null(monkeypatch: pytest.MonkeyPatch) -> Iterator[NullDriver]:
    """Two GPUs that `device: cuda` finds. After the test nothing may be left on them."""
    null = fresh_null_driver(gpus=2, memory_bytes=2**30)
    facts = facts_from(null.library)
    for module in (discovery, opening, cuda_driver, tensorrt_library):
        monkeypatch.setattr(module, "driver_facts", lambda: facts)
    yield null
    let_go()
    null.check_nothing_left()


@dataclass
class Run:
    """How a run ended, and what it reported on the way."""

    report: Report | None
    error: str = ""
    messages: list[Message] = field(default_factory=list)

    def of(self, *kinds: MessageKind) -> list[str]:
        return [message.text for message in self.messages if message.kind in kinds]


def run(sources: Mapping[str, Any], steps: list[Any], folder: Path, **options: Any) -> Run:
    """Run a pipeline to its end, however it ends."""
    pipeline = Pipeline(sources=sources, steps=steps, outputs=folder, overwrite=True, **{"device": "cuda:0", **options})
    messages, error = list[Message](), ""
    pipeline.on_message(messages.append)
    try:
        pipeline.run()
    except SightlineError as raised:
        error = str(raised)
    return Run(pipeline.report, error, messages)


def detecting(repository: Path, **options: Any) -> list[Any]:
    """Find and follow; the network that finds plates is the smallest."""
    detect = {"model": str(repository / "models" / "plate.onnx"), "engine": "openvino", **options}
    return [{"detect": detect}, "track", {"jsonl": {"path": "{stream}.jsonl"}}]


def test_what_a_run_with_a_model_costs(
    null: NullDriver, repository: Path, clips: dict[str, Path], tmp_path: Path
) -> None:
    full = {"size": COUNT // BATCHES, "timeout": "5m"}  # however slow the decoder is
    found = run({"street": str(clips["street"])}, detecting(repository), tmp_path, batch=full)
    let_go()

    counts = null.counts
    assert found.report is not None
    assert found.report.runs_on["detect-1"] == "cuda:0"
    assert [str(one.decoder)[:3] for one in found.report.streams] == ["cpu"]
    assert {call: counts[call] for call in EXACT} == {
        "cuDevicePrimaryCtxRetain": 1,
        "cuDevicePrimaryCtxRelease": 1,
        "cuModuleLoadData": 1,
        "cuModuleUnload": 1,
        "cuMemcpy2DAsync": 3 * COUNT,  # the planes of each frame
        "cuLaunchKernel": BATCHES,
        "cuMemcpyAsync": 2 * BATCHES,  # the table of crops to the GPU, the network's input to the host
        "cuGraphLaunch": 0,
    }
    assert counts["cuCtxPushCurrent"] == counts["cuCtxPopCurrent"]
    for made, gone in PAIRS.items():
        assert counts[made] == counts[gone] > 0


def test_records_are_those_of_the_cpu(
    null: NullDriver, repository: Path, clips: dict[str, Path], tmp_path: Path
) -> None:
    sources = {name: str(path) for name, path in clips.items()}

    gpu = CudaDevice(NullCudaDriver())  # kernels run on the host build
    of_gpu = run(sources, detecting(repository), tmp_path / "gpu", gpu=gpu)
    of_cpu = run(sources, detecting(repository), tmp_path / "cpu", device="cpu")
    gpu.close()

    assert (of_gpu.error, of_cpu.error) == ("", "")
    for name in sources:
        assert (tmp_path / "gpu" / f"{name}.jsonl").read_bytes() == (tmp_path / "cpu" / f"{name}.jsonl").read_bytes()


def assert_one_cause(found: Run, *, code: str, call: str) -> None:
    """Whoever reports it names the same call, and the run ends with one error at most."""
    reports = [found.error] if found.error else []
    errors = found.of(MessageKind.ERROR)
    assert len(errors) <= 1
    assert all(f"{call}: {code}" in text for text in [*reports, *errors, *found.of(MessageKind.STREAM_FAILED)])


@pytest.mark.parametrize("code", ["CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_LAUNCH_FAILED"])
def test_whatever_call_fails_the_run_ends_with_its_cause_and_leaves_nothing(
    null: NullDriver, clips: dict[str, Path], tmp_path: Path, code: str
) -> None:
    sources = {"street": str(clips["street"])}
    run(sources, DRAWN, tmp_path)
    let_go()
    calls = len(null.log)
    ends = list[str]()

    for number in range(1, calls, STEP):
        null.reset()
        null.fail("", nth=number, code=code)
        found = run(sources, DRAWN, tmp_path)
        let_go()
        failed = next((call.name for call in null.log if call.result not in (0, NOT_READY)), "")
        assert_one_cause(found, code=code, call=failed)
        if failed == "cuDevicePrimaryCtxRelease":
            null.reset()  # what it did not release stays
            continue
        assert null.live == {}
        ends.append(found.error)

    assert sum(map(bool, ends)) > len(ends) / 2  # where memory goes back nothing is lost


@pytest.mark.parametrize("times", [1, -1])
@pytest.mark.parametrize("call", ["cuMemAlloc", "cuMemHostAlloc"])
def test_without_memory_the_run_says_what_to_do_and_leaves_nothing(
    null: NullDriver, clips: dict[str, Path], tmp_path: Path, call: str, times: int
) -> None:
    sources = {"street": str(clips["street"])}
    run(sources, DRAWN, tmp_path)
    let_go()
    allocations = null.counts[call]

    for number in range(1, allocations + 1, 2):
        null.reset()
        null.fail(call, nth=number, code=OUT_OF_MEMORY, times=times)
        found = run(sources, DRAWN, tmp_path)
        let_go()
        assert_one_cause(found, code=OUT_OF_MEMORY, call=call)
        asked = null.counts[call] >= number  # the order of work of several threads is not the same each time
        assert not asked or times == 1 or "use fewer streams or smaller batches" in found.error
        null.check_nothing_left()


class Breaks:
    """A probe that lets cuda:0 break when it sees a frame of that stream and number."""

    def __init__(self, null: NullDriver, *, stream: str, frame: int) -> None:
        self._null, self._stream, self._frame = null, stream, frame

    def __call__(self, batch: Batch) -> None:
        if any(one.stream.name == self._stream and one.index >= self._frame for one in batch.frames):
            self._null.break_gpu(0)


def endless(clips: Mapping[str, Path]) -> dict[str, Any]:
    """Four streams of two clips that begin again and again."""
    named = {f"{name}-{number}": path for number in (1, 2) for name, path in clips.items()}
    return {name: {"uri": str(path), "loop": True} for name, path in named.items()}


def test_streams_of_a_gpu_that_breaks_go_on_on_the_other(
    null: NullDriver, repository: Path, clips: dict[str, Path], tmp_path: Path
) -> None:
    pipeline = Pipeline(sources=endless(clips), steps=detecting(repository), outputs=tmp_path, device="cuda")
    messages = list[Message]()
    pipeline.on_message(messages.append)
    pipeline.probe("detect-1", Breaks(null, stream="street-1", frame=10))

    report = pipeline.run(frames=80)

    assert_accounted(report, gpu_lost=True)
    assert {one.received for one in report.streams} == {80}
    assert len(texts(messages, "cuda:0 cannot be used any more")) == 1
    assert texts(messages, "cuda:0 is lost")


def test_a_run_whose_only_gpu_breaks_ends_with_the_cause(
    null: NullDriver, clips: dict[str, Path], tmp_path: Path
) -> None:
    pipeline = Pipeline(sources=endless(clips), steps=DRAWN, outputs=tmp_path, device="cuda:0")
    pipeline.probe("draw-1", Breaks(null, stream="street-1", frame=10))

    with pytest.raises(OperatorError, match=r"cuda:0 cannot be used any more: .*CUDA_ERROR_LAUNCH_FAILED"):
        pipeline.run()

    assert pipeline.report is not None
    assert_accounted(pipeline.report, stopped=True, gpu_lost=True)


def texts(messages: list[Message], part: str) -> list[str]:
    return [message.text for message in messages if part in message.text]


def started(pipeline: Pipeline, clips: dict[str, Path]) -> tuple[FrameOrder, list[Message]]:
    """Start a pipeline, and wait until each of its streams has given a frame."""
    order, messages = FrameOrder(), list[Message]()
    pipeline.probe("track-1", order)
    pipeline.on_message(messages.append)
    pipeline.start()
    wait_until(lambda: all(order.frames(name) for name in endless(clips)))
    return order, messages


def test_a_gpu_that_hangs_is_reported_and_its_streams_go_on_when_the_driver_gives_it_up(
    null: NullDriver, repository: Path, clips: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "STUCK_SECONDS", 0.5)
    pipeline = Pipeline(sources=endless(clips), steps=detecting(repository), outputs=tmp_path, device="cuda")
    order, messages = started(pipeline, clips)

    with null.hanging():
        wait_until(lambda: texts(messages, "cuda:0 has not answered for"))
        null.break_gpu(0)  # as the driver does after a time
        there = {name: order.frames(name) for name in endless(clips)}
        wait_until(lambda: all(order.frames(name) > there[name] for name in there))
        pipeline.stop()
        report = pipeline.wait()

    assert_accounted(report, stopped=True, gpu_lost=True)
    assert len(texts(messages, "cuda:0 has not answered for")) == 1
    assert len(texts(messages, "cuda:0 cannot be used any more")) == 1
    assert not [message for message in messages if message.kind is MessageKind.ELEMENT_STUCK]


def test_a_run_on_a_gpu_that_hangs_is_aborted_at_once(
    null: NullDriver, repository: Path, clips: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "STUCK_SECONDS", 0.5)
    pipeline = Pipeline(sources=endless(clips), steps=detecting(repository), outputs=tmp_path, device="cuda:0")
    _, messages = started(pipeline, clips)

    with null.hanging():
        wait_until(lambda: texts(messages, "cuda:0 has not answered for"))
        pipeline.stop()  # waits for what is under way, as Ctrl-C does
        pipeline.abort()  # and a second one does not
        report = pipeline.wait()

    assert report.frames > 0


def test_steps_are_exchanged_on_two_gpus_and_nothing_of_the_old_ones_stays(
    null: NullDriver, repository: Path, clips: dict[str, Path], tmp_path: Path
) -> None:
    pipeline = Pipeline(sources=endless(clips), steps=detecting(repository), outputs=tmp_path, device="cuda")
    order, live = FrameOrder(), list[dict[str, int]]()
    pipeline.probe("track-1", order)
    pipeline.start()

    for confidence in (0.3, 0.35, 0.3, 0.35):
        there = {name: order.frames(name) for name in endless(clips)}
        wait_until(lambda there=there: all(order.frames(name) > there[name] + COUNT for name in there))  # type: ignore[misc]
        live.append(null.live)
        steps = detecting(repository, confidence=confidence)
        changed = Pipeline(sources=endless(clips), steps=steps, device="cuda")
        pipeline.reload(changed.description, prove=0).wait(LIMIT_SECONDS)
    pipeline.stop()
    report = pipeline.wait()

    assert_accounted(report, stopped=True)
    assert [one["contexts"] for one in live] == [2] * 4
    assert [one["modules"] for one in live] == [2] * 4
