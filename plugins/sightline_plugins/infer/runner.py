"""The operator behind every step that runs a model: subjects, their pictures, the engine, and the answers."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline.graph.operator import Operator, Pending, RunsOn
from sightline.media import Batch, Stream
from sightline_plugins.infer.engines.protocol import Array, Engine
from sightline_plugins.infer.engines.protocol import Pending as Work
from sightline_plugins.infer.model.plan import ModelPlan
from sightline_plugins.infer.pixels.placement import Placement
from sightline_plugins.infer.pixels.preprocess import Prepared, Preprocessor
from sightline_plugins.infer.pixels.stacks import Stack, stack_input
from sightline_plugins.infer.subjects.subject import Subject, Subjects
from sightline_plugins.infer.tasks.found import all_finite
from sightline_plugins.infer.tasks.task import Task

_UNREAD = 32
"""Looks of one batch whose outputs wait for the collecting thread, at least."""


@dataclass(slots=True, eq=False)
class _Job:
    """A subject under way: the engine's work on it, and the picture that was prepared for it alone, until the outputs
    are read; then the answer, and whether the outputs were finite numbers. `looks` is false for what is known already.
    """

    subject: Subject
    prepared: Prepared | None = None
    work: Work | None = None
    looks: bool = True
    answer: Any = None
    is_finite: bool = True


class ModelRunner(Operator):
    """Runs a model on subjects. `process` prepares and submits; the `Pending` collects, perhaps in another thread.

    Where a batch has very many subjects (tiles of large pictures), `process` reads the first outputs itself, so that
    pictures and outputs of not all of them are held at once.

    `place` says for the report where the engine computes, and why there.

    `runs` counts what the model looked at, `saved` the looks that what was known of a track made needless, and
    `invalid_outputs` looks whose outputs were no finite numbers and became nothing.
    """

    def __init__(
        self,
        plan: ModelPlan,
        *,
        engine: Engine,
        preprocessor: Preprocessor,
        place: Mapping[str, str],
        subjects: Subjects,
        task: Task[Any],
        element_id: str,
        warn: Callable[[str], None],
    ) -> None:
        self.runs = 0
        self.saved = 0
        self.invalid_outputs = 0
        self._plan = plan
        self._engine = engine
        self._subjects = subjects
        self._task = task
        self._element_id = element_id
        self._warn = warn
        self._preprocessor = preprocessor
        self._place = place
        self._most_unread = max(_UNREAD, 4 * engine.concurrency)
        self._reading = threading.Lock()

    def process(self, batch: Batch) -> Batch | Pending:
        """Prepare and submit what the model has to look at."""
        jobs: list[_Job] = []
        unread: deque[_Job] = deque()
        subjects = self._subjects.of(batch)
        pictures = self._preprocessor.prepare_all(
            [(batch.frames[subject.row].surface, subject.placement) for subject in subjects if subject.is_seen]
        )
        for subject in subjects:
            job = self._start(subject, next(pictures) if subject.is_seen else None)
            if job is None:
                continue
            jobs.append(job)
            if job.looks:
                unread.append(job)
            if len(unread) > self._most_unread:
                self._read(unread.popleft(), batch)
        return _Looking(self, batch, jobs)

    def totals(self) -> Mapping[str, Any]:
        """What computes, looks, those that were saved, and outputs that became nothing; what the task counted."""
        counted: dict[str, Any] = {**self._engine.report, **self._place, "runs": self.runs}
        if self.saved:
            counted["saved"] = self.saved
        if self.invalid_outputs:
            counted["invalid_outputs"] = self.invalid_outputs
        return {**counted, **self._task.totals()}

    def runs_on(self) -> RunsOn:
        """Where pictures are prepared."""
        return RunsOn(self._preprocessor.device)

    def end_stream(self, stream: Stream) -> None:
        """Forget the stream's state."""
        self._subjects.end_stream(stream)

    def close(self) -> None:
        """Free the model."""
        self._engine.close()

    def collect(self, jobs: Sequence[_Job], batch: Batch) -> Batch:
        """Wait for the looks at a batch, and attach what they found."""
        doubtful: set[int] = set()
        answered = [(job.subject, self._answer(job, batch, doubtful)) for job in jobs]
        searched = {job.subject.row for job in jobs if job.subject.object < 0} - doubtful
        return self._task.attach(batch, answered).with_search(self._element_id, searched)

    def _start(self, subject: Subject, prepared: Prepared | None) -> _Job | None:
        """The look at a subject; None where there is none, and nothing is known."""
        if subject.stack is not None and prepared is not None:
            self._take(subject.stack, prepared)
        if not subject.due or prepared is None:
            self.saved += self._plan.stack is None
            return None if subject.slot is None else _Job(subject, looks=False)
        self.runs += 1
        if subject.stack is not None and self._plan.stack is not None:
            pictures = [one.picture for one in subject.stack.pictures]
            dtype = self._engine.inputs[self._plan.inputs.picture].dtype
            stacked = stack_input(pictures, form=self._plan.stack, preprocessing=self._plan.preprocessing, dtype=dtype)
            return _Job(subject, work=self._engine.submit(self._inputs(stacked, subject.placement)))
        return _Job(subject, prepared, self._engine.submit(self._inputs(prepared.picture, prepared.placement)))

    def _take(self, stack: Stack, prepared: Prepared) -> None:
        """Put a subject's picture on its stack, and use the memory of the one that goes again."""
        gone = stack.add(prepared)
        if gone is not None:
            self._preprocessor.recycle(gone)

    def _inputs(self, picture: Array, placement: Placement) -> list[Array]:
        inputs: list[Array] = [picture]
        for place, kind in sorted(self._plan.inputs.extras.items()):
            size_wh = placement.size_wh
            values = {"size_wh": size_wh, "size_hw": size_wh[::-1], "scale": (1, 1)}[kind]
            inputs.insert(place, np.array([values], self._engine.inputs[place].dtype))
        return inputs

    def _read(self, job: _Job, batch: Batch) -> None:
        """Wait for the outputs of a look and read them, unless that was done."""
        if job.work is None:
            return
        outputs = job.work.result()
        if job.prepared is not None:
            self._preprocessor.recycle(job.prepared)
        job.work = job.prepared = None
        with self._reading:
            job.is_finite = all_finite(outputs)
            answer = self._task.read(outputs, job.subject, batch)
            if not job.is_finite and answer is not None and self._task.is_empty(answer):
                answer = None
            job.answer = answer

    def _answer(self, job: _Job, batch: Batch, doubtful: set[int]) -> Any:
        """What the model says of a subject; a frame whose outputs are not all finite numbers becomes `doubtful`."""
        slot = job.subject.slot
        if not job.looks:
            return None if slot is None else self._task.recall(slot, job.subject, batch)
        self._read(job, batch)
        if job.subject.object < 0 and not job.is_finite:
            doubtful.add(job.subject.row)
        answer = job.answer
        if answer is None:
            if not self.invalid_outputs:
                self._warn("the model gave outputs that are not finite numbers; they become nothing")
            self.invalid_outputs += 1
            return None if slot is None else self._task.recall(slot, job.subject, batch)
        return answer if slot is None else self._task.learn(slot, answer, job.subject, batch)


class _Looking:
    """A batch whose subjects are with the engine."""

    __slots__ = ("_batch", "_jobs", "_runner")

    def __init__(self, runner: ModelRunner, batch: Batch, jobs: Sequence[_Job]) -> None:
        self._runner = runner
        self._batch = batch
        self._jobs = jobs

    def result(self) -> Batch:
        """See `Pending.result`."""
        return self._runner.collect(self._jobs, self._batch)
