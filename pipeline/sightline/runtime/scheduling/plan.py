"""Plan which thread runs which operators: the tree of steps becomes stages and links."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sightline.errors import OperatorError
from sightline.graph import Element, Parallel, Step, Tee, Threading
from sightline.media import Batch, Stream
from sightline.runtime.scheduling.batcher import Batcher
from sightline.runtime.scheduling.join import Join, mark_inherited
from sightline.runtime.scheduling.link import Item, Link, LinkReceiver, LinkSender, Outlet, WorkItem, open_link
from sightline.runtime.scheduling.node import Node
from sightline.runtime.stats.counters import DropReason, LinkStats


class Inlet(Protocol):
    """Where a stage gets its work from: the batcher, a link, or a join."""

    def receive(self) -> Item:
        """Return the next item. Raises EndOfLink when there will be none."""
        ...

    def close(self) -> None:
        """Receive nothing more."""
        ...


class LaneEvents(Protocol):
    """What the stages of a lane report, from their threads. Every batch is either done or lost."""

    def batch_done(self, item: WorkItem, batch: Batch) -> None:
        """A batch has passed all stages of the main line."""
        ...

    def batch_lost(self, item: WorkItem) -> None:
        """A batch will not get to the end of the main line."""
        ...

    def stream_ended(self, stream: Stream) -> None:
        """The end of a stream has passed all stages."""
        ...

    def stream_paused(self, stream: Stream, *, number: int) -> None:
        """The last frame before a pause of a stream has passed all stages."""
        ...

    def failed(self, error: BaseException) -> None:
        """An operator or a thread has failed."""
        ...

    def takes(self, error: OperatorError, *, closing: bool = False) -> bool:
        """Whether the run goes on although an operator has failed; see `Probation.takes`."""
        ...

    def lane_ended(self) -> None:
        """All stages have ended."""
        ...


@dataclass(slots=True, eq=False)
class Tap:
    """Sends each batch to a branch as well: a sink with a thread of its own, or a branch of a tee."""

    link: LinkSender[Item]
    prepare: Callable[[Batch], Batch] = Batch.shared


@dataclass(slots=True, eq=False)
class Stage:
    """What one thread runs: steps between an inlet and an outlet. `outlet` is None where a line of steps ends.

    `collects` is the operator of the stage in front whose pending results this stage waits for; `hands_over` says that
    this stage leaves the pending results of its last step to the stage behind. A stage of the main line (`trunk`)
    reports batches that are lost, the last one (`is_last`) those that are done. `link` names the link that the inlet
    takes items from, `branch` the branch of a `tee` or `parallel` that begins here.
    """

    name: str
    inlet: Inlet
    trunk: bool = False
    is_last: bool = False
    link: str = ""
    steps: list[Node | Tap] = field(default_factory=list)
    collects: Node | None = None
    hands_over: bool = False
    outlet: Outlet | None = None
    branch: str | None = None

    @property
    def is_first(self) -> bool:
        """Whether its batches come from the batcher."""
        return isinstance(self.inlet, Batcher)

    @property
    def nodes(self) -> list[Node]:
        """The operators of this stage."""
        return [step for step in self.steps if isinstance(step, Node)]

    @property
    def held(self) -> list[Node]:
        """The operators that this stage's thread holds: its own, and the one whose results it collects."""
        return self.nodes if self.collects is None else [*self.nodes, self.collects]

    @property
    def outlets(self) -> list[Outlet]:
        """Everything that this stage sends to."""
        taps: list[Outlet] = [step.link for step in self.steps if isinstance(step, Tap)]
        return [*taps, self.outlet] if self.outlet is not None else taps


