"""Steps that fail or do not return: `on_error: skip`, and the watchdog."""

from __future__ import annotations

import threading
import time
from typing import ClassVar

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError, OperatorError
from sightline.graph import Element, Message, MessageKind, Operator, Site, StreamState, Threading
from sightline.media import Batch
from sightline.runtime import watchdog
from sightline.runtime.stats.report import Report
from sightline.testing import FrameOrder, assert_accounted


class Fails(Element):
    """Fails on every frame of a stream whose index is a multiple of `every`."""

    name: ClassVar[str] = "fails"
    threading: ClassVar[Threading] = Threading.INLINE

    every: int = 10
    stream: str = "ill"

    def build(self, site: Site) -> Operator:
        return _FailsOperator(self)


class FailsToWrite(Fails):
    """The same as a sink."""

    sink: ClassVar[bool] = True


class _FailsOperator(Operator):
    def __init__(self, element: Fails) -> None:
        self._element = element

    def process(self, batch: Batch) -> Batch:
        for frame in batch.frames:
            if frame.stream.name == self._element.stream and frame.index % self._element.every == 0:
                raise ValueError("rtsp://user:secret@camera is no number")
        return batch


def run(element: Fails, *, frames: int = 120, size: int = 2) -> tuple[Report, list[Message], FrameOrder]:
    sources = {name: {"pattern": "bars", "size": [16, 16], "frames": frames} for name in ("ill", "well")}
    pipeline = Pipeline(sources=sources, steps=[element], batch={"size": size})
    messages: list[Message] = []
    order = FrameOrder()
    pipeline.on_message(messages.append)
    pipeline.probe("fails-1", order)
    report = pipeline.run()
    return report, messages, order


def states(report: Report) -> dict[str, StreamState]:
    return {stream.stream.name: stream.state for stream in report.streams}


def test_a_step_that_fails_stops_the_pipeline_unless_it_says_otherwise() -> None:
    with pytest.raises(OperatorError, match="frame 0: ValueError"):
        run(Fails(), size=1)


def test_a_step_that_may_be_skipped_lets_the_frame_go_on_without_it() -> None:
    report, _, order = run(Fails(on_error="skip"))

    assert_accounted(report)
    order.check(report)
    assert [stream.finished for stream in report.streams] == [120, 120]
    assert set(states(report).values()) == {StreamState.ENDED}
    assert report.to_json()["elements"]["fails-1"]["failures"] == {"ValueError": 12}


def test_a_step_that_may_be_skipped_costs_only_the_frames_on_which_it_fails_whatever_the_batch() -> None:
    report, _, _ = run(Fails(on_error="skip", every=3), size=16)

    assert report.to_json()["elements"]["fails-1"]["failures"] == {"ValueError": 40}


def test_each_failure_after_one_that_worked_is_told_with_its_traceback_and_without_passwords() -> None:
    _, messages, _ = run(Fails(on_error="skip"), frames=25)

    told = [message for message in messages if message.kind is MessageKind.WARNING]
    assert [message.stream for message in told] == ["ill"] * 3
    assert all("Traceback" in (message.details or "") for message in told)
    assert not any("secret" in message.text + (message.details or "") for message in told)


def test_a_sink_that_failed_has_lost_output() -> None:
    report, messages, _ = run(FailsToWrite(on_error="skip"), frames=25)

    assert list(report.lost_outputs) == ["fails-1"]
    assert "frame 0: ValueError" in report.lost_outputs["fails-1"]
    assert [message.kind for message in messages].count(MessageKind.SINK_DEGRADED) == 3
    assert not run(Fails(on_error="skip"), frames=25)[0].lost_outputs


def test_a_stream_on_which_a_step_only_fails_is_given_up_and_the_other_is_untouched() -> None:
    report, messages, order = run(Fails(every=1, on_error="skip"), frames=400)

    assert_accounted(report, stopped=True)
    order.check(report)
    well = next(stream for stream in report.streams if stream.stream.name == "well")
    failed = [message for message in messages if message.kind is MessageKind.STREAM_FAILED]
    assert states(report) == {"ill": StreamState.FAILED, "well": StreamState.ENDED}
    assert well.processed == 400
    assert [message.stream for message in failed] == ["ill"]
    assert "Traceback" in (failed[0].details or "")


def test_a_probe_that_fails_is_not_skipped() -> None:
    pipeline = Pipeline(sources={"ill": {"pattern": "bars", "frames": 3}}, steps=[Fails(every=1000, on_error="skip")])

    def look(batch: Batch) -> None:
        raise KeyError("a mistake of the watcher's")

    pipeline.probe("fails-1", look)

    with pytest.raises(OperatorError, match="a probe of it raised"):
        pipeline.run()


def test_a_probe_sees_each_frame_once() -> None:
    report, _, order = run(Fails(on_error="skip"))

    assert [order.frames(stream.stream.name) for stream in report.streams] == [120, 120]


def test_a_step_that_hides_something_can_not_be_skipped() -> None:
    class Hides(Fails):
        changes_images: ClassVar[bool] = True

    with pytest.raises(ConfigurationError, match="cannot be skipped"):
        Hides(on_error="skip")


class Waits(Element):
    """Does not return from its first frame until it is let go."""

    name: ClassVar[str] = "waits"
    released: ClassVar[threading.Event] = threading.Event()

    def build(self, site: Site) -> Operator:
        return _WaitsOperator()


class _WaitsOperator(Operator):
    def process(self, batch: Batch) -> Batch:
        Waits.released.wait(60)
        return batch


def test_a_step_that_does_not_return_is_named_with_its_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightline.runtime.watchdog.STUCK_SECONDS", 0.2)
    Waits.released.clear()
    stuck, told = threading.Event(), list[Message]()

    def listen(message: Message) -> None:
        if message.kind is MessageKind.ELEMENT_STUCK:
            told.append(message)
            stuck.set()

    pipeline = Pipeline(sources={"cam": {"pattern": "bars", "frames": 2}}, steps=[Waits()])
    pipeline.on_message(listen)
    pipeline.start()
    try:
        assert stuck.wait(20)
    finally:
        Waits.released.set()
        pipeline.wait()

    assert [message.element for message in told] == ["waits-1"]
    assert "Waits.released.wait(60)" in (told[0].details or "")


def test_a_step_is_known_to_hang_within_ten_seconds() -> None:
    assert watchdog.STUCK_SECONDS + watchdog._CHECK_SECONDS < 10


def test_a_report_s_times_are_seconds_and_milliseconds() -> None:
    pipeline = Pipeline(sources={"cam": {"pattern": "bars", "size": [64, 48], "frames": 50}}, steps=[])
    began = time.process_time()
    report = pipeline.run()
    spent = time.process_time() - began

    assert 0 < report.cpu_seconds <= spent
    assert 0 <= report.engine_cpu_seconds <= report.cpu_seconds
    (stream,) = report.to_json()["streams"].values()
    assert 0 < stream["latency_ms"]["p50"] <= stream["latency_ms"]["max"] <= 1000 * report.wall_seconds
