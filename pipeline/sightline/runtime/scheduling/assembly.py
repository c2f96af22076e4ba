"""The assembly: the operators of one lane and the stages that run them, which can be exchanged while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Event, Lock

from sightline.errors import OperatorError
from sightline.graph import Clock, Element, Step
from sightline.media import Batch, Stream
from sightline.runtime.scheduling.batcher import Batcher
from sightline.runtime.scheduling.factory import BuiltOperator
from sightline.runtime.scheduling.link import Handover, LinkStats, Outlet, WorkItem
from sightline.runtime.scheduling.plan import Layout, Planner

_FRAMES_IN_A_STAGE_LINK = 8
_PATIENCE_AFTER_ABORT_SECONDS = 1.0
_PATIENCE_WITH_HANGING_SECONDS = 0.2
_HANGING_SECONDS = 1.0
"""An operator that has been in the same call for so long when a run is aborted has had its time."""
_GLANCE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Exits:
    """Where things leave an assembly: finished and lost parcels, errors, ends of streams, its own end."""

    on_done: Callable[[WorkItem, Batch], None]
    on_lost: Callable[[WorkItem], None]
    on_error: Callable[[BaseException], None]
    on_stream_end: Callable[[Stream], None]
    on_over: Callable[[], None]
    outlet: Outlet | None = None


class Assembly:
    """Holds the nodes of the steps and the layout that runs them.

    Other steps take their place between two batches: `ask` lets the stages hand over what is kept, `has_handed_over`
    waits for that, and `prepare` and `go_on` run the others. Frames wait in front of the first stage meanwhile.
    """

    def __init__(self, batcher: Batcher, *, exits: Exits, clock: Clock) -> None:
        self._batcher = batcher
        self._exits = exits
        self._clock = clock
        self._lock = Lock()
        self._steps: tuple[Step, ...] = ()
        self._made: Mapping[str, BuiltOperator] = {}
        self._layout: Layout | None = None
        self._over = Event()
        self._is_switching = self._is_aborted = False
        self._cpu_ns_of_gone = 0
        self._counted: dict[str, LinkStats] = {}

    def install(self, steps: tuple[Step, ...], made: Mapping[str, BuiltOperator]) -> None:
        """Take steps whose nodes have been built, and plan their stages."""
        self.prepare(steps, made)
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

    def is_of(self, steps: tuple[Step, ...]) -> bool:
        """Whether it runs these steps."""
        return self._steps == steps

    def has(self, element_id: str, element: Element) -> bool:
        """Whether it holds what building this element now would make."""
        return element_id in self._made and self._made[element_id].is_still(element)

    def ask(self, kept: Iterable[str]) -> None:
        """Let the stages hand over, and end what is not kept."""
        with self._lock:
            if self._layout is None or self._over.is_set():
                return
            self._is_switching = True
        self._batcher.hand_over(Handover(frozenset(self._made[one].node for one in kept)))

    def has_handed_over(self) -> bool:
        """Wait until they have; False when they have come to their end instead, or were not asked any more."""
        before = self._layout
        if before is None or not self._is_switching:
            return False
        self._await(before.ended)
        if before.ended.is_set() and before.is_handed_over:
            self._cpu_ns_of_gone += before.cpu_ns
            self._counted.update({name: link.statistics for name, link in before.links.items()})
            return True
        with self._lock:
            self._is_switching = False
        if before.ended.is_set():
            before.disown()
            self._finish()
        return False

    def prepare(self, steps: tuple[Step, ...], made: Mapping[str, BuiltOperator]) -> None:
        """Take these steps in the place of those before."""
        self._steps, self._made = steps, made

    def go_on(self) -> None:
        """Run the present steps, from where those before were left."""
        with self._lock:
            self._layout = layout = self._lay_out()
            self._is_switching = False
            is_aborted = self._is_aborted
        try:
            layout.start()
        except RuntimeError as error:
            name = layout.threads[0].stage.name
            self._exits.on_error(OperatorError(f"{name!r} cannot be started again: {error}", element=name))
        if is_aborted:
            layout.close()

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
    def is_over(self) -> bool:
        """Whether all stages have come to their end."""
        return self._over.is_set()

    @property
    def layout(self) -> Layout | None:
        """The stages that run now, or ran last."""
        return self._layout

    @property
    def made(self) -> Mapping[str, BuiltOperator]:
        """The nodes of the present steps by the ids of their elements, in the order of the description."""
        return self._made

    @property
    def links(self) -> Mapping[str, LinkStats]:
        """What was counted of all links of the run."""
        now = {} if self._layout is None else {name: link.statistics for name, link in self._layout.links.items()}
        return {**self._counted, **now}

    @property
    def cpu_ns(self) -> int:
        """What the threads that have ended took."""
        return self._cpu_ns_of_gone + (0 if self._layout is None else self._layout.cpu_ns)

    @property
    def _capacity(self) -> int:
        return max(2, _FRAMES_IN_A_STAGE_LINK // self._batcher.size)

    def _lay_out(self) -> Layout:
        exits = self._exits
        nodes = iter([made.node for made in self._made.values()])
        planner = Planner(nodes=nodes, capacity=self._capacity, on_lost=exits.on_lost, counted=self._counted)
        last = planner.lay_out(self._batcher, self._steps)
        last.on_done, last.outlet = exits.on_done, exits.outlet
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

    def _await(self, event: Event) -> None:
        """Wait for it, but not for long after an abort, and still less for operators that hang."""
        waited = 0.0
        while waited < self._patience_seconds and not event.wait(_GLANCE_SECONDS):
            waited += _GLANCE_SECONDS if self._is_aborted else 0

    @property
    def _patience_seconds(self) -> float:
        hangs = self._is_aborted and self._layout is not None and self._layout.hangs(seconds=_HANGING_SECONDS)
        return _PATIENCE_WITH_HANGING_SECONDS if hangs else _PATIENCE_AFTER_ABORT_SECONDS
