"""A detector small enough to know every box of: bright blocks become boxes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

CELLS = 8
SIDE = 32
HALF_A_CELL = 0.5493061443340549
"""What `tanh` makes 0.5 of: the centre of a box is the centre of its cell."""
LABELS = ("yellow", "pink")


def write_detector(
    path: Path,
    *,
    metadata: Mapping[str, str] | None = None,
    offset: float = HALF_A_CELL,
    rows: int | str = 1,
) -> Path:
    """A model with FastestDet's outputs for an RGB input of 32 x 32, divided by 255.

    Each of its 8 x 8 cells is a box of the cell's own size: as sure as the cell is red; `yellow` as far as it is
    green, `pink` as far as it is blue. `offset` is the raw offset of the centres, `rows` how many images it takes (a
    name: any number).
    """
    size = np.full((1, 2, CELLS, CELLS), np.log((1 / CELLS) / (1 - 1 / CELLS)), np.float32)
    shape = np.concatenate([np.full((1, 2, CELLS, CELLS), offset, np.float32), size], axis=1)
    nodes = [
        helper.make_node("AveragePool", ["images"], ["mean"], kernel_shape=[4, 4], strides=[4, 4]),
        helper.make_node("Split", ["mean", "parts"], ["red", "others"], axis=1),
        helper.make_node("Sub", ["red", "red"], ["nothing"]),
        helper.make_node("Add", ["nothing", "shape"], ["shapes"]),
        helper.make_node("Concat", ["red", "shapes", "others"], ["map"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [rows, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("map", TensorProto.FLOAT, [rows, 7, CELLS, CELLS])],
        [numpy_helper.from_array(shape, "shape"), numpy_helper.from_array(np.array([1, 2]), "parts")],
    )
    return save(graph, path, metadata=metadata)


def write_sized_detector(path: Path) -> Path:
    """A model that also takes the image's size and finds one object as large as that, as DETR-like exports do."""
    nodes = [
        helper.make_node("Cast", ["sizes"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Concat", ["corner", "wide"], ["flat"], axis=1),
        helper.make_node("Reshape", ["flat", "box_shape"], ["boxes"]),
        helper.make_node("ReduceMax", ["images"], ["brightest"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Reshape", ["brightest", "column"], ["scores"]),
        helper.make_node("Identity", ["one"], ["labels"]),
    ]
    constants = {
        "corner": np.zeros((1, 2), np.float32),
        "box_shape": np.array([1, 1, 4]),
        "column": np.array([1, 1]),
        "one": np.ones((1, 1), np.int64),
    }
    graph = helper.make_graph(
        nodes,
        "sized",
        [
            helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE]),
            helper.make_tensor_value_info("sizes", TensorProto.INT64, [1, 2]),
        ],
        [
            helper.make_tensor_value_info("labels", TensorProto.INT64, [1, 1]),
            helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [1, 1, 4]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 1]),
        ],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return save(graph, path)


def write_shapes(path: Path, *, inputs: Mapping[str, list[int | str]], outputs: Mapping[str, list[int | str]]) -> Path:
    """A model that only has the right shapes: each output is made of zeros (symbolic sizes are 1)."""
    constants = [
        numpy_helper.from_array(np.zeros([n if isinstance(n, int) else 1 for n in shape], np.float32), f"{name}_zero")
        for name, shape in outputs.items()
    ]
    graph = helper.make_graph(
        [helper.make_node("Identity", [f"{name}_zero"], [name]) for name in outputs],
        "shapes",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        constants,
    )
    return save(graph, path)


def save(graph: onnx.GraphProto, path: Path, *, metadata: Mapping[str, str] | None = None) -> Path:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    helper.set_model_props(model, dict(metadata or {}))
    onnx.save(model, str(path))
    return path


def image(*blocks: tuple[int, int, str], size_wh: tuple[int, int] = (64, 64)) -> npt.NDArray[np.uint8]:
    """A black RGB image with cells (column, row) of the network painted yellow or pink."""
    width, height = size_wh
    rgb = np.zeros((height, width, 3), np.uint8)
    across, down = width // CELLS, height // CELLS
    for column, row, color in blocks:
        cell = rgb[row * down : (row + 1) * down, column * across : (column + 1) * across]
        cell[:] = (255, 255, 0) if color == "yellow" else (255, 0, 255)
    return rgb
