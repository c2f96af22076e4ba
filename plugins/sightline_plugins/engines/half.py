"""Convert a model to half precision where its outputs allow it.

Behind its last convolutions a network decodes boxes and scores. That costs next to nothing, and FP16 would spoil it:
between 512 and 1024 its numbers are half a pixel apart. FP32 stay also operators whose values come near the largest
number of FP16 (65504) on images tried on the CPU, those that sum squares inside, and those that ONNX does not have
in FP16. The image input becomes FP16, all other inputs and all outputs stay as they are.

ONNX Runtime's own converter (`onnxruntime.transformers.float16`) rounds to FP16 between any two operators that stay
FP32, so that the decoding of boxes is not exact with it; that is why this one exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import NodeProto, TensorProto

from sightline.errors import ModelError
from sightline_plugins.engines.protocol import Array
from sightline_plugins.engines.rebatching import Compute, batch_of, random_feeds
from sightline_plugins.onnx_graph.constants import store_constants
from sightline_plugins.onnx_graph.graph import LEARNED, Graph, node
from sightline_plugins.onnx_graph.half import half_name, halved_places, with_rounding, write_half
from sightline_plugins.onnx_graph.inputs import find_image_input

_BLOCKS = 12


def sample_feeds(model: onnx.ModelProto, *, input_range: tuple[float, float]) -> list[dict[str, Array]]:
    """Inputs for a few calls: coloured blocks, a gradient, noise, and bright blocks, from a fixed seed."""
    generator = np.random.default_rng(0)
    rows = batch_of(model) or 1
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for entry in fixed.graph.input:
        sizes = entry.type.tensor_type.shape.dim
        if sizes and not sizes[0].HasField("dim_value"):
            sizes[0].dim_value = rows
    others = random_feeds(fixed, rows=rows, old=rows)
    try:
        image_input = find_image_input(fixed)
    except ModelError:
        return [others]
    low, high = input_range
    shape, dtype = others[image_input.entry.name].shape, others[image_input.entry.name].dtype
    images = _images(shape[image_input.height_axis : image_input.height_axis + 2], image_input.channels, generator)
    feeds = []
    for image in images:
        placed = image if image_input.channels_axis == 3 else np.moveaxis(image, -1, 0)
        levels = np.broadcast_to(low + (high - low) * placed, shape).astype(dtype)
        feeds.append({**others, image_input.entry.name: np.ascontiguousarray(levels)})
    return feeds


def outcomes(
    model: onnx.ModelProto,
    names: Sequence[str],
    feeds: Sequence[Mapping[str, Array]],
    *,
    compute: Compute,
    as_largest: bool = False,
) -> dict[str, list[Array]]:
    """The values of these tensors in each call; with `as_largest` only their largest magnitude."""
    if not names:
        return {}
    asked = onnx.ModelProto()
    asked.CopyFrom(model)
    del asked.graph.output[:]
    for name in names:
        given = name
        if as_largest:
            given = f"{name}~largest"
            magnitude = node("Abs", [name], [f"{name}~magnitude"])
            asked.graph.node.extend([magnitude, node("ReduceMax", [magnitude.output[0]], [given], keepdims=0)])
        asked.graph.output.append(onnx.ValueInfoProto(name=given))
    given_values = compute(asked, feeds)
    return {name: [values[place] for values in given_values] for place, name in enumerate(names)}


def _images(size_hw: tuple[int, ...], channels: int, generator: np.random.Generator) -> list[Array]:
    """Images of 0..1, (height, width, channels)."""
    height, width = size_hw
    blocks = generator.random((_BLOCKS, _BLOCKS, channels))
    rows = np.arange(height) * _BLOCKS // height
    columns = np.arange(width) * _BLOCKS // width
    gradient = np.add.outer(np.linspace(0, 0.5, height), np.linspace(0, 0.5, width))
    return [
        blocks[rows][:, columns],
        np.repeat(gradient[..., None], channels, axis=2),
        generator.random((height, width, channels)),
        1 - 0.1 * blocks[::-1][rows][:, columns],
    ]


LARGEST_VALUE = 16384.0
"""A quarter of what FP16 holds: images that were not tried may give larger values."""
_FEWEST_WEIGHTS = 64
"""Operators with fewer weights are arithmetic that was exported as a convolution, such as the mean of YOLO's DFL."""
_SUM_SQUARES = frozenset(
    {
        "GroupNormalization",
        "InstanceNormalization",
        "LayerNormalization",
        "LpNormalization",
        "ReduceL2",
        "ReduceSumSquare",
        "RMSNormalization",
    }
)
_MEAN_ERROR = 0.02
"""How far outputs may be off on average, as a part of their largest value."""


def to_half(model: onnx.ModelProto, *, compute: Compute, input_range: tuple[float, float]) -> onnx.ModelProto:
    """The model in FP16, which gives nearly the same; one in FP16 already as it is. `model` is not changed.

    Raises ModelError where nothing can be FP16, or the outputs are not nearly the same.
    """
    graph = _graph_of(model)
    learned = [one for one in graph.nodes if _is_learned(one, graph)]
    if any(graph.element_type(one.output[0]) == TensorProto.FLOAT16 for one in learned):
        return model
    feeds = sample_feeds(model, input_range=input_range)
    chosen = _chosen(graph, learned, _largest(model, graph, feeds, compute))
    if not chosen:
        raise ModelError("nothing of it can be computed in FP16: use precision: fp32")
    halved = write_half(graph, chosen)
    onnx.checker.check_model(halved)
    _compare(model, halved, feeds, compute)
    return halved


