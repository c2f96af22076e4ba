"""Models in FP16 computed on the CPU as a GPU rounds them.

ONNX Runtime computes most operators in FP32 there, and leaves out the casts to FP16 between one and the next. So each
result is rounded by arithmetic of FP32 (Dekker, "A floating-point technique for extending the available precision",
1971): with c = 2**13 + 1, c * x - (c * x - x) is x with the 11 bits that FP16 keeps.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import NodeProto, TensorProto

from sightline_plugins.engines.simplify.graph import Graph, node

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
