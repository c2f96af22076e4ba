"""Quantised activations in the form that processors multiply: unsigned bytes.

A quantised file holds signed bytes around zero, because GPUs take nothing else. Processors multiply unsigned by signed
bytes, and OpenVINO 2026.4 gives wrong results for some signed ones (a concatenation of them, for example, costs the
street detector ten points of average precision). So the same numbers are stored with another zero point.

But for what an average takes in together with a border of zeros: there, OpenVINO 2026.4 counts the border as byte 0,
which is no zero where the zero point is 128 (it cost DEIMv2 22 points). Signed, it counts it rightly.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import NodeProto, TensorProto

from sightline_plugins.engines.simplify.graph import Graph, attribute

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
