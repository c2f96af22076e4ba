"""Small networks with explicit `QuantizeLinear` and `DequantizeLinear`, as quantisers write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, helper

from tests.unit.engines.graphs import Size, make_model, random

SCALE = np.float32(0.02)
_ZERO = np.int8(0)


def around(source: str, *, scale: str = "s", zero: str = "z", reader_scale: str | None = None) -> list[NodeProto]:
    """A tensor put into bytes and taken out again, as `<source>_8`."""
    return [
        helper.make_node("QuantizeLinear", [source, scale, zero], [f"{source}_q"]),
        helper.make_node("DequantizeLinear", [f"{source}_q", reader_scale or scale, zero], [f"{source}_8"]),
    ]


def network(
    nodes: Sequence[NodeProto], *, inputs: Mapping[str, Sequence[Size]] | None = None, **constants: npt.NDArray[Any]
) -> onnx.ModelProto:
    """A model of such nodes; `s` and `z` are scale and zero point."""
    known: dict[str, npt.NDArray[Any]] = {"s": np.array(SCALE), "z": np.array(_ZERO), **constants}
    return make_model(nodes, opset=14, constants=known, inputs=dict(inputs or {"x": [1, 3, 24, 32]}))


def weights(*shape: int, seed: int) -> dict[str, npt.NDArray[Any]]:
    """Symmetric bytes with a scale for each output channel, by the names that `Conv` nodes here read."""
    values = random(*shape, seed=seed)
    scale = (np.abs(values).reshape(shape[0], -1).max(axis=1) / 127).astype(np.float32)
    bytes_ = np.round(values / scale.reshape(-1, 1, 1, 1)).astype(np.int8)
    return {f"w{seed}": bytes_, f"w{seed}_s": scale, f"w{seed}_z": np.zeros(shape[0], np.int8)}


def convolution(source: str, made: str, *, seed: int) -> list[NodeProto]:
    """A 3x3 convolution with quantised weights."""
    names = [f"w{seed}", f"w{seed}_s", f"w{seed}_z"]
    return [
        helper.make_node("DequantizeLinear", names, [f"w{seed}_8"], axis=0),
        helper.make_node("Conv", [source, f"w{seed}_8"], [made], pads=[1, 1, 1, 1]),
    ]


def averaged(*, by: str, activation: str = "Identity") -> onnx.ModelProto:
    """A convolution whose bytes are averaged, and a second one: `by` the average's own border, by a `Pad` before it, or
    by `nothing` around it. Bordered, it is what OpenVINO 2026.4 computes wrongly where zero is byte 128.
    """
    own = {"pads": [1, 1, 1, 1]} if by == "border" else {}
    moved = [helper.make_node("Pad", ["b_8", "around"], ["p"])] if by == "Pad" else []
    pooled = "p" if moved else "b_8"
    nodes = [
        *around("x"),
        *convolution("x_8", "a", seed=1),
        helper.make_node(activation, ["a"], ["b"]),
        *around("b", scale="s_made"),
        *moved,
        helper.make_node(
            "AveragePool", [pooled], ["c"], kernel_shape=[3, 3], strides=[2, 2], count_include_pad=1, **own
        ),
        *around("c", scale="s_made"),
        *convolution("c_8", "y", seed=2),
    ]
    constants = {
        **weights(16, 3, 3, 3, seed=1),
        **weights(8, 16, 3, 3, seed=2),
        "around": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "s_made": np.array(np.float32(0.1)),
    }
    return network(nodes, inputs={"x": [1, 3, 24, 32]}, **constants)


def two_branches(*, batch: Size = 1, activation: str = "Relu") -> onnx.ModelProto:
    """A convolution, an activation, a second convolution on half of the channels, both joined, and a third one.

    Behind a pair of bytes of its own for each: what OpenVINO 2026.4 computes wrongly as it is.
    """
    nodes = [
        *around("x"),
        *convolution("x_8", "a", seed=1),
        helper.make_node(activation, ["a"], ["b"]),
        helper.make_node("Split", ["b", "halves"], ["left", "right"], axis=1),
        *around("right", scale="s_right"),
        *convolution("right_8", "c", seed=2),
        helper.make_node(activation, ["c"], ["d"]),
        helper.make_node("Concat", ["left", "right", "d"], ["e"], axis=1),
        *around("e", scale="s_joined"),
        *convolution("e_8", "y", seed=3),
    ]
    constants = {
        **weights(16, 3, 3, 3, seed=1),
        **weights(8, 8, 3, 3, seed=2),
        **weights(6, 24, 3, 3, seed=3),
        "halves": np.array([8, 8]),
        "s_right": np.array(np.float32(0.15)),
        "s_joined": np.array(np.float32(0.9)),
    }
    return network(nodes, inputs={"x": [batch, 3, 24, 32]}, **constants)
