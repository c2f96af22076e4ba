"""The operator of a detector with `every: auto`: it runs the model on the frames that the pace of each stream asks for.

The pace of a stream decides from its images, and from the detections of the runs before. Where it needs these, the
operator waits for them; requests of several streams, and of frames that images alone ask for, are under way together.
So the same frames give the same decisions, whatever the batch size and the timing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sightline.graph.site import Site
from sightline.media import Batch, Stream
from sightline.media.convert import luma_from_surface
from sightline_plugins.infer.adaptive.allowance import Allowance
from sightline_plugins.infer.adaptive.budget import Budget
from sightline_plugins.infer.adaptive.pace import Run, StreamPace
from sightline_plugins.infer.detections import ObjectPostprocessor
from sightline_plugins.infer.inspection import TargetWork
from sightline_plugins.infer.operator import Job, ModelOperator, PendingBatch, open_model
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor
from sightline_plugins.infer.requests import Predictor
from sightline_plugins.infer.targets import InferenceTarget, RegionSelector, TargetSelector

Watch = Callable[[InferenceTarget], TargetWork | None]


def open_adaptive_model(element: ModelElement, site: Site, *, budget: Budget) -> ModelOperator:
    """Open the model of an element. Raises ModelError or ConfigurationError when it cannot be loaded."""
    return open_model(element, site, make=partial(AdaptiveOperator, budget=budget))


@dataclass(slots=True, eq=False)
class _Unread:
    """A run of the model on one frame, of which the stream's pace has not learned the result."""

    run: Run
    row: int
    batch: Batch
    jobs: Sequence[Job]


class AdaptiveOperator(ModelOperator):
    """Runs a model on frames that are worth it. The report says of each stream how many, why, and what was measured."""

    def __init__(
        self,
        predictor: Predictor,
        *,
        selector: TargetSelector,
        postprocessor: Postprocessor[Any],
        plan: ModelPlan,
        budget: Budget,
        **others: Any,
    ) -> None:
        super().__init__(predictor, selector=selector, postprocessor=postprocessor, plan=plan, **others)
        assert isinstance(selector, RegionSelector)
        assert isinstance(postprocessor, ObjectPostprocessor)
        self._regions = selector
        self._boxes = postprocessor
        self._budget = budget
        self._allowance = Allowance(budget)
        self._paces: dict[Stream, StreamPace] = {}
        self._unread: dict[Stream, list[_Unread]] = {}
        self._ended: dict[str, Mapping[str, Any]] = {}
        self._one_reader = threading.Lock()

    def totals(self) -> Mapping[str, Any]:
        """Return the totals of a model, and by stream the share of frames that were detected, why, and the agreement
        of predictions.
        """
        reports = {**self._ended, **{stream.name: pace.report() for stream, pace in self._paces.items()}}
        return {**super().totals(), "adaptive": reports}

    def end_stream(self, stream: Stream) -> None:
        """Report the stream, and forget it."""
        super().end_stream(stream)
        self._learn(stream)
        pace = self._paces.pop(stream, None)
        if pace is not None:
            self._ended[stream.name] = pace.report()
            self._allowance.share_among(len(self._paces))

    def _process(self, batch: Batch, watch: Watch | None) -> PendingBatch:
        jobs: list[Job] = []
        waiting: list[tuple[int, Run]] = []

        def submit() -> None:
            made = self._submit(self._regions.of_rows(batch, [row for row, _ in waiting]), batch, watch)
            for row, run in waiting:
                if run.image is None:
                    continue
                own = [job for job in made if job.target.row == row]
                self._unread[batch.frames[row].stream].append(_Unread(run, row, batch, own))
            jobs.extend(made)
            waiting.clear()

        for stream in {frame.stream for frame in batch.frames}:
            self._learn(stream)  # what is kept of earlier batches holds their frames
        for row, frame in enumerate(batch.frames):
            pace = self._pace(frame.stream)
            reason = pace.decide_by_image(luma_from_surface(frame.surface), pts_ns=frame.pts_ns)
            if reason is None:
                submit()
                self._learn(frame.stream)
                reason = pace.decide_by_tracks()
            if reason is not None:
                waiting.append((row, pace.run(reason)))
        submit()
        return PendingBatch(self, batch, jobs)

    def _pace(self, stream: Stream) -> StreamPace:
        pace = self._paces.get(stream)
        if pace is None:
            pace = self._paces[stream] = StreamPace(self._budget, self._allowance)
            self._unread[stream] = []
            self._allowance.share_among(len(self._paces))
        return pace

    def _learn(self, stream: Stream) -> None:
        """Wait for the runs on a stream, and tell its pace what they have found, unless outputs were not finite."""
        unread = self._unread.get(stream)
        if not unread:
            return
        self._unread[stream] = []
        for one in unread:
            for job in one.jobs:
                self._read(job, one.batch)
            results = [(job.target, job.result) for job in one.jobs]
            if any(result is None for _, result in results):
                continue
            found = self._boxes.found(results, size_wh=one.batch.frames[one.row].size_wh)
            self._paces[stream].learn(one.run, found.xyxy, found.confidence, found.class_id)

    def _read(self, job: Job, batch: Batch) -> None:
        """Read a request here or where results are collected, whichever comes first."""
        with self._one_reader:
            super()._read(job, batch)
