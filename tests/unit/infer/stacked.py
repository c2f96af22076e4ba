"""A network that looks at several images and outputs how bright each channel of each is."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper

from tests.unit.infer.tiny import save

SIDE = 16
SHAPES: dict[str, list[int | str]] = {
    "cthw": [1, 3, 4, SIDE, SIDE],
    "tchw": [1, 4, 3, SIDE, SIDE],
    "thwc": [1, 4, SIDE, SIDE, 3],
}


def write_stacked(
    path: Path, *, order: str = "cthw", frames: int | str = 4, batch: int | str = 1, element: int = TensorProto.FLOAT
) -> Path:
    """A model whose output (1, frames, 3) holds the mean of each channel of each image."""
    shape = [batch, *(frames if axis == "t" else size for axis, size in zip(order, SHAPES[order][1:], strict=True))]
    order_in_file = [0, *(1 + order.index(axis) for axis in "tchw")]
    nodes = [
        helper.make_node("Transpose", ["clip"], ["sorted"], perm=order_in_file),
        helper.make_node("ReduceMean", ["sorted"], ["means"], axes=[3, 4], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "stacked",
        [helper.make_tensor_value_info("clip", element, shape)],
        [helper.make_tensor_value_info("means", element, [batch, frames, 3])],
    )
    return save(graph, path)


def write_two_inputs(path: Path) -> Path:
    """A model that takes two stacks."""
    nodes: list[onnx.NodeProto] = [helper.make_node("Add", ["slow", "fast"], ["sum"])]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPES["cthw"]) for name in ("slow", "fast")]
    outputs = [helper.make_tensor_value_info("sum", TensorProto.FLOAT, SHAPES["cthw"])]
    return save(helper.make_graph(nodes, "two", inputs, outputs), path)
