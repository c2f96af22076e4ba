"""The input side of a graph: batch 1, a fixed image size, and the form in which images are handed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, ValueInfoProto, helper

from sightline.errors import ModelError
from sightline_plugins.onnx_graph.graph import Graph, attribute, node
from sightline_plugins.preprocess.definition import ImageForm

ONNX_TYPES = {"uint8": TensorProto.UINT8, "float32": TensorProto.FLOAT}


@dataclass(frozen=True, slots=True)
class ImageInput:
    """Where a model takes its image: the graph input and the places of its axes."""

    entry: ValueInfoProto
    channels_axis: int
    channels: int

    @property
    def rows(self) -> int:
        """Images a call; 1 where that is open."""
        return self.entry.type.tensor_type.shape.dim[0].dim_value or 1

    @property
    def height_axis(self) -> int:
        """Axis of the rows; columns follow."""
        return 2 if self.channels_axis == 1 else 1


def find_image_input(model: onnx.ModelProto) -> ImageInput:
    """The first input of rank 4 with 1, 3 or 4 channels, first (NCHW) or last (NHWC)."""
    for entry in model.graph.input:
        sizes = entry.type.tensor_type.shape.dim
        for axis in (1, 3):
            if len(sizes) == 4 and sizes[axis].dim_value in (1, 3, 4):
                return ImageInput(entry=entry, channels_axis=axis, channels=sizes[axis].dim_value)
    found = "; ".join(describe(entry) for entry in model.graph.input)
    raise ModelError(f"no input takes an image (1 x channels x height x width, 1, 3 or 4 channels); found {found}")


def describe(entry: ValueInfoProto) -> str:
    """Name, type and shape of a graph input, for messages."""
    kind = entry.type.tensor_type
    sizes = ", ".join(str(size.dim_value or size.dim_param or "?") for size in kind.shape.dim)
    return f"{entry.name} {TensorProto.DataType.Name(kind.elem_type).lower()} ({sizes})"


def fix_batch(model: onnx.ModelProto) -> None:
    """Dynamic batch dimensions of the inputs become 1; symbolic sizes of the outputs are left to inference."""
    for entry in model.graph.input:
        sizes = entry.type.tensor_type.shape.dim
        if len(sizes) > 1 and not sizes[0].HasField("dim_value"):
            sizes[0].dim_value = 1
    _forget_symbols(model)


def fix_size(model: onnx.ModelProto, size_wh: tuple[int, int]) -> None:
    """Sets height and width of the image input; a model of another fixed size is refused."""
    image = find_image_input(model)
    sizes = image.entry.type.tensor_type.shape.dim
    for axis, wanted in zip((image.height_axis, image.height_axis + 1), size_wh[::-1], strict=True):
        if sizes[axis].HasField("dim_value") and sizes[axis].dim_value != wanted:
            raise ModelError(
                f"takes images of one size only ({describe(image.entry)}), {size_wh[0]}x{size_wh[1]} asked for"
            )
        sizes[axis].dim_value = wanted
    _forget_symbols(model)


def take_image(model: onnx.ModelProto, form: ImageForm) -> onnx.ModelProto:
    """`model` with an input that takes images in `form`: layout, conversion and normalisation join the graph."""
    graph = Graph(model)
    image = find_image_input(model)
    for values in (form.mean, form.scale):
        if len(values) not in (1, image.channels):
            raise ModelError(f"mean and scale take one value or {image.channels}, one a channel; {len(values)} given")
    scale = _fold_scale(graph, image, form)
    _insert(graph, image, form, scale)
    return graph.to_model()


def _forget_symbols(model: onnx.ModelProto) -> None:
    del model.graph.value_info[:]
    for entry in model.graph.output:
        for size in entry.type.tensor_type.shape.dim:
            if not size.HasField("dim_value"):
                size.Clear()


def _fold_scale(graph: Graph, image: ImageInput, form: ImageForm) -> tuple[float, ...]:
    """Scales the weights of the first convolution where nothing is subtracted; what remains to be done."""
    conv = graph.only_consumer(image.entry.name)
    if any(form.mean) or conv is None or conv.op_type != "Conv" or image.channels_axis != 1:
        return form.scale
    weights = graph.constant(conv.input[1])
    if weights is None or weights.dtype != np.float32 or attribute(conv, "group", 1) != 1:
        return form.scale
    factors = np.broadcast_to(np.array(form.scale), image.channels).reshape(1, -1, *[1] * (weights.ndim - 2))
    conv.input[1] = graph.add_constant((weights * factors).astype(np.float32), like=conv.input[1])
    return (1.0,)


def _insert(graph: Graph, image: ImageInput, form: ImageForm, scale: tuple[float, ...]) -> None:
    """Puts image -> float -> normalised -> layout of the model in front of the old input."""
    name, kind = image.entry.name, image.entry.type.tensor_type
    sizes = [size.dim_value for size in kind.shape.dim]
    axis = 3 if form.layout == "nhwc" else 1
    order = np.insert([0, image.height_axis, image.height_axis + 1], axis, image.channels_axis)
    shape = [sizes[place] for place in order]
    old = graph.new_name(name)
    graph.rename(name, old)
    chain = _Chain(graph, name)
    _normalize(chain, shape, form, scale, as_levels=kind.elem_type == TensorProto.UINT8)
    chain.add("Transpose", perm=np.argsort(order).tolist())
    chain.add("Cast", to=kind.elem_type)
    chain.nodes[-1].output[0] = old
    image.entry.CopyFrom(helper.make_tensor_value_info(name, ONNX_TYPES[form.dtype], [n or None for n in shape]))
    graph.replace([], chain.nodes)


def _normalize(chain: _Chain, shape: list[int], form: ImageForm, scale: tuple[float, ...], *, as_levels: bool) -> None:
    """`(image - mean) * scale` in float32, or the bytes `as_levels` where there is nothing to compute.

    Images in NHWC are handled as rows of W x C values: kernels then run over long vectors, and OpenVINO does not
    move the layout change in front of the conversion, where it costs three times as much.
    """
    if as_levels and form.dtype == "uint8" and not any(form.mean) and set(scale) == {1.0}:
        return
    nhwc = form.layout == "nhwc"
    rows = nhwc and all(shape)
    if rows:
        chain.reshape([*shape[:2], shape[2] * shape[3]])
    if form.dtype == "uint8":
        chain.add("Cast", to=TensorProto.FLOAT)
    for operator, values, neutral in (("Sub", form.mean, 0.0), ("Mul", scale, 1.0)):
        if set(values) == {neutral}:
            continue
        constant = np.array(values, np.float32)
        if len(set(values)) == 1:
            constant = constant[0]
        else:
            constant = np.tile(constant, shape[2]) if rows else constant if nhwc else constant[:, None, None]
        chain.add(operator, chain.graph.add_constant(constant, like=chain.last))
    if rows:
        chain.reshape(shape)


class _Chain:
    """Nodes one behind the other, starting from a tensor."""

    def __init__(self, graph: Graph, start: str) -> None:
        self.graph = graph
        self.start = self.last = start
        self.nodes: list[NodeProto] = []

    def add(self, operator: str, *more: str, **attributes: int | Sequence[int]) -> None:
        result = self.graph.new_name(self.start)
        self.nodes.append(node(operator, [self.last, *more], [result], **attributes))
        self.last = result

    def reshape(self, shape: list[int]) -> None:
        self.add("Reshape", self.graph.add_constant(np.array(shape, np.int64), like=self.start))
