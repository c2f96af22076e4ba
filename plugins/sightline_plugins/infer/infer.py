"""`infer`: run a model with a user-defined head, a function of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, cast

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError

from sightline.errors import OperatorError
from sightline.graph.element import CheckContext, Problem
from sightline.graph.fields import Reach
from sightline.graph.site import Site
from sightline.media import Batch, Origin
from sightline.media.shapes import usual_skeleton
from sightline.redaction import redact
from sightline_plugins.functions.loading import below_base, function_problems, load_function
from sightline_plugins.infer.fields import AttributeName
from sightline_plugins.infer.options import DetectionElement, Planned
from sightline_plugins.infer.postprocessing import (
    Attribute,
    Attributes,
    Description,
    Postprocessor,
    TargetResult,
    all_finite,
    with_descriptions,
)

if TYPE_CHECKING:
    from sightline_plugins.heads.head import Array, DecodeContext
    from sightline_plugins.infer.plan import ModelPlan
    from sightline_plugins.infer.targets import InferenceTarget
    from sightline_plugins.infer.track_memory import TrackEntry

HeadFunction: TypeAlias = "Callable[[Sequence[Array], DecodeContext], object]"
PostprocessorFactory: TypeAlias = "Callable[[ModelPlan], Postprocessor[Any]]"

_NAME: TypeAdapter[str] = TypeAdapter(AttributeName)


class Infer(DetectionElement):
    """Run a model whose outputs a user function decodes: ten lines of Python where no head fits.

    The function takes the outputs for one image (a list of arrays, as the model returns them) and a `DecodeContext`
    (size of the network's input, names of the outputs, labels, `confidence`, and `head_options` as `options`). It
    returns

    - `Candidates`: boxes in pixels of the network's input, which become objects as with `detect` (suppressed at `iou`
      0.45, filtered, converted to frame pixels), with keypoints, corners or masks if it sets them;
    - a mapping from names to strings and numbers: attributes of the objects in `on`, or of one object for the frame; an
      empty mapping adds nothing;
    - any other result type of `sightline_plugins.heads.head`: `Points`, `ClassMap`, `Vector`, `Scores`, `Text`.

    It always returns the same type. It is never called with outputs that are not finite, and is called in the order of
    frames, in the pipeline's own thread: everything waits while it runs. An exception stops the pipeline with the name
    of the function, the stream and the frame.

    ```yaml
    infer:
      model: models/helmet.onnx
      head: my_package.heads:helmet
      on: person
    ```
    """

    name: ClassVar[str] = "infer"
    task: ClassVar[str] = "infer"

    head: Annotated[str, AfterValidator(below_base), Reach.CODE]
    """`package.module:function`, or `file.py:function` for a file beside the YAML file."""

    def plan(self) -> Planned:
        """Plan the model; no head is needed."""
        return self._plan_boxes(needs_head=False)

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Check that the function can be imported; then as for boxes."""
        yield from function_problems(self.head, key="head")
        yield from super().check(context)

    def found_labels(self) -> frozenset[str] | None:
        """Return None: what the function finds is not known before it runs."""
        return None

    def postprocessor(self, plan: ModelPlan, site: Site) -> Postprocessor[Any]:
        """Import the function. Raises ConfigurationError."""
        from sightline_plugins.infer.detections import detection_rules

        options = FunctionHeadOptions.model_validate({**plan.card.head_options, **self.head_options})
        return FunctionPostprocessor(
            replace(plan, head_options=options),
            cast("HeadFunction", load_function(self.head)),
            reference=self.head,
            confidence=detection_rules(self, plan).confidence,
            element_id=site.element_id or self.name,
            factories=self._factories(plan, site),
        )

    def _factories(self, plan: ModelPlan, site: Site) -> Mapping[type, PostprocessorFactory]:
        """Return the factory of the postprocessor for each type that the function may return."""
        from sightline_plugins.heads.head import Candidates, ClassMap, Points, Scores, Text, Vector
        from sightline_plugins.infer.class_maps import ClassMapPostprocessor
        from sightline_plugins.infer.classify import LabelPostprocessor, LabelRules, OutputLabels
        from sightline_plugins.infer.detections import DetectionPostprocessor, detection_rules
        from sightline_plugins.infer.embed import EmbeddingPostprocessor
        from sightline_plugins.infer.pose import KeypointPostprocessor
        from sightline_plugins.infer.read import TextPostprocessor, TextRules
        from sightline_plugins.infer.segment import map_rules

        element_id, confidence = site.element_id or self.name, self.confidence or 0.0
        labels = LabelRules((OutputLabels(element_id, plan.labels),), confidence=confidence)
        boxes = partial(DetectionPostprocessor, rules=detection_rules(self, plan), warn=site.warn, masks=True)
        keypoints = partial(KeypointPostprocessor, confidence=confidence, skeleton_of=usual_skeleton)
        factories: dict[type, Callable[..., Postprocessor[Any]]] = {
            Candidates: boxes,
            Mapping: AttributePostprocessor,
            Points: keypoints,
            ClassMap: partial(ClassMapPostprocessor, rules=map_rules(self, plan)),
            Vector: partial(EmbeddingPostprocessor, vote=True),
            Scores: partial(LabelPostprocessor, rules=labels),
            Text: partial(TextPostprocessor, rules=TextRules(confidence=confidence)),
        }
        return {kind: partial(factory, element_id=element_id) for kind, factory in factories.items()}


