"""Follow and rewrite operations that only move channels.

Where the convolution before a shuffle is 1x1, it can be computed as a matrix product that writes its channels as
planes: then the concatenation costs nothing, and picking a channel is copying one contiguous plane.

A convolution of kernel k over pixels regrouped by s is a convolution of kernel s k, stride s over the image
itself, with the same weights in other places.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from onnx import NodeProto

from sightline_plugins.onnx_graph.graph import Constant, Graph, attribute, node

Indices = npt.NDArray[np.int64]

RESHAPES = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})
MOVES = RESHAPES | {"Transpose", "Slice", "Gather", "Split", "Concat"}
STRAIGHT = MOVES - {"Concat"}
LARGEST = 1 << 22


def source_of(graph: Graph, name: str, *, through: frozenset[str] = MOVES) -> str | None:
    """The one tensor that the data movement ending in `name` starts from; None when there are several."""
    found, waiting = set[str](), [name]
    while waiting:
        current = waiting.pop()
        made_by = graph.producer(current)
        if made_by is not None and made_by.op_type in through:
            waiting.extend(made_by.input if made_by.op_type == "Concat" else made_by.input[:1])
        else:
            found.add(current)
    return found.pop() if len(found) == 1 else None


def moved_indices(graph: Graph, name: str, *, source: str) -> Indices | None:
    """For every element of `name`, the flat position in `source` that it comes from; None when that is not static."""
    shape = graph.shape(source)
    if shape is None or np.prod(shape) > LARGEST:
        return None
    start: Indices = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    return _follow(graph, name, known={source: start})


def _follow(graph: Graph, name: str, *, known: dict[str, Indices]) -> Indices | None:
    if name in known:
        return known[name]
    made_by = graph.producer(name)
    if made_by is None or made_by.op_type not in MOVES:
        return None
    inputs = made_by.input if made_by.op_type == "Concat" else made_by.input[:1]
    arrays = list[Indices]()
    for entry in inputs:
        array = _follow(graph, entry, known=known)
        if array is None:
            return None
        arrays.append(array)
    moved = _move(graph, made_by, arrays, output=name)
    if moved is not None:
        known[name] = moved
    return moved


def _move(graph: Graph, by: NodeProto, arrays: list[Indices], *, output: str) -> Indices | None:
    first = arrays[0]
    if by.op_type in RESHAPES:
        shape = graph.shape(output)
        return None if shape is None else first.reshape(shape)
    if by.op_type == "Transpose":
        return first.transpose(attribute(by, "perm", list(range(first.ndim))[::-1]))
    if by.op_type == "Concat":
        return np.concatenate(arrays, axis=attribute(by, "axis"))
    if by.op_type == "Gather":
        picked = graph.constant(by.input[1])
        return None if picked is None else np.take(first, picked, axis=attribute(by, "axis", 0))
    if by.op_type == "Split":
        return _split(graph, by, first, output=output)
    return _slice(graph, by, first)


def _split(graph: Graph, by: NodeProto, array: Indices, *, output: str) -> Indices | None:
    axis = attribute(by, "axis", 0)
    start = 0
    for name in by.output:
        shape = graph.shape(name)
        if shape is None:
            return None
        if name == output:
            return np.take(array, np.arange(start, start + shape[axis]), axis=axis)
        start += shape[axis]
    return None


def _slice(graph: Graph, by: NodeProto, array: Indices) -> Indices | None:
    if graph.opset < 10:
        starts, ends = attribute(by, "starts"), attribute(by, "ends")
        axes, steps = attribute(by, "axes", list(range(len(starts)))), [1] * len(starts)
    else:
        values = [graph.constant(name) if name else None for name in by.input[1:]]
        if any(value is None and name for value, name in zip(values, by.input[1:], strict=True)):
            return None
        lists = [[] if value is None else value.tolist() for value in values]
        starts, ends, axes, steps = (*lists, [], [])[:4]
        axes, steps = axes or list(range(len(starts))), steps or [1] * len(starts)
    window = [slice(None)] * array.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        window[axis] = _window(start, end, step, size=array.shape[axis])
    return array[tuple(window)]


def _window(start: int, end: int, step: int, *, size: int) -> slice:
    if step > 0:
        return slice(start, end, step)
    stop = None if end < -size else end
    return slice(start, stop, step)


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
    known = len(conv.input) < 3 or not conv.input[2] or graph.constant(conv.input[2]) is not None
    return static and known and pointwise_weights(graph, conv) is not None


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


def split_permutations(graph: Graph) -> int:
    """A `Gather` that puts all channels into another order becomes two, joined.

    OpenVINO 2026.4 moves such a `Gather` behind it into the weights of a convolution, but with the inverse order: only
    orders that are their own inverse, such as RGB to BGR, come out right.
    """
    found = 0
    for entry in list(graph.nodes):
        order = graph.constant(entry.input[1]) if entry.op_type == "Gather" else None
        if order is None or not _is_one_way(order) or not _is_of_channels(graph, entry):
            continue
        halves = []
        for part in np.array_split(order, 2):
            halves.append(graph.new_name(entry.output[0]))
            indices = graph.add_constant(part, like=entry.output[0])
            graph.replace([], [node("Gather", [entry.input[0], indices], [halves[-1]], axis=1)])
        graph.replace([entry], [node("Concat", halves, [entry.output[0]], axis=1)])
        found += 1
    if found:
        graph.refresh()
    return found


def _is_one_way(order: Constant) -> bool:
    """Whether indices put everything into another order, which is not its own inverse."""
    own = np.arange(order.size)
    return order.ndim == 1 and np.array_equal(np.sort(order), own) and not np.array_equal(order[order], own)


def _is_of_channels(graph: Graph, gather: NodeProto) -> bool:
    shape, axis = graph.shape(gather.input[0]), attribute(gather, "axis", 0)
    return axis == 1 or (shape is not None and axis % len(shape) == 1)


def fold_focus(graph: Graph) -> int:
    """Replaces slices, concatenation and convolution by one convolution of the image."""
    for conv in graph.nodes:
        weights = graph.constant(conv.input[1]) if conv.op_type == "Conv" else None
        joined = graph.producer(conv.input[0]) if weights is not None else None
        if weights is None or joined is None or joined.op_type != "Concat" or not _is_plain(conv, weights):
            continue
        source = source_of(graph, conv.input[0])
        given, regrouped = graph.shape(source) if source else None, graph.shape(conv.input[0])
        if source is None or given is None or regrouped is None or len(given) != 4 or given[0] != 1:
            continue
        indices = moved_indices(graph, conv.input[0], source=source)
        places = None if indices is None else _places(indices, given)
        if places is not None:
            wide = _unfolded(weights, places, channels=given[1], step=given[2] // regrouped[2])
            graph.replace([conv], [_of_pixels(graph, conv, wide, source, step=given[2] // regrouped[2])])
            graph.refresh()
            return 1
    return 0


def _is_plain(conv: NodeProto, weights: Constant) -> bool:
    plain = attribute(conv, "group", 1) == 1 and set(attribute(conv, "dilations", [1])) == {1}
    return plain and weights.ndim == 4 and attribute(conv, "auto_pad", b"NOTSET") == b"NOTSET"


def _places(indices: Indices, given: tuple[int, ...]) -> list[tuple[int, int, int]] | None:
    """For each regrouped channel its (channel, row, column) in the first block; None when it is no regrouping."""
    _, channels, height, width = given
    rows, columns = indices.shape[2:]
    step = height // rows
    if step < 2 or (rows * step, columns * step) != (height, width) or indices.shape[1] != channels * step * step:
        return None
    grid = np.arange(rows)[:, None] * step * width + np.arange(columns) * step
    first = indices[0, :, 0, 0]
    if not np.array_equal(indices[0], first[:, None, None] + grid):
        return None
    channel, rest = np.divmod(first, height * width)
    row, column = np.divmod(rest, width)
    if max(row.max(), column.max()) >= step:
        return None
    return list(zip(channel.tolist(), row.tolist(), column.tolist(), strict=True))


def _unfolded(weights: Constant, places: list[tuple[int, int, int]], *, channels: int, step: int) -> Constant:
    """Weights for an image of `channels` from those for its regrouped pixels."""
    count, _, rows, columns = weights.shape
    wide = np.zeros((count, channels, rows * step, columns * step), weights.dtype)
    for regrouped, (channel, row, column) in enumerate(places):
        wide[:, channel, row::step, column::step] += weights[:, regrouped]
    return wide


def _of_pixels(graph: Graph, conv: NodeProto, wide: Constant, source: str, *, step: int) -> NodeProto:
    """The convolution of the image itself."""
    return node(
        "Conv",
        [source, graph.add_constant(wide, like=conv.input[1]), *conv.input[2:]],
        [conv.output[0]],
        kernel_shape=wide.shape[2:],
        strides=[step * size for size in attribute(conv, "strides", [1, 1])],
        pads=[step * size for size in attribute(conv, "pads", [0, 0, 0, 0])],
    )
