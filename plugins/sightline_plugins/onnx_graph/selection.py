"""Where a graph picks values by their size (top k, suppression), and what it picks them from."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import TensorProto, helper

from sightline_plugins.onnx_graph.graph import Graph

SELECTING = frozenset({"TopK", "NonMaxSuppression", "NonZero", "ArgMax", "ArgMin", "Hardmax", "Unique"})
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)


def selects_by_size(model: onnx.ModelProto) -> bool:
    """Whether a model picks values by their size, so that rounding may change which, or their order."""
    return any(node.op_type in SELECTING for node in model.graph.node)


def chosen_from(model: onnx.ModelProto) -> dict[str, int]:
    """The floating-point tensors that values are chosen from, by their size or by the places that such a choice gave,
    with their element types.

    No choice comes before them, so that rounding changes them by little. Constants, inputs and outputs are not listed.
    """
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    graph = Graph(copied)
    outputs = {output.name for output in model.graph.output}
    behind, found = set[str](), dict[str, int]()
    for node in graph.nodes:
        if node.op_type not in SELECTING and behind.isdisjoint(node.input):
            continue
        for name in node.input:
            known = name in behind or name in outputs or graph.producer(name) is None
            if not known and graph.element_type(name) in _FLOATS:
                found[name] = graph.element_type(name)
        behind.update(node.output)
    return found


def with_outputs(model: onnx.ModelProto, types: Mapping[str, int]) -> onnx.ModelProto:
    """`model`, which gives these tensors after its own outputs. `model` itself changes."""
    model.graph.output.extend(helper.make_tensor_value_info(name, kind, None) for name, kind in types.items())
    return model
