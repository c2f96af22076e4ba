"""Add up what the operators of each element have counted, over all lanes and reloads of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from sightline.errors import OperatorError
from sightline.graph import (
    AlarmCount,
    ComparesModels,
    CountsAlarms,
    DriftMeasure,
    MeasuresDrift,
    ModelComparison,
    RecordsOnRequest,
    ResetsCounts,
    RunsOn,
)
from sightline.graph.rule import Counts, Occupancy
from sightline.runtime.scheduling.node import Node
from sightline.runtime.stats.counters import ElementStats, add_up

_MOST_FORMER_TOTALS = 100

Nodes = Mapping[str, Sequence[Node]]
"""Nodes by the ids of their elements, each once."""


@dataclass(frozen=True, slots=True)
class Failures:
    """How often an element that may be skipped was called, how many of the calls failed, and the last error."""

    calls: int
    failed: int
    last: str

    def since(self, before: Failures | None) -> Failures:
        """Return what was counted after `before`."""
        return self if before is None else Failures(self.calls - before.calls, self.failed - before.failed, self.last)


class ElementTotals:
    """Adds up, on request, what the nodes of the same element have counted. From any thread.

    `present` returns the nodes of the present steps, in the order of their description.
    """

    def __init__(self, present: Callable[[], Nodes], *, on_error: Callable[[OperatorError], None]) -> None:
        self._present = present
        self._on_error = on_error
        self._former_stats: dict[str, ElementStats] = {}
        self._former_totals: dict[str, Mapping[str, Any]] = {}
        self._rebuilds = 0

    @property
    def nodes(self) -> Nodes:
        """The nodes of the present steps."""
        return self._present()

    def each_node(self) -> list[Node]:
        """Return every node of the present steps."""
        return [node for nodes in self.nodes.values() for node in nodes]

    def recorders(self, element_id: str | None) -> list[RecordsOnRequest]:
        """Return the operators that record on request: those of one element, or all."""
        operators = [node.operator for node in self.each_node() if element_id in (None, node.element_id)]
        return [one for one in operators if isinstance(one, RecordsOnRequest)]

    def counters(self, element_id: str) -> list[ResetsCounts]:
        """Return the operators of an element whose counts can begin anew."""
        return [one for node in self.nodes.get(element_id, ()) if isinstance(one := node.operator, ResetsCounts)]

    def failures(self) -> dict[str, Failures]:
        """Return how often the present elements have failed that may be skipped, by their ids."""
        skipped = {name: own for name, own in self.nodes.items() if own[0].element.on_error == "skip"}
        summed = {name: _stats(own) for name, own in skipped.items()}
        return {name: Failures(one.calls, one.failures.total(), one.last_failure) for name, one in summed.items()}

    def slow_calls(self, *, seconds: float) -> dict[str, float]:
        """Return the elements that have been in the same call for longer, and for how long, in seconds."""
        now_ns = perf_counter_ns()
        calls = [(node.element_id, node.call) for node in self.each_node()]
        durations = {name: (now_ns - call.since_ns) / 1e9 for name, call in calls if call is not None}
        return {name: duration for name, duration in durations.items() if duration > seconds}

    @property
    def stats(self) -> tuple[ElementStats, ...]:
        """The stats of all elements of the run, the present ones first."""
        return (*map(_stats, self.nodes.values()), *list(self._former_stats.values()))

    def counts(self) -> dict[str, dict[str, Counts]]:
        """Return what the rules of present elements count now, by element and stream; of rules that have an outline."""
        found: dict[str, dict[str, Counts]] = {}
        for node in self.each_node():
            if counts := node.findings.counts():
                found.setdefault(node.element_id, {}).update(counts)
        return found

    def occupancy(self) -> dict[str, dict[str, Occupancy]]:
        """Return how many objects were in the zones of present elements on how many frames, by element and stream."""
        found: dict[str, dict[str, Occupancy]] = {}
        for node in self.each_node():
            if occupancy := node.findings.occupancy():
                found.setdefault(node.element_id, {}).update(occupancy)
        return found

    def totals(self) -> dict[str, Mapping[str, Any]]:
        """Return what operators counted, by the ids of their elements; those that were replaced have a number added."""
        return {**{name: self._totals(nodes) for name, nodes in self.nodes.items()}, **self._former_totals}

    def runs_on(self) -> dict[str, str]:
        """Return where the operators of the present steps run, by the ids of their elements."""
        places = {}
        for name, nodes in self.nodes.items():
            try:
                places[name] = "; ".join(dict.fromkeys(str(node.runs_on()) for node in nodes))
            except OperatorError as error:
                self._on_error(error)
        return places

    def places(self) -> dict[str, RunsOn]:
        """Return where each of the present steps works now; without those that cannot tell at this moment."""
        found = {}
        for name, nodes in self.nodes.items():
            with suppress(OperatorError):  # it works meanwhile, in another thread; the report tells it in the end
                found[name] = nodes[0].runs_on()
        return found

    def engines(self) -> dict[str, Mapping[str, Any]]:
        """Return what computes the models of the present steps now, by the ids of those that have one."""
        found = {}
        for name, nodes in self.nodes.items():
            with suppress(OperatorError):
                found[name] = add_totals([node.engine_report() for node in nodes])
        return {name: report for name, report in found.items() if report}

    def comparisons(self) -> dict[str, Sequence[ModelComparison]]:
        """Return how second models of present elements do, by the ids of these; on several GPUs, on the first one."""
        first = {name: nodes[0].operator for name, nodes in self.nodes.items()}
        found = {name: one.comparisons() for name, one in first.items() if isinstance(one, ComparesModels)}
        return {name: own for name, own in found.items() if own}

    def drifts(self) -> dict[str, Sequence[DriftMeasure]]:
        """Return how far streams are from their baselines, by the ids of the present elements that compare them."""
        found: dict[str, list[DriftMeasure]] = {}
        for node in self.each_node():
            if isinstance(node.operator, MeasuresDrift) and (drifts := node.operator.drifts()):
                found.setdefault(node.element_id, []).extend(drifts)
        return dict(found)

    def alarms(self) -> dict[str, Sequence[AlarmCount]]:
        """Return what came of alarms that were verified, by the ids of the present elements that did."""
        found: dict[str, list[AlarmCount]] = {}
        for node in self.each_node():
            if isinstance(node.operator, CountsAlarms) and (alarms := node.operator.alarms()):
                found.setdefault(node.element_id, []).extend(alarms)
        return dict(found)

    def retire(self, old: Nodes, *, new: Nodes) -> None:
        """Keep what was counted by `old` nodes that have ended; `new` ones take the place of those with the same id."""
        self._rebuilds += 1
        for element_id, nodes in old.items():
            former = _stats(nodes)
            if element_id not in new:
                self._former_stats[element_id] = former
            elif new[element_id][0].stats.name == former.name:
                new[element_id][0].stats = former
            if totals := self._totals(nodes):
                self._former_totals[f"{element_id} before reload {self._rebuilds}"] = totals
        for name in list(self._former_totals)[:-_MOST_FORMER_TOTALS]:
            del self._former_totals[name]
        for element_id in new:
            self._former_stats.pop(element_id, None)

    def _totals(self, nodes: Sequence[Node]) -> Mapping[str, Any]:
        try:
            return add_totals([node.totals() for node in nodes])
        except OperatorError as error:
            self._on_error(error)
            return {}


def add_totals(parts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Add up whole numbers, key by key; of other values list the different ones."""
    if len(parts) == 1:
        return parts[0]
    keys = dict.fromkeys(key for part in parts for key in part)
    return {key: _add([part[key] for part in parts if key in part]) for key in keys}


def _add(values: Sequence[Any]) -> Any:
    if all(isinstance(value, Mapping) for value in values):
        return add_totals(values)
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return sum(values)
    different: list[Any] = []
    for value in values:
        if value not in different:
            different.append(value)
    return different[0] if len(different) == 1 else different


def _stats(nodes: Sequence[Node]) -> ElementStats:
    return add_up([node.stats for node in nodes])
