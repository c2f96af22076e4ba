"""Planning: the tree of steps becomes stages and links. Which thread runs what is decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from sightline.graph import Element, Parallel, Step, Tee, Threading
from sightline.runtime.gather import Gather
from sightline.runtime.join import Join, mark_inherited
from sightline.runtime.link import DropReason, Link, LinkStatistics
from sightline.runtime.node import Node
from sightline.runtime.parcel import Item, Parcel
from sightline.runtime.stage import Stage, Tap


@dataclass(slots=True, eq=False)
class Planner:
    """Lays out stages. `nodes` gives the node of each element of the tree, in order; `counted` has what links of the
    same names have counted before.
    """

    nodes: Iterator[Node]
    capacity: int
    on_lost: Callable[[Parcel], None]
    counted: Mapping[str, LinkStatistics]
    stages: list[Stage] = field(default_factory=list)
    links: dict[str, Link[Item]] = field(default_factory=dict)

    def lay_out(self, gather: Gather, steps: tuple[Step, ...]) -> Stage:
        """Plan the whole pipeline; return the stage at the end of its main line."""
        return self._line(self._stage("main", gather, trunk=True), steps, trunk=True)

    def link(self, name: str, *, trunk: bool) -> Link[Item]:
        """A new link; what is lost on the trunk is counted."""
        on_drop = self._count_lost if trunk else None
        self.links[name] = made = Link[Item](self.capacity, on_drop=on_drop)
        made.statistics = self.counted.get(name, made.statistics)
        return made

    def _count_lost(self, item: Item, reason: DropReason) -> None:
        del reason
        if isinstance(item, Parcel):
            self.on_lost(item)

    def _stage(self, name: str, inlet: Gather | Link[Item] | Join, *, trunk: bool) -> Stage:
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
