"""The operator of every model element: select targets, submit requests, read results, attach them to the batch."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sightline.errors import ModelError
from sightline.graph.inspection import ModelWork
from sightline.graph.operator import Operator, RunsOn
from sightline.graph.site import Site
from sightline.media import Batch, Frame, PixelFormat, Stream, Surface
from sightline_plugins.engines.protocol import Array
from sightline_plugins.infer.inspection import TargetWork, WatchedPostprocessor
from sightline_plugins.infer.opening import open_predictor
from sightline_plugins.infer.options import DetectionElement, ModelElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor, SuppressedBoxes
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
from sightline_plugins.store import stored_model

_NO_ORIGIN: Mapping[str, str] = MappingProxyType({})


def open_model(element: ModelElement, site: Site, *, make: Callable[..., ModelOperator] | None = None) -> ModelOperator:
    """Open the model of an element; `make` is called instead of `ModelOperator`. Raises ModelError or
    ConfigurationError when it cannot be loaded.
    """
    plan, problems = element.plan()
    if plan is None:
        raise ModelError("; ".join(problem.message for problem in problems))
    postprocessor = element.postprocessor(plan, site)
    return (make or ModelOperator)(
        open_predictor(element, plan, postprocessor=postprocessor, site=site),
        selector=target_selector(element, plan),
        postprocessor=postprocessor,
        plan=plan,
        element_id=site.element_id or element.name,
        warn=site.warn,
        origin=_origin(element, plan),
    )


def _origin(element: ModelElement, plan: ModelPlan) -> Mapping[str, str]:
    """Return what the report says of where the model comes from: its name in the store, and its licence."""
    stored = stored_model(element.model) if isinstance(element.model, Path) else None
    name = {} if stored is None else {"stored": str(stored.reference)}
    return {**name, **({} if plan.card.licence is None else {"licence": plan.card.licence})}


def target_selector(element: ModelElement, plan: ModelPlan) -> TargetSelector:
    """Return what selects the targets of an element."""
    if plan.stack is None:
        return _selector(element, plan, every=element.frame_interval, reinfer_interval_ns=element.reinfer_interval)
    selector = _selector(element, plan, every=1, reinfer_interval_ns=0)
    return StackSelector(selector, plan.stack, every=element.frame_interval)


def _selector(element: ModelElement, plan: ModelPlan, *, every: int, reinfer_interval_ns: int) -> TargetSelector:
    selection, preprocessing = element.selection(plan), plan.preprocessing
    if selection is not None:
        return ObjectSelector(
            selection,
            preprocessing,
            reinfer_interval_ns=reinfer_interval_ns,
            every=every,
            even=element.compat is not None,
        )
    placements = region_placements(preprocessing, regions_of=element.regions_of)
    if isinstance(element, DetectionElement) and element.tiles is not None:
        placements = tile_placements(element.tiles, preprocessing)
    return RegionSelector(placements, every=every, by_batch=element.compat is not None)


_GRAY = 114


class _Unread(Postprocessor[None]):
    """Makes nothing of outputs."""

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> None:
        """See `Postprocessor.read`."""

    def read_boxes(self, boxes: SuppressedBoxes, target: InferenceTarget, batch: Batch) -> None:
        """See `Postprocessor.read_boxes`."""


@dataclass(slots=True, eq=False)
class Job:
    """A target under way: its request, until that is read; then the result, and whether the outputs were finite.

    `runs` is false where the model does not run, because the track's result is known. `work` is what is shown of it to
    somebody who inspects the frame.
    """

    target: InferenceTarget
    request: InferenceRequest | None = None
    runs: bool = True
    result: Any = None
    is_finite: bool = True
    work: TargetWork | None = None

    @property
    def is_invalid(self) -> bool:
        """Whether the model ran and its outputs were not finite."""
        return self.runs and (self.result is None or not self.is_finite)


class ModelOperator(Operator):
    """Runs a model on targets. `process` submits requests; the `Pending` reads them, maybe in another thread.

    If a batch has very many targets (tiles of large frames), `process` reads the first requests itself, so that memory
    does not hold the images and outputs of all targets at once.

    `runs` counts requests, `saved` the targets whose track had a result that was reused (not counted for a model of
    stacks), and `invalid_outputs` the requests that gave no result because their outputs were not finite.
    """

    def __init__(
        self,
        predictor: Predictor,
        *,
        selector: TargetSelector,
        postprocessor: Postprocessor[Any],
        plan: ModelPlan,
        element_id: str,
        warn: Callable[[str], None],
        origin: Mapping[str, str] = _NO_ORIGIN,
    ) -> None:
        self._origin = origin
        self.runs = 0
        self.saved = 0
        self.invalid_outputs = 0
        self._predictor = predictor
        self._selector = selector
        self._postprocessor = postprocessor
        self._plan = plan
        self._is_stacked = plan.stack is not None
        self._element_id = element_id
        self._warn = warn
        self._reading = threading.Lock()

    def apart(self, element: ModelElement, postprocessor: Postprocessor[Any]) -> ModelOperator | None:
        """Return an operator that runs the same predictor on every target of the frames it is given, and remembers
        nothing of others; None for a model of stacks. It is given batches by the same thread, and is not closed.
        """
        if self._is_stacked:
            return None
        every = element.model_copy(update={"every": 1, "reinfer_interval": 0})
        return ModelOperator(
            self._predictor,
            selector=target_selector(every, self._plan),
            postprocessor=postprocessor,
            plan=self._plan,
            element_id=self._element_id,
            warn=self._warn,
        )

    @property
    def plan(self) -> ModelPlan:
        """How the model is used."""
        return self._plan

    def warm(self) -> None:
        """Run the model once on a gray image, before its first frame, so that what an engine does at its first run is
        done. A model of stacks, or of images of any size, is left as it is. Raises ModelError or CudaError.
        """
        size_wh = self._plan.preprocessing.size_wh
        if size_wh is None or self._is_stacked:
            return
        surface = Surface.allocate(PixelFormat.GRAY8, size_wh=size_wh)
        surface.planes[0][:] = _GRAY
        frame = Frame(Stream("warm"), 0, 0, surface)
        target = InferenceTarget(0, self._plan.preprocessing.place_fractions((0, 0, 1, 1), surface))
        for request in self._predictor.submit([(surface, target)]):
            if request is not None:
                request.wait()
                request.read(_Unread(), target, Batch((frame,)))

    def process(self, batch: Batch) -> PendingBatch:
        """Submit requests for the targets of a batch."""
        return self._process(batch, None)

    def process_shown(self, batch: Batch, *, row: int, show: Callable[[ModelWork], None]) -> PendingBatch:
        """Submit requests as `process` does, and copy what the model gives for one frame."""

        def watch(target: InferenceTarget) -> TargetWork | None:
            if target.row != row or self._is_stacked:
                return None
            work = TargetWork(self._plan, self._postprocessor, target, batch)
            if not target.due:
                work.note = "the model did not run: the result of the track was reused"
            show(work)
            return work

        return self._process(batch, watch)

    def _process(self, batch: Batch, watch: Callable[[InferenceTarget], TargetWork | None] | None) -> PendingBatch:
        return PendingBatch(self, batch, self._submit(self._selector.select(batch), batch, watch))

    def _submit(
        self,
        targets: Sequence[InferenceTarget],
        batch: Batch,
        watch: Callable[[InferenceTarget], TargetWork | None] | None,
    ) -> list[Job]:
        """Submit requests for targets of a batch, and return their jobs."""
        jobs: list[Job] = []
        pending: deque[Job] = deque()
        requests = self._predictor.submit(
            [(batch.frames[target.row].surface, target) for target in targets if target.needs_image]
        )
        for target in targets:
            job = self._job(target, next(requests) if target.needs_image else None)
            if job is None:
                continue
            jobs.append(job)
            if watch is not None:
                job.work = watch(target)
            if job.runs:
                pending.append(job)
            if len(pending) > self._predictor.max_pending:
                self._read(pending.popleft(), batch)
        return jobs

    def totals(self) -> Mapping[str, Any]:
        """Return the report of the predictor, name in the store and licence of the model, the counts of requests, and
        those of the postprocessor.
        """
        counted: dict[str, Any] = {**self.engine_report(), **self._origin, "runs": self.runs}
        if self.saved:
            counted["saved"] = self.saved
        if self.invalid_outputs:
            counted["invalid_outputs"] = self.invalid_outputs
        return {**counted, **self._postprocessor.totals()}

    def runs_on(self) -> RunsOn:
        report = self._predictor.report
        computes = (str(report[key]) for key in ("engine", "precision") if report.get(key))
        return RunsOn(self._predictor.device, engine=" ".join(computes))

    def engine_report(self) -> Mapping[str, Any]:
        return self._predictor.report

    def end_stream(self, stream: Stream) -> None:
        self._selector.end_stream(stream)

    def drain(self) -> None:
        self._postprocessor.finish()

    def close(self) -> None:
        self._predictor.close()

    def collect(self, jobs: Sequence[Job], batch: Batch) -> Batch:
        """Wait for the requests of a batch, and attach their results."""
        results: list[tuple[InferenceTarget, Any]] = []
        unusable: set[int] = set()
        for job in jobs:
            results.append((job.target, self._result(job, batch)))
            if job.target.object < 0 and not job.is_finite:
                unusable.add(job.target.row)
        searched = {job.target.row for job in jobs if job.target.object < 0} - unusable
        return self._postprocessor.attach(batch, results).with_search(self._element_id, searched)

    def _job(self, target: InferenceTarget, request: InferenceRequest | None) -> Job | None:
        """Return the job of a target; None where there is neither a request nor a known result."""
        if request is not None:
            self.runs += 1
            return Job(target, request)
        self.saved += not self._is_stacked
        return None if target.entry is None else Job(target, runs=False)

    def _read(self, job: Job, batch: Batch) -> None:
        """Wait for a request and read it, unless that was done."""
        if job.request is None:
            return
        request, job.request = job.request, None
        request.wait()
        postprocessor = self._postprocessor
        if job.work is not None:
            postprocessor = WatchedPostprocessor(postprocessor, job.work)
        with self._reading:
            read = request.read(postprocessor, job.target, batch)
        job.result, job.is_finite = read.result, read.is_finite

    def _result(self, job: Job, batch: Batch) -> Any:
        target, entry = job.target, job.target.entry
        self._read(job, batch)
        if job.runs and job.result is None:
            if not self.invalid_outputs:
                self._warn("the model returned outputs that are not finite numbers; they are ignored")
            self.invalid_outputs += 1
        if entry is None:
            return job.result
        if job.result is None:
            return self._postprocessor.recall(entry, target, batch)
        return self._postprocessor.remember(entry, job.result, target, batch)


@dataclass(slots=True, eq=False)
class PendingBatch:
    """A batch whose requests are under way. After `result`, `runs` and `invalid` say how many requests there were, and
    how many of them had outputs that are not finite.
    """

    operator: ModelOperator
    batch: Batch
    jobs: Sequence[Job]
    runs: int = 0
    invalid: int = 0

    def result(self) -> Batch:
        result = self.operator.collect(self.jobs, self.batch)
        self.runs = sum(job.runs for job in self.jobs)
        self.invalid = sum(job.is_invalid for job in self.jobs)
        return result
