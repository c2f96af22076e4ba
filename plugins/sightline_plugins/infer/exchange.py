"""The operator of a model element: the model that serves, and the exchange for another one while frames come.

Another model is opened beside the one that serves, in the thread of the change (`prepare`), and takes its place between
two batches (`change`). While the change is on probation, the former model stays open: when the new one fails, the batch
in hand is computed by the former one, which goes on. No frame is lost, and none is counted twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock, RLock
from typing import Any, ClassVar

from sightline.errors import CudaFailed, SightlineError
from sightline.graph.inspection import ModelWork
from sightline.graph.messages import Message, MessageKind
from sightline.graph.operator import Operator, Pending, RunsOn
from sightline.graph.site import Site
from sightline.media import Batch, Stream
from sightline.redaction import redact
from sightline_plugins.infer.operator import ModelOperator, PendingBatch
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.infer.trial import FailureCause, Timings, Trial, TrialState, Verdict
from sightline_plugins.infer.trial_options import TrialLimits

_MOST_TRIALS_IN_REPORT = 20

_Give = Callable[[ModelOperator], PendingBatch]
"""Gives a batch to a model."""


@dataclass(slots=True, eq=False)
class OpenModel:
    """A model that is open: what it was opened for, its file as it was then, and how long it takes."""

    element: ModelElement
    file: tuple[int, int] | None
    operator: ModelOperator
    timings: Timings = field(default_factory=Timings)

    def __str__(self) -> str:
        return model_name(self.element)

    def is_for(self, element: ModelElement) -> bool:
        """Whether opening the model of this element now would give the same."""
        return self.element == element and self.file == _file_state(element)


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    """What `change` to `element` takes over; `is_new` when it was opened for that."""

    element: ModelElement
    model: OpenModel
    is_new: bool
    prove_ns: int


@dataclass(slots=True, eq=False)
class _Swap:
    """A swap on probation: the trial of the model that serves, the former one, and until when it is kept open."""

    trial: Trial
    former: OpenModel
    until_ns: int


class ExchangeableModel(Operator):
    """Runs the model of an element, and exchanges it; see the module.

    One thread calls `process` and `change`, that or another one collects the results; `prepare` and `abandon` come from
    a third.
    """

    def __init__(self, element: ModelElement, site: Site) -> None:
        self._site = site
        self._element_id = site.element_id or element.name
        self._lock, self._turn = RLock(), Lock()
        self._model = _opened(plain_element(element), site)
        self._swap: _Swap | None = None
        self._prepared: _Prepared | None = None
        self._trials: deque[Trial] = deque(maxlen=_MOST_TRIALS_IN_REPORT)
        self._swaps = 0
        self._before = {"runs": 0, "saved": 0, "invalid_outputs": 0}
        self._closing = ThreadPoolExecutor(1, thread_name_prefix="closing a model")

    @property
    def runs(self) -> int:  # type: ignore[override]
        """How often a model ran."""
        return self._count("runs")

    @property
    def saved(self) -> int:  # type: ignore[override]
        """How often it did not have to, because it knew the answer."""
        return self._count("saved")

    def process(self, batch: Batch) -> Pending:
        """Give a batch to the model."""
        return self._begin(lambda model: model.process(batch))

    def process_shown(self, batch: Batch, *, row: int, show: Callable[[ModelWork], None]) -> Pending:
        """Give a batch to the model, and show what it gives for one frame."""
        return self._begin(lambda model: model.process_shown(batch, row=row, show=show))

    def prepare(self, element: ModelElement, *, prove_ns: int) -> None:
        """Open the model of an element, unless it is open, and run it once. Raises SightlineError."""
        self.abandon()
        plain = plain_element(element)
        with self._lock:
            known = next((one for one in self._open() if one.is_for(plain)), None)
            if known is not None:
                self._prepared = _Prepared(element, known, is_new=False, prove_ns=prove_ns)
                return
        made = _opened(plain, self._site)
        try:
            made.operator.warm()
        except BaseException:
            made.operator.close()
            raise
        with self._lock:
            self._prepared = _Prepared(element, made, is_new=True, prove_ns=prove_ns)

    def abandon(self) -> None:
        """Close a model that was opened and not taken over."""
        with self._lock:
            prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared.is_new:
            prepared.model.operator.close()

    def change(self, element: ModelElement) -> None:
        """Let the model of an element serve. Raises SightlineError when it was not prepared and cannot be opened."""
        if self._prepared is None or self._prepared.element != element:
            self.prepare(element, prove_ns=0)
        with self._lock:
            prepared, self._prepared = self._prepared, None
            assert prepared is not None
            if prepared.model is not self._model:
                self._take_over(prepared)

    def totals(self) -> Mapping[str, Any]:
        """Return what all models have counted, the report of the present one, and what came of the others."""
        with self._lock:
            totals = {**self._model.operator.totals()}
            totals |= {name: count for name in self._before if (count := self._count(name))}
            if self._swaps:
                totals |= {"swaps": self._swaps, "models": [trial.report() for trial in self._trials]}
        return totals

    def runs_on(self) -> RunsOn:
        return self._model.operator.runs_on()

    def engine_report(self) -> Mapping[str, Any]:
        return self._model.operator.engine_report()

    def end_stream(self, stream: Stream) -> None:
        with self._turn:
            for model in self._open():
                model.operator.end_stream(stream)

    def drain(self) -> None:
        self._model.operator.drain()

    def close(self) -> None:
        self._closing.shutdown()
        self.abandon()
        for model in self._open():
            model.operator.close()

    def collect(self, running: _Running) -> Batch:
        """Wait for the result of a batch; let the former model compute it where a model on trial fails."""
        swap = running.swap
        if swap is None:
            result = running.pending.result()
            running.model.timings.add(self._seconds_since(running), frames=len(result))
            return result
        try:
            result = running.pending.result()
        except Exception as error:  # noqa: BLE001  whatever the model does wrong, the former one goes on
            return self._instead(running, swap, error)
        pending, seconds = running.pending, self._seconds_since(running)
        with self._lock:
            running.model.timings.add(seconds, frames=len(result))
            swap.trial.add(seconds, frames=len(result), runs=pending.runs, invalid=pending.invalid)
            verdict = swap.trial.judge(swap.former.timings)
        if verdict is not None:
            self._roll_back(swap, verdict)
        is_useless = pending.invalid and swap.trial.state is TrialState.ROLLED_BACK
        return self._again(running, self._model) if is_useless else result

    def _begin(self, give: _Give) -> Pending:
        """Give a batch to the model that serves. What a model on trial raises is dealt with when it is collected."""
        with self._lock:
            now_ns, swap, model = self._site.clock.monotonic_ns(), self._swap, self._model
            kept = None
            if swap is not None and now_ns >= swap.until_ns:
                kept, swap = self._keep(swap), None
        if kept is not None:
            self._site.post(kept)
        try:
            with self._turn:
                pending: PendingBatch | _Failed = give(model.operator)
        except Exception as error:
            if swap is None:
                raise
            pending = _Failed(error)
        return _Running(self, model, swap, give, pending, now_ns)

    def _instead(self, running: _Running, swap: _Swap, error: Exception) -> Batch:
        """Let the former model compute a batch on which the one on trial has failed. Raises the error when it is not
        the model's fault: the GPU has failed, or the former model fails, too.
        """
        with self._lock:
            other = swap.former if swap is self._swap else self._model
        if isinstance(error, CudaFailed) or other is running.model:
            raise error
        try:
            result = self._again(running, other)
        except Exception as second:
            raise error from second
        text = str(error) if isinstance(error, SightlineError) else f"{type(error).__name__}: {error}"
        self._roll_back(swap, Verdict(FailureCause.EXCEPTION, redact(text)))
        return result

    def _again(self, running: _Running, model: OpenModel) -> Batch:
        with self._turn:
            pending = running.give(model.operator)
        return pending.result()

    def _take_over(self, prepared: _Prepared) -> None:
        """Let another model serve from now on; the caller holds the lock."""
        former, swap, model = self._model, self._swap, prepared.model
        self._model, self._swap = model, None
        if swap is not None and swap.former is model:
            swap.trial.roll_back(Verdict(FailureCause.REVERTED, "the change was reverted"))
            self._release(former)
            return
        if swap is not None:
            self._release(swap.former)
        trial = Trial(str(model), str(former), prepared.element.swap or TrialLimits())
        self._swaps += 1
        self._trials.append(trial)
        if prepared.prove_ns:
            self._swap = _Swap(trial, former, self._site.clock.monotonic_ns() + prepared.prove_ns)
        else:
            trial.keep()
            self._release(former)

    def _keep(self, swap: _Swap) -> Message:
        """End the trial of a model that has proved itself; return what is posted. The caller holds the lock."""
        swap.trial.keep()
        self._swap = None
        self._release(swap.former)
        text = f"{swap.trial.model} has proved itself, and {swap.former} is closed"
        return Message(MessageKind.MODEL, text, element=self._element_id)

    def _roll_back(self, swap: _Swap, verdict: Verdict) -> None:
        """Let the former model serve again, unless the trial is over."""
        with self._lock:
            if self._swap is not swap:
                return
            failed, self._model, self._swap = self._model, swap.former, None
            swap.trial.roll_back(verdict)
            self._release(failed)
        text = f"{failed} is rolled back, and {swap.former} goes on: {verdict.reason}"
        data = {"condition": str(verdict.condition), "model": swap.trial.model}
        self._site.post(Message(MessageKind.MODEL_TAKEN_BACK, text, element=self._element_id, data=data))

    def _release(self, model: OpenModel) -> None:
        """Close a model beside the work, and keep what it has counted; the caller holds the lock."""
        if self._prepared is not None and self._prepared.model is model:
            self._prepared = replace(self._prepared, is_new=True)
            return
        for name in self._before:
            self._before[name] += getattr(model.operator, name)
        self._closing.submit(model.operator.close)

    def _open(self) -> list[OpenModel]:
        with self._lock:
            return [self._model, *([] if self._swap is None else [self._swap.former])]

    def _count(self, name: str) -> int:
        with self._lock:
            found: int = self._before[name] + sum(getattr(model.operator, name) for model in self._open())
            return found

    def _seconds_since(self, running: _Running) -> float:
        return (self._site.clock.monotonic_ns() - running.given_at_ns) / 1e9


@dataclass(frozen=True, slots=True)
class _Failed:
    """What a model has raised when a batch was given to it; raised again where the result is collected."""

    error: Exception
    runs: ClassVar[int] = 0
    invalid: ClassVar[int] = 0

    def result(self) -> Batch:
        raise self.error


@dataclass(slots=True, eq=False)
class _Running:
    """A batch that a model computes, and what gives it to another one. `swap` is the one that was on probation."""

    operator: ExchangeableModel
    model: OpenModel
    swap: _Swap | None
    give: _Give
    pending: PendingBatch | _Failed
    given_at_ns: int

    def result(self) -> Batch:
        return self.operator.collect(self)


def plain_element(element: ModelElement) -> ModelElement:
    """Return an element without its options for changes, so that equal ones open the same model."""
    return element.model_copy(update={"swap": None})


def model_name(element: ModelElement) -> str:
    """Return the model of an element as people call it."""
    return element.model.name if isinstance(element.model, Path) else redact(element.model)


def _opened(element: ModelElement, site: Site) -> OpenModel:
    file = _file_state(element)
    return OpenModel(element, file, element.open(site))


def _file_state(element: ModelElement) -> tuple[int, int] | None:
    if not isinstance(element.model, Path):
        return None
    try:
        found = element.model.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
