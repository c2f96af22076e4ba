"""Store and fold constants, also of quantized graphs.

A quantised file holds signed bytes around zero, because GPUs take nothing else. Processors multiply unsigned by signed
bytes, and OpenVINO 2026.4 gives wrong results for some signed ones (a concatenation of them, for example, costs the
street detector ten points of average precision). So the same numbers are stored with another zero point.

But for what an average takes in together with a border of zeros: there, OpenVINO 2026.4 counts the border as byte 0,
which is no zero where the zero point is 128 (it cost DEIMv2 22 points). Signed, it counts it rightly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto
from onnx.reference import ReferenceEvaluator

from sightline_plugins.onnx_graph.graph import Constant, Graph, attribute

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
        if shape is None:
            return None
        part = shape[attribute(entry, "start", 0) : attribute(entry, "end")]
        return [np.asarray(part if entry.op_type == "Shape" else np.prod(shape, dtype=np.int64), np.int64)]
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


_POSITIVE = frozenset({"Relu", "Sigmoid", "HardSigmoid", "Softmax"})
_KEEPING = frozenset(
    {
        *("AveragePool", "Cast", "DequantizeLinear", "Expand", "Flatten", "Gather", "GlobalAveragePool"),
        *("GlobalMaxPool", "Identity", "MaxPool", "QuantizeLinear", "Reshape", "Slice", "Split", "Squeeze"),
        *("Transpose", "Unsqueeze"),
    }
)
"""What makes no negative value of its first input when that has none."""
_MOVING = frozenset({"Concat", "Identity", "MaxPool", "Reshape", "Slice", "Split", "Transpose"})
"""What OpenVINO computes in bytes, without looking at them."""
_JOINING = frozenset({"Add", "Concat", "Max", "Mul"})
_MIDDLE = 128


def is_quantized(model: onnx.ModelProto) -> bool:
    """Whether a graph computes in 8 bits somewhere."""
    return any("QuantizeLinear" in node.op_type or node.op_type.startswith("QLinear") for node in model.graph.node)


def store_unsigned(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model`, whose symmetric signed activations are unsigned bytes with the same scale. `model` itself may change.

    Values that are never negative get the zero point 0, others 128, so every number stays what it was; only what the
    signed bytes would have cut off, because nothing as large was seen in calibration, is kept.
    """
    if not is_quantized(model):
        return model
    graph = Graph(model)
    known: dict[str, bool] = {}
    for entry in graph.nodes:
        readers = graph.consumers(entry.output[0]) if _is_symmetric(graph, entry) else []
        if not readers or any(not _is_symmetric(graph, reader, reads=entry) for reader in readers):
            continue
        zero = 0 if _is_positive(graph, entry.input[0], known) else _MIDDLE
        if zero and any(_is_averaged_with_border(graph, reader.output[0]) for reader in readers):
            continue
        name = graph.add_constant(np.full((), zero, np.uint8), like=entry.output[0])
        for either in (entry, *readers):
            either.input[2] = name
    return graph.to_model()


def _is_symmetric(graph: Graph, entry: NodeProto, *, reads: NodeProto | None = None) -> bool:
    """Whether a node quantises an activation around zero in signed bytes; or undoes that of the node `reads`."""
    operator = "QuantizeLinear" if reads is None else "DequantizeLinear"
    if entry.op_type != operator or len(entry.input) < 3 or graph.constant(entry.input[0]) is not None:
        return False
    scale, zero = graph.constant(entry.input[1]), graph.constant(entry.input[2])
    if scale is None or zero is None or zero.dtype != np.int8 or zero.size != 1 or zero.any():
        return False
    if reads is None:
        return True
    other = graph.constant(reads.input[1])
    return other is not None and np.array_equal(scale, other)


def _is_averaged_with_border(graph: Graph, name: str, *, is_padded: bool = False) -> bool:
    """Whether an average over a tensor, moved or not, counts a border of zeros; `is_padded` says that it has one."""
    for reader in graph.consumers(name):
        if reader.op_type == "AveragePool" and attribute(reader, "count_include_pad"):
            if is_padded or any(attribute(reader, "pads") or ()):
                return True
        elif reader.op_type == "Pad" or reader.op_type in _MOVING:
            padded = is_padded or reader.op_type == "Pad"
            if any(_is_averaged_with_border(graph, made, is_padded=padded) for made in reader.output):
                return True
    return False


def _is_positive(graph: Graph, name: str, known: dict[str, bool]) -> bool:
    """Whether no value of a tensor can be negative."""
    if name not in known:
        known[name] = False
        known[name] = _found_positive(graph, name, known)
    return known[name]


def _found_positive(graph: Graph, name: str, known: dict[str, bool]) -> bool:
    value, maker = graph.constant(name), graph.producer(name)
    if value is not None:
        return bool(np.all(value >= 0))
    if maker is None:
        return bool(graph.element_type(name) == TensorProto.UINT8)
    if maker.op_type == "Clip":
        least = graph.constant(maker.input[1]) if len(maker.input) > 1 else attribute(maker, "min")
        return least is not None and bool(np.all(np.asarray(least) >= 0))
    if maker.op_type == "Resize" and attribute(maker, "mode") != b"cubic":
        return _is_positive(graph, maker.input[0], known)
    if maker.op_type in _JOINING:
        return all(_is_positive(graph, source, known) for source in maker.input)
    if maker.op_type in _KEEPING:
        return _is_positive(graph, maker.input[0], known)
    return str(maker.op_type) in _POSITIVE
