"""The ledger: what was counted of the steps of a run, in all its lanes, of those that are gone among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sightline.errors import OperatorError
from sightline.graph import RecordsOnRequest
from sightline.runtime.lane import Lane
from sightline.runtime.node import Node
from sightline.runtime.statistics import ElementStatistics, added_up

_MOST_FORMER_TOTALS = 100

Nodes = Mapping[str, Sequence[Node]]
"""Nodes by the ids of their elements, each once."""


class Ledger:
    """Adds up, when it is asked, what the nodes of the same element have counted. From any thread."""

    def __init__(self, lanes: Sequence[Lane], *, on_error: Callable[[BaseException], None]) -> None:
        self._lanes = lanes
        self._on_error = on_error
        self._former_elements: dict[str, ElementStatistics] = {}
        self._former_totals: dict[str, Mapping[str, Any]] = {}
        self._rebuilds = 0

    @property
    def nodes(self) -> Nodes:
        """The nodes of the present steps, in the order of their description."""
        return nodes_of(self._lanes)

    def each_node(self) -> list[Node]:
        """Every one of them."""
        return [node for nodes in self.nodes.values() for node in nodes]

    def recorders(self, element_id: str | None) -> list[RecordsOnRequest]:
        """The operators that record when they are asked to: those of one element, or all."""
        asked = [node.operator for node in self.each_node() if element_id in (None, node.element_id)]
        return [one for one in asked if isinstance(one, RecordsOnRequest)]

    @property
    def elements(self) -> tuple[ElementStatistics, ...]:
        """What was counted of all steps of the run, the present ones first."""
        return (*map(_statistics, self.nodes.values()), *list(self._former_elements.values()))

    def totals(self) -> dict[str, Mapping[str, Any]]:
        """What operators counted, by the ids of their elements; those that were replaced with a number besides."""
        return {**{name: self._totals(nodes) for name, nodes in self.nodes.items()}, **self._former_totals}

    def runs_on(self) -> dict[str, str]:
        """Where the operators of the present steps work, by the ids of their elements."""
        places = {}
        for name, nodes in self.nodes.items():
            try:
                places[name] = "; ".join(dict.fromkeys(str(node.runs_on()) for node in nodes))
            except OperatorError as error:
                self._on_error(error)
        return places

    def retire(self, gone: Nodes, *, fresh: Nodes) -> None:
        """Keep what was counted where operators have ended that the run goes on without, others in their place."""
        self._rebuilds += 1
        for one, nodes in gone.items():
            former = _statistics(nodes)
            if one not in fresh:
                self._former_elements[one] = former
            elif fresh[one][0].statistics.name == former.name:
                fresh[one][0].statistics = former
            if totals := self._totals(nodes):
                self._former_totals[f"{one} before reload {self._rebuilds}"] = totals
        for name in list(self._former_totals)[:-_MOST_FORMER_TOTALS]:
            del self._former_totals[name]
        for one in fresh:
            self._former_elements.pop(one, None)

    def _totals(self, nodes: Sequence[Node]) -> Mapping[str, Any]:
        try:
            return added_totals([node.totals() for node in nodes])
        except OperatorError as error:
            self._on_error(error)
            return {}


def nodes_of(lanes: Iterable[Lane]) -> dict[str, list[Node]]:
    """The nodes of these lanes by the ids of their elements, each once."""
    found: dict[str, list[Node]] = {}
    for lane in lanes:
        for element_id, made in list(lane.assembly.made.items()):
            nodes = found.setdefault(element_id, [])
            if made.node not in nodes:
                nodes.append(made.node)
    return found


def added_totals(parts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Whole numbers added up, key by key; of other values the different ones, one behind the other."""
    if len(parts) == 1:
        return parts[0]
    keys = dict.fromkeys(key for part in parts for key in part)
    return {key: _added([part[key] for part in parts if key in part]) for key in keys}


def _added(values: Sequence[Any]) -> Any:
    if all(isinstance(value, Mapping) for value in values):
        return added_totals(values)
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return sum(values)
    different: list[Any] = []
    for value in values:
        if value not in different:
            different.append(value)
    return different[0] if len(different) == 1 else different


def _statistics(nodes: Sequence[Node]) -> ElementStatistics:
    return added_up([node.statistics for node in nodes])
