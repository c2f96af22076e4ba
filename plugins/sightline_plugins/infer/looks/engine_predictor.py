"""Looks by an engine that takes arrays of the host, one picture at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from sightline.media import Batch
from sightline_plugins.infer.engines.protocol import Array, Engine, Pending
from sightline_plugins.infer.looks.look import Look, LookResult, Seen
from sightline_plugins.infer.model.plan import ModelPlan
from sightline_plugins.infer.subjects.subject import Subject
from sightline_plugins.infer.tasks.found import all_finite
from sightline_plugins.infer.tasks.task import Task
from sightline_plugins.pixels.placement import Placement
from sightline_plugins.pixels.preprocess import Prepared, Preprocessor
from sightline_plugins.pixels.stacks import Stack, stack_input

_UNREAD = 32


class EnginePredictor:
    """A `Predictor`: each picture is prepared when it is asked for, and submitted. `place` says for the report where
    the engine computes, and why there.
    """

    def __init__(
        self, plan: ModelPlan, *, preprocessor: Preprocessor, engine: Engine, place: Mapping[str, str]
    ) -> None:
        self.device = preprocessor.device
        self.report: Mapping[str, Any] = MappingProxyType({**engine.report, **place})
        self.most_unread = max(_UNREAD, 4 * engine.concurrency)
        self._plan = plan
        self._preprocessor = preprocessor
        self._engine = engine

    def look_all(self, seen: Sequence[Seen]) -> Iterator[Look | None]:
        """See `Predictor.look_all`."""
        pictures = self._preprocessor.prepare_all([(surface, subject.placement) for surface, subject in seen])
        for prepared, (_, subject) in zip(pictures, seen, strict=True):
            if subject.stack is None:
                yield EngineLook(self._submit(prepared.picture, prepared.placement), prepared, self._preprocessor)
                continue
            self._take(subject.stack, prepared)
            yield EngineLook(self._submit_stack(subject.stack, subject)) if subject.due else None

    def close(self) -> None:
        """See `Predictor.close`."""
        self._engine.close()

    def _submit_stack(self, stack: Stack, subject: Subject) -> Pending:
        form = self._plan.stack
        assert form is not None
        pictures = [one.picture for one in stack.pictures]
        dtype = self._engine.inputs[self._plan.inputs.picture].dtype
        stacked = stack_input(pictures, form=form, preprocessing=self._plan.preprocessing, dtype=dtype)
        return self._submit(stacked, subject.placement)

    def _submit(self, picture: Array, placement: Placement) -> Pending:
        inputs: list[Array] = [picture]
        for place, values in self._plan.inputs.extra_values(placement.size_wh).items():
            inputs.insert(place, np.array([values], self._engine.inputs[place].dtype))
        return self._engine.submit(inputs)

    def _take(self, stack: Stack, prepared: Prepared) -> None:
        """Put a subject's picture on its stack, and use the memory of the one that goes again."""
        gone = stack.add(prepared)
        if gone is not None:
            self._preprocessor.recycle(gone)


class EngineLook:
    """A `Look` under way; the picture that was prepared for it alone is used again when its outputs are there."""

    __slots__ = ("_outputs", "_pending", "_prepared", "_preprocessor")

    def __init__(
        self, pending: Pending, prepared: Prepared | None = None, preprocessor: Preprocessor | None = None
    ) -> None:
        self._pending = pending
        self._prepared = prepared
        self._preprocessor = preprocessor
        self._outputs: tuple[Array, ...] = ()

    def wait(self) -> None:
        """See `Look.wait`."""
        self._outputs = self._pending.result()
        if self._prepared is not None and self._preprocessor is not None:
            self._preprocessor.recycle(self._prepared)

    def read(self, task: Task[Any], subject: Subject, batch: Batch) -> LookResult:
        """See `Look.read`."""
        return read_outputs(task, self._outputs, subject, batch)


def read_outputs(task: Task[Any], outputs: Sequence[Array], subject: Subject, batch: Batch) -> LookResult:
    """What a task reads in outputs; nothing in those that are not all finite numbers and seem to hold nothing."""
    is_finite = all_finite(outputs)
    answer = task.read(outputs, subject, batch)
    if not is_finite and answer is not None and task.is_empty(answer):
        answer = None
    return LookResult(answer, is_finite)
