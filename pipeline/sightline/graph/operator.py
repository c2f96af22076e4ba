"""What an element builds: the passive object that holds models, decoders and files, and works on batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from sightline.media import Batch, Stream


@runtime_checkable
class Pending(Protocol):
    """A batch on which work goes on elsewhere: in an asynchronous engine, on a CUDA stream."""

    def result(self) -> Batch:
        """Wait for the work, without the GIL, and return the batch. The runtime calls it once, perhaps from another
        thread than `process`, in the order of submission; what failed is raised here.
        """
        ...


@runtime_checkable
class RecordsOnRequest(Protocol):
    """An operator that records streams when it is asked to."""

    def request(self, stream: str, *, before_ns: int | None, after_ns: int | None) -> bool:
        """Record a stream from so long before now to so long after; None is what the step says. From any thread.

        False when it does not work on that stream.
        """
        ...


@runtime_checkable
class ResetsCounts(Protocol):
    """An operator whose counts can begin anew while it works."""

    def reset_counts(self, stream: str | None) -> None:
        """Count a stream, or all (None), from 0 on, with the next batch that it processes. From any thread."""
        ...


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """How a second model, `model`, does beside the one that serves. `role` is `canary` or `shadow`.

    `frames` were compared, `dropped` were left out for lack of time. `disagreement` is the share (0..1) of the newest
    results that differ; `run_seconds` and `run_seconds_beside` are the times of a run with either. None: not known yet.
    """

    role: str
    model: str
    frames: int
    dropped: int
    disagreement: float | None
    run_seconds: float | None
    run_seconds_beside: float | None


@runtime_checkable
class ComparesModels(Protocol):
    """An operator that may have second models beside the one that serves."""

    def comparisons(self) -> Sequence[ModelComparison]:
        """Return how those that run now do, each role once. From any thread."""
        ...


@dataclass(frozen=True, slots=True)
class DriftMeasure:
    """How far a quantity of a stream is from its baseline. `label` is that of the objects, empty for one of images.

    `distance` (0..1) is how far, `limit` from which on it drifts. `before` and `now` are the medians of the baseline
    and of the newest window, in the unit of the quantity. `drifts`: whether it does.
    """

    stream: str
    quantity: str
    label: str
    distance: float
    limit: float
    before: float
    now: float
    drifts: bool


@runtime_checkable
class MeasuresDrift(Protocol):
    """An operator that compares streams with what they usually are."""

    def drifts(self) -> Sequence[DriftMeasure]:
        """Return how far each quantity of its present streams is from its baseline. From any thread."""
        ...


@dataclass(frozen=True, slots=True)
class AlarmCount:
    """How many alarms of a rule (`step.rule`) of a stream were `confirmed`, `refused` or `unanswered` (`outcome`)."""

    stream: str
    rule: str
    outcome: str
    count: int


@runtime_checkable
class CountsAlarms(Protocol):
    """An operator that verifies alarms of rules."""

    def alarms(self) -> Sequence[AlarmCount]:
        """Return what came of the alarms of each rule. From any thread."""
        ...


@dataclass(frozen=True, slots=True)
class RunsOn:
    """Where something works: on `device` (`cpu` or `cuda:N`), and why there when it is not what one expects. `engine`
    is what computes its model, with the precision (`openvino fp32`); empty without a model.
    """

    device: str = "cpu"
    reason: str = ""
    engine: str = ""

    def __str__(self) -> str:
        return f"{self.device} ({self.reason})" if self.reason else self.device


class Operator:
    """Works on batches. Passive: it starts no thread, sleeps for nothing, retries nothing, keeps no global state.

    The runtime never enters it with two threads at once. State per stream is keyed by `Stream` and dropped in
    `end_stream`. Subclasses override what they need. The counters may be read from other threads at any time.
    """

    runs: int = 0
    """How often it ran a model."""
    saved: int = 0
    """How often it did not have to, because it knew the answer."""

    def process(self, batch: Batch) -> Batch | Pending:
        """Return the batch with what was found, or a pending one; frames are neither added, removed nor reordered."""
        raise NotImplementedError

    def pause_stream(self, stream: Stream) -> None:
        """The stream is paused: all its frames so far were processed, and others may come much later, or none. Finish
        what somebody waits for, such as the file of a recording; the state of the stream stays.
        """

    def end_stream(self, stream: Stream) -> None:
        """The stream has ended, all its frames were processed: close its files, drop its state."""

    def totals(self) -> Mapping[str, Any]:
        """What it counted over the run, by stream, for the report; may be called after `close`.

        Of operators on several GPUs, whole numbers are added up, and other values stand behind one another.
        """
        return {}

    def runs_on(self) -> RunsOn:
        """Where it works on images, for the report of a run on a GPU; may be called after `close`."""
        return RunsOn()

    def engine_report(self) -> Mapping[str, Any]:
        """What computes its model, with the reasons: the part of `totals` that counts nothing. From any thread."""
        return {}

    def drain(self) -> None:
        """All streams have ended: finish what is still under way."""

    def close(self) -> None:
        """Release everything. The runtime calls it however the run ended; a second call is harmless."""


class Sink(Operator):
    """An operator that taps what passes: it looks at batches and lets them go on unchanged."""

    def process(self, batch: Batch) -> Batch:
        """Consume the batch and pass it on."""
        self.consume(batch)
        return batch

    def consume(self, batch: Batch) -> None:
        """Write, publish or show the batch; nothing of it may be changed."""
        raise NotImplementedError
