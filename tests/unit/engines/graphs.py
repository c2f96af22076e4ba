"""Small ONNX models made on the spot, and ONNX Runtime without any optimisation as their reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from onnx import NodeProto, TensorProto, helper, numpy_helper

Floats = npt.NDArray[np.float32]
Size = int | str


def random(*shape: int, seed: int = 7) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def make_model(
    nodes: Sequence[NodeProto],
    *,
    constants: Mapping[str, npt.NDArray[Any]],
    inputs: dict[str, Sequence[Size]],
    outputs: Sequence[str] = ("y",),
    opset: int = 13,
) -> onnx.ModelProto:
    """A model of `nodes`; inputs and outputs are float32."""
    graph = helper.make_graph(
        list(nodes),
        "small",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.array(array, order="C"), name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    helper.set_model_props(model, {"task": "detect"})
    inferred: onnx.ModelProto = onnx.shape_inference.infer_shapes(model, data_prop=True)
    del inferred.graph.value_info[:]
    return inferred


def small_network(*, batch: Size = 1, size_wh: tuple[Size, Size] = (32, 24)) -> onnx.ModelProto:
    """Two convolutions of an image (NCHW): "y" (1, 6, H, W)."""
    constants = {"w1": random(8, 3, 3, 3, seed=1), "b1": random(8, seed=2), "w2": random(6, 8, 1, 1, seed=3)}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["y"]),
    ]
    return make_model(nodes, constants=constants, inputs={"x": [batch, 3, size_wh[1], size_wh[0]]})


def compute(model: onnx.ModelProto, **inputs: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """What ONNX Runtime computes from the graph exactly as it is."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs: list[npt.NDArray[Any]] = session.run(None, inputs)
    return outputs
