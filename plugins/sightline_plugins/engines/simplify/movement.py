"""Data movement: chains of nodes that only move elements, followed by moving the elements' numbers instead."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from onnx import NodeProto

from sightline_plugins.engines.simplify.graph import Graph, attribute

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
