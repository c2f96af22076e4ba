"""The operator of a model element: the model that serves, and others that take its place or serve beside it.

Another model is opened beside the one that serves, in the thread of the change (`prepare`), and takes its place between
two batches (`change`). While the change is on probation, the former model stays open: when the new one fails, the batch
in hand is computed by the former one, which goes on. A canary (`canary.py`) serves some of the streams, and a shadow
(`shadow.py`) is compared on a sample of the frames. No frame is lost, and none is counted twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock, RLock
from typing import Any

from sightline.errors import CudaFailed
from sightline.graph.fields import matching
from sightline.graph.inspection import ModelWork
from sightline.graph.messages import Message, MessageKind
from sightline.graph.operator import ModelComparison, Operator, Pending, RunsOn
from sightline.graph.site import Site
from sightline.media import Batch, Stream
from sightline_plugins.infer.canary import Canary
from sightline_plugins.infer.in_flight import (
    DividedBatch,
    FailedBatch,
    RunningBatch,
    ShownFrame,
    Swap,
    giving,
    part_of,
)
from sightline_plugins.infer.open_model import OpenModel
from sightline_plugins.infer.operator import ModelOperator, PendingBatch
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.infer.shadow import Shadow
from sightline_plugins.infer.trial import FailureCause, Trial, TrialState, Verdict
from sightline_plugins.infer.trial_options import TrialLimits

_MOST_TRIALS_IN_REPORT = 20


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    """What `change` to `element` takes over; `made` were opened for that."""

    element: ModelElement
    model: OpenModel
    canary: OpenModel | None
    shadow: OpenModel | None
    made: tuple[OpenModel, ...]
    prove_ns: int

    @property
    def models(self) -> list[OpenModel]:
        return [model for model in (self.model, self.canary, self.shadow) if model is not None]


class ExchangeableModel(Operator):
    """Runs the model of an element, and exchanges it; see the module.

    One thread calls `process` and `change`, that or another one collects the results; `prepare` and `abandon` come from
    a third.
    """

    def __init__(self, element: ModelElement, site: Site) -> None:
        self._site = site
        self._element_id = site.element_id or element.name
        self._lock, self._turn = RLock(), Lock()
        self._streams = set(matching(element.streams, site.streams))
        self._model = OpenModel.of(element.alone(), site)
        self._swap: Swap | None = None
        self._canary: Canary | None = None
        self._shadow: Shadow | None = None
        self._promoted: Canary | None = None
        self._prepared: _Prepared | None = None
        self._trials: deque[Trial] = deque(maxlen=_MOST_TRIALS_IN_REPORT)
        self._swaps = 0
        self._before = {"runs": 0, "saved": 0, "invalid_outputs": 0}
        self._closing = ThreadPoolExecutor(1, thread_name_prefix="closing a model")
        if element.canary is not None or element.shadow is not None:
            try:
                self.change(element)
            except BaseException:
                self.close()
                raise

    @property
    def runs(self) -> int:  # type: ignore[override]
        """How often a model ran."""
        return self._count("runs")

    @property
    def saved(self) -> int:  # type: ignore[override]
        """How often it did not have to, because it knew the answer."""
        return self._count("saved")

    def process(self, batch: Batch) -> Batch | Pending:
        """Give a batch to the models."""
        return self._divide(batch, None)

    def process_shown(self, batch: Batch, *, row: int, show: Callable[[ModelWork], None]) -> Batch | Pending:
        """Give a batch to the models, and show what they give for one frame."""
        return self._divide(batch, ShownFrame(row, show))

    def prepare(self, element: ModelElement, *, prove_ns: int) -> None:
        """Open the models of an element that are not open, and run each once. Raises SightlineError."""
        self.abandon()
        wanted, canary = {"model": element.alone()}, self._canary
        is_open = canary is not None and canary.serves and canary.model is not self._model
        if canary is not None and is_open and canary.model.is_for(wanted["model"]):
            canary.check_promotion()
        if element.canary is not None and not (self._canary is not None and self._canary.has_failed(element.canary)):
            wanted["canary"] = element.alone(element.canary.model)
        if element.shadow is not None and not (self._shadow is not None and self._shadow.has_failed(element.shadow)):
            wanted["shadow"] = element.alone(element.shadow.model)
        models, made = dict[str, OpenModel](), list[OpenModel]()
        try:
            for role, one in wanted.items():
                usable = self._shadows() if role == "shadow" else self._open()
                known = next((model for model in usable if model.is_for(one)), None)
                if known is None:
                    known = OpenModel.warmed(one, self._site)
                    made.append(known)
                models[role] = known
        except BaseException:
            for model in made:
                model.operator.close()
            raise
        with self._lock:
            seconds = models.get("canary"), models.get("shadow")
            self._prepared = _Prepared(element, models["model"], *seconds, tuple(made), prove_ns)

    def abandon(self) -> None:
        """Close what was opened and not taken over."""
        with self._lock:
            prepared, self._prepared = self._prepared, None
        for model in () if prepared is None else prepared.made:
            model.operator.close()

    def change(self, element: ModelElement) -> None:
        """Let the models of an element serve. Raises SightlineError when they are not prepared and cannot be opened."""
        if self._prepared is None or self._prepared.element != element:
            self.prepare(element, prove_ns=0)
        with self._lock:
            prepared, self._prepared = self._prepared, None
            assert prepared is not None
            before = self._open()
            if prepared.model is not self._model:
                self._take_over(prepared)
            self._take_canary(prepared)
            self._take_shadow(prepared)
            for model in before:
                if model not in self._open():
                    self._release(model)

    def totals(self) -> Mapping[str, Any]:
        """Return what all models have counted, the report of the present one, and what came of the others."""
        with self._lock:
            totals = {**self._model.operator.totals()}
            totals |= {name: count for name in self._before if (count := self._count(name))}
            if self._swaps:
                totals["swaps"] = self._swaps
            if self._trials:
                totals["models"] = [trial.report() for trial in self._trials]
        return totals

    def comparisons(self) -> Sequence[ModelComparison]:
        """Return how the canary and the shadow do, of those that have not failed."""
        with self._lock:
            canary, shadow = self._canary, self._shadow
        trials = [canary.trial if canary is not None and canary.serves else None]
        trials.append(shadow.trial if shadow is not None and shadow.runs else None)
        return [trial.comparison() for trial in trials if trial is not None]

    def runs_on(self) -> RunsOn:
        return self._model.operator.runs_on()

    def engine_report(self) -> Mapping[str, Any]:
        return self._model.operator.engine_report()

    def end_stream(self, stream: Stream) -> None:
        self._streams.discard(stream.name)
        with self._turn:
            for model in self._open():
                model.operator.end_stream(stream)

    def drain(self) -> None:
        self._model.operator.drain()

    def close(self) -> None:
        self._closing.shutdown()
        self.abandon()
        if self._shadow is not None:
            self._shadow.close(with_model=True)
        for model in self._open():
            model.operator.close()

    def _collect(self, running: RunningBatch) -> Batch:
        """Wait for the result of a batch; let the former model compute it where a model on trial fails."""
        swap = running.swap
        if swap is None:
            result = running.pending.result()
            running.model.timings.add(self._seconds_since(running), runs=running.pending.runs)
            return self._sampled(running, result)
        try:
            result = running.pending.result()
        except Exception as error:  # noqa: BLE001  whatever the model does wrong, the former one goes on
            return self._instead(running, swap, error)
        pending, seconds = running.pending, self._seconds_since(running)
        with self._lock:
            running.model.timings.add(seconds, runs=pending.runs)
            swap.trial.add(seconds, frames=len(result), runs=pending.runs, invalid=pending.invalid)
            verdict = swap.trial.judge()
        if verdict is not None:
            self._roll_back(swap, verdict)
        is_useless = pending.invalid and swap.trial.state is TrialState.ROLLED_BACK
        return self._again(running, self._model) if is_useless else self._sampled(running, result)

    def _sampled(self, running: RunningBatch, result: Batch) -> Batch:
        """Let the shadow take a sample of a result."""
        shadow = self._shadow
        return result if shadow is None else shadow.offer(running.batch, result, beside=running.model.timings)

    def _divide(self, batch: Batch, shown: ShownFrame | None) -> Batch | Pending:
        """Give the canary its frames, and the model that serves the others."""
        canary = self._canary
        if canary is None or not canary.serves:
            return self._begin(batch, shown)
        self._streams.update(frame.stream.name for frame in batch.frames)
        own = canary.rows(batch, streams=self._streams)
        if not own:
            return self._begin(batch, shown)
        others = [row for row in range(len(batch)) if row not in own]
        first = self._model.apart() if self._swap is None and canary.compares() else None
        rest = None
        if others and first is None:
            rest = self._begin(*part_of(batch, others, shown))
        found = self._compute_by(canary, batch, own, shown, first=first)
        if others and rest is None:
            rest = self._begin(*part_of(batch, others, shown))
        return found if rest is None else DividedBatch(batch, own, found, others, rest)

    def _compute_by(
        self,
        canary: Canary,
        batch: Batch,
        rows: Sequence[int],
        shown: ShownFrame | None,
        *,
        first: ModelOperator | None,
    ) -> Batch:
        """Return what the canary makes of its frames, or the model that serves where the canary fails."""
        part, shown = part_of(batch, rows, shown)
        with self._turn:
            found, verdict = canary.compute(part, giving(part, shown), first=first)
        if verdict is not None:
            self._end_canary(canary, verdict)
        elif canary.has_proved_itself():
            then = "it is promoted" if canary.options.promote else "it can be promoted"
            text = f"the canary {canary.model} has kept to its limits beside {canary.trial.beside}: {then}"
            data: dict[str, str | bool] = {"model": str(canary.model), "promotes": canary.options.promote}
            self._site.post(Message(MessageKind.CANARY_PROVED, text, element=self._element_id, data=data))
        return self._begin(part, shown).result() if found is None else found

    def _begin(self, batch: Batch, shown: ShownFrame | None) -> RunningBatch:
        """Give a batch to the model that serves. What a model on trial raises is dealt with when it is collected."""
        give = giving(batch, shown)
        with self._lock:
            now_ns, swap, model = self._site.clock.monotonic_ns(), self._swap, self._model
            kept = None
            if swap is not None and now_ns >= swap.until_ns:
                kept, swap = self._keep(swap), None
        if kept is not None:
            self._site.post(kept)
        try:
            with self._turn:
                pending: PendingBatch | FailedBatch = give(model.operator)
        except Exception as error:
            if swap is None:
                raise
            pending = FailedBatch(error)
        return RunningBatch(self._collect, model, swap, batch, give, pending, now_ns)

    def _instead(self, running: RunningBatch, swap: Swap, error: Exception) -> Batch:
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
        self._roll_back(swap, Verdict.of_error(error))
        return result

    def _again(self, running: RunningBatch, model: OpenModel) -> Batch:
        with self._turn:
            pending = running.give(model.operator)
        return pending.result()

    def _take_over(self, prepared: _Prepared) -> None:
        """Let another model serve from now on; the caller holds the lock."""
        former, swap, model, canary = self._model, self._swap, prepared.model, self._canary
        self._model, self._swap = model, None
        self._promoted = canary if canary is not None and canary.model is model else None
        if self._promoted is not None:
            self._promoted.trial.promoted = True
        if swap is not None and swap.former is model:
            swap.trial.roll_back(Verdict(FailureCause.REVERTED, "the change was reverted"))
            return
        trial = Trial("swap", str(model), str(former), prepared.element.swap or TrialLimits(), former.timings)
        self._swaps += 1
        self._trials.append(trial)
        if prepared.prove_ns:
            self._swap = Swap(trial, former, self._site.clock.monotonic_ns() + prepared.prove_ns)
        else:
            trial.keep()

    def _take_canary(self, prepared: _Prepared) -> None:
        """Let another canary serve its share, or none; the caller holds the lock."""
        present, options, model = self._canary, prepared.element.canary, prepared.canary
        if present is not None and present.options == options and (model is None or present.model is model):
            return
        if present is not None and present.trial.state is TrialState.TRIAL and present.model is not self._model:
            present.trial.roll_back(Verdict(FailureCause.REVERTED, "it was taken out before its time was over"))
        self._canary = None
        if options is not None and model is not None:
            self._canary = Canary(options, model, beside=str(self._model), clock=self._site.clock)
            self._trials.append(self._canary.trial)

    def _take_shadow(self, prepared: _Prepared) -> None:
        """Let another shadow run beside the work, or none; the caller holds the lock."""
        present, options, model = self._shadow, prepared.element.shadow, prepared.shadow
        if present is not None and present.options == options and (model is None or present.model is model):
            return
        self._shadow = None
        if present is not None:
            self._closing.submit(present.close, with_model=present.model is not model)
        if options is not None and model is not None:
            self._shadow = Shadow(options, model, beside=self._model, site=self._site)
            self._trials.append(self._shadow.trial)

    def _keep(self, swap: Swap) -> Message:
        """End the trial of a model that has proved itself; return what is posted. The caller holds the lock."""
        swap.trial.keep()
        self._swap = None
        if swap.former not in self._open():
            self._release(swap.former)
        text = f"{swap.trial.model} has proved itself, and {swap.former} is closed"
        return Message(MessageKind.MODEL, text, element=self._element_id)

    def _roll_back(self, swap: Swap, verdict: Verdict) -> None:
        """Let the former model serve again, unless the trial is over."""
        with self._lock:
            if self._swap is not swap:
                return
            failed, self._model, self._swap = self._model, swap.former, None
            swap.trial.roll_back(verdict)
            if self._promoted is not None and self._promoted.model is failed:
                self._promoted.trial.roll_back(verdict)
                self._canary = self._promoted  # so that it is not tried again with the same options
            if failed not in self._open():
                self._release(failed)
        text = f"{failed} is rolled back, and {swap.former} goes on: {verdict.reason}"
        self._tell(MessageKind.MODEL_TAKEN_BACK, text, failed, verdict)

    def _end_canary(self, canary: Canary, verdict: Verdict) -> None:
        """Give the streams of a canary back to the model that serves."""
        with self._lock:
            canary.trial.roll_back(verdict)
            if canary.model not in self._open():
                self._release(canary.model)
        text = f"the canary {canary.model} is rolled back, and {self._model} serves its streams: {verdict.reason}"
        self._tell(MessageKind.CANARY_ROLLED_BACK, text, canary.model, verdict)

    def _tell(self, kind: MessageKind, text: str, model: OpenModel, verdict: Verdict) -> None:
        data = {"condition": str(verdict.condition), "model": str(model)}
        self._site.post(Message(kind, text, element=self._element_id, data=data))

    def _release(self, model: OpenModel) -> None:
        """Close a model beside the work, and keep what it has counted; the caller holds the lock."""
        if self._prepared is not None and model in self._prepared.models:
            self._prepared = replace(self._prepared, made=(*self._prepared.made, model))
            return
        for name in self._before:
            self._before[name] += getattr(model.operator, name)
        self._closing.submit(model.operator.close)

    def _open(self) -> list[OpenModel]:
        """The models that are open, each once, the one that serves first."""
        with self._lock:
            swap, canary = self._swap, self._canary
            found = [self._model]
            if swap is not None:
                found.append(swap.former)
            if canary is not None and canary.serves and canary.model not in found:
                found.append(canary.model)
            return found

    def _shadows(self) -> list[OpenModel]:
        return [] if self._shadow is None else [self._shadow.model]

    def _count(self, name: str) -> int:
        with self._lock:
            found: int = self._before[name] + sum(getattr(model.operator, name) for model in self._open())
            return found

    def _seconds_since(self, running: RunningBatch) -> float:
        return (self._site.clock.monotonic_ns() - running.given_at_ns) / 1e9
