"""User-defined heads: a function that reads the outputs, and the postprocessor that fits what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from sightline.errors import OperatorError
from sightline.media import Batch, Objects, Origin
from sightline.redaction import redact
from sightline_plugins.heads.head import Array, DecodeContext, Head
from sightline_plugins.infer.detections import all_finite
from sightline_plugins.infer.fields import AttributeName
from sightline_plugins.infer.labels import Value, Values, with_attributes
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor, TargetResult
from sightline_plugins.infer.targets import InferenceTarget, region_of
from sightline_plugins.infer.track_memory import TrackEntry

HeadFunction = Callable[[Sequence[Array], DecodeContext], object]
PostprocessorFactory = Callable[[ModelPlan], Postprocessor[Any]]

_NAME: TypeAdapter[str] = TypeAdapter(AttributeName)


class FunctionHeadOptions(BaseModel):
    """Settings of a user's own head: any names and values."""

    model_config = ConfigDict(frozen=True, extra="allow")


class FunctionPostprocessor(Postprocessor[Any]):
    """Asks a user's function what outputs mean, and leaves the rest to the task for that kind of finding.

    `tasks` makes the task for each kind that the function may return. It returns the same kind all the time: the first
    one decides. OperatorError names the function, stream and frame when it raises, or returns anything else.
    """

    def __init__(
        self,
        plan: ModelPlan,
        function: HeadFunction,
        *,
        reference: str,
        confidence: float,
        element_id: str,
        tasks: Mapping[type, PostprocessorFactory],
    ) -> None:
        self._function = function
        self._reference = reference
        self._confidence = confidence
        self._element_id = element_id
        self._tasks = tasks
        self._finding: Any = None
        self._kind: type | None = None
        self._task: Postprocessor[Any] | None = None
        self._plan = replace(plan, head=Head(name=reference, decode=self._given))

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> Any:
        """See `Task.read`."""
        if not all_finite(outputs):
            return None
        frame = batch.frames[target.row]
        where = f"stream {frame.stream.name!r}, frame {frame.index}"
        reading = self._plan.reading(size_wh=target.placement.size_wh, confidence=self._confidence)
        try:
            self._finding = self._function(outputs, reading)
            task = self._task_for(self._finding)
            return task.read(outputs, target, batch)
        except Exception as error:  # a user's own code: anything may come out
            reason = redact(str(error) if isinstance(error, _Refused) else f"raised {type(error).__name__}: {error}")
            message = f"head {self._reference!r} {reason} (on {where})"
            raise OperatorError(
                message, element=self._element_id, stream=frame.stream.name, frame=frame.index
            ) from error
        finally:
            self._finding = None

    def learn(self, slot: TrackEntry[Any], answer: Any, target: InferenceTarget, batch: Batch) -> Any:
        """As the task for that kind of finding does."""
        return answer if self._task is None else self._task.learn(slot, answer, target, batch)

    def recall(self, slot: TrackEntry[Any], target: InferenceTarget, batch: Batch) -> Any:
        """As the task for that kind of finding does."""
        return None if self._task is None else self._task.recall(slot, target, batch)

    def attach(self, batch: Batch, answered: Sequence[TargetResult[Any]]) -> Batch:
        """As the task for that kind of finding does."""
        return batch if self._task is None else self._task.attach(batch, answered)

    def totals(self) -> Mapping[str, Any]:
        """What that task counted."""
        return {} if self._task is None else self._task.totals()

    def _given(self, outputs: Sequence[Array], reading: DecodeContext) -> Any:
        """The head of the task: what the function returned for these outputs."""
        del outputs, reading
        return self._finding

    def _task_for(self, finding: object) -> Postprocessor[Any]:
        kind = next((known for known in self._tasks if isinstance(finding, known)), None)
        if kind is None:
            allowed = ", ".join(known.__name__ for known in self._tasks)
            raise _Refused(f"returned {type(finding).__name__}, not one of {allowed}")
        if self._task is None:
            self._kind, self._task = kind, self._tasks[kind](self._plan)
        if kind is not self._kind:
            raise _Refused(f"returned {kind.__name__} after {self._kind and self._kind.__name__}: one kind is allowed")
        return self._task


class AttributePostprocessor(Postprocessor[Values]):
    """Makes attributes of a mapping from names to strings and numbers. Numbers that are not finite are left out."""

    def __init__(self, plan: ModelPlan, *, element_id: str) -> None:
        self._plan = plan
        self._known: set[str] = set()
        self._origin = Origin(element_id, plan.labels[:1] or ("image",))

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> Values | None:
        """See `Task.read`."""
        del batch
        assert self._plan.head is not None
        found = self._plan.head.decode(outputs, self._plan.reading(size_wh=target.placement.size_wh))
        values = {self._name(name): _value(name, value) for name, value in found.items()}
        return {name: value for name, value in values.items() if not isinstance(value, float) or np.isfinite(value)}

    def attach(self, batch: Batch, answered: Sequence[TargetResult[Values]]) -> Batch:
        """The batch with attributes on the objects that were looked at, or an object more for each image."""
        told = [(target, values) for target, values in answered if values]
        if not told:
            return batch
        if told[0][0].object >= 0:
            rows = [(target.object, values) for target, values in told]
            return batch.with_objects(with_attributes(batch.objects, rows))
        objects = Objects.from_columns(
            frame=[target.row for target, _ in told],
            xyxy=[region_of(target, batch.frames[target.row].size_wh) for target, _ in told],
            confidence=np.ones(len(told)),
            class_id=np.zeros(len(told)),
            source=self._origin,
        )
        objects = with_attributes(objects, [(row, values) for row, (_, values) in enumerate(told)])
        return batch.with_objects(Objects.concat([batch.objects, objects]))

    def _name(self, name: object) -> str:
        if name in self._known:
            return str(name)
        try:
            known = _NAME.validate_python(name)
        except ValidationError as error:
            reason = error.errors(include_url=False)[0]["msg"]
            raise _Refused(f"returned an attribute of the name {name!r}: {reason}") from error
        self._known.add(known)
        return known


class _Refused(ValueError):
    """What a function returned cannot be used; the text says why."""


def _value(name: object, value: object) -> Value:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | int | float | np.number | np.bool_) and not isinstance(value, np.complexfloating):
        return float(value)
    raise _Refused(f"returned {type(value).__name__} for attribute {name!r}: strings and numbers are allowed")
