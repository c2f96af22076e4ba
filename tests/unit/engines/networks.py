"""Networks of published architectures in the small, with random weights, as exporters write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, helper, numpy_helper

Values = npt.NDArray[Any]


class Builder:
    """Writes nodes one after another; each method returns the name of its result."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(0)

    def constant(self, values: Values) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        result = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [result], **attributes))
        return result

    def conv(
        self, x: str, given: int, made: int, kernel: int = 1, *, stride: int = 1, group: int = 1, active: bool = True
    ) -> str:
        shape = (made, given // group, kernel, kernel)
        weights = self._random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        bias = 0.1 * self._random.standard_normal(made)
        y = self.add(
            "Conv",
            x,
            self.constant(weights.astype(np.float32)),
            self.constant(bias.astype(np.float32)),
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[kernel // 2] * 4,
            group=group,
        )
        return self.add("LeakyRelu", y, alpha=0.1) if active else y

    def reshape(self, x: str, *shape: int) -> str:
        return self.add("Reshape", x, self.constant(np.array(shape, np.int64)))

    def shuffle(self, x: str, channels: int, size: int) -> str:
        x = self.reshape(x, 1, 2, channels // 2, size, size)
        return self.reshape(self.add("Transpose", x, perm=[0, 2, 1, 3, 4]), 1, channels, size, size)

    def model(
        self,
        *,
        given: Mapping[str, Sequence[int]],
        made: Mapping[str, Sequence[int]],
        opset: int,
        ir_version: int,
        listed: Literal["none", "some", "all"] = "none",
    ) -> onnx.ModelProto:
        """`listed`: which weights are graph inputs as well, as old exporters write them."""
        ports = [
            [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in side.items()]
            for side in (given, made)
        ]
        as_inputs = {"none": [], "some": self.weights[::2], "all": self.weights}[listed]
        ports[0] += [helper.make_tensor_value_info(one.name, one.data_type, list(one.dims)) for one in as_inputs]
        graph = helper.make_graph(self.nodes, "network", *ports, initializer=self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def nanodet(*, listed: Literal["none", "some", "all"] = "some") -> onnx.ModelProto:
    """NanoDet-m as published with ONNX samples: ShuffleNetV2 whose weights may be graph inputs as well (IR version 3),
    a feature pyramid, and six outputs. Input (1, 3, 96, 96).
    """
    build = Builder()
    size, channels = 24, 24
    x = build.conv("input.1", 3, channels, 3, stride=2)
    x = build.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    maps = []
    for made in (32, 48, 64):
        size //= 2
        x, channels = _downsampled(build, x, channels, made, size), made
        for _ in range(2):
            x = _unit(build, x, channels, size)
        maps.append((x, channels, size))
    levels = [build.conv(x, channels, 16) for x, channels, _ in maps]
    for lower in (1, 0):
        scales = build.constant(np.array([1, 1, 2, 2], np.float32))
        levels[lower] = build.add(
            "Add", levels[lower], build.add("Upsample", levels[lower + 1], scales, mode="nearest")
        )
    outputs = {}
    for level, (_, _, size), stride in zip(levels, maps, (8, 16, 32), strict=True):
        x = build.conv(build.conv(level, 16, 16, 3, group=16), 16, 16)
        for name, count in (("cls", 80), ("dis", 32)):
            y = build.conv(x, 16, count, active=False)
            y = build.add("Sigmoid", y) if name == "cls" else y
            y = build.add("Transpose", build.reshape(y, 1, count, size * size), perm=[0, 2, 1])
            outputs[f"{name}_pred_stride_{stride}"] = (1, size * size, count)
            build.nodes[-1].output[0] = f"{name}_pred_stride_{stride}"
    ir_version = 4 if listed == "none" else 3
    return build.model(given={"input.1": (1, 3, 96, 96)}, made=outputs, opset=9, ir_version=ir_version, listed=listed)


def _unit(build: Builder, x: str, channels: int, size: int) -> str:
    half = channels // 2
    kept = build.add("Slice", x, axes=[1], starts=[0], ends=[half])
    y = build.conv(build.add("Slice", x, axes=[1], starts=[half], ends=[channels]), half, half)
    y = build.conv(build.conv(y, half, half, 3, group=half, active=False), half, half)
    return build.shuffle(build.add("Concat", kept, y, axis=1), channels, size)


def _downsampled(build: Builder, x: str, given: int, made: int, size: int) -> str:
    half = made // 2
    one = build.conv(build.conv(x, given, given, 3, stride=2, group=given, active=False), given, half)
    other = build.conv(build.conv(x, given, half), half, half, 3, stride=2, group=half, active=False)
    return build.shuffle(build.add("Concat", one, build.conv(other, half, half), axis=1), made, size)


def permuted(order: tuple[int, ...]) -> onnx.ModelProto:
    """Channels in another order, and two convolutions: "y" of "x" (1, C, 8, 8)."""
    build, count = Builder(), len(order)
    x = build.add("Gather", "x", build.constant(np.array(order, np.int64)), axis=1)
    x = build.conv(x, count, count, 3, group=count)
    build.conv(x, count, 5, active=False)
    build.nodes[-1].output[0] = "y"
    return build.model(given={"x": (1, count, 8, 8)}, made={"y": (1, 5, 8, 8)}, opset=13, ir_version=8)
