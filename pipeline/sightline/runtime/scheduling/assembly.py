"""Hold the operators of one lane and the stages that run them, and exchange both while the lane runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Event, Lock

from sightline.errors import OperatorError
from sightline.graph import Clock, Element, Step
from sightline.graph.tree import same_layout
from sightline.runtime.scheduling.batcher import Batcher
from sightline.runtime.scheduling.factory import BuiltOperator
from sightline.runtime.scheduling.link import Handover, OptionsChange, Outlet, StateRequest
from sightline.runtime.scheduling.plan import LaneEvents, Planner
from sightline.runtime.scheduling.stage_threads import StageGroup
from sightline.runtime.stats.counters import LinkStats

_FRAMES_IN_A_STAGE_LINK = 8
_ABORT_TIMEOUT_SECONDS = 1.0
_HANGING_ABORT_TIMEOUT_SECONDS = 0.2
_HANGING_SECONDS = 1.0
"""An operator that has been in the same call for so long when a run is aborted is not waited for again."""
_POLL_SECONDS = 0.1


class Assembly:
    """Holds the nodes of the steps and the group of stages that runs them.

    Options change in band, and the stages go on: `request` sends a mark, `has_passed` waits for it. So is state saved.
    Other steps replace them between two batches: `request_handover` lets the stages hand over what is kept,
    `has_handed_over` waits for that, `prepare` takes the new steps and `resume` runs them. Frames wait in front of the
    first stage meanwhile.
    """

    def __init__(self, batcher: Batcher, *, events: LaneEvents, clock: Clock, outlet: Outlet | None) -> None:
        self._batcher = batcher
        self._events = events
        self._clock = clock
        self._outlet = outlet
        self._lock = Lock()
        self._steps: tuple[Step, ...] = ()
        self._built: Mapping[str, BuiltOperator] = {}
        self._group: StageGroup | None = None
        self._over = Event()
        self._is_switching = self._is_aborted = False
        self._former_cpu_ns = 0
        self._former_link_stats: dict[str, LinkStats] = {}

    def install(self, steps: tuple[Step, ...], built: Mapping[str, BuiltOperator]) -> None:
        """Take steps whose nodes have been built, and plan their stages."""
        self.prepare(steps, built)
        self._group = self._plan()

    def start(self) -> None:
        """Start the stages. Raises what makes that impossible; the assembly is then over when all have ended."""
        assert self._group is not None
        self._group.start()

    def discard(self) -> None:
        """Release everything although it was not started."""
        if self._group is not None:
            self._group.discard()

    def abort(self) -> None:
        """End all stages now, and drop what is under way."""
        with self._lock:
            self._is_aborted = True
            group = self._group
        if group is not None:
            group.close()

    def wait(self) -> list[str]:
        """Wait for the end. Return the operators that run on: after an abort, those that do not return."""
        self._await(self._over)
        group = self._group
        if group is None:
            return []
        timeout = _ABORT_TIMEOUT_SECONDS if self._over.is_set() else 0.0
        running = [thread for thread in group.threads if thread.ident is not None and not thread.wait(timeout)]
        return [", ".join(node.element_id for node in thread.stage.nodes) or thread.stage.name for thread in running]

    def runs(self, steps: tuple[Step, ...]) -> bool:
        """Whether it runs these steps."""
        return self._steps == steps

    def has_layout(self, steps: tuple[Step, ...]) -> bool:
        """Whether its stages can run these steps: they differ from the present ones in options only."""
        return same_layout(self._steps, steps)

    def has(self, element_id: str, element: Element) -> bool:
        """Whether building this element now would give the operator that it holds."""
        return element_id in self._built and self._built[element_id].is_current(element)

    def can_change(self, element_id: str, element: Element) -> bool:
        """Whether the operator that it holds can become that of this element, which reads the same files."""
        return element_id in self._built and self._built[element_id].can_become(element)

    def request(self, mark: OptionsChange | StateRequest) -> None:
        """Let options change, or state be saved, between two batches, unless the stages have ended."""
        with self._lock:
            group = None if self._over.is_set() else self._group
        if group is None:
            mark.over.set()
            return
        group.expect(mark)
        self._batcher.insert(mark)

    def has_passed(self, mark: OptionsChange | StateRequest) -> bool:
        """Wait until a mark that was requested has passed all stages; False when these have ended instead."""
        self._await(mark.over)
        return mark.has_passed.is_set()

    def note_change(self, elements: Mapping[str, Element]) -> None:
        """Note that operators have taken over the options of these elements, with the files that these name."""
        changed = {one: self._built[one].changed_into(element) for one, element in elements.items()}
        self._built = {**self._built, **changed}

    def request_handover(self, kept: Iterable[str]) -> None:
        """Let the stages hand over the operators of `kept` elements, and end the others."""
        with self._lock:
            if self._group is None or self._over.is_set():
                return
            self._is_switching = True
        self._batcher.insert(Handover(frozenset(self._built[one].node for one in kept)))

    def has_handed_over(self) -> bool:
        """Wait until the stages have handed over; False when they have ended instead, or nothing was requested."""
        before = self._group
        if before is None or not self._is_switching:
            return False
        self._await(before.ended)
        if before.ended.is_set() and before.is_handed_over:
            self._former_cpu_ns += before.cpu_ns
            self._former_link_stats.update(_link_stats(before))
            return True
        with self._lock:
            self._is_switching = False
        if before.ended.is_set():
            before.release_kept()
            self._finish()
        return False

    def prepare(self, steps: tuple[Step, ...], built: Mapping[str, BuiltOperator]) -> None:
        """Take these steps in place of the present ones."""
        self._steps, self._built = steps, built

    def resume(self) -> None:
        """Run the present steps from where the former ones stopped."""
        with self._lock:
            self._group = group = self._plan()
            self._is_switching = False
            is_aborted = self._is_aborted
        try:
            group.start()
        except RuntimeError as error:
            name = group.threads[0].stage.name
            self._events.failed(OperatorError(f"{name!r} cannot be started again: {error}", element=name))
        if is_aborted:
            group.close()

    def resize_links(self) -> None:
        """Resize the links for the present size of batches."""
        if self._group is not None:
            for link in self._group.links.values():
                link.sender.resize(self._link_capacity)

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        group = self._group
        return group is not None and not self._over.is_set() and any(thread.ident for thread in group.threads)

    @property
    def is_over(self) -> bool:
        """Whether all stages have ended."""
        return self._over.is_set()

    @property
    def group(self) -> StageGroup | None:
        """The stages that run now, or ran last."""
        return self._group

    @property
    def built(self) -> Mapping[str, BuiltOperator]:
        """The operators of the present steps by the ids of their elements, in the order of the description."""
        return self._built

    @property
    def link_stats(self) -> Mapping[str, LinkStats]:
        """The stats of all links of the run, by name."""
        return {**self._former_link_stats, **({} if self._group is None else _link_stats(self._group))}

    @property
    def cpu_ns(self) -> int:
        """The CPU time of the threads that have ended."""
        return self._former_cpu_ns + (0 if self._group is None else self._group.cpu_ns)

    @property
    def _link_capacity(self) -> int:
        return max(2, _FRAMES_IN_A_STAGE_LINK // self._batcher.size)

    def _plan(self) -> StageGroup:
        planner = Planner(
            nodes=iter([one.node for one in self._built.values()]),
            capacity=self._link_capacity,
            events=self._events,
            former_stats=self._former_link_stats,
        )
        planner.lay_out(self._batcher, self._steps).outlet = self._outlet
        return StageGroup(
            planner.stages, planner.links, clock=self._clock, events=self._events, on_ended=self._group_ended
        )

    def _group_ended(self, group: StageGroup) -> None:
        with self._lock:
            is_over = group is self._group and not self._is_switching
        if is_over:
            self._finish()

    def _finish(self) -> None:
        self._over.set()
        self._events.lane_ended()

    def _await(self, event: Event) -> None:
        """Wait for an event; after an abort only for a short time, and still shorter for operators that hang."""
        waited = 0.0
        while waited < self._timeout_seconds and not event.wait(_POLL_SECONDS):
            waited += _POLL_SECONDS if self._is_aborted else 0

    @property
    def _timeout_seconds(self) -> float:
        hangs = self._is_aborted and self._group is not None and self._group.hangs(seconds=_HANGING_SECONDS)
        return _HANGING_ABORT_TIMEOUT_SECONDS if hangs else _ABORT_TIMEOUT_SECONDS


def _link_stats(group: StageGroup) -> dict[str, LinkStats]:
    return {name: link.receiver.stats for name, link in group.links.items()}
