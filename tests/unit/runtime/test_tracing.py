"""What is traced of frames on their way through a run, without a collector."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from sightline import Pipeline
from sightline.errors import OperatorError
from sightline.graph import Step
from sightline.runtime.stats.counters import TelemetryStats
from sightline.runtime.stats.snapshot import RunView
from sightline.runtime.tracing import FrameSampler, FrameTrace, SpanKind, Tracer
from sightline.telemetry import run as telemetry_run
from sightline.testing import make_frames
from tests.unit.runtime.elements import Find, Held, Hold, Remark, Synthetic, Tally
from tests.waiting import wait_until

SECOND = 10**9


class Kept:
    """Telemetry of a run that keeps complete traces."""

    def __init__(self, *, ratio: float = 1.0) -> None:
        self.stats = TelemetryStats()
        self.traces: list[FrameTrace] = []
        self.tracer = Tracer(FrameSampler(ratio, most_per_second=1e9), export=self.traces.append)

    def start(self, view: Callable[[], RunView]) -> None:
        pass

    def stop(self, *, seconds: float) -> None:
        self.tracer.close("the run has ended")

    def names(self) -> Counter[tuple[str, ...]]:
        return Counter(tuple(sorted(f"{span.kind} {span.name}" for span in trace.spans)) for trace in self.traces)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    """What runs trace with the option `telemetry`."""
    found = Kept()
    monkeypatch.setattr(telemetry_run, "RunTelemetry", lambda *_, **__: found)
    return found


def pipeline(*steps: Step, sources: Mapping[str, Any] | None = None) -> Pipeline:
    return Pipeline(sources=sources or {"gate": Synthetic()}, steps=steps, telemetry={}, device="cpu")


def test_a_pending_result_is_one_step_with_the_wait_for_it_below(kept: Kept) -> None:
    pipeline(Find(), Tally()).run()

    assert len(kept.traces) == 20
    for trace in kept.traces:
        [step] = [span for span in trace.spans if span.name == "find-1"]
        [wait] = [span for span in trace.spans if span.name == "after-find-1"]
        assert (step.kind, step.element, wait.kind, wait.parent) == (SpanKind.STEP, "find", SpanKind.WAIT, step)
        assert step.began_ns <= wait.began_ns <= wait.ended_ns <= step.ended_ns <= trace.ended_ns


def test_a_step_for_some_streams_is_no_part_of_the_others(kept: Kept) -> None:
    pipeline(Tally(streams=("gate",)), sources={"gate": Synthetic(), "yard": Synthetic()}).run()

    steps = {(trace.stream.name, "tally-1" in [span.name for span in trace.spans]) for trace in kept.traces}
    own = Counter(trace.batch_id for trace in kept.traces if trace.stream.name == "gate")
    given = {trace.batch_id: span.frames for trace in kept.traces for span in trace.spans if span.name == "tally-1"}
    assert steps == {("gate", True), ("yard", False)}
    assert given == own


def test_a_trace_lasts_until_the_slowest_branch_has_ended(kept: Kept) -> None:
    Held.gate.clear()
    run = pipeline(Hold(), Remark(rule="a"), sources={"gate": Synthetic(frames=1)})
    with run:
        assert kept.traces == []
        Held.gate.set()
        run.wait()

    [trace] = kept.traces
    ends = {span.name: span.ended_ns for span in trace.spans}
    assert trace.finished_ns is not None
    assert ends["remark-1"] <= trace.finished_ns
    assert trace.finished_ns <= trace.ended_ns
    assert ends["hold-1"] == max(ends.values()) <= trace.ended_ns


def test_a_frame_that_a_step_fails_on_is_lost_with_the_reason_and_without_passwords(kept: Kept) -> None:
    with pytest.raises(OperatorError):
        pipeline(Find(fail_at=0), Tally()).run()

    [failed] = [trace for trace in kept.traces if trace.index == 0]
    assert failed.lost is not None
    assert "element 'find-1' failed" in failed.lost
    assert not [trace for trace in kept.traces if "secret" in (trace.lost or "")]


def test_every_frame_that_was_received_is_one_trace_also_when_the_run_is_aborted(kept: Kept) -> None:
    Held.gate.clear()
    run = pipeline(Hold(), sources={"gate": Synthetic(frames=None), "yard": Synthetic(frames=None, camera=True)})
    with run:
        wait_until(lambda: sum(status.frames for status in run.status()) > 50)
        run.abort()
        Held.gate.set()
    report = run.report
    assert report is not None

    lost = [trace for trace in kept.traces if trace.lost is not None]
    assert len({(trace.stream.name, trace.index) for trace in kept.traces}) == len(kept.traces)
    assert len(kept.traces) >= sum(stream.received for stream in report.streams)
    reasons = {str(trace.lost) for trace in lost}
    assert "overloaded" in reasons
    assert reasons - {"overloaded"} <= {"stopped", "the run has ended"}
    assert reasons - {"overloaded"}


def test_a_damaged_frame_that_is_left_out_is_lost(kept: Kept) -> None:
    class Picky(Synthetic):
        """Leaves damaged frames out."""

        @property
        def skips_damaged(self) -> bool:
            return True

    pipeline(Tally(), sources={"gate": Picky(frames=5, damaged_at=2)}).run()

    assert {trace.index: trace.lost for trace in kept.traces} == {0: None, 1: None, 2: "damaged", 3: None, 4: None}


def test_a_run_without_telemetry_traces_nothing(kept: Kept) -> None:
    report = Pipeline(sources={"gate": Synthetic()}, steps=[Tally()]).run()

    assert kept.traces == []
    assert report.telemetry is None
    assert "telemetry" not in report.to_json()


def test_a_trace_is_complete_once_however_often_it_is_held_and_lost() -> None:
    complete: list[FrameTrace] = []
    trace = FrameTrace(make_frames(1)[0], began_ns=0, on_complete=complete.append)

    trace.hold()
    trace.lose("first")
    trace.lose("second")
    trace.hold()
    for _ in range(3):
        trace.release()

    assert [one.lost for one in complete] == ["first"]


class TestSampler:
    def test_the_share_is_the_one_asked_for(self) -> None:
        sampler = FrameSampler(0.1, most_per_second=1e9, draw=random.Random(7).random)

        chosen = sum(sampler.wants(number) for number in range(20_000))

        assert chosen == pytest.approx(2_000, rel=0.1)

    def test_every_frame_is_chosen_at_one_and_none_at_zero(self) -> None:
        all_of, none_of = (FrameSampler(ratio, most_per_second=1e9) for ratio in (1.0, 0.0))

        assert [all_of.wants(0), none_of.wants(0)] == [True, False]

    def test_no_more_than_the_most_are_chosen_in_the_mean(self) -> None:
        sampler = FrameSampler(1.0, most_per_second=5)

        chosen = [sampler.wants(round(number * SECOND / 100)) for number in range(1_000)]

        assert sum(chosen) == pytest.approx(50, abs=6)

    def test_a_rate_below_one_a_second_chooses_now_and_then(self) -> None:
        sampler = FrameSampler(1.0, most_per_second=0.5)

        chosen = [sampler.wants(number * SECOND // 10) for number in range(100)]

        assert 4 <= sum(chosen) <= 6


def test_an_exporter_that_fails_stops_nothing_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def fail(trace: FrameTrace) -> None:
        raise ValueError("no")

    tracer = Tracer(FrameSampler(1.0, most_per_second=1e9), export=fail)
    for frame in make_frames(3):
        trace = tracer.sample(frame, began_ns=0, cpu_ns=0)
        assert trace is not None
        trace.release()

    assert len(caplog.records) == 1
