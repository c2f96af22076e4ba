"""`tensors`: keeps a model's raw outputs for code of one's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from sightline.errors import ModelError
from sightline.graph.element import CheckContext, Problem
from sightline.graph.operator import Operator
from sightline.graph.registry import suggest
from sightline.graph.site import Site
from sightline_plugins.infer.options import ModelElement

if TYPE_CHECKING:
    from sightline_plugins.infer.plan import ModelPlan


class Tensors(ModelElement):
    """Runs a model and keeps its outputs as they are, for code of one's own: an element, a function, a loop in Python.

    On the image they are `frame.tensors["tensors-1.output"]` of each frame in Python (with several regions, `.0`,
    `.1` and so on follow the name). On objects (`on`) they are `thing.tensors["tensors-1.output"]`, and a column
    `objects.extra["_tensors-1.output"]`. The batch dimension is taken off. No sink writes them.

    Outputs of large maps are large: `outputs` names those that are wanted. Where a function of arrays could make
    objects or attributes at once, `infer` is the shorter way.

    ```yaml
    tensors:
      model: models/depth.onnx
      size: [256, 256]
      outputs: [depth]
      every: 5
    ```
    """

    name: ClassVar[str] = "tensors"
    task: ClassVar[str] = "tensors"

    outputs: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Names of the outputs that are kept; all when not given."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Model, names of outputs, engine and regions."""
        return [*_plan(self)[1], *super().check(context)]

    def build(self, site: Site) -> Operator:
        """Load the model. Raises ModelError or ConfigurationError."""
        from sightline_plugins.infer.operator import build_operator
        from sightline_plugins.infer.raw import RawPostprocessor

        plan, problems = _plan(self)
        if plan is None or problems:
            raise ModelError("; ".join(problem.message for problem in problems))
        names = self.outputs or [output.name for output in plan.outputs]
        task = RawPostprocessor(plan, names=names, element_id=site.element_id or self.name)
        return build_operator(self, plan, task=task, site=site)


def _plan(element: Tensors) -> tuple[ModelPlan | None, list[Problem]]:
    from sightline_plugins.infer.plan import plan_model

    plan, problems = plan_model(element, needs_head=False)
    if element.head is not None:
        problems.append(Problem("outputs are kept as they are: leave head out", ("head",)))
    known = [output.name for output in plan.outputs] if plan else []
    problems += [
        Problem(f"there is no output {name!r}{suggest(name, known)}; outputs: {', '.join(known)}", ("outputs", number))
        for number, name in enumerate(element.outputs or ())
        if known and name not in known
    ]
    return plan, problems
