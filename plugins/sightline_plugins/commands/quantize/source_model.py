"""The model to quantize, and the nodes in it that are quantised.

Nodes after the last of them (decoding of boxes, probabilities) stay in float32: that costs nothing, and pixels and
probabilities in one tensor have no common scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime as ort
from onnx import NodeProto, TensorProto

from sightline.errors import ModelError
from sightline_plugins.engines.model_file import metadata_of, read_model
from sightline_plugins.engines.onnxruntime import FAILURES, FATAL_ONLY, ON_CPU
from sightline_plugins.onnx_graph.constants import is_quantized
from sightline_plugins.onnx_graph.graph import LEARNED
from sightline_plugins.onnx_graph.inputs import find_image_input

MOVING = frozenset({"Add", "AveragePool", "Concat", "GlobalAveragePool", "MaxPool", "Resize", "Slice", "Split"})
_ACTIVATIONS = frozenset(
    {
        *("Clip", "Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mul", "PRelu", "Relu", "Sigmoid", "Tanh"),
        *("BatchNormalization", "Identity", "Reshape", "Transpose"),
    }
)
"""Operators that stay as they are between nodes that are quantised."""


@dataclass(frozen=True, slots=True)
class Places:
    """Names of nodes: `learned` with weights, `moving` between these, and the learned ones that are sensitive."""

    learned: tuple[str, ...]
    moving: tuple[str, ...]
    first: tuple[str, ...]
    last: tuple[str, ...]
    depthwise: tuple[str, ...]


def find_places(model: onnx.ModelProto) -> Places:
    """Return the places of a graph whose nodes all have names."""
    walk = _Walk(model.graph)
    learned = [node for node in model.graph.node if walk.is_learned(node)]
    names = {node.name for node in learned}
    moving = [
        node.name
        for node in model.graph.node
        if node.op_type in MOVING and walk.comes_from(node, names) and walk.leads_to(node, names)
    ]
    return Places(
        learned=tuple(node.name for node in learned),
        moving=tuple(moving),
        first=tuple(node.name for node in learned if walk.is_first(node)),
        last=tuple(node.name for node in learned if not walk.reaches(node, names)),
        depthwise=tuple(node.name for node in learned if walk.is_depthwise(node)),
    )


def name_nodes(model: onnx.ModelProto) -> None:
    """Give every node a unique name."""
    taken = set[str]()
    for number, node in enumerate(model.graph.node):
        if not node.name or node.name in taken:
            node.name = f"{node.op_type}_{number}"
        taken.add(node.name)


class _Walk:
    """Follows the edges of a graph."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._makers = {name: node for node in graph.node for name in node.output}
        self._inputs = {entry.name for entry in graph.input}
        self._constants = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
        self._readers: dict[str, list[NodeProto]] = {}
        for node in graph.node:
            for name in node.input:
                self._readers.setdefault(name, []).append(node)

    def is_learned(self, node: NodeProto) -> bool:
        return node.op_type in LEARNED and len(node.input) > 1 and node.input[1] in self._constants

    def is_first(self, node: NodeProto) -> bool:
        """Return whether it reads the image, directly or through movement."""
        waiting = [node.input[0]]
        while waiting:
            name = waiting.pop()
            if name in self._inputs:
                return True
            maker = self._makers.get(name)
            if maker is not None and maker.op_type in MOVING | {"Transpose", "Reshape"}:
                waiting.extend(maker.input)
        return False

    def is_depthwise(self, node: NodeProto) -> bool:
        group = next((entry.i for entry in node.attribute if entry.name == "group"), 1)
        return group > 1 and self._constants[node.input[1]][1] == 1

    def comes_from(self, node: NodeProto, names: set[str]) -> bool:
        """Return whether all inputs come from the image or one of `names`, through movement and activations only."""
        sources = node.input if node.op_type in ("Add", "Concat") else node.input[:1]
        return all(self._is_from(name, names, seen=set()) for name in sources)

    def _is_from(self, name: str, names: set[str], *, seen: set[str]) -> bool:
        if name in self._inputs or name in seen:
            return True
        seen.add(name)
        maker = self._makers.get(name)
        if maker is None:
            return False
        if maker.name in names:
            return True
        passes = maker.op_type in MOVING or maker.op_type in _ACTIVATIONS
        joins = maker.op_type in ("Add", "Concat", "Mul")
        sources = [one for one in maker.input if one and one not in self._constants] if joins else maker.input[:1]
        return passes and all(self._is_from(one, names, seen=seen) for one in sources)

    def leads_to(self, node: NodeProto, names: set[str]) -> bool:
        """Return whether one of `names` reads the outputs, through movement and activations only."""
        return any(reader.name in names for reader in self._after(node, through=MOVING | _ACTIVATIONS))

    def reaches(self, node: NodeProto, names: set[str]) -> bool:
        """Return whether one of `names` comes anywhere after a node."""
        return any(reader.name in names for reader in self._after(node))

    def _after(self, node: NodeProto, *, through: frozenset[str] | None = None) -> Iterator[NodeProto]:
        """Yield the nodes that read a node's outputs, and those after them, through these operators (None: any)."""
        seen, waiting = set[str](), list(node.output)
        while waiting:
            for reader in self._readers.get(waiting.pop(), []):
                if reader.name in seen:
                    continue
                seen.add(reader.name)
                yield reader
                if through is None or reader.op_type in through:
                    waiting.extend(reader.output)


