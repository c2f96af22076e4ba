"""Read inputs, outputs and metadata of an ONNX file. It imports `onnx`, so `facts.py` imports it when a file is new."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx

from sightline.errors import ModelError
from sightline_plugins.engines.model_file import external_files, foreign_operators, metadata_of, read_model
from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.infer.facts import ModelFacts, facts_of

_MAX_AXIS = 2**24
"""More values along one axis than any input or output has."""
_RESHAPING_OPS = frozenset(
    {
        *("Cast", "DequantizeLinear", "Flatten", "Identity", "QuantizeLinear", "Reshape", "Squeeze", "Transpose"),
        "Unsqueeze",
    }
)


def read_file(path: Path) -> ModelFacts:
    """Return the facts of an ONNX file. Raises ModelError when it is missing, damaged or no ONNX file."""
    model, label = read_model(path)
    foreign = foreign_operators(model)
    if foreign:
        raise ModelError(f"{label}: needs operators that no engine has: {', '.join(foreign)}; export it without them")
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = _specs((entry for entry in model.graph.input if entry.name not in constants), label)
    outputs = _specs(model.graph.output, label)
    return facts_of(
        inputs,
        outputs,
        label,
        metadata=metadata_of(model),
        output_ops=_output_ops(model.graph),
        weights=tuple(str(file.relative_to(path.parent.resolve())) for file in external_files(path)),
    )


def _output_ops(graph: onnx.GraphProto) -> tuple[str, ...]:
    makers = {name: node for node in graph.node for name in node.output}

    def op_of(name: str) -> str:
        node = makers.get(name)
        while node is not None and node.op_type in _RESHAPING_OPS and node.input[0] in makers:
            node = makers[node.input[0]]
        return "" if node is None else str(node.op_type)

    return tuple(op_of(output.name) for output in graph.output)


def _specs(entries: Iterable[onnx.ValueInfoProto], label: str) -> tuple[TensorSpec, ...]:
    return tuple(_spec(entry, label) for entry in entries)


def _spec(entry: onnx.ValueInfoProto, label: str) -> TensorSpec:
    kind = entry.type.tensor_type
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    except KeyError:
        raise ModelError(f"{label}: {entry.name!r} is not a numeric tensor") from None
    sizes = tuple(size.dim_value if size.HasField("dim_value") else None for size in kind.shape.dim)
    spec = TensorSpec(entry.name, sizes, dtype)
    if any(size is not None and not 0 < size <= _MAX_AXIS for size in sizes):
        raise ModelError(f"{label}: {spec} has an impossible size: each must be from 1 to {_MAX_AXIS}")
    return spec
