"""`tensors`: keep a model's raw outputs for user code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sightline.errors import ModelError
from sightline.graph.element import Problem
from sightline.graph.site import Site
from sightline.graph.wording import suggest
from sightline.media import Batch, Tensor
from sightline_plugins.infer.options import ModelElement, Planned
from sightline_plugins.infer.postprocessing import Postprocessor, TargetResult, all_finite

if TYPE_CHECKING:
    from sightline_plugins.engines.protocol import TensorSpec
    from sightline_plugins.heads.head import Array
    from sightline_plugins.infer.plan import ModelPlan
    from sightline_plugins.infer.targets import InferenceTarget

NamedOutputs: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""Outputs by name, without the batch dimension."""

_BOX_WIDTHS = (6, 7)
"""Values per box of end-to-end models: (n, 6) and (n, 7) are n boxes, not a batch of n."""


class Tensors(ModelElement):
    """Run a model and keep its raw outputs for user code: an element, a function, a loop in Python.

    In Python the outputs of a frame are `frame.tensors["tensors-1.output"]` (with several regions, `.0`, `.1` and so on
    follow the name). With `on` they are `object.tensors["tensors-1.output"]`, and a column
    `objects.extra["_tensors-1.output"]`. The batch dimension is removed. Sinks do not write them.

    Outputs such as dense maps are large: select the ones you need with `outputs`. To turn outputs into objects or
    attributes with a function, `infer` is shorter.

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
    """Names of the outputs that are kept. Default: all."""

    def plan(self) -> Planned:
        """Plan the model; no head is needed, and the outputs have to be there."""
        from sightline_plugins.infer.plan import plan_model

        plan, problems = plan_model(self, needs_head=False)
        if self.head is not None:
            problems.append(Problem("outputs are kept as they are: leave head out", ("head",)))
        known = [output.name for output in plan.outputs] if plan else []
        for number, name in enumerate(self.outputs or ()):
            if known and name not in known:
                message = f"there is no output {name!r}{suggest(name, known)}; outputs: {', '.join(known)}"
                problems.append(Problem(message, ("outputs", number)))
        return (None if problems else plan), problems

    def postprocessor(self, plan: ModelPlan, site: Site) -> Postprocessor[Any]:
        names = self.outputs or [output.name for output in plan.outputs]
        return RawPostprocessor(plan, names=names, element_id=site.element_id or self.name)


class RawPostprocessor(Postprocessor[NamedOutputs]):
    """Keeps outputs by name: on frames as `Batch.tensors`, on objects as columns `_<element>.<output>`.

    On objects all outputs of a name must have one shape. Columns hold floats (other numbers become float64), and NaN
    for objects that the model did not run on.
    """

    def __init__(self, plan: ModelPlan, *, names: Sequence[str], element_id: str) -> None:
        self._places = {output.name: place for place, output in enumerate(plan.outputs) if output.name in names}
        self._specs = plan.outputs
        self._element_id = element_id
        self._shapes: dict[str, tuple[int, ...]] = {}

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> NamedOutputs | None:
        del batch
        named = {name: _without_batch(outputs[place], self._specs[place]) for name, place in self._places.items()}
        if not all_finite(list(named.values())):
            return None
        if target.object >= 0:
            self._check_shapes(named)
        return named

    def attach(self, batch: Batch, results: Sequence[TargetResult[NamedOutputs]]) -> Batch:
        """Return the batch with tensors, or its objects with columns."""
        known = [(target, named) for target, named in results if named is not None]
        if not known:
            return batch
        if known[0][0].object < 0:
            return batch.with_tensors(self._tensors(results))
        objects = batch.objects
        rows = [target.object for target, _ in known]
        for name in self._places:
            column = np.stack([named[name] for _, named in known])
            column = column if column.dtype.kind == "f" else column.astype(np.float64)
            objects = objects.with_values(f"_{self._element_id}.{name}", rows=rows, values=column)
        return batch.with_objects(objects)

    def _tensors(self, results: Sequence[TargetResult[NamedOutputs]]) -> list[Tensor]:
        """Return the outputs of each frame; those of several regions have the region's number after the name."""
        tensors = []
        rows = [target.row for target, _ in results]
        for place, (row, (_, named)) in enumerate(zip(rows, results, strict=True)):
            suffix = f".{place - rows.index(row)}" if rows.count(row) > 1 else ""
            tensors += [
                Tensor(row, self._element_id, f"{name}{suffix}", value) for name, value in (named or {}).items()
            ]
        return tensors

    def _check_shapes(self, named: NamedOutputs) -> None:
        for name, value in named.items():
            shape = self._shapes.setdefault(name, value.shape)
            if shape != value.shape:
                raise ModelError(
                    f"output {name!r} is {value.shape} for one object and {shape} for another: on objects only outputs "
                    "of one shape can be kept; name others in outputs, or set a size"
                )


def _without_batch(output: Array, spec: TensorSpec) -> Array:
    """Remove the batch dimension: a first size that is declared 1, or is 1 and no number of boxes."""
    is_batch = output.ndim > 0 and len(output) == 1
    if is_batch and (
        spec.shape[0] == 1 or output.ndim > 2 or (output.ndim == 2 and output.shape[1] not in _BOX_WIDTHS)
    ):
        first: Array = output[0]
        return first
    return output
