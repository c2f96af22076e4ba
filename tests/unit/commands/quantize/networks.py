"""Networks with everything that decides where a graph is quantised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper
from tests.unit.engines.graphs import Size, make_model, random

from sightline_plugins.commands.quantize.source_model import SourceModel, read_source


def detector_like(*, batch: Size = "batch", opset: int = 13) -> onnx.ModelProto:
    """Convolutions with a depthwise one and a join between them, then decoding of what the last one gives."""
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], name="stem", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Conv", ["b", "w2"], ["c"], name="each", group=8, pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["d"], name="relu2"),
        helper.make_node("Concat", ["b", "d"], ["e"], name="join", axis=1),
        helper.make_node("Conv", ["e", "w3"], ["f"], name="head"),
        helper.make_node("Sigmoid", ["f"], ["g"], name="sure"),
        helper.make_node("Concat", ["f", "g"], ["h"], name="decoded", axis=1),
        helper.make_node("Mul", ["h", "stride"], ["y"], name="scaled"),
    ]
    constants: dict[str, npt.NDArray[Any]] = {
        "w1": random(8, 3, 3, 3, seed=1),
        "b1": random(8, seed=2),
        "w2": random(8, 1, 3, 3, seed=3),
        "w3": random(6, 16, 1, 1, seed=4),
        "stride": np.array(np.float32(8)),
    }
    return make_model(nodes, constants=constants, inputs={"x": [batch, 3, 24, 32]}, opset=opset)


def source(folder: Path, model: onnx.ModelProto | None = None) -> SourceModel:
    """A network as the quantiser gets it."""
    onnx.save(detector_like() if model is None else model, folder / "model.onnx")
    return read_source(folder / "model.onnx", folder=folder)