LEAST_OPSET = 13
"""The first opset in which scales may differ between channels."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceModel:
    """A float32 model, simplified as ONNX Runtime does it for every processor, and where it can be quantised.

    `image` names the input for the image, which is NCHW with `channels_first`, else NHWC.
    """

    path: Path
    model: onnx.ModelProto
    places: Places
    image: str
    channels_first: bool


def read_source(path: Path, *, folder: Path) -> SourceModel:
    """Return the model of a file; `folder` is for temporary files. Raises ModelError with the obstacle."""
    model, label = read_model(path)
    if is_quantized(model):
        raise ModelError(f"{label}: is quantised already: give the float32 file that it was made from")
    if any(tensor.data_type == TensorProto.FLOAT16 for tensor in model.graph.initializer):
        raise ModelError(f"{label}: holds float16 weights: give its float32 export")
    metadata = dict(metadata_of(model))
    try:
        ready = _simplified(_converted(model, label=label), folder=folder, label=label)
        image = find_image_input(ready)
    except ModelError as error:
        raise ModelError(str(error) if label in str(error) else f"{label}: {error}") from error
    name_nodes(ready)
    places = find_places(ready)
    if not places.learned:
        raise ModelError(f"{label}: has no convolution or matrix product with weights of its own: nothing to quantise")
    onnx.helper.set_model_props(ready, metadata)
    return SourceModel(path, ready, places, image.entry.name, image.channels_axis == 1)


def _converted(model: onnx.ModelProto, *, label: str) -> onnx.ModelProto:
    version = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if version >= LEAST_OPSET:
        return model
    try:
        return onnx.version_converter.convert_version(model, LEAST_OPSET)
    except (RuntimeError, onnx.checker.ValidationError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise ModelError(
            f"{label}: is written in opset {version} and cannot be converted to {LEAST_OPSET}, which weights in "
            f"8 bits need ({reason}): export it with opset {LEAST_OPSET} or higher"
        ) from error


def _simplified(model: onnx.ModelProto, *, folder: Path, label: str) -> onnx.ModelProto:
    """Return the model with constants computed, and batch normalisation folded into convolutions."""
    target = folder / "simplified.onnx"
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(target)
    options.log_severity_level = FATAL_ONLY
    try:
        ort.InferenceSession(model.SerializeToString(), options, providers=[ON_CPU])
    except FAILURES as error:
        raise ModelError(f"{label}: ONNX Runtime cannot use it: {str(error).splitlines()[0]}") from error
    return onnx.load(target)