class FunctionHeadOptions(BaseModel):
    """Settings of a user-defined head: any names and values."""

    model_config = ConfigDict(frozen=True, extra="allow")


class FunctionPostprocessor(Postprocessor[Any]):
    """Decodes outputs with a user function, and leaves the rest to the postprocessor for what it returns.

    `factories` makes the postprocessor for each type that the function may return. The first call decides; the type
    must stay the same. OperatorError names the function, stream and frame when it raises, or returns anything else.
    """

    def __init__(
        self,
        plan: ModelPlan,
        function: HeadFunction,
        *,
        reference: str,
        confidence: float,
        element_id: str,
        factories: Mapping[type, PostprocessorFactory],
    ) -> None:
        from sightline_plugins.heads.head import Head

        self._function = function
        self._reference = reference
        self._confidence = confidence
        self._element_id = element_id
        self._factories = factories
        self._returned: Any = None
        self._type: type | None = None
        self._postprocessor: Postprocessor[Any] | None = None
        self._plan = replace(plan, head=Head(name=reference, decode=self._decode))

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> Any:
        if not all_finite(outputs):
            return None
        frame = batch.frames[target.row]
        context = self._plan.decode_context(size_wh=target.placement.size_wh, confidence=self._confidence)
        try:
            self._returned = self._function(outputs, context)
            return self._postprocessor_for(self._returned).read(outputs, target, batch)
        except Exception as error:  # user code: anything may come out
            reason = redact(str(error) if isinstance(error, _Refused) else f"raised {type(error).__name__}: {error}")
            raise OperatorError(
                f"head {self._reference!r} {reason} (on stream {frame.stream.name!r}, frame {frame.index})",
                element=self._element_id,
                stream=frame.stream.name,
                frame=frame.index,
            ) from error
        finally:
            self._returned = None

    def remember(self, entry: TrackEntry[Any], result: Any, target: InferenceTarget, batch: Batch) -> Any:
        return result if self._postprocessor is None else self._postprocessor.remember(entry, result, target, batch)

    def recall(self, entry: TrackEntry[Any], target: InferenceTarget, batch: Batch) -> Any:
        return None if self._postprocessor is None else self._postprocessor.recall(entry, target, batch)

    def attach(self, batch: Batch, results: Sequence[TargetResult[Any]]) -> Batch:
        return batch if self._postprocessor is None else self._postprocessor.attach(batch, results)

    def totals(self) -> Mapping[str, Any]:
        return {} if self._postprocessor is None else self._postprocessor.totals()

    def _decode(self, outputs: Sequence[Array], context: DecodeContext) -> Any:
        """Return what the function returned for these outputs: the head of the postprocessor."""
        del outputs, context
        return self._returned

    def _postprocessor_for(self, returned: object) -> Postprocessor[Any]:
        kind = next((known for known in self._factories if isinstance(returned, known)), None)
        if kind is None:
            allowed = ", ".join(known.__name__ for known in self._factories)
            raise _Refused(f"returned {type(returned).__name__}, not one of {allowed}")
        if self._postprocessor is None:
            self._type, self._postprocessor = kind, self._factories[kind](self._plan)
        if kind is not self._type:
            raise _Refused(f"returned {kind.__name__} after {self._type and self._type.__name__}: one kind is allowed")
        return self._postprocessor


class AttributePostprocessor(Postprocessor[Attributes]):
    """Makes attributes of a mapping from names to strings and numbers. Numbers that are not finite are left out."""

    def __init__(self, plan: ModelPlan, *, element_id: str) -> None:
        self._plan = plan
        self._valid_names: set[str] = set()
        self._origin = Origin(element_id, plan.labels[:1] or ("image",))

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> Attributes | None:
        del batch
        returned: Mapping[object, object] = self._plan.decode(outputs, size_wh=target.placement.size_wh)
        attributes = {self._name(name): _value(name, value) for name, value in returned.items()}
        return {name: value for name, value in attributes.items() if not isinstance(value, float) or np.isfinite(value)}

    def attach(self, batch: Batch, results: Sequence[TargetResult[Attributes]]) -> Batch:
        """Return the batch with attributes on the objects, or with one more object per part of a frame."""
        described = [(target, Description(attributes)) for target, attributes in results if attributes]
        return with_descriptions(batch, described, origin=self._origin)

    def _name(self, name: object) -> str:
        if name in self._valid_names:
            return str(name)
        try:
            valid = _NAME.validate_python(name)
        except ValidationError as error:
            reason = error.errors(include_url=False)[0]["msg"]
            raise _Refused(f"returned an attribute of the name {name!r}: {reason}") from error
        self._valid_names.add(valid)
        return valid


class _Refused(ValueError):
    """The return value of a function cannot be used, for the reason in the text."""


def _value(name: object, value: object) -> Attribute:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | int | float | np.number | np.bool_) and not isinstance(value, np.complexfloating):
        return float(value)
    raise _Refused(f"returned {type(value).__name__} for attribute {name!r}: strings and numbers are allowed")
