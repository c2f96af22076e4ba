"""Transposes that can be had for less: around a softmax, and behind concatenated prediction maps."""

from __future__ import annotations

import numpy as np

from sightline_plugins.engines.simplify.graph import Graph, attribute, node


def softmax_over_channels(graph: Graph) -> int:
    """A softmax over channels between a transpose and its inverse keeps rows before columns, as NHWC kernels do.

    Exporters swap rows and columns on the way, which costs two copies; a softmax does not care for their order.
    """
    found = 0
    for entry in graph.nodes:
        before = graph.producer(entry.input[0]) if entry.op_type == "Softmax" else None
        after = graph.only_consumer(entry.output[0])
        if before is None or after is None or {before.op_type, after.op_type} != {"Transpose"}:
            continue
        swapped = list(attribute(before, "perm", [])) == [0, 3, 2, 1] == list(attribute(after, "perm", []))
        if not swapped or attribute(entry, "axis", -1) not in (-1, 3) or entry.input[0] in graph.outputs:
            continue
        rows, result = graph.new_name(entry.input[0]), graph.new_name(entry.output[0])
        new = [
            node("Transpose", [before.input[0]], [rows], perm=[0, 2, 3, 1]),
            node("Softmax", [rows], [result], axis=3),
            node("Transpose", [result], [after.output[0]], perm=[0, 3, 1, 2]),
        ]
        graph.replace([entry, after], new)
        found += 1
    if found:
        graph.refresh()
    return found


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
