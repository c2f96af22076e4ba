"""Where a graph is quantised: its convolutions and matrix products, and what only moves or joins values between them.

What comes behind the last of them (decoding of boxes, probabilities) stays in float32: it costs nothing there, and
pixels and probabilities in one tensor have no common scale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import onnx
from onnx import NodeProto

from sightline_plugins.engines.simplify.graph import LEARNED

MOVING = frozenset({"Add", "AveragePool", "Concat", "GlobalAveragePool", "MaxPool", "Resize", "Slice", "Split"})
_ACTIVATIONS = frozenset(
    {
        *("Clip", "Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mul", "PRelu", "Relu", "Sigmoid", "Tanh"),
        *("BatchNormalization", "Identity", "Reshape", "Transpose"),
    }
)
"""What stays as it is between places that are quantised."""


@dataclass(frozen=True, slots=True)
class Places:
    """Names of nodes: `learned` ones, the `moving` ones between them, and of the learned ones the sensitive."""

    learned: tuple[str, ...]
    moving: tuple[str, ...]
    first: tuple[str, ...]
    last: tuple[str, ...]
    depthwise: tuple[str, ...]


def find_places(model: onnx.ModelProto) -> Places:
    """The places of a graph whose nodes all have names."""
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
    """Gives every node a name of its own."""
    taken = set[str]()
    for number, node in enumerate(model.graph.node):
        if not node.name or node.name in taken:
            node.name = f"{node.op_type}_{number}"
        taken.add(node.name)


class _Walk:
    """Steps from node to node."""

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
        """Whether it reads the image, perhaps moved."""
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
        """Whether every value of a node comes from the image or from one of `names`, through nothing but movement."""
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
        """Whether one of `names` reads what a node makes, through nothing but movement and activations."""
        passing = MOVING | _ACTIVATIONS
        return any(
            reader.name in names for reader in self._behind(node, through=lambda reader: reader.op_type in passing)
        )

    def _behind(self, node: NodeProto, *, through: Callable[[NodeProto], bool]) -> Iterator[NodeProto]:
        """The nodes that read what a node makes, and those behind them, as far as `through` lets it through."""
        seen, waiting = set[str](), list(node.output)
        while waiting:
            for reader in self._readers.get(waiting.pop(), []):
                if reader.name in seen:
                    continue
                seen.add(reader.name)
                yield reader
                if through(reader):
                    waiting.extend(reader.output)

    def reaches(self, node: NodeProto, names: set[str]) -> bool:
        """Whether one of `names` comes anywhere behind a node."""
        return any(reader.name in names for reader in self._behind(node, through=lambda _: True))
