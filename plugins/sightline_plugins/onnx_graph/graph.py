"""A mutable view of an ONNX graph: who makes a tensor, who reads it, its static shape, its constant value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import AttributeProto, NodeProto, helper, numpy_helper

SMALL = 1024
LEARNED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Operators whose weights training makes."""
VALUES = frozenset(
    AttributeProto.AttributeType.Value(name)
    for name in ("FLOAT", "INT", "STRING", "TENSOR", "FLOATS", "INTS", "STRINGS", "TENSORS")
)
"""Types of attributes that hold no nested graph; files of IR version 1 give no type."""

Constant = npt.NDArray[Any]


class Graph:
    """The graph of `model`, which the graph then owns. Rules edit `nodes` through `replace` and read everything else.

    Names, shapes and constants are indexed; `refresh()` renews the index after edits. Tensors that nested graphs
    (`If`, `Loop`) read count as outputs: they are never removed.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.nodes: list[NodeProto] = list(model.graph.node)
        self._tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        self._arrays: dict[str, Constant] = {}
        self._names = 0
        self.refresh()

    @property
    def opset(self) -> int:
        """Version of the standard operator set."""
        return next((entry.version for entry in self.model.opset_import if entry.domain in ("", "ai.onnx")), 0)

    @property
    def outputs(self) -> set[str]:
        """Tensors whose names and values must stay: outputs, and what nested graphs read."""
        return self._pinned

    def refresh(self) -> None:
        """Drops what nobody reads, sorts, infers shapes and renews the index."""
        self._pinned = {output.name for output in self.model.graph.output} | _read_by_nested(self.nodes)
        self._sweep()
        self._sort()
        self._index()
        inferred = onnx.shape_inference.infer_shapes(self.outline(), data_prop=True)
        self._shapes = _static_shapes(inferred.graph)
        self._types = _element_types(inferred.graph)

    def producer(self, name: str) -> NodeProto | None:
        """The node that makes the tensor; None for inputs and constants."""
        return self._producer.get(name)

    def consumers(self, name: str) -> list[NodeProto]:
        """The nodes that read the tensor."""
        return self._consumers.get(name, [])

    def only_consumer(self, name: str) -> NodeProto | None:
        """The one node that reads the tensor, if exactly one does and it is no output."""
        readers = self.consumers(name)
        return readers[0] if len(readers) == 1 and name not in self._pinned else None

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape when every size is known."""
        return self._shapes.get(name)

    def element_type(self, name: str) -> int:
        """The ONNX element type, 0 when unknown."""
        return self._types.get(name, 0)

    def constant(self, name: str) -> Constant | None:
        """The value of a constant tensor (read-only)."""
        if name not in self._tensors:
            return None
        if name not in self._arrays:
            self._arrays[name] = numpy_helper.to_array(self._tensors[name])
        return self._arrays[name]

    def add_constant(self, value: npt.ArrayLike, *, like: str) -> str:
        """Stores a constant under a new name made from `like`."""
        name = self.new_name(like)
        array = np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value)
        self._tensors[name] = numpy_helper.from_array(array, name)
        return name

    def new_name(self, like: str) -> str:
        """A tensor name that nobody uses yet."""
        while True:
            self._names += 1
            name = f"{like}~{self._names}"
            if name not in self._tensors and name not in self._producer and name not in self._shapes:
                return name

    def replace(self, old: Iterable[NodeProto], new: Sequence[NodeProto]) -> None:
        """Takes nodes out and puts others in; call `refresh()` before reading the index again."""
        gone = {id(node) for node in old}
        self.nodes = [node for node in self.nodes if id(node) not in gone]
        self.nodes.extend(new)

    def rename(self, old: str, new: str) -> None:
        """Lets every reader of `old` read `new` instead."""
        for node in self.consumers(old):
            for position, name in enumerate(node.input):
                if name == old:
                    node.input[position] = new

    def to_model(self) -> onnx.ModelProto:
        """The edited model."""
        self.refresh()
        graph = self.model.graph
        del graph.node[:], graph.initializer[:], graph.value_info[:]
        graph.node.extend(self.nodes)
        graph.initializer.extend(self._tensors.values())
        return self.model

    def _sweep(self) -> None:
        needed = set(self._pinned)
        producers = {name: node for node in self.nodes for name in node.output if name}
        waiting, kept = list(needed), set[int]()
        while waiting:
            node = producers.get(waiting.pop())
            if node is None or id(node) in kept:
                continue
            kept.add(id(node))
            fresh = [name for name in node.input if name and name not in needed]
            needed.update(fresh)
            waiting.extend(fresh)
        self.nodes = [node for node in self.nodes if id(node) in kept]
        self._tensors = {name: tensor for name, tensor in self._tensors.items() if name in needed}

    def _sort(self) -> None:
        made_later = {name for node in self.nodes for name in node.output if name}
        waiting, done = [(node, _reads(node)) for node in self.nodes], list[NodeProto]()
        while waiting:
            still = list[tuple[NodeProto, set[str]]]()
            for node, reads in waiting:
                if made_later.isdisjoint(reads):
                    made_later.difference_update(node.output)
                    done.append(node)
                else:
                    still.append((node, reads))
            if len(still) == len(waiting):
                raise ValueError(f"the graph has a cycle through {still[0][0].output[0]!r}")
            waiting = still
        self.nodes = done

    def _index(self) -> None:
        self._producer = {name: node for node in self.nodes for name in node.output if name}
        self._consumers: dict[str, list[NodeProto]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.input):
                self._consumers.setdefault(name, []).append(node)

    def outline(self) -> onnx.ModelProto:
        """The model with large constants as inputs: all that shape inference needs."""
        outline = onnx.ModelProto(ir_version=self.model.ir_version, opset_import=self.model.opset_import)
        outline.functions.extend(self.model.functions)
        outline.graph.name = "outline"
        outline.graph.node.extend(self.nodes)
        outline.graph.input.extend(self.model.graph.input)
        outline.graph.output.extend(self.model.graph.output)
        for name, tensor in self._tensors.items():
            if np.prod(tensor.dims, initial=1) <= SMALL:
                outline.graph.initializer.append(tensor)
            else:
                entry = helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
                outline.graph.input.append(entry)
        return outline