@dataclass(slots=True, eq=False)
class Planner:
    """Lays out the stages of a lane.

    `nodes` yields the node of each element of the tree, in order. `former_stats` holds the stats of links of the same
    names that the new ones go on counting in.
    """

    nodes: Iterator[Node]
    capacity: int
    events: LaneEvents
    former_stats: Mapping[str, LinkStats]
    stages: list[Stage] = field(default_factory=list)
    links: dict[str, Link[Item]] = field(default_factory=dict)

    def lay_out(self, batcher: Batcher, steps: tuple[Step, ...]) -> Stage:
        """Plan the whole pipeline; return the last stage of its main line."""
        last = self._line(self._stage("main", batcher, trunk=True), steps, trunk=True)
        last.is_last = True
        return last

    def link(self, name: str, *, trunk: bool) -> Link[Item]:
        """Open a link between stages; what it drops on the main line is reported as lost."""
        self.links[name] = link = open_link(self.capacity, on_drop=self._report_lost if trunk else None)
        if name in self.former_stats:
            link.receiver.continue_stats(self.former_stats[name])
        return link

    def _report_lost(self, item: Item, reason: DropReason) -> None:
        del reason
        if isinstance(item, WorkItem):
            self.events.batch_lost(item)

    def _stage(self, name: str, inlet: Batcher | LinkReceiver[Item] | Join, *, trunk: bool, link: str = "") -> Stage:
        stage = Stage(name, inlet, trunk, link=link)
        self.stages.append(stage)
        return stage

    def _line(self, stage: Stage, steps: tuple[Step, ...], *, trunk: bool) -> Stage:
        for step in steps:
            if isinstance(step, Element):
                stage = self._element(stage, step, trunk=trunk)
            elif isinstance(step, Tee):
                self._tee(stage, step)
            else:
                stage = self._parallel(stage, step, trunk=trunk)
        return stage

    def _element(self, stage: Stage, element: Element, *, trunk: bool) -> Stage:
        node = next(self.nodes)
        element_id = node.element_id
        if element.threading is Threading.INLINE:
            stage.steps.append(node)
            return stage
        if element.sink:
            link = self.link(element_id, trunk=False)
            stage.steps.append(Tap(link.sender))
            self._stage(element_id, link.receiver, trunk=False, link=element_id).steps.append(node)
            return stage
        if element.threading is Threading.OWN:
            stage = self._following(stage, element_id, trunk=trunk)
            stage.steps.append(node)
            return stage
        stage.steps.append(node)
        stage.hands_over = True
        follower = self._following(stage, f"after-{element_id}", trunk=trunk)
        follower.collects = node
        node.share()
        return follower

    def _following(self, stage: Stage, name: str, *, trunk: bool) -> Stage:
        """Add a stage behind this one."""
        link = self.link(name, trunk=trunk)
        stage.outlet = link.sender
        return self._stage(name, link.receiver, trunk=trunk, link=name)

    def _tee(self, stage: Stage, tee: Tee) -> None:
        for name, branch in tee.branches.items():
            link_name = f"tee-{name}-{len(self.links)}"
            link = self.link(link_name, trunk=False)
            stage.steps.append(Tap(link.sender))
            first = self._stage(f"tee-{name}", link.receiver, trunk=False, link=link_name)
            first.branch = name
            self._line(first, branch, trunk=False)

    def _parallel(self, stage: Stage, parallel: Parallel, *, trunk: bool) -> Stage:
        ends = []
        for name, branch in parallel.branches.items():
            into_name = f"into-{name}-{len(self.links)}"
            into = self.link(into_name, trunk=False)
            stage.steps.append(Tap(into.sender, mark_inherited))
            first = self._stage(f"parallel-{name}", into.receiver, trunk=False, link=into_name)
            first.branch = name
            last = self._line(first, branch, trunk=False)
            end = self.link(f"from-{name}-{len(self.links)}", trunk=False)
            last.outlet = end.sender
            ends.append(end.receiver)
        main_name = f"trunk-{len(self.links)}"
        main = self.link(main_name, trunk=trunk)
        stage.outlet = main.sender
        join = Join(main.receiver, ends, on_lost=self.events.batch_lost if trunk else None)
        return self._stage(f"join-{len(self.stages)}", join, trunk=trunk, link=main_name)
