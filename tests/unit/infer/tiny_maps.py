"""Networks that give maps small enough to know every cell of: their scores are the levels of red, green and blue."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.unit.infer.tiny import save

CELLS = 8
SIDE = 32
CLASSES = ("background", "red", "green", "blue")
PLAIN = {"fit": "stretch", "mean": 0, "scale": 255}
"""Pre-processing under which the networks see levels from 0 to 1."""

Form = Literal["nchw", "nhwc", "softmax", "classes", "single", "log"]
_SHAPES: dict[Form, list[int]] = {
    "nchw": [1, 4, CELLS, CELLS],
    "nhwc": [1, CELLS, CELLS, 4],
    "softmax": [1, 4, CELLS, CELLS],
    "classes": [1, CELLS, CELLS],
    "single": [1, 1, CELLS, CELLS],
    "log": [1, 4, CELLS, CELLS],
}


def write_class_map(path: Path, *, form: Form = "nchw") -> Path:
    """A map of 8 x 8 cells of an RGB input of 32 x 32: ten times the levels, and 4 for the background.

    `nhwc` has the classes last, `softmax` gives probabilities, `classes` the number of the winning class, `single` red
    against the rest (above 0 where it is brighter than half), `log` logarithms: minus infinity where it is black.
    """
    output_ops = {
        "nchw": [helper.make_node("Identity", ["scores"], ["map"])],
        "nhwc": [helper.make_node("Transpose", ["scores"], ["map"], perm=[0, 2, 3, 1])],
        "softmax": [helper.make_node("Softmax", ["scores"], ["map"], axis=1)],
        "classes": [helper.make_node("ArgMax", ["scores"], ["map"], axis=1, keepdims=0)],
        "single": [
            helper.make_node("Split", ["cells", "parts"], ["red", "others"], axis=1),
            helper.make_node("Sub", ["red", "half"], ["map"]),
        ],
        "log": [helper.make_node("Log", ["scores"], ["map"])],
    }
    floor = np.full((1, 1, CELLS, CELLS), 4, np.float32)
    nodes = [
        helper.make_node("AveragePool", ["images"], ["cells"], kernel_shape=[4, 4], strides=[4, 4]),
        helper.make_node("Mul", ["cells", "ten"], ["sharp"]),
        helper.make_node("Concat", ["floor", "sharp"], ["scores"], axis=1),
        *output_ops[form],
    ]
    constants = {
        "ten": np.array([10], np.float32),
        "floor": floor,
        "half": np.array([0.5], np.float32),
        "parts": np.array([1, 2]),
    }
    kind = TensorProto.INT64 if form == "classes" else TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "class_map",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("map", kind, _SHAPES[form])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return save(graph, path)


def write_heatmaps(path: Path) -> Path:
    """Three keypoints: the brightest cells of red, green and blue, as maps (1, 3, 8, 8)."""
    graph = helper.make_graph(
        [helper.make_node("AveragePool", ["images"], ["maps"], kernel_shape=[4, 4], strides=[4, 4])],
        "heatmaps",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("maps", TensorProto.FLOAT, [1, 3, CELLS, CELLS])],
    )
    return save(graph, path)


def write_simcc(path: Path) -> Path:
    """Three keypoints: the brightest columns and rows of red, green and blue, as two outputs (1, 3, 32)."""
    nodes = [
        helper.make_node("ReduceMax", ["images"], ["simcc_x"], axes=[2], keepdims=0),
        helper.make_node("ReduceMax", ["images"], ["simcc_y"], axes=[3], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "simcc",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, SIDE]) for name in ("simcc_x", "simcc_y")],
    )
    return save(graph, path)


def painted(
    *blocks: tuple[tuple[int, int, int, int], tuple[int, int, int]], size_wh: tuple[int, int] = (64, 64)
) -> npt.NDArray[np.uint8]:
    """A black RGB image with boxes (left, top, right, bottom) painted in colors."""
    width, height = size_wh
    rgb = np.zeros((height, width, 3), np.uint8)
    for (left, top, right, bottom), color in blocks:
        rgb[top:bottom, left:right] = color
    return rgb


def write_instances(path: Path, *, values: npt.NDArray[np.float32], prototypes: npt.NDArray[np.float32]) -> Path:
    """A YOLOv8 segmentation model that always gives these: (1, 4 + classes + masks, 84) and (1, masks, 16, 16).

    Its input is 64 x 64. Where a pixel is as bright as can be, no prototype is a number.
    """
    nodes = [
        helper.make_node("ReduceMax", ["images"], ["brightest"], axes=[1, 2, 3], keepdims=1),
        helper.make_node("Sub", ["one", "brightest"], ["darkness"]),
        helper.make_node("Div", ["darkness", "darkness"], ["unit"]),
        helper.make_node("Identity", ["values"], ["output0"]),
        helper.make_node("Mul", ["prototypes", "unit"], ["output1"]),
    ]
    constants = {"values": values, "prototypes": prototypes, "one": np.ones((1, 1, 1, 1), np.float32)}
    return _save_constant(path, nodes, constants, {"output0": list(values.shape), "output1": list(prototypes.shape)})


def write_posed_boxes(path: Path, *, values: npt.NDArray[np.float32]) -> Path:
    """A YOLOv8 pose model that always gives these: (1, 4 + 1 + keypoints * 3, 84). Its input is 64 x 64."""
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["brightness"], axes=[1, 2], keepdims=0),
        helper.make_node("ReduceMean", ["brightness"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
        helper.make_node("Add", ["values", "nothing"], ["output0"]),
    ]
    constants = {"values": values, "zero": np.zeros(1, np.float32)}
    return _save_constant(path, nodes, constants, {"output0": list(values.shape)})


def _save_constant(
    path: Path,
    nodes: list[onnx.NodeProto],
    constants: dict[str, npt.NDArray[np.float32]],
    outputs: dict[str, list[int]],
) -> Path:
    graph = helper.make_graph(
        nodes,
        "constant",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, 64, 64])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return save(graph, path)


def write_known_map(path: Path, values: npt.NDArray[np.float32]) -> Path:
    """A map of these values, whatever the RGB image of 32 x 32 shows."""
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["images"], ["mean"], keepdims=0),
            helper.make_node("Mul", ["mean", "nothing"], ["zero"]),
            helper.make_node("Add", ["values", "zero"], ["map"]),
        ],
        "known_map",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("map", TensorProto.FLOAT, values.shape)],
        [numpy_helper.from_array(values, "values"), numpy_helper.from_array(np.zeros(1, np.float32), "nothing")],
    )
    return save(graph, path)
