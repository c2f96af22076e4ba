"""`infer`: a model with a head of the user's own, which is a function of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, cast

from pydantic import AfterValidator

from sightline.errors import ConfigurationError, ModelError
from sightline.graph.element import CheckContext, Problem
from sightline.graph.operator import Operator
from sightline.graph.site import Site
from sightline_plugins.functions.loading import below_base, load_function
from sightline_plugins.infer.options import DetectionElement, ModelElement, plan_detections

if TYPE_CHECKING:
    from sightline_plugins.infer.function_heads import HeadFunction, PostprocessorFactory
    from sightline_plugins.infer.postprocessing import DetectionRules


class Infer(DetectionElement):
    """Runs a model whose outputs a function of one's own reads: ten lines of Python where no head fits.

    The function takes the outputs of one image (a list of arrays, as the model gives them) and a `Reading` (size of
    the network's input, names of the outputs, labels, `confidence`, and `head_options` as `options`). It returns

    - `Candidates`: boxes in pixels of the network's input, which become objects as with `detect` (suppressed at `iou`
      0.45, filtered, brought back to the image), with keypoints, corners or masks if it gives them;
    - a mapping from names to strings and numbers: attributes of the objects that it looked at (`on`), or of one object
      for the image; an empty one says nothing;
    - any other finding of `sightline_plugins.heads.head`: `Points`, `ClassMap`, `Vector`, `Scores`,
      `Text`.

    It always returns the same kind. It never sees outputs that are not finite numbers, and is called in the order of
    frames, in the pipeline's own thread: everything waits while it runs. What it raises stops the pipeline with its
    name, the stream and the frame.

    ```yaml
    infer:
      model: models/helmet.onnx
      head: my_package.heads:helmet
      on: person
    ```
    """

    name: ClassVar[str] = "infer"
    task: ClassVar[str] = "infer"

    head: Annotated[str, AfterValidator(below_base)]
    """`package.module:function`, or `file.py:function` for a file beside the YAML file."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """The function can be imported; the model, and options for boxes."""
        try:
            load_function(self.head)
        except ConfigurationError as error:
            yield Problem(str(error), ("head",))
        yield from plan_detections(self, needs_head=False)[2]
        yield from ModelElement.check(self, context)

    def found_labels(self) -> frozenset[str] | None:
        """None: nobody can tell what the function finds."""
        return None

    def build(self, site: Site) -> Operator:
        """Import the function and load the model. Raises ModelError or ConfigurationError."""
        from dataclasses import replace

        from sightline_plugins.infer.function_heads import FunctionHeadOptions, FunctionPostprocessor
        from sightline_plugins.infer.operator import build_operator

        function = cast("HeadFunction", load_function(self.head))
        plan, rules, problems = plan_detections(self, needs_head=False)
        if plan is None or rules is None:
            raise ModelError("; ".join(problem.message for problem in problems))
        options = FunctionHeadOptions.model_validate({**plan.card.head_options, **self.head_options})
        task = FunctionPostprocessor(
            replace(plan, head_options=options),
            function,
            reference=self.head,
            confidence=rules.confidence,
            element_id=site.element_id or self.name,
            tasks=_tasks(self, rules, site),
        )
        return build_operator(self, plan, task=task, site=site)


def _tasks(element: Infer, rules: DetectionRules, site: Site) -> Mapping[type, PostprocessorFactory]:
    """How the task for each kind of finding is made."""
    from sightline.media.shapes import usual_skeleton
    from sightline_plugins.heads.head import Candidates, ClassMap, Points, Scores, Text, Vector
    from sightline_plugins.infer.class_maps import ClassMapPostprocessor
    from sightline_plugins.infer.detections import DetectionPostprocessor
    from sightline_plugins.infer.function_heads import AttributePostprocessor
    from sightline_plugins.infer.keypoints import KeypointPostprocessor
    from sightline_plugins.infer.labels import AttributeLabels, LabelPostprocessor, LabelRules
    from sightline_plugins.infer.segment import map_rules
    from sightline_plugins.infer.text import TextPostprocessor, TextRules
    from sightline_plugins.infer.vectors import EmbeddingPostprocessor

    element_id = site.element_id or element.name
    least = element.confidence or 0.0
    return {
        Candidates: partial(DetectionPostprocessor, rules=rules, element_id=element_id, warn=site.warn, masks=True),
        Mapping: partial(AttributePostprocessor, element_id=element_id),
        Points: partial(KeypointPostprocessor, element_id=element_id, confidence=least, skeleton_of=usual_skeleton),
        ClassMap: lambda plan: ClassMapPostprocessor(plan, map_rules(element, plan), element_id=element_id),
        Vector: partial(EmbeddingPostprocessor, element_id=element_id, vote=True),
        Scores: lambda plan: LabelPostprocessor(
            plan, LabelRules((AttributeLabels(element_id, plan.labels),), confidence=least), element_id=element_id
        ),
        Text: partial(TextPostprocessor, rules=TextRules(confidence=least), element_id=element_id),
    }
