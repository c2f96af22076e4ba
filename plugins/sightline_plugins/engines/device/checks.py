"""What is asked of memory before a library that asks for nothing is given its address."""

from __future__ import annotations

from collections.abc import Sequence

from sightline.errors import ModelError
from sightline.media.device_array import DeviceArray
from sightline_plugins.engines.device.protocol import DeviceEngine
from sightline_plugins.engines.protocol import TensorSpec

ALIGNMENT_BYTES = 256
"""What TensorRT asks of addresses."""


def check_bound(
    engine: DeviceEngine, inputs: Sequence[DeviceArray], outputs: Sequence[DeviceArray], *, label: str
) -> int:
    """How many images these arrays are for. Raises ModelError unless they are what the engine takes and gives."""
    rows = inputs[0].shape[0] if inputs and inputs[0].shape else 0
    if not 1 <= rows <= engine.most_rows:
        raise ModelError(f"{label}: it computes 1 to {engine.most_rows} images at once, {rows} given")
    _check(inputs, engine.inputs, rows=rows, label=label)
    _check(outputs, engine.outputs, rows=rows, label=label)
    return rows


def _check(arrays: Sequence[DeviceArray], specs: Sequence[TensorSpec], *, rows: int, label: str) -> None:
    if len(arrays) != len(specs):
        wanted = "; ".join(map(str, specs))
        raise ModelError(f"{label}: {len(specs)} arrays are needed ({wanted}), {len(arrays)} given")
    for array, spec in zip(arrays, specs, strict=True):
        shape = (spec.shape[0] or rows, *spec.shape[1:]) if spec.shape else ()
        if array.shape != shape or array.dtype != spec.dtype:
            raise ModelError(f"{label}: {spec} expected, {array.dtype.name} {array.shape} given")
        if not array.is_dense or array.address % ALIGNMENT_BYTES:
            raise ModelError(
                f"{label}: memory for {spec} must be dense and begin at a multiple of {ALIGNMENT_BYTES} bytes"
            )
