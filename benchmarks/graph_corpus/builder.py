"""Write ONNX graphs node by node in the words of an operator set, as exporters of that time did. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

Values = npt.NDArray[Any]
Listed = Literal["none", "some", "all"]
_OPTIONS = {"LeakyRelu": {"alpha": 0.1}, "HardSigmoid": {"alpha": 1 / 6, "beta": 0.5}}


@dataclass(frozen=True, slots=True)
class Map:
    """A tensor (1, channels, height, width) by its name."""

    name: str
    channels: int
    height: int
    width: int

    @property
    def pixels(self) -> int:
        """Height times width."""
        return self.height * self.width


class Builder:
    """Writes nodes one after another; each method returns its result. Weights are random, the same at every call.

    `opset` decides where parameters go (attributes or inputs). `listed` says which weights are graph inputs as well, as
    old exporters wrote them (IR version 3). `constants`: write weights as `Constant` nodes, as Paddle's exporter does.
    """

    def __init__(self, opset: int = 13, *, listed: Listed = "none", constants: bool = False) -> None:
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self._listed: Listed = listed
        self._as_nodes = constants
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._random = np.random.default_rng(0)

    def input(self, name: str, shape: Sequence[int | str], kind: int = TensorProto.FLOAT) -> str:
        """A graph input."""
        self._inputs.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def image(self, size: int = 64, *, rows: int = 1) -> Map:
        """The image input (rows, 3, size, size) float32."""
        return Map(self.input("image", (rows, 3, size, size)), 3, size, size)

    def output(self, x: Map | str, *, kind: int = TensorProto.FLOAT) -> None:
        """Make a tensor a graph output of any shape."""
        self._outputs.append(helper.make_tensor_value_info(named(x), kind, None))

    def random(self, *shape: int, size: float = 1.0) -> Values:
        """Random float32 values."""
        return (size * self._random.standard_normal(shape)).astype(np.float32)

    def constant(self, values: Any) -> str:
        """A stored value: Python numbers become int64 or float32."""
        array = np.asarray(values)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        if self._as_nodes:
            return self.add("Constant", value=numpy_helper.from_array(array, "value"))
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: Map | str, **attributes: Any) -> str:
        """A node of one result."""
        return self.add_many(operator, *inputs, count=1, **attributes)[0]

    def add_many(self, operator: str, *inputs: Map | str, count: int, **attributes: Any) -> list[str]:
        """A node of `count` results."""
        results = [f"t{len(self.nodes)}_{place}" if place else f"t{len(self.nodes)}" for place in range(count)]
        self.nodes.append(helper.make_node(operator, [named(one) for one in inputs], results, **attributes))
        return results

    def same(self, operator: str, x: Map, *more: Map | str, **attributes: Any) -> Map:
        """A node whose result has the shape of its first input."""
        return replace(x, name=self.add(operator, x, *more, **{**_OPTIONS.get(operator, {}), **attributes}))

    def conv(
        self,
        x: Map,
        made: int,
        kernel: int = 1,
        *,
        stride: int = 1,
        group: int = 1,
        dilation: int = 1,
        act: str = "Relu",
        bias: bool = True,
    ) -> Map:
        """A convolution that keeps the size (stride 1); `act` is an operator, "silu", "mish", "hardswish" or ""."""
        shape = (made, x.channels // group, kernel, kernel)
        inputs = [x.name, self.constant(self.random(*shape, size=float(np.sqrt(2 / np.prod(shape[1:])))))]
        if bias:
            inputs.append(self.constant(self.random(made, size=0.1)))
        name = self.add(
            "Conv",
            *inputs,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[kernel // 2 * dilation] * 4,
            dilations=[dilation] * 2,
            group=group,
        )
        return self.act(Map(name, made, -(-x.height // stride), -(-x.width // stride)), act)

    def act(self, x: Map, kind: str) -> Map:
        """An activation, as one operator or as the several that exporters make of it."""
        match kind:
            case "":
                return x
            case "silu":
                return self.same("Mul", x, self.same("Sigmoid", x))
            case "mish":
                return self.same("Mul", x, self.same("Tanh", self.same("Softplus", x)))
            case "hardswish":
                shifted = self.same("Add", x, self.constant(3.0))
                return self.same("Div", self.same("Mul", x, self.clip(shifted, 0, 6)), self.constant(6.0))
            case _:
                return self.same(kind, x)

    def normalized(self, x: Map) -> Map:
        """A batch normalisation that was not folded into the convolution."""
        scale, bias, mean, variance = (self.random(x.channels, size=0.2) for _ in range(4))
        values = (1 + scale, bias, mean, 1 + np.abs(variance))
        return self.same("BatchNormalization", x, *map(self.constant, values))

    def clip(self, x: Map, low: float, high: float) -> Map:
        """Values between two bounds."""
        if self.opset < 11:
            return self.same("Clip", x, min=float(low), max=float(high))
        return self.same("Clip", x, self.constant(float(low)), self.constant(float(high)))

    def pool(self, x: Map, kernel: int = 2, *, stride: int = 2, operator: str = "MaxPool") -> Map:
        """A pool of 2 by 2 without a border, or of an odd size with one."""
        pads = [kernel // 2] * 4 if kernel % 2 else [0] * 4
        name = self.add(operator, x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)
        return Map(name, x.channels, -(-x.height // stride), -(-x.width // stride))

    def enlarge(self, x: Map, factor: int = 2, *, mode: str = "nearest", coordinates: str = "asymmetric") -> Map:
        """`factor` times as high and wide."""
        scales = self.constant([1.0, 1.0, float(factor), float(factor)])
        if self.opset < 11:
            name = self.add("Upsample" if self.opset < 10 else "Resize", x, scales, mode=mode)
        else:
            how = {"coordinate_transformation_mode": coordinates, "nearest_mode": "floor"}
            name = self.add("Resize", x, self.no_region(), scales, mode=mode, **how)
        return Map(name, x.channels, factor * x.height, factor * x.width)

    def no_region(self) -> str:
        """The second input of Resize, which is optional since operator set 13."""
        return self.constant(np.zeros(0, np.float32)) if self.opset < 13 else ""

    def concat(self, *maps: Map) -> Map:
        """Maps joined along their channels."""
        name = self.add("Concat", *maps, axis=1)
        return replace(maps[0], name=name, channels=sum(one.channels for one in maps))

    def split(self, x: Map, *channels: int) -> list[Map]:
        """A map taken apart along its channels."""
        if self.opset < 13:
            names = self.add_many("Split", x, count=len(channels), axis=1, split=channels)
        else:
            names = self.add_many("Split", x, self.constant(channels), count=len(channels), axis=1)
        return [replace(x, name=name, channels=count) for name, count in zip(names, channels, strict=True)]

    def slice(
        self, x: Map | str, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], step: int = 1
    ) -> str:
        """A part of a tensor."""
        if self.opset < 10:
            return self.add("Slice", x, starts=starts, ends=ends, axes=axes)
        return self.add("Slice", x, *map(self.constant, (starts, ends, axes, [step] * len(axes))))

    def shape(self, x: Map, start: int, end: int) -> str:
        """Some of the sizes of a tensor."""
        if self.opset < 15:
            return self.slice(self.add("Shape", x), [start], [end], [0])
        return self.add("Shape", x, start=start, end=end)

    def unsqueeze(self, x: Map | str, axis: int) -> str:
        """A new axis."""
        if self.opset < 13:
            return self.add("Unsqueeze", x, axes=[axis])
        return self.add("Unsqueeze", x, self.constant([axis]))

    def mean(self, x: Map | str, axes: Sequence[int]) -> str:
        """Means over axes, which stay with size 1."""
        if self.opset < 18:
            return self.add("ReduceMean", x, axes=axes, keepdims=1)
        return self.add("ReduceMean", x, self.constant(axes), keepdims=1)

    def reshape(self, x: Map | str, *shape: int) -> str:
        """Another shape."""
        return self.add("Reshape", x, self.constant(shape))

    def transpose(self, x: Map | str, *perm: int) -> str:
        """Another order of axes."""
        return self.add("Transpose", x, perm=perm)

    def shuffle(self, x: Map, groups: int = 2) -> Map:
        """Channels of `groups` in turn."""
        apart = self.reshape(x, 1, groups, x.channels // groups, x.height, x.width)
        turned = self.transpose(apart, 0, 2, 1, 3, 4)
        return replace(x, name=self.reshape(turned, 1, x.channels, x.height, x.width))

    def rows(self, x: Map) -> str:
        """(1, C, H, W) as (1, H W, C)."""
        return self.transpose(self.reshape(x, 1, x.channels, x.pixels), 0, 2, 1)

    def linear(self, x: str, given: int, made: int) -> str:
        """A matrix product over the last axis, and a bias."""
        weights = self.constant(self.random(given, made, size=float(np.sqrt(1 / given))))
        return self.add("Add", self.add("MatMul", x, weights), self.constant(self.random(made, size=0.1)))

    def model(self, *, ir_version: int = 8, properties: Mapping[str, str] | None = None) -> onnx.ModelProto:
        """The model of all nodes so far."""
        shown = {"none": [], "some": self.weights[::2], "all": self.weights}[self._listed]
        inputs = [*self._inputs]
        inputs += [helper.make_tensor_value_info(one.name, one.data_type, list(one.dims)) for one in shown]
        graph = helper.make_graph(self.nodes, "network", inputs, self._outputs, initializer=self.weights)
        opset = helper.make_opsetid("", self.opset)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=3 if shown else ir_version)
        helper.set_model_props(model, dict(properties or {}))
        return model


def named(x: Map | str) -> str:
    """The name of a tensor."""
    return x if isinstance(x, str) else x.name
