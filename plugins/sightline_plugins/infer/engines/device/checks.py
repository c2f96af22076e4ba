"""What is asked of memory before a library that asks for nothing is given its address."""

from __future__ import annotations

from collections.abc import Sequence

from sightline.errors import ModelError
from sightline.media.device_array import DeviceArray
from sightline_plugins.infer.engines.device.protocol import DeviceEngine
from sightline_plugins.infer.engines.protocol import TensorSpec


def check_bound(
    engine: DeviceEngine, inputs: Sequence[DeviceArray], outputs: Sequence[DeviceArray], *, label: str
) -> int:
    """How many pictures these arrays are for. Raises ModelError unless they are what the engine takes and gives."""
    rows = {array.shape[0] for array in (*inputs, *outputs)}
    for specs, arrays in ((engine.inputs, inputs), (engine.outputs, outputs)):
        fits = len(specs) == len(arrays) and all(map(_fits, specs, arrays))
        if not fits or len(rows) != 1 or not 1 <= min(rows) <= engine.most_rows:
            wanted = "; ".join(map(str, specs))
            found = "; ".join(f"{array.dtype.name} {array.shape}" for array in arrays)
            raise ModelError(f"{label}: takes or gives up to {engine.most_rows} rows of {wanted}; memory for {found}")
    return min(rows)


def _fits(spec: TensorSpec, array: DeviceArray) -> bool:
    sizes = zip(spec.shape, array.shape, strict=False)
    is_same = len(spec.shape) == len(array.shape) and all(wanted in (None, found) for wanted, found in sizes)
    return is_same and array.dtype == spec.dtype and array.is_dense