def node(
    operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: int | float | str | Sequence[int]
) -> NodeProto:
    """A new node of the standard operator set."""
    made: NodeProto = helper.make_node(operator, list(inputs), list(outputs), **attributes)
    return made


def attribute(of: NodeProto, name: str, default: Any = None) -> Any:
    """Value of a node's attribute."""
    for entry in of.attribute:
        if entry.name == name:
            return helper.get_attribute_value(entry)
    return default


def _reads(of: NodeProto) -> set[str]:
    return {name for name in of.input if name} | _read_by_nested([of])


def _read_by_nested(nodes: Iterable[NodeProto]) -> set[str]:
    names = set[str]()
    for entry in (entry for one in nodes for entry in one.attribute if entry.type not in VALUES):
        for nested in [entry.g, *entry.graphs]:
            names.update(name for inner in nested.node for name in inner.input if name)
            names.update(output.name for output in nested.output)
            names.update(_read_by_nested(nested.node))
    return names


def _static_shapes(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for entry in (*graph.input, *graph.value_info, *graph.output):
        kind = entry.type.tensor_type
        if kind.HasField("shape") and all(size.HasField("dim_value") for size in kind.shape.dim):
            shapes[entry.name] = tuple(size.dim_value for size in kind.shape.dim)
    return shapes


def _element_types(graph: onnx.GraphProto) -> dict[str, int]:
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    entries = (*graph.input, *graph.value_info, *graph.output)
    types.update({entry.name: entry.type.tensor_type.elem_type for entry in entries})
    return types
