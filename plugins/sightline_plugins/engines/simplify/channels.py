"""Channel shuffles: chains of reshapes, transposes and gathers that only reorder channels become one `Gather`.

Where the convolution before a shuffle is 1x1, it can be computed as a matrix product that writes its channels as
planes: then the concatenation costs nothing, and picking a channel is copying one contiguous plane.
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from sightline_plugins.engines.simplify.graph import Constant, Graph, attribute, node
from sightline_plugins.engines.simplify.movement import STRAIGHT, Indices, moved_indices, source_of

ELEMENTWISE = frozenset({"Relu", "LeakyRelu", "Clip", "HardSwish", "Sigmoid", "Tanh", "Elu"})


def pick_channels(graph: Graph) -> int:
    """A chain of data movement whose result is a choice of its source's channels becomes one `Gather`."""
    found = list[tuple[NodeProto, NodeProto]]()
    for entry in graph.nodes:
        for name in entry.output:
            picked = _picked_channels(graph, entry, name)
            if picked is not None:
                source, channels = picked
                indices = graph.add_constant(channels, like=name)
                found.append((entry, node("Gather", [source, indices], [name], axis=1)))
    for old, new in found:
        outputs = [f"{name}~unused" if name == new.output[0] else name for name in old.output]
        del old.output[:]
        old.output.extend(outputs)
        graph.replace([], [new])
    if found:
        graph.refresh()
    return len(found)


def make_planes(graph: Graph) -> int:
    """1x1 convolutions whose channels are only concatenated and picked become matrix products `W . X` (planar)."""
    found = 0
    for entry in list(graph.nodes):
        if entry.op_type == "Conv" and _is_pointwise(graph, entry) and _feeds_shuffle(graph, entry.output[0]):
            graph.replace([entry], _planar_product(graph, entry))
            found += 1
    if found:
        graph.refresh()
    return found


def pointwise_weights(graph: Graph, conv: NodeProto) -> Constant | None:
    """Weights (N, K, 1, 1) of a plain 1x1 convolution; None for any other."""
    weights = graph.constant(conv.input[1]) if conv.op_type == "Conv" else None
    if weights is None or weights.ndim != 4 or weights.shape[2:] != (1, 1) or weights.dtype != np.float32:
        return None
    plain = attribute(conv, "group", 1) == 1 and not any(attribute(conv, "pads", [0]))
    plain = plain and attribute(conv, "auto_pad", b"NOTSET") in (b"NOTSET", b"VALID")
    return weights if plain and set(attribute(conv, "strides", [1])) == {1} else None


def _picked_channels(graph: Graph, entry: NodeProto, name: str) -> tuple[str, Indices] | None:
    """Source and channels that the chain ending in output `name` of `entry` picks; None when it does not."""
    if entry.op_type not in STRAIGHT or name in graph.outputs or not graph.consumers(name):
        return None
    if any(reader.op_type in STRAIGHT for reader in graph.consumers(name)):
        return None
    before = graph.producer(entry.input[0])
    source = source_of(graph, name, through=STRAIGHT)
    if source is None or before is None or before.op_type not in STRAIGHT:
        return None
    shape, full = graph.shape(name), graph.shape(source)
    if shape is None or full is None or len(shape) != 4 or len(full) != 4:
        return None
    if (shape[0], *shape[2:]) != (1, *full[2:]) or full[0] != 1:
        return None
    indices = moved_indices(graph, name, source=source)
    return None if indices is None else _as_channels(source, indices, plane=full[2] * full[3])


def _as_channels(source: str, indices: Indices, *, plane: int) -> tuple[str, Indices] | None:
    rows = indices.reshape(indices.shape[1], plane)
    channels = rows[:, 0] // plane
    same = np.array_equal(rows, channels[:, None] * plane + np.arange(plane))
    return (source, channels) if same else None


def _is_pointwise(graph: Graph, conv: NodeProto) -> bool:
    shape, made = graph.shape(conv.input[0]), graph.shape(conv.output[0])
    static = shape is not None and made is not None and shape[0] == 1
    return static and pointwise_weights(graph, conv) is not None


def _feeds_shuffle(graph: Graph, name: str) -> bool:
    """True when every reader, behind element-wise nodes and concatenations of channels, picks channels."""
    readers = graph.consumers(name)
    if not readers or name in graph.outputs:
        return False
    for reader in readers:
        passes = reader.op_type in ELEMENTWISE or (reader.op_type == "Concat" and attribute(reader, "axis") == 1)
        picks = reader.op_type == "Gather" and attribute(reader, "axis", 0) == 1 and reader.input[0] == name
        if not picks and not (passes and _feeds_shuffle(graph, reader.output[0])):
            return False
    return True


def _planar_product(graph: Graph, conv: NodeProto) -> list[NodeProto]:
    """`W (N, K) . X (H W, K)^T + bias` -> (N, H W): X as rows of pixels, the result as planes of channels."""
    weights, source, result = pointwise_weights(graph, conv), conv.input[0], conv.output[0]
    made, given = graph.shape(result), graph.shape(source)
    if weights is None or made is None or given is None:
        raise ValueError(f"{conv.name!r} is no 1x1 convolution of static shape")
    bias = graph.constant(conv.input[2]) if len(conv.input) > 2 else None
    rows, pixels, product = (graph.new_name(result) for _ in range(3))
    columns = np.zeros(len(weights), np.float32) if bias is None else bias
    operands = [graph.add_constant(weights[:, :, 0, 0], like=result), pixels]
    operands.append(graph.add_constant(columns[:, None], like=result))
    flat = graph.add_constant(np.array([made[2] * made[3], given[1]]), like=result)
    full = graph.add_constant(np.array(made), like=result)
    return [
        node("Transpose", [source], [rows], perm=[0, 2, 3, 1]),
        node("Reshape", [rows, flat], [pixels]),
        node("Gemm", operands, [product], transB=1),
        node("Reshape", [product, full], [result]),
    ]
