"""What the CPU computes of a model in FP16 is rounded as a GPU rounds it."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from sightline_plugins.engines.cuda_model import Reference
from sightline_plugins.onnx_graph.half import with_rounding


def test_every_result_has_the_bits_of_fp16_and_no_more() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Mul", ["h", "h"], ["m"]),
        helper.make_node("Add", ["m", "h"], ["s"]),
        helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4000]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:])
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    values = np.random.default_rng(4).uniform(-50, 50, 4000).astype(np.float32)
    halves = values.astype(np.float16)

    [[found]] = Reference(concurrency=1).compute(with_rounding(model), [{"x": values}])

    np.testing.assert_array_equal(found, (halves * halves + halves).astype(np.float32))
