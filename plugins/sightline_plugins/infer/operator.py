"""The operator of every model element: select targets, submit requests, attach results."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.graph.operator import Operator, Pending, RunsOn
from sightline.graph.site import Site
from sightline.media import Batch, Stream
from sightline_plugins.infer.opening import open_predictor
from sightline_plugins.infer.options import DetectionElement, ModelElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor
from sightline_plugins.infer.requests import InferenceRequest, Predictor
from sightline_plugins.infer.targets import (
    InferenceTarget,
    ObjectSelector,
    RegionSelector,
    StackSelector,
    TargetSelector,
    region_placements,
    tile_placements,
)


@dataclass(slots=True, eq=False)
class _Job:
    """A subject under way: the look at it, until it is read; then the answer, and whether the outputs were finite
    numbers. `looks` is false for what is known already.
    """

    target: InferenceTarget
    look: InferenceRequest | None = None
    looks: bool = True
    answer: Any = None
    is_finite: bool = True


class ModelOperator(Operator):
    """Runs a model on subjects. `process` begins the looks; the `Pending` reads them, perhaps in another thread.

    Where a batch has very many subjects (tiles of large images), `process` reads the first looks itself, so that
    images and outputs of not all of them are held at once.

    `runs` counts what the model looked at, `saved` the looks that what was known of a track made needless (not counted
    of a model of stacks, `is_stacked`), and `invalid_outputs` looks whose outputs were no finite numbers and became
    nothing.
    """

    def __init__(
        self,
        predictor: Predictor,
        *,
        subjects: TargetSelector,
        task: Postprocessor[Any],
        is_stacked: bool,
        element_id: str,
        warn: Callable[[str], None],
    ) -> None:
        self.runs = 0
        self.saved = 0
        self.invalid_outputs = 0
        self._predictor = predictor
        self._subjects = subjects
        self._task = task
        self._is_stacked = is_stacked
        self._element_id = element_id
        self._warn = warn
        self._reading = threading.Lock()

    def process(self, batch: Batch) -> Batch | Pending:
        """Begin the looks at what the model has to look at."""
        jobs: list[_Job] = []
        unread: deque[_Job] = deque()
        subjects = self._subjects.of(batch)
        looks = self._predictor.submit(
            [(batch.frames[target.row].surface, target) for target in subjects if target.is_seen]
        )
        for target in subjects:
            job = self._started(target, next(looks) if target.is_seen else None)
            if job is None:
                continue
            jobs.append(job)
            if job.looks:
                unread.append(job)
            if len(unread) > self._predictor.max_pending:
                self._read(unread.popleft(), batch)
        return _Looking(self, batch, jobs)

    def totals(self) -> Mapping[str, Any]:
        """What computes, looks, those that were saved, and outputs that became nothing; what the task counted."""
        counted: dict[str, Any] = {**self._predictor.report, "runs": self.runs}
        if self.saved:
            counted["saved"] = self.saved
        if self.invalid_outputs:
            counted["invalid_outputs"] = self.invalid_outputs
        return {**counted, **self._task.totals()}

    def runs_on(self) -> RunsOn:
        """Where images are prepared."""
        return RunsOn(self._predictor.device)

    def end_stream(self, stream: Stream) -> None:
        """Forget the stream's state."""
        self._subjects.end_stream(stream)

    def close(self) -> None:
        """Free the model."""
        self._predictor.close()

    def collect(self, jobs: Sequence[_Job], batch: Batch) -> Batch:
        """Wait for the looks at a batch, and attach what they found."""
        doubtful: set[int] = set()
        answered = [(job.target, self._answer(job, batch, doubtful)) for job in jobs]
        searched = {job.target.row for job in jobs if job.target.object < 0} - doubtful
        return self._task.attach(batch, answered).with_search(self._element_id, searched)

    def _started(self, target: InferenceTarget, look: InferenceRequest | None) -> _Job | None:
        """The job of a subject; None where there is no look, and nothing is known."""
        if look is not None:
            self.runs += 1
            return _Job(target, look)
        self.saved += not self._is_stacked
        return None if target.slot is None else _Job(target, looks=False)

    def _read(self, job: _Job, batch: Batch) -> None:
        """Wait for a look and read it, unless that was done."""
        if job.look is None:
            return
        look, job.look = job.look, None
        look.wait()
        with self._reading:
            read = look.read(self._task, job.target, batch)
        job.answer, job.is_finite = read.answer, read.is_finite

    def _answer(self, job: _Job, batch: Batch, doubtful: set[int]) -> Any:
        """What the model says of a subject; a frame whose outputs are not all finite numbers becomes `doubtful`."""
        slot = job.target.slot
        if not job.looks:
            return None if slot is None else self._task.recall(slot, job.target, batch)
        self._read(job, batch)
        if job.target.object < 0 and not job.is_finite:
            doubtful.add(job.target.row)
        answer = job.answer
        if answer is None:
            if not self.invalid_outputs:
                self._warn("the model gave outputs that are not finite numbers; they become nothing")
            self.invalid_outputs += 1
            return None if slot is None else self._task.recall(slot, job.target, batch)
        return answer if slot is None else self._task.learn(slot, answer, job.target, batch)


class _Looking:
    """A batch whose subjects are with the engine."""

    __slots__ = ("_batch", "_jobs", "_runner")

    def __init__(self, runner: ModelOperator, batch: Batch, jobs: Sequence[_Job]) -> None:
        self._runner = runner
        self._batch = batch
        self._jobs = jobs

    def result(self) -> Batch:
        """See `Pending.result`."""
        return self._runner.collect(self._jobs, self._batch)


def build_operator(element: ModelElement, plan: ModelPlan, *, task: Postprocessor[Any], site: Site) -> Operator:
    """The operator of a step. Raises ModelError or ConfigurationError when the model cannot be loaded."""
    return ModelOperator(
        open_predictor(element, plan, task=task, site=site),
        subjects=target_selector(element, plan),
        task=task,
        is_stacked=plan.stack is not None,
        element_id=site.element_id or element.name,
        warn=site.warn,
    )


def target_selector(element: ModelElement, plan: ModelPlan) -> TargetSelector:
    """What the step runs its model on."""
    if plan.stack is None:
        return _chosen(element, plan, every=element.every, reinfer_interval_ns=element.refresh)
    return StackSelector(_chosen(element, plan, every=1, reinfer_interval_ns=0), plan.stack, every=element.every)


def _chosen(element: ModelElement, plan: ModelPlan, *, every: int, reinfer_interval_ns: int) -> TargetSelector:
    if element.on is not None:
        return ObjectSelector(element.on, plan.preprocessing, reinfer_interval_ns=reinfer_interval_ns, every=every)
    if isinstance(element, DetectionElement) and element.tiles is not None:
        return RegionSelector(tile_placements(element.tiles, plan.preprocessing), every=every)
    return RegionSelector(region_placements(plan.preprocessing, regions_of=element.regions_of), every=every)
