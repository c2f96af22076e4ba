"""The assembly: the operators of a run and the stages that run them, which can be rebuilt in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event, Lock
from typing import Any

from sightline.errors import ConfigurationError, OperatorError
from sightline.graph import Clock, Step
from sightline.graph.tree import identify
from sightline.media import Batch, Stream
from sightline.runtime.gather import Gather
from sightline.runtime.layout import Layout
from sightline.runtime.link import Link, LinkStatistics
from sightline.runtime.node import Node
from sightline.runtime.parcel import Handover, Item, Parcel
from sightline.runtime.plan import Planner
from sightline.runtime.statistics import ElementStatistics
from sightline.runtime.workshop import Made, Workshop

_FRAMES_IN_A_STAGE_LINK = 8
_PATIENCE_AFTER_ABORT_SECONDS = 1.0
_GLANCE_SECONDS = 0.1
_MOST_FORMER_TOTALS = 100


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What became of the steps, by their ids: kept as they are, built anew, gone."""

    kept: tuple[str, ...]
    built: tuple[str, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Exits:
    """Where things leave an assembly: finished and lost parcels, errors, ends of streams, its own end."""

    on_done: Callable[[Parcel, Batch], None]
    on_lost: Callable[[Parcel], None]
    on_error: Callable[[BaseException], None]
    on_stream_end: Callable[[Stream], None]
    on_over: Callable[[], None]
    consumer: Link[Item] | None = None


class Assembly:
    """Holds the nodes of the steps and the layout that runs them.

    `rebuild` puts other steps in their place between two batches: what is unchanged keeps its operator with all that it
    knows, the rest is built first, so that the pause is short and what can not be built changes nothing. Frames wait
    in front of the first stage meanwhile.
    """

    def __init__(self, gather: Gather, *, workshop: Workshop, exits: Exits, clock: Clock) -> None:
        self._gather = gather
        self._workshop = workshop
        self._exits = exits
        self._clock = clock
        self._lock = Lock()
        self._rebuilding = Lock()
        self._steps: tuple[Step, ...] = ()
        self._made: dict[str, Made] = {}
        self._layout: Layout | None = None
        self._over = Event()
        self._is_switching = self._is_aborted = False
        self._cpu_ns_of_gone = 0
        self._former_elements: dict[str, ElementStatistics] = {}
        self._former_totals: dict[str, Mapping[str, Any]] = {}
        self._counted: dict[str, LinkStatistics] = {}
        self._rebuilds = 0

    def build(self, steps: tuple[Step, ...]) -> None:
        """Build the operators and plan the stages. Raises SightlineError, with nothing left open."""
        self._made = self._workshop.build(identify(steps))
        self._steps = steps
        self._layout = self._lay_out()

    def start(self) -> None:
        """Start the stages. What makes that impossible is raised; the assembly is then over when all have ended."""
        assert self._layout is not None
        self._layout.start()

    def discard(self) -> None:
        """Let go of everything although it was not started."""
        if self._layout is not None:
            self._layout.discard()

    def abort(self) -> None:
        """End all stages now; what is under way is dropped."""
        with self._lock:
            self._is_aborted = True
            layout = self._layout
        if layout is not None:
            layout.close()

    def wait(self) -> list[str]:
        """Wait for the end; return what runs on, as texts: after an abort, operators that do not return."""
        self._await(self._over)
        layout = self._layout
        if layout is None:
            return []
        patience = _PATIENCE_AFTER_ABORT_SECONDS if self._over.is_set() else 0.0
        running = [thread for thread in layout.threads if thread.ident is not None and not thread.wait(patience)]
        return [", ".join(node.element_id for node in thread.stage.nodes) or thread.stage.name for thread in running]

    def differs(self, steps: tuple[Step, ...]) -> bool:
        """Whether these steps are others than the present ones, or files that they read have changed."""
        made, elements = self._made, dict(identify(steps))
        return self._steps != steps or not all(one in made and made[one].is_still(elements[one]) for one in elements)

    def rebuild(self, steps: tuple[Step, ...]) -> Rebuilt:
        """Go on with other steps. Raises SightlineError when one can not be built, or the run ends meanwhile."""
        with self._rebuilding:
            elements = dict(identify(steps))
            kept = {one: made for one, made in self._made.items() if one in elements and made.is_still(elements[one])}
            fresh = self._workshop.build((one, element) for one, element in elements.items() if one not in kept)
            before = self._switch(kept)
            if before is None:
                self._workshop.discard(fresh)
                raise ConfigurationError("the pipeline has come to its end: there is nothing left to change")
            gone = {one: made for one, made in self._made.items() if one not in kept}
            self._retire(before, gone, fresh)
            self._steps, self._made = steps, {one: kept.get(one) or fresh[one] for one in elements}
            self._go_on()
            return Rebuilt(tuple(kept), tuple(fresh), tuple(one for one in gone if one not in fresh))

    def fit(self) -> None:
        """Give the links the room that the present size of batches asks for."""
        if self._layout is not None:
            for link in self._layout.links.values():
                link.capacity = self._capacity

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        layout = self._layout
        return layout is not None and not self._over.is_set() and any(thread.ident for thread in layout.threads)

    @property
    def layout(self) -> Layout | None:
        """The stages that run now, or ran last."""
        return self._layout

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of the present steps, in the order of their description."""
        return tuple(made.node for made in list(self._made.values()))

    @property
    def elements(self) -> tuple[ElementStatistics, ...]:
        """What was counted of all steps of the run, the present ones first."""
        return (*(node.statistics for node in self.nodes), *list(self._former_elements.values()))

    @property
    def links(self) -> Mapping[str, LinkStatistics]:
        """What was counted of all links of the run."""
        now = {} if self._layout is None else {name: link.statistics for name, link in self._layout.links.items()}
        return {**self._counted, **now}

    @property
    def cpu_ns(self) -> int:
        """What the threads that have ended took."""
        return self._cpu_ns_of_gone + (0 if self._layout is None else self._layout.cpu_ns)

    def totals(self) -> dict[str, Mapping[str, Any]]:
        """What operators counted, by the ids of their elements; those that were replaced with a number besides."""
        return {**{node.element_id: self._totals(node) for node in self.nodes}, **self._former_totals}

    def runs_on(self) -> dict[str, str]:
        """Where the operators of the present steps work, by the ids of their elements."""
        places = {}
        for node in self.nodes:
            try:
                places[node.element_id] = str(node.runs_on())
            except OperatorError as error:
                self._exits.on_error(error)
        return places

    @property
    def _capacity(self) -> int:
        return max(2, _FRAMES_IN_A_STAGE_LINK // self._gather.size)

    def _lay_out(self) -> Layout:
        exits = self._exits
        nodes = iter([made.node for made in self._made.values()])
        planner = Planner(nodes=nodes, capacity=self._capacity, on_lost=exits.on_lost, counted=self._counted)
        last = planner.lay_out(self._gather, self._steps)
        last.on_done, last.outlet = exits.on_done, exits.consumer
        return Layout(
            planner.stages,
            planner.links,
            clock=self._clock,
            on_error=exits.on_error,
            on_stream_end=exits.on_stream_end,
            on_ended=self._layout_ended,
        )

    def _layout_ended(self, layout: Layout) -> None:
        with self._lock:
            is_over = layout is self._layout and not self._is_switching
        if is_over:
            self._finish()

    def _finish(self) -> None:
        self._over.set()
        self._exits.on_over()

    def _switch(self, kept: Mapping[str, Made]) -> Layout | None:
        """Let the stages hand over what is kept; None when they have come to their end instead."""
        with self._lock:
            before = self._layout
            if before is None or self._over.is_set():
                return None
            self._is_switching = True
        self._gather.hand_over(Handover(frozenset(made.node for made in kept.values())))
        self._await(before.ended)
        if before.ended.is_set() and before.is_handed_over:
            return before
        with self._lock:
            self._is_switching = False
        if before.ended.is_set():
            before.disown()
            self._finish()
        return None

    def _go_on(self) -> None:
        """Run the present steps, from where those before were left."""
        with self._lock:
            self._layout = layout = self._lay_out()
            self._is_switching = False
            is_aborted = self._is_aborted
        try:
            layout.start()
        except RuntimeError as error:
            name = layout.threads[0].stage.name
            self._exits.on_error(OperatorError(f"{name!r} can not be started again: {error}", element=name))
        if is_aborted:
            layout.close()

    def _retire(self, before: Layout, gone: Mapping[str, Made], fresh: Mapping[str, Made]) -> None:
        """Keep what was counted where operators end that the run goes on without."""
        self._rebuilds += 1
        self._cpu_ns_of_gone += before.cpu_ns
        self._counted.update({name: link.statistics for name, link in before.links.items()})
        for one, made in gone.items():
            former = made.node.statistics
            if one not in fresh:
                self._former_elements[one] = former
            elif fresh[one].node.statistics.name == former.name:
                fresh[one].node.statistics = former
            if totals := self._totals(made.node):
                self._former_totals[f"{one} before reload {self._rebuilds}"] = totals
        for name in list(self._former_totals)[:-_MOST_FORMER_TOTALS]:
            del self._former_totals[name]
        for one in fresh:
            self._former_elements.pop(one, None)

    def _totals(self, node: Node) -> Mapping[str, Any]:
        try:
            return node.totals()
        except OperatorError as error:
            self._exits.on_error(error)
            return {}

    def _await(self, event: Event) -> None:
        """Wait for it, but not for long after an abort."""
        patience = _PATIENCE_AFTER_ABORT_SECONDS
        while patience > 0 and not event.wait(_GLANCE_SECONDS):
            patience -= _GLANCE_SECONDS if self._is_aborted else 0
