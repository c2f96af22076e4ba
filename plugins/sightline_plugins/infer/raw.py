"""Raw output tensors, kept on the frame or on the objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sightline.errors import ModelError
from sightline.media import Batch, Tensor
from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.heads.head import Array
from sightline_plugins.infer.detections import all_finite
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor, TargetResult
from sightline_plugins.infer.targets import InferenceTarget

Values = Mapping[str, Array]
"""Outputs by name, without the batch dimension."""

_ROWS = (6, 7)
"""Values of finished boxes: (n, 6) and (n, 7) are n boxes, not n images."""


class RawPostprocessor(Postprocessor[Values]):
    """Keeps outputs by their names: on the image as `Batch.tensors`, on objects as columns `_<element>.<output>`.

    On objects all outputs of a name must have one shape. Columns hold floats (other numbers become float64), and NaN
    for objects that were not looked at.
    """

    def __init__(self, plan: ModelPlan, *, names: Sequence[str], element_id: str) -> None:
        self._places = {name: number for number, name in enumerate(out.name for out in plan.outputs) if name in names}
        self._specs = plan.outputs
        self._element_id = element_id
        self._shapes: dict[str, tuple[int, ...]] = {}

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> Values | None:
        """See `Task.read`."""
        del batch
        values = {name: _of_image(outputs[place], self._specs[place]) for name, place in self._places.items()}
        if not all_finite(list(values.values())):
            return None
        if target.object >= 0:
            self._check_shapes(values)
        return values

    def attach(self, batch: Batch, answered: Sequence[TargetResult[Values]]) -> Batch:
        """The batch with tensors, or its objects with columns."""
        told = [(target, values) for target, values in answered if values is not None]
        if not told:
            return batch
        if told[0][0].object < 0:
            return batch.with_tensors(self._tensors(answered))
        objects = batch.objects
        rows = [target.object for target, _ in told]
        for name in self._places:
            column = np.stack([values[name] for _, values in told])
            column = column if column.dtype.kind == "f" else column.astype(np.float64)
            objects = objects.with_values(f"_{self._element_id}.{name}", rows=rows, values=column)
        return batch.with_objects(objects)

    def _tensors(self, answered: Sequence[TargetResult[Values]]) -> list[Tensor]:
        """The outputs of each frame; of several regions of a frame each has its number behind the name."""
        tensors = []
        rows = [target.row for target, _ in answered]
        for place, (row, (_, values)) in enumerate(zip(rows, answered, strict=True)):
            ending = f".{place - rows.index(row)}" if rows.count(row) > 1 else ""
            tensors += [
                Tensor(row, self._element_id, f"{name}{ending}", value) for name, value in (values or {}).items()
            ]
        return tensors

    def _check_shapes(self, values: Values) -> None:
        for name, value in values.items():
            shape = self._shapes.setdefault(name, value.shape)
            if shape != value.shape:
                raise ModelError(
                    f"output {name!r} is {value.shape} for one object and {shape} for another: on objects only outputs "
                    "of one shape can be kept; name others in outputs, or set a size"
                )


def _of_image(output: Array, spec: TensorSpec) -> Array:
    """An output without its batch dimension: a first size that is declared 1, or is 1 and no count of boxes."""
    is_batch = output.ndim > 0 and len(output) == 1
    if is_batch and (spec.shape[0] == 1 or output.ndim > 2 or (output.ndim == 2 and output.shape[1] not in _ROWS)):
        first: Array = output[0]
        return first
    return output