def _graph_of(model: onnx.ModelProto) -> Graph:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = Graph(copy)
    store_constants(graph)
    graph.refresh()
    return graph


def _is_learned(one: NodeProto, graph: Graph) -> bool:
    if one.op_type not in LEARNED:
        return False
    weights = [graph.constant(name) for name in one.input[:2]]
    counts = [weight.size for weight in weights if weight is not None]
    return not counts or max(counts) >= _FEWEST_WEIGHTS


def _largest(
    model: onnx.ModelProto, graph: Graph, feeds: Sequence[Mapping[str, Array]], compute: Compute
) -> Mapping[str, float]:
    """The largest magnitude of every FP32 tensor that is computed, over the images that are tried."""
    known = {name for one in model.graph.node for name in one.output}
    names = [
        name
        for one in graph.nodes
        for name in one.output
        if name in known and graph.element_type(name) == TensorProto.FLOAT
    ]
    found = outcomes(model, names, feeds, compute=compute, as_largest=True)
    return {name: max(float(np.max(value)) for value in values) for name, values in found.items()}


def _chosen(graph: Graph, learned: Sequence[NodeProto], largest: Mapping[str, float]) -> list[NodeProto]:
    """The nodes to compute in FP16, in order."""
    leading = _leading_to(graph, learned)
    return [
        one
        for one in graph.nodes
        if id(one) in leading
        and one.op_type not in _SUM_SQUARES
        and halved_places(one, graph) is not None
        and all(_fits(name, graph, largest) for name in (*one.input, *one.output))
    ]


def _leading_to(graph: Graph, learned: Sequence[NodeProto]) -> set[int]:
    """The nodes from which a learned operator can be reached, with these themselves."""
    found, waiting = set[int](), list(learned)
    while waiting:
        one = waiting.pop()
        if id(one) in found:
            continue
        found.add(id(one))
        waiting.extend(made for name in one.input if (made := graph.producer(name)) is not None)
    return found


def _fits(name: str, graph: Graph, largest: Mapping[str, float]) -> bool:
    constant = graph.constant(name)
    if constant is not None and constant.dtype == np.float32:
        finite = np.abs(constant[np.isfinite(constant)])
        return bool(finite.max(initial=0) <= np.finfo(np.float16).max)
    value = largest.get(name, 0.0)
    return bool(value <= LARGEST_VALUE)


def _compare(
    model: onnx.ModelProto, halved: onnx.ModelProto, feeds: Sequence[Mapping[str, Array]], compute: Compute
) -> None:
    """Raise ModelError where the outputs differ much, or what an operator that picks or sorts is given."""
    kept = {name for one in halved.graph.node for name in one.output}
    names = {name: name if name in kept else half_name(name) for name in _comparable(model)}
    names = {name: other for name, other in names.items() if other in kept}
    expected = outcomes(model, list(names), feeds, compute=compute)
    halves = [_as_half(one, halved) for one in feeds]
    found = outcomes(with_rounding(halved), list(names.values()), halves, compute=compute)
    for name, halved_name in names.items():
        for one, other in zip(found[halved_name], expected[name], strict=True):
            error = _mean_error(one.astype(np.float64), other.astype(np.float64))
            if not error <= _MEAN_ERROR:
                raise ModelError(
                    f"in FP16 its tensor {name!r} is off by {100 * error:.1f} % of its largest value on average, "
                    f"{100 * _MEAN_ERROR:g} % are allowed: use precision: fp32"
                )


def _comparable(model: onnx.ModelProto) -> list[str]:
    """Return the outputs; for those behind an operator that sorts or picks, return its inputs instead."""
    graph = _graph_of(model)
    picking = {"TopK", "NonMaxSuppression", "ArgMax", "ArgMin", "Unique", "NonZero", "GatherND", "ScatterND"}
    behind, names = set[str](), list[str]()
    for one in graph.nodes:
        if behind.intersection(one.input):
            behind.update(one.output)
        elif one.op_type in picking:
            names.append(one.input[0])
            behind.update(one.output)
    names.extend(entry.name for entry in model.graph.output if entry.name not in behind)
    types = (TensorProto.FLOAT, TensorProto.FLOAT16)
    return [name for name in dict.fromkeys(names) if graph.element_type(name) in types]


def _as_half(feeds: Mapping[str, Array], model: onnx.ModelProto) -> dict[str, Array]:
    halves = {entry.name for entry in model.graph.input if entry.type.tensor_type.elem_type == TensorProto.FLOAT16}
    return {name: value.astype(np.float16) if name in halves else value for name, value in feeds.items()}


def _mean_error(one: Array, other: Array) -> float:
    """The mean difference as a part of the largest value; not a number where one is infinite and the other is not."""
    if one.shape != other.shape or not one.size:
        return 0.0 if one.shape == other.shape else float("nan")
    largest = float(np.abs(other).max()) or 1.0
    return float(np.abs(one - other).mean()) / largest
