"""The model of a pipeline that runs is exchanged: no frame is lost, and a model that fails is reverted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.errors import ChangeReverted, ConfigurationError
from sightline.graph import Message, MessageKind, PipelineDescription
from sightline.runtime.stats.counters import DropReason
from sightline.runtime.stats.metrics import metric_families
from sightline.testing import FrameOrder, assert_accounted
from sightline_plugins.infer.detect import Detect
from tests.unit.infer import tried
from tests.unit.infer.tiny import LABELS, write_detector, write_shapes
from tests.unit.runtime.elements import Synthetic, Tally
from tests.waiting import LIMIT_SECONDS, wait_until

SWAPS = 50


def described(model: Path, **options: Any) -> PipelineDescription:
    given: dict[str, Any] = {"id": "d", "model": model, "labels": LABELS, "precision": "fp32", "engine": "onnxruntime"}
    given["swap"] = {"max_slowdown": None}  # a busy machine is as uneven as that
    detect = Detect.model_validate(given | options)
    cameras = {f"cam{number}": Synthetic(frames=None) for number in range(4)}
    return PipelineDescription(sources=cameras, steps=(detect, Tally(id="t")))


class Run:
    """A run of four streams, whose results and messages are counted."""

    def __init__(self, model: Path) -> None:
        self.model, self.messages, self.order, self.batches = model, list[Message](), FrameOrder(), 0
        self.pipeline = Pipeline.from_description(described(model))
        self.pipeline.on_message(self.messages.append)
        self.pipeline.probe("d", self.order)
        self.pipeline.probe("t", lambda batch: self._count())

    def _count(self) -> None:
        self.batches += 1

    def goes_on(self) -> None:
        """Wait for further results."""
        before = self.batches
        wait_until(lambda: self.batches > before + 2)

    def told(self, kind: MessageKind) -> list[str]:
        return [message.text for message in self.messages if message.kind is kind]

    def end(self) -> None:
        self.pipeline.stop()
        report = self.pipeline.wait()
        assert_accounted(report, stopped=True)
        self.order.check(report)
        assert {reason for stream in report.streams for reason in stream.dropped} <= {DropReason.STOPPED}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(write_detector(tmp_path / "first.onnx"))
    with made.pipeline:
        made.goes_on()
        yield made


def test_fifty_swaps_under_four_streams_lose_no_frame_and_restart_no_step(run: Run, tmp_path: Path) -> None:
    models = cycle([tried.write_swapped_classes(tmp_path / "second.onnx"), run.model])

    for number, model in zip(range(SWAPS), models, strict=False):
        change = run.pipeline.reload(described(model), prove="5s" if number % 2 else 0)
        change.applied.wait(LIMIT_SECONDS)
        run.goes_on()

    run.end()
    assert run.told(MessageKind.RELOADED) == ["reloaded: changed d; kept t"] * SWAPS
    assert run.told(MessageKind.MODEL_TAKEN_BACK) == []


def test_a_model_that_fails_on_probation_is_reverted_without_the_loss_of_a_frame(run: Run, tmp_path: Path) -> None:
    broken = tried.write_not_finite(tmp_path / "broken.onnx")

    with pytest.raises(ChangeReverted, match=r"broken\.onnx is rolled back, and first\.onnx goes on") as refused:
        run.pipeline.reload(described(broken), prove=LIMIT_SECONDS).wait(LIMIT_SECONDS)

    assert refused.value.element == "d"
    assert run.pipeline.description == described(run.model)
    run.goes_on()
    run.end()


@pytest.mark.parametrize("name", ["none.onnx", "other.onnx"])
def test_a_model_that_cannot_be_opened_is_one_error_and_all_goes_on(run: Run, tmp_path: Path, name: str) -> None:
    write_shapes(tmp_path / "other.onnx", inputs={"images": [1, 3, 32, 32]}, outputs={"odd": [1, 3, 17, 5]})

    with pytest.raises(ConfigurationError, match=rf"detect\.(model|head): .*{name}"):
        run.pipeline.reload(described(tmp_path / name), prove=0).wait(LIMIT_SECONDS)

    assert run.pipeline.description == described(run.model)
    run.goes_on()
    run.end()


def test_a_canary_comes_and_goes_while_the_run_goes_on(run: Run, tmp_path: Path) -> None:
    broken = tried.write_not_finite(tmp_path / "broken.onnx")

    run.pipeline.reload(described(run.model, canary={"model": broken}), prove=0).wait(LIMIT_SECONDS)
    wait_until(lambda: run.told(MessageKind.CANARY_ROLLED_BACK))
    run.pipeline.reload(
        described(run.model, canary={"model": run.model, "share": "50%", "max_slowdown": None}), prove=0
    ).wait(LIMIT_SECONDS)
    run.goes_on()
    with pytest.raises(ConfigurationError, match=r"detect\.canary\.model: .*none\.onnx"):
        run.pipeline.reload(described(run.model, canary={"model": tmp_path / "none.onnx"}), prove=0).wait(LIMIT_SECONDS)

    run.end()
    assert run.told(MessageKind.RELOADED) == ["reloaded: changed d; kept t"] * 2
    assert run.told(MessageKind.REVERTED) == []


def test_a_canary_that_has_proved_itself_is_promoted_by_itself(run: Run, tmp_path: Path) -> None:
    second = tried.write_swapped_classes(tmp_path / "second.onnx")
    proves = {"share": "50%", "prove": "100ms", "prove_frames": 30, "max_disagreement": 1, "max_slowdown": None}

    run.pipeline.reload(described(run.model, canary={"model": second, "promote": True, **proves}), prove=0).wait(
        LIMIT_SECONDS
    )
    wait_until(lambda: run.pipeline.description.element("d") == described(second).element("d"))
    run.goes_on()

    run.end()
    assert [text.rpartition(": ")[2] for text in run.told(MessageKind.CANARY_PROVED)] == ["it is promoted"]
    assert run.told(MessageKind.RELOADED) == ["reloaded: changed d; kept t"] * 2
    report = run.pipeline.report
    assert report is not None
    canary, swap = report.totals["d"]["models"]
    assert (canary["promoted"], canary["state"], swap["trial"]) == (True, "kept", "swap")
    assert run.pipeline.versions[-1].by == "d"


def test_metrics_tell_of_a_shadow_while_it_runs(run: Run, tmp_path: Path) -> None:
    second = tried.write_swapped_classes(tmp_path / "second.onnx")
    shadow = {"model": second, "every": 1, "max_load": 1}
    run.pipeline.reload(described(run.model, shadow=shadow), prove=0).wait(LIMIT_SECONDS)

    def compared() -> list[tuple[dict[str, str], float]]:
        families = metric_families(run.pipeline.view(), is_ready=True)
        (found,) = [one for one in families if one.name == "model_compared_frames"]
        return [(dict(labels), value) for labels, value in found.samples]

    wait_until(lambda: compared() and compared()[0][1] > 0)

    assert [labels for labels, _ in compared()] == [{"element": "d", "role": "shadow", "model": "second.onnx"}]
    run.end()
