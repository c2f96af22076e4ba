"""YOLO's "focus" (every other pixel becomes a channel) folded into the convolution behind it.

A convolution of kernel k over pixels regrouped by s is a convolution of kernel s k, stride s over the image
itself, with the same weights in other places.
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from sightline_plugins.engines.simplify.graph import Constant, Graph, attribute, node
from sightline_plugins.engines.simplify.movement import Indices, moved_indices, source_of


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
            graph.replace([conv], [_unfolded(graph, conv, weights, source, places, step=given[2] // regrouped[2])])
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


def _unfolded(
    graph: Graph,
    conv: NodeProto,
    weights: Constant,
    source: str,
    places: list[tuple[int, int, int]],
    *,
    step: int,
) -> NodeProto:
    count, _, rows, columns = weights.shape
    channels = max(channel for channel, _, _ in places) + 1
    wide = np.zeros((count, channels, rows * step, columns * step), weights.dtype)
    for regrouped, (channel, row, column) in enumerate(places):
        wide[:, channel, row::step, column::step] += weights[:, regrouped]
    name = graph.add_constant(wide, like=conv.input[1])
    return node(
        "Conv",
        [source, name, *conv.input[2:]],
        [conv.output[0]],
        kernel_shape=wide.shape[2:],
        strides=[step * size for size in attribute(conv, "strides", [1, 1])],
        pads=[step * size for size in attribute(conv, "pads", [0, 0, 0, 0])],
    )
