"""Plan which thread runs which operators: the tree of steps becomes stages and links."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Event, Lock

from sightline.graph import Clock, Element, Parallel, Step, Tee, Threading
from sightline.media import Stream
from sightline.runtime.scheduling.batcher import Batcher
from sightline.runtime.scheduling.join import Join, mark_inherited
from sightline.runtime.scheduling.link import DropReason, Item, Link, LinkStats, StreamEnd, WorkItem
from sightline.runtime.scheduling.node import Node
from sightline.runtime.scheduling.stage import Stage, StageThread, Tap, close_all


class Layout:
    """Runs stages until all have ended, or all have handed over to those of another layout.

    `on_stream_end` is called when the end of a stream has passed all stages, `on_ended` when the last stage has ended.
    """

    def __init__(
        self,
        stages: list[Stage],
        links: dict[str, Link[Item]],
        *,
        clock: Clock,
        on_error: Callable[[BaseException], None],
        on_stream_end: Callable[[Stream], None],
        on_ended: Callable[[Layout], None],
    ) -> None:
        self.links = links
        self.threads = [
            StageThread(
                stage,
                clock=clock,
                on_error=on_error,
                on_stream_end=self._count_stream_end,
                on_left=self._count_left,
            )
            for stage in stages
        ]
        self.ended = Event()
        self._on_stream_end = on_stream_end
        self._on_ended = on_ended
        self._lock = Lock()
        self._is_discarded = False
        self._running = len(stages)
        self._ends: dict[int, int] = {}

    @property
    def is_handed_over(self) -> bool:
        """Whether all stages have handed over."""
        return all(thread.handover is not None for thread in self.threads)

    @property
    def cpu_ns(self) -> int:
        """What the threads that have ended took."""
        return sum(thread.cpu_ns for thread in self.threads)

    def start(self) -> None:
        """Start all threads; when that is not possible, those that run are told to end, and the error is raised."""
        try:
            for thread in self.threads:
                thread.start()
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """End it although not all threads were started; harmless when called again."""
        if self._is_discarded:
            return
        self._is_discarded = True
        self.close()
        for thread in self.threads:
            if thread.ident is None:
                thread.leave()
                self._count_left()

    def close(self) -> None:
        """End it now; what is under way is dropped."""
        close_all([thread.stage for thread in self.threads])

    def hangs(self, *, seconds: float) -> bool:
        """Whether all threads that have not ended are in calls of operators that have gone on for so long."""
        running = [thread for thread in self.threads if thread.running]
        return bool(running) and all(thread.is_in_a_call_for(seconds) for thread in running)

    def disown(self) -> None:
        """Let go of the operators that were to go on elsewhere, when there is nothing that they can go on in."""
        for thread in self.threads:
            thread.disown()

    def _count_stream_end(self, mark: StreamEnd) -> None:
        with self._lock:
            left = self._ends.pop(mark.number, len(self.threads)) - 1
            if left:
                self._ends[mark.number] = left
        if not left:
            self._on_stream_end(mark.stream)

    def _count_left(self) -> None:
        with self._lock:
            self._running -= 1
            is_last = not self._running
        if is_last:
            self.ended.set()
            self._on_ended(self)


@dataclass(slots=True, eq=False)
class Planner:
    """Lays out stages. `nodes` gives the node of each element of the tree, in order; `counted` has what links of the
    same names have counted before.
    """

    nodes: Iterator[Node]
    capacity: int
    on_lost: Callable[[WorkItem], None]
    counted: Mapping[str, LinkStats]
    stages: list[Stage] = field(default_factory=list)
    links: dict[str, Link[Item]] = field(default_factory=dict)

    def lay_out(self, batcher: Batcher, steps: tuple[Step, ...]) -> Stage:
        """Plan the whole pipeline; return the stage at the end of its main line."""
        return self._line(self._stage("main", batcher, trunk=True), steps, trunk=True)

    def link(self, name: str, *, trunk: bool) -> Link[Item]:
        """A new link; what is lost on the trunk is counted."""
        on_drop = self._count_lost if trunk else None
        self.links[name] = made = Link[Item](self.capacity, on_drop=on_drop)
        made.statistics = self.counted.get(name, made.statistics)
        return made

    def _count_lost(self, item: Item, reason: DropReason) -> None:
        del reason
        if isinstance(item, WorkItem):
            self.on_lost(item)

    def _stage(self, name: str, inlet: Batcher | Link[Item] | Join, *, trunk: bool) -> Stage:
        stage = Stage(name, inlet, on_lost=self.on_lost if trunk else None)
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
            stage.steps.append(Tap(link))
            self._stage(element_id, link, trunk=False).steps.append(node)
            return stage
        if element.threading is Threading.OWN:
            stage = self._follow(stage, element_id, trunk=trunk)
            stage.steps.append(node)
            return stage
        stage.steps.append(node)
        stage.hands_over = True
        follower = self._follow(stage, f"after-{element_id}", trunk=trunk)
        follower.collects = node
        node.share()
        return follower

    def _follow(self, stage: Stage, name: str, *, trunk: bool) -> Stage:
        """A new stage behind this one."""
        stage.outlet = link = self.link(name, trunk=trunk)
        return self._stage(name, link, trunk=trunk)

    def _tee(self, stage: Stage, tee: Tee) -> None:
        for name, branch in tee.branches.items():
            link = self.link(f"tee-{name}-{len(self.links)}", trunk=False)
            stage.steps.append(Tap(link))
            self._line(self._stage(f"tee-{name}", link, trunk=False), branch, trunk=False)

    def _parallel(self, stage: Stage, parallel: Parallel, *, trunk: bool) -> Stage:
        ends = []
        for name, branch in parallel.branches.items():
            into = self.link(f"into-{name}-{len(self.links)}", trunk=False)
            stage.steps.append(Tap(into, mark_inherited))
            last = self._line(self._stage(f"parallel-{name}", into, trunk=False), branch, trunk=False)
            last.outlet = end = self.link(f"from-{name}-{len(self.links)}", trunk=False)
            ends.append(end)
        stage.outlet = main = self.link(f"trunk-{len(self.links)}", trunk=trunk)
        join = Join(main, ends, on_lost=self.on_lost if trunk else None)
        return self._stage(f"join-{len(self.stages)}", join, trunk=trunk)
