"""Write an ONNX graph in half precision.

ONNX Runtime computes most operators in FP32 there, and leaves out the casts to FP16 between one and the next. So each
result is rounded by arithmetic of FP32 (Dekker, "A floating-point technique for extending the available precision",
1971): with c = 2**13 + 1, c * x - (c * x - x) is x with the 11 bits that FP16 keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, numpy_helper

from sightline.errors import ModelError
from sightline_plugins.onnx_graph.graph import Graph, node
from sightline_plugins.onnx_graph.inputs import find_image_input

_SPLITTER = float(2**13 + 1)


def with_rounding(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which every result in FP16 is rounded by nodes of its own."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = Graph(copy)
    splitter = graph.add_constant(np.float32(_SPLITTER), like="splitter")
    nodes = list[NodeProto]()
    for one in graph.nodes:
        nodes.append(one)
        for place, name in enumerate(one.output):
            if name and graph.element_type(name) == TensorProto.FLOAT16:
                one.output[place] = graph.new_name(name)
                nodes.extend(_rounded(one.output[place], name, graph=graph, splitter=splitter))
    graph.nodes = nodes
    return graph.to_model()


def _rounded(exact: str, rounded: str, *, graph: Graph, splitter: str) -> list[NodeProto]:
    single, large, rest, kept = (graph.new_name(exact) for _ in range(4))
    return [
        node("Cast", [exact], [single], to=TensorProto.FLOAT),
        node("Mul", [single, splitter], [large]),
        node("Sub", [large, single], [rest]),
        node("Sub", [large, rest], [kept]),
        node("Cast", [kept], [rounded], to=TensorProto.FLOAT16),
    ]


_FLOAT, _HALF = "tensor(float)", "tensor(float16)"
_MAKERS = frozenset({"Cast", "ConstantOfShape"})
"""Operators whose result has the type that an attribute says."""


def halved_places(of: NodeProto, graph: Graph) -> tuple[frozenset[int], frozenset[int]] | None:
    """The places of a node's inputs and outputs that become FP16 with it; None for a node that cannot be FP16.

    That is asked of the definition of its operator: scales of `Resize`, for one, are FP32 whatever is scaled.
    """
    schema = _schema(of.op_type, of.domain, graph.opset)
    if schema is None or any(entry.g.node or entry.graphs for entry in of.attribute):
        return None
    inputs = _places(of.input, schema.inputs, schema, graph)
    outputs = _places(of.output, schema.outputs, schema, graph)
    if inputs is None or outputs is None or not outputs:
        return None
    if of.op_type not in _MAKERS and not inputs:
        return None
    return inputs, outputs


def half_name(name: str) -> str:
    """What an FP32 tensor is called in FP16."""
    return f"{name}~half"


def write_half(graph: Graph, chosen: Sequence[NodeProto]) -> onnx.ModelProto:
    """The graph's model with these nodes in FP16; the graph is used up."""
    return _Writer(graph, chosen).written()


class _Writer:
    def __init__(self, graph: Graph, chosen: Sequence[NodeProto]) -> None:
        self._graph = graph
        self._places = {id(one): places for one in chosen if (places := halved_places(one, graph)) is not None}
        self._halves = {
            name: half_name(name)
            for one in chosen
            for place, name in enumerate(one.output)
            if place in self._places[id(one)][1]
        }
        """FP32 tensors by name, and what they are called in FP16."""
        self._made_half = set(self._halves)
        self._new = list[NodeProto]()
        self._singles = set[str]()

    def written(self) -> onnx.ModelProto:
        graph = self._graph
        self._take_image()
        for one in list(graph.nodes):
            places = self._places.get(id(one))
            if places is None:
                for name in one.input:
                    self._need_single(name)
                continue
            self._halve(one, *places)
        for entry in graph.model.graph.output:
            self._need_single(entry.name)
        for name in graph.outputs:
            self._need_single(name)
        graph.replace([], self._new)
        return graph.to_model()

    def _take_image(self) -> None:
        """The image input becomes FP16 where nothing but FP16 reads it."""
        try:
            entry = find_image_input(self._graph.model).entry
        except ModelError:
            return
        readers = self._graph.consumers(entry.name)
        if entry.type.tensor_type.elem_type != TensorProto.FLOAT or entry.name in self._graph.outputs:
            return
        if all(self._reads_as_half(reader, entry.name) for reader in readers):
            entry.type.tensor_type.elem_type = TensorProto.FLOAT16
            self._halves[entry.name] = entry.name

    def _reads_as_half(self, reader: NodeProto, name: str) -> bool:
        places = self._places.get(id(reader))
        return places is not None and all(place in places[0] for place, one in enumerate(reader.input) if one == name)

    def _halve(self, one: NodeProto, inputs: frozenset[int], outputs: frozenset[int]) -> None:
        for place, name in enumerate(one.input):
            if place in inputs:
                one.input[place] = self._half(name)
            elif name:
                self._need_single(name)
        for place in outputs:
            one.output[place] = self._halves[one.output[place]]
        for entry in one.attribute:
            if one.op_type == "Cast" and entry.name == "to":
                entry.i = TensorProto.FLOAT16
            if one.op_type == "ConstantOfShape" and entry.name == "value":
                entry.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(entry.t).astype(np.float16)))

    def _half(self, name: str) -> str:
        """The tensor in FP16: made so, a constant of its own, or cast."""
        if name not in self._halves:
            constant = self._graph.constant(name)
            if constant is not None:
                with np.errstate(under="ignore"):
                    self._halves[name] = self._graph.add_constant(constant.astype(np.float16), like=name)
            else:
                self._halves[name] = self._graph.new_name(name)
                self._new.append(node("Cast", [name], [self._halves[name]], to=TensorProto.FLOAT16))
        return self._halves[name]

    def _need_single(self, name: str) -> None:
        """Somebody reads this tensor in FP32, under its own name."""
        if name in self._made_half and name not in self._singles:
            self._singles.add(name)
            self._new.append(node("Cast", [self._halves[name]], [name], to=TensorProto.FLOAT))


def _places(
    names: Sequence[str], formal: Sequence[onnx.defs.OpSchema.FormalParameter], schema: onnx.defs.OpSchema, graph: Graph
) -> frozenset[int] | None:
    """The places of FP32 tensors that may be FP16; None when one of them may not, or its type is not known."""
    allowed = {entry.type_param_str: entry.allowed_type_strs for entry in schema.type_constraints}
    places = set[int]()
    for place, name in enumerate(names):
        if not name:
            continue
        kind = graph.element_type(name)
        if kind == TensorProto.UNDEFINED:
            return None
        if kind != TensorProto.FLOAT:
            continue
        said = formal[min(place, len(formal) - 1)].type_str
        if said in (_FLOAT,):
            continue
        if _HALF not in allowed.get(said, ()):
            return None
        places.add(place)
    return frozenset(places)


@lru_cache(maxsize=512)
def _schema(operator: str, domain: str, opset: int) -> onnx.defs.OpSchema | None:
    """The definition of an operator of the standard; None for others."""
    if domain not in ("", "ai.onnx") or not onnx.defs.has(operator, opset, ""):
        return None
    return onnx.defs.get_schema(operator, opset, "")
