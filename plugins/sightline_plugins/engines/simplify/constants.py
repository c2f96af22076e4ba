"""What is known before anything runs: constants are folded, nodes that do nothing go."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto
from onnx.reference import ReferenceEvaluator

from sightline_plugins.engines.simplify.graph import Constant, Graph, attribute

LARGEST = 1 << 16
STANDARD = ("", "ai.onnx")
FOLDABLE = frozenset(
    [
        "Add",
        "And",
        "Cast",
        "Ceil",
        "Concat",
        "ConstantOfShape",
        "Div",
        "Equal",
        "Expand",
        "Flatten",
        "Floor",
        "Gather",
        "Greater",
        "Identity",
        "Less",
        "Max",
        "Min",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "Range",
        "Reshape",
        "Shape",
        "Size",
        "Slice",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Tile",
        "Transpose",
        "Unsqueeze",
        "Where",
    ]
)


def store_constants(graph: Graph) -> int:
    """`Constant` nodes become stored constants."""
    made = [entry for entry in graph.nodes if entry.op_type == "Constant" and _value(entry) is not None]
    for entry in made:
        value = _value(entry)
        if value is not None and entry.output[0] not in graph.outputs:
            graph.rename(entry.output[0], graph.add_constant(value, like=entry.output[0]))
    return _remove(graph, [entry for entry in made if entry.output[0] not in graph.outputs])


def fold_constants(graph: Graph) -> int:
    """Small nodes whose inputs are all known, and shapes that are static, become constants."""
    folded = list[NodeProto]()
    for entry in graph.nodes:
        if entry.op_type not in FOLDABLE or entry.domain not in STANDARD or not graph.outputs.isdisjoint(entry.output):
            continue
        values = _computed(graph, entry)
        if values is None or any(np.size(value) > LARGEST for value in values):
            continue
        for name, value in zip(entry.output, values, strict=True):
            graph.rename(name, graph.add_constant(value, like=name))
        folded.append(entry)
    return _remove(graph, folded)


def remove_idle(graph: Graph) -> int:
    """Nodes that give back what they get: `Identity`, `Dropout`, casts, reshapes, ... to the same."""
    idle = list[NodeProto]()
    for entry in graph.nodes:
        if _is_idle(graph, entry) and graph.outputs.isdisjoint(entry.output):
            graph.rename(entry.output[0], entry.input[0])
            idle.append(entry)
    return _remove(graph, idle)


def _remove(graph: Graph, nodes: list[NodeProto]) -> int:
    if nodes:
        graph.replace(nodes, [])
        graph.refresh()
    return len(nodes)


def _value(entry: NodeProto) -> npt.NDArray[np.generic] | None:
    tensor = attribute(entry, "value")
    return None if tensor is None else onnx.numpy_helper.to_array(tensor)


def _computed(graph: Graph, entry: NodeProto) -> list[Constant] | None:
    if entry.op_type in {"Shape", "Size"}:
        shape = graph.shape(entry.input[0])
        if shape is None or entry.attribute:
            return None
        return [np.asarray(shape if entry.op_type == "Shape" else np.prod(shape, dtype=np.int64), np.int64)]
    feeds = dict[str, Constant]()
    for name in filter(None, entry.input):
        value = graph.constant(name)
        if value is None or value.size > LARGEST:
            return None
        feeds[name] = value
    known = [onnx.helper.make_tensor_value_info(name, 0, None) for name in feeds]
    wanted = [onnx.helper.make_tensor_value_info(name, 0, None) for name in entry.output]
    body = onnx.helper.make_graph([entry], "one", known, wanted)
    alone = onnx.helper.make_model(body, opset_imports=list(graph.model.opset_import))
    values: list[Constant] = ReferenceEvaluator(alone).run(None, feeds)
    return values


def _is_idle(graph: Graph, entry: NodeProto) -> bool:
    if not entry.input or graph.constant(entry.input[0]) is not None:
        return False
    source, target = graph.shape(entry.input[0]), graph.shape(entry.output[0])
    match entry.op_type:
        case "Identity":
            return True
        case "Dropout":
            return len(entry.output) == 1 or not graph.consumers(entry.output[1])
        case "Cast":
            return bool(graph.element_type(entry.input[0]) == attribute(entry, "to"))
        case "Reshape" | "Flatten" | "Expand" | "Squeeze" | "Unsqueeze":
            return source is not None and source == target
        case "Transpose":
            perm = attribute(entry, "perm")
            return perm is not None and list(perm) == sorted(perm)
        case "Concat":
            return len(entry.input) == 1
        case _:
            return False
