"""Rewrite the order of transpose, concat and upsampling.

A 1x1 convolution treats every pixel alike, so it commutes with nearest-neighbour resizing. Behind a concatenation
it splits into a sum: `W . [a, up(b)] = Wa . a + up(Wb . b)`.
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from sightline_plugins.onnx_graph.channels import pointwise_weights
from sightline_plugins.onnx_graph.graph import Graph, attribute, node


def transpose_before_concat(graph: Graph) -> int:
    """`Transpose(Concat(maps))` becomes `Concat(Transpose(map), ...)`: joining outer axes is cheap."""
    for entry in graph.nodes:
        joined = graph.producer(entry.input[0]) if entry.op_type == "Transpose" else None
        if joined is None or joined.op_type != "Concat" or graph.only_consumer(joined.output[0]) is None:
            continue
        perm = attribute(entry, "perm")
        if list(perm or []) != [0, 2, 1] or not all(_is_flat_map(graph, name) for name in joined.input):
            continue
        axis = attribute(joined, "axis") % len(perm)
        moved = [graph.new_name(name) for name in joined.input]
        new = [node("Transpose", [old], [name], perm=perm) for old, name in zip(joined.input, moved, strict=True)]
        new.append(node("Concat", moved, [entry.output[0]], axis=list(perm).index(axis)))
        graph.replace([entry, joined], new)
        graph.refresh()
        return 1
    return 0


def transpose_before_flattening(graph: Graph) -> int:
    """(1, C, H, W) -> (1, C, H W) -> (1, H W, C) goes by way of (1, H, W, C), which NHWC kernels have already."""
    found = 0
    for entry in list(graph.nodes):
        if entry.op_type != "Transpose" or list(attribute(entry, "perm", [])) != [0, 2, 1]:
            continue
        flat = graph.producer(entry.input[0])
        if flat is None or not _is_flat_map(graph, entry.input[0]):
            continue
        shape = graph.shape(entry.output[0])
        rows = graph.new_name(entry.output[0])
        target = graph.add_constant(np.array(shape), like=entry.output[0])
        new = [
            node("Transpose", [flat.input[0]], [rows], perm=[0, 2, 3, 1]),
            node("Reshape", [rows, target], [entry.output[0]]),
        ]
        graph.replace([entry], new)
        found += 1
    if found:
        graph.refresh()
    return found


def _is_flat_map(graph: Graph, name: str) -> bool:
    """True for (1, C, H, W) reshaped to (1, C, H W)."""
    flat = graph.producer(name)
    if flat is None or flat.op_type not in {"Reshape", "Flatten"}:
        return False
    full, shape = graph.shape(flat.input[0]), graph.shape(name)
    if full is None or shape is None or len(full) != 4:
        return False
    return shape == (1, full[1], full[2] * full[3]) and full[0] == 1


def convolve_before_upsampling(graph: Graph) -> int:
    """Moves 1x1 convolutions behind a concatenation with an enlarged tensor in front of the enlargement."""
    for conv in graph.nodes:
        weights = pointwise_weights(graph, conv)
        joined = graph.producer(conv.input[0]) if weights is not None else None
        if joined is None or joined.op_type != "Concat" or attribute(joined, "axis") != 1:
            continue
        enlarged = [name for name in joined.input if _is_enlarged(graph, name)]
        if len(enlarged) == 1 and len(joined.input) > 1 and _split(graph, conv, joined, enlarged[0]):
            graph.refresh()
            return 1
    return 0


def _is_enlarged(graph: Graph, name: str) -> bool:
    resize = graph.producer(name)
    if resize is None or resize.op_type not in {"Resize", "Upsample"} or attribute(resize, "mode") != b"nearest":
        return False
    if attribute(resize, "coordinate_transformation_mode") == b"tf_crop_and_resize":
        return False
    if attribute(resize, "axes") is not None or not _is_size_known(graph, resize):
        return False
    small, large = graph.shape(resize.input[0]), graph.shape(name)
    if small is None or large is None or len(large) != 4 or small[:2] != large[:2]:
        return False
    return large[2] * large[3] >= 2 * small[2] * small[3]


def _is_size_known(graph: Graph, resize: NodeProto) -> bool:
    """Whether the size that an enlargement aims at, which holds the number of channels, is a constant or not given."""
    sizes = resize.input[3] if len(resize.input) > 3 else ""
    return not sizes or graph.constant(sizes) is not None


def _split(graph: Graph, conv: NodeProto, joined: NodeProto, enlarged: str) -> bool:
    """Replaces `conv` unless it makes more channels than were enlarged, which would cost more than it saves."""
    weights, resize = pointwise_weights(graph, conv), graph.producer(enlarged)
    widths = [shape[1] for shape in map(graph.shape, joined.input) if shape is not None]
    if weights is None or resize is None or len(widths) != len(joined.input):
        return False
    place = list(joined.input).index(enlarged)
    if len(weights) > widths[place]:
        return False
    low = sum(widths[:place])
    here = np.s_[low : low + widths[place]]
    result = conv.output[0]
    rest, other, before, after = (graph.new_name(result) for _ in range(4))
    of_rest = graph.add_constant(np.delete(weights, here, axis=1), like=result)
    of_enlarged = graph.add_constant(weights[:, here], like=result)
    new = [
        node("Concat", [name for name in joined.input if name != enlarged], [rest], axis=1),
        node("Conv", [rest, of_rest, *conv.input[2:]], [other], kernel_shape=[1, 1]),
        node("Conv", [resize.input[0], of_enlarged], [before], kernel_shape=[1, 1]),
        _renamed(graph, resize, before, after, channels=len(weights)),
        node("Add", [other, after], [result]),
    ]
    graph.replace([conv], new)
    return True


def _renamed(graph: Graph, resize: NodeProto, source: str, result: str, *, channels: int) -> NodeProto:
    """The same enlargement of another tensor; an explicit size gets the other number of channels."""
    copied = NodeProto()
    copied.CopyFrom(resize)
    copied.name = ""
    copied.input[0], copied.output[0] = source, result
    if len(copied.input) > 3 and copied.input[3]:
        sizes = graph.constant(copied.input[3])
        if sizes is not None:
            changed = sizes.copy()
            changed[1] = channels
            copied.input[3] = graph.add_constant(changed, like=result)
    return copied
