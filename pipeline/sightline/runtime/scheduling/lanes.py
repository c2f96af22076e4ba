"""The lanes of a run, one per GPU, and what their nodes counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from sightline.errors import ConfigurationError, CudaFailed, LinkClosed, OperatorError
from sightline.graph import BatchOptions, Message, MessageKind, RecordsOnRequest, Site, Step
from sightline.graph.tree import identify
from sightline.media import Batch, Stream
from sightline.redaction import redact
from sightline.runtime.scheduling.batcher import Arrival
from sightline.runtime.scheduling.factory import BuiltOperator, OperatorFactory
from sightline.runtime.scheduling.lane import Lane, LaneExits, StreamSlot
from sightline.runtime.scheduling.link import DropReason, Item, Link, LinkPolicy, LinkStats, WorkItem, fan_in
from sightline.runtime.scheduling.node import Node
from sightline.runtime.scheduling.plan import Layout
from sightline.runtime.stats.counters import ElementStats, added_up

_MOST_FORMER_TOTALS = 100

Nodes = Mapping[str, Sequence[Node]]
"""Nodes by the ids of their elements, each once."""


class ElementLedger:
    """Adds up, when it is asked, what the nodes of the same element have counted. From any thread."""

    def __init__(self, lanes: Sequence[Lane], *, on_error: Callable[[BaseException], None]) -> None:
        self._lanes = lanes
        self._on_error = on_error
        self._former_elements: dict[str, ElementStats] = {}
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
    def elements(self) -> tuple[ElementStats, ...]:
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


def _statistics(nodes: Sequence[Node]) -> ElementStats:
    return added_up([node.statistics for node in nodes])


MadeNodes = Mapping[str, BuiltOperator]
_LARGEST_DEFAULT_BATCH = 16


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What became of the steps, by their ids: kept as they are, built anew, gone."""

    kept: tuple[str, ...]
    built: tuple[str, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunExits:
    """Where things leave the lanes of a run: finished and lost parcels, errors, ends of streams, the end of a lane that
    was lost, and the end of all.
    """

    on_done: Callable[[WorkItem, Batch], None]
    on_lost: Callable[[WorkItem, DropReason], None]
    on_error: Callable[[BaseException], None]
    on_stream_end: Callable[[Stream], None]
    on_lane_gone: Callable[[Lane], None]
    on_over: Callable[[], None]
    consumer: Link[Item] | None = None


class Lanes:
    """All lanes of a run; a stream is in one of them. From any thread.

    They end together, so that the streams of a lane that is lost find another: with several, none ends before `seal`.
    """

    def __init__(self, sites: Sequence[Site], *, factory: OperatorFactory, exits: RunExits) -> None:
        self._exits = exits
        self._factory = factory
        self._post = sites[0].post
        self._lock = Lock()
        self._rebuilding = Lock()
        self._over: set[Lane] = set()
        own = LaneExits(
            on_done=exits.on_done,
            on_lost=lambda lane, work_item: exits.on_lost(work_item, self._reason(lane)),
            on_trouble=self._give_up_after,
            on_error=exits.on_error,
            on_stream_end=exits.on_stream_end,
            on_over=self._lane_over,
        )
        outlets = fan_in(exits.consumer, count=len(sites))
        self._all = tuple(
            Lane(site, exits=replace(own, outlet=outlet)) for site, outlet in zip(sites, outlets, strict=True)
        )
        self.ledger = ElementLedger(self._all, on_error=exits.on_error)

    def build(self, steps: tuple[Step, ...]) -> None:
        """Build the operators and plan the stages. Raises SightlineError, with nothing left open."""
        built = self._factory.build(identify(steps), sites=[lane.site for lane in self._all])
        for lane, made in zip(self._all, built, strict=True):
            lane.assembly.install(steps, made)

    def start(self) -> None:
        """Start the stages. What makes that impossible is raised; all is then over when all stages have ended."""
        for lane in self._all:
            lane.assembly.start()

    def discard(self) -> None:
        """Let go of everything although it was not started."""
        for lane in self._all:
            lane.assembly.discard()

    def abort(self) -> None:
        """End all stages now; what is under way is dropped."""
        for lane in self._all:
            lane.assembly.abort()

    def seal(self) -> None:
        """Let each lane end with the last of its streams."""
        for lane in self._all:
            lane.batcher.seal()

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """A block in which none ends for want of streams."""
        with ExitStack() as stack:
            for lane in self._all:
                stack.enter_context(lane.batcher.kept_open())
            yield

    def wait(self) -> list[str]:
        """Wait for the end; return what runs on, as texts: after an abort, operators that do not return."""
        return [text for lane in self._all for text in lane.assembly.wait()]

    def slot(
        self, stream: Stream, *, capacity: int, policy: LinkPolicy, on_drop: Callable[[DropReason], None]
    ) -> StreamSlot:
        """A place for a stream, which has none, in the lane with the fewest. Raises LinkClosed when all have ended."""
        left = self._going_on
        if not left:
            raise LinkClosed
        lane = min(left, key=lambda one: one.batcher.count)

        def drop(_: Arrival, reason: DropReason) -> None:
            on_drop(self._reason(lane) if reason is DropReason.STOPPED else reason)

        link = lane.batcher.add(stream, capacity=capacity, policy=policy, on_drop=drop)
        return StreamSlot(link, lane.site, lane)

    def fit(self, batch: BatchOptions, *, streams: int) -> None:
        """Let batches in each lane be as large as is wanted, or as it has its share of so many streams."""
        of_a_lane = -(-streams // max(len(self._going_on), 1))
        size = batch.size or min(max(of_a_lane, 1), _LARGEST_DEFAULT_BATCH)
        for lane in self._all:
            lane.batcher.timeout_ns = batch.timeout
            if size != lane.batcher.size:
                lane.batcher.size = size
                lane.assembly.fit()

    def differs(self, steps: tuple[Step, ...]) -> bool:
        """Whether these steps are others than the present ones, or files that they read have changed."""
        elements = list(identify(steps))
        return not all(
            lane.assembly.is_of(steps) and all(lane.assembly.has(name, element) for name, element in elements)
            for lane in self._going_on
        )

    def rebuild(self, steps: tuple[Step, ...]) -> Rebuilt:
        """Go on with other steps: what is unchanged keeps its operators with all that they know, the rest is built
        first, so that the pause is short. Raises SightlineError when one cannot be built, or the run ends meanwhile.
        """
        with self._rebuilding:
            elements, lanes = dict(identify(steps)), self._going_on
            kept = [one for one in elements if all(lane.assembly.has(one, elements[one]) for lane in lanes)]
            new = [one for one in elements if one not in kept]
            built = self._factory.build([(one, elements[one]) for one in new], sites=[lane.site for lane in lanes])
            fresh = self._switch(dict(zip(lanes, built, strict=True)), kept=kept)
            if not fresh:
                raise ConfigurationError("the pipeline has come to its end: there is nothing left to change")
            gone = {one: nodes for one, nodes in nodes_of(fresh).items() if one not in kept}
            for lane, made in fresh.items():
                lane.assembly.prepare(steps, {one: made.get(one) or lane.assembly.made[one] for one in elements})
            self.ledger.retire(gone, fresh={one: nodes for one, nodes in nodes_of(fresh).items() if one in new})
            for lane in fresh:
                lane.assembly.go_on()
            return Rebuilt(tuple(kept), tuple(new), tuple(one for one in gone if one not in new))

    @property
    def count(self) -> int:
        """How many there are; those that are lost, too."""
        return len(self._all)

    @property
    def is_running(self) -> bool:
        """Whether any was started and has not ended."""
        return any(lane.assembly.is_running for lane in self._all)

    @property
    def layouts(self) -> list[Layout]:
        """The stages that run now, or ran last."""
        return [lane.assembly.layout for lane in self._all if lane.assembly.layout is not None]

    @property
    def source_links(self) -> dict[Stream, Link[Arrival]]:
        """The links of the streams that have not ended."""
        return {stream: link for lane in self._going_on for stream, link in lane.batcher.links().items()}

    @property
    def stage_links(self) -> dict[str, Link[Item]]:
        """The links of the stages that run now, or ran last, by name; with several lanes, behind the lane's."""
        layouts = [(lane, lane.assembly.layout) for lane in self._all]
        return {
            self._name(lane, name): link
            for lane, layout in layouts
            if layout is not None
            for name, link in layout.links.items()
        }

    @property
    def link_statistics(self) -> Mapping[str, LinkStats]:
        """What was counted of all links of the run, by name as above."""
        return {self._name(lane, name): one for lane in self._all for name, one in lane.assembly.links.items()}

    @property
    def cpu_ns(self) -> int:
        """What the threads that have ended took."""
        return sum(lane.assembly.cpu_ns for lane in self._all)

    @property
    def _going_on(self) -> list[Lane]:
        return [lane for lane in self._all if not lane.is_lost]

    def _switch(self, built: Mapping[Lane, MadeNodes], *, kept: Sequence[str]) -> dict[Lane, MadeNodes]:
        """Let all lanes hand over what is kept; return what was built for those that have, and are not at their end."""
        for lane in built:
            lane.assembly.ask(kept)
        switched = {lane: made for lane, made in built.items() if lane.assembly.has_handed_over()}
        self._factory.discard([made for lane, made in built.items() if lane not in switched])
        return switched

    def _name(self, lane: Lane, name: str) -> str:
        return name if len(self._all) == 1 else f"{lane}/{name}"

    def _others(self, lane: Lane) -> list[Lane]:
        """The lanes in which the streams of one can go on."""
        return [one for one in self._going_on if one is not lane and one.breakage is None and not one.assembly.is_over]

    def _reason(self, lane: Lane) -> DropReason:
        """Why a lane drops what it had."""
        is_lost = lane.is_lost or (lane.breakage is not None and bool(self._others(lane)))
        return DropReason.GPU_LOST if is_lost else DropReason.STOPPED

    def _give_up_after(self, lane: Lane, error: BaseException) -> bool:
        """See `Lane.give_up_after`. It is not while its GPU works, nor where there is no other."""
        cause = lane.breakage
        with self._lock:
            is_new = not lane.is_lost
            others = self._others(lane)
            if cause is None or (is_new and not others):
                return False
            lane.is_lost = True
        if not _comes_of_gpu(error):
            self._post(Message(MessageKind.WARNING, redact(error)))
        if is_new:
            self._evacuate(lane, cause, others)
        return True

    def _evacuate(self, lane: Lane, cause: str, others: Sequence[Lane]) -> None:
        """Tell that a lane is given up, and let it come to its end."""
        count, left = lane.batcher.count, ", ".join(map(str, others))
        streams = "its stream goes" if count == 1 else f"its {count} streams go"
        text = (
            f"{lane} cannot be used any more: {cause}; {streams} on on {left}, without the frames that were under way "
            f"and without what steps on {lane} knew"
        )
        self._post(Message(MessageKind.WARNING, text))
        lane.batcher.close()

    def _lane_over(self, lane: Lane) -> None:
        with self._lock:
            self._over.add(lane)
            is_last = len(self._over) == len(self._all)
        if lane.is_lost:
            self._exits.on_lane_gone(lane)
        if is_last:
            self._exits.on_over()


def _comes_of_gpu(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, CudaFailed):
        error = error.__cause__
    return error is not None
