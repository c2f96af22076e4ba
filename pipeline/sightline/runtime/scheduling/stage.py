"""Stages: the operators that one thread runs one after another, between an inlet and an outlet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns, process_time_ns, thread_time_ns
from typing import Protocol

from sightline.errors import EndOfLink, LinkClosed, OperatorError, SightlineError
from sightline.graph import Clock
from sightline.media import Batch
from sightline.redaction import redact
from sightline.runtime.scheduling.link import Handover, Item, Link, Outlet, StreamEnd, WorkItem
from sightline.runtime.scheduling.node import Node
from sightline.runtime.threads import Worker


class Inlet(Protocol):
    """Where a stage gets its work from: a link, the gather, or a join."""

    def receive(self) -> Item:
        """The next item. Raises EndOfLink when there will be none."""
        ...

    def close(self) -> None:
        """Take nothing more."""
        ...


@dataclass(slots=True, eq=False)
class Tap:
    """Hands each batch to a branch as well: a sink with a thread of its own, or a branch of a tee."""

    link: Link[Item]
    prepare: Callable[[Batch], Batch] = Batch.shared


@dataclass(slots=True, eq=False)
class Stage:
    """What one thread runs.

    `collects` is the operator of the stage in front whose pending results this stage collects, and `hands_over` says
    that this stage leaves those of its last step to the stage behind. `outlet` is None where a line of steps ends;
    `on_done` then gets each finished parcel, and `on_lost` those that never get there.
    """

    name: str
    inlet: Inlet
    steps: list[Node | Tap] = field(default_factory=list)
    collects: Node | None = None
    hands_over: bool = False
    outlet: Outlet | None = None
    on_done: Callable[[WorkItem, Batch], None] | None = None
    on_lost: Callable[[WorkItem], None] | None = None

    @property
    def nodes(self) -> list[Node]:
        """The operators of this stage."""
        return [step for step in self.steps if isinstance(step, Node)]

    @property
    def held(self) -> list[Node]:
        """The operators that this stage's thread holds: its own, and the one whose results it collects."""
        return self.nodes if self.collects is None else [*self.nodes, self.collects]

    @property
    def sends(self) -> list[Outlet]:
        """Everything that this stage sends to."""
        taps: list[Outlet] = [step.link for step in self.steps if isinstance(step, Tap)]
        return [*taps, self.outlet] if self.outlet is not None else taps


class StageThread(Worker):
    """Runs one stage until its inlet ends or something fails, then closes its operators and ends what it sends to; or
    until it hands over to a stage that comes after it (`handover` is then the mark), which goes on with its inlet.

    `on_error` is called with what failed, which is not raised again, `on_stream_end` with each mark of a stream that
    has passed, and `on_left` at the very end. When the thread has ended, `cpu_ns` is the CPU time that it took, and
    `ended_ns` and `process_cpu_ns` are the clock's and the process's times at that moment.
    """

    def __init__(
        self,
        stage: Stage,
        *,
        clock: Clock,
        on_error: Callable[[BaseException], None],
        on_stream_end: Callable[[StreamEnd], None],
        on_left: Callable[[], None],
    ) -> None:
        super().__init__(stage.name)
        self.stage = stage
        self.handover: Handover | None = None
        self.cpu_ns = 0
        self.ended_ns: int | None = None
        self.process_cpu_ns = 0
        self._clock = clock
        self._on_error = on_error
        self._on_stream_end = on_stream_end
        self._on_left = on_left

    def work(self) -> None:
        """Run the stage."""
        try:
            self._run_stage()
        except LinkClosed:
            pass
        except SightlineError as error:
            self._on_error(error)
        except BaseException as error:  # noqa: BLE001  the thread's outermost frame: whatever ends it is reported, once
            message = f"{self.stage.name!r} failed: {redact(f'{type(error).__name__}: {error}')}"
            failure = OperatorError(message, element=self.stage.name)
            failure.__cause__ = error
            self._on_error(failure)
        finally:
            self.leave()
            self.cpu_ns, self.process_cpu_ns = thread_time_ns(), process_time_ns()
            self.ended_ns = self._clock.monotonic_ns()
            self._on_left()

    def is_in_a_call_for(self, seconds: float) -> bool:
        """Whether it has been in the same call of an operator for so long."""
        calls = [node.call for node in self.stage.held]
        limit_ns = perf_counter_ns() - seconds * 1e9
        return any(call and call.thread_id == self.ident and call.since_ns <= limit_ns for call in calls)

    def leave(self) -> None:
        """Let go of the operators, except those that go on in other stages, and when none does so of the inlet and the
        outlets too; for a thread that was never started, too.
        """
        stage, mark = self.stage, self.handover
        if mark is None:
            stage.inlet.close()
        self._release([node for node in stage.held if mark is None or node not in mark.kept])
        if mark is None:
            for link in stage.sends:
                link.end()

    def disown(self) -> None:
        """Let go of the operators that were to go on in other stages, when there will be none; for a thread that has
        ended.
        """
        if self.handover is not None:
            self._release([node for node in self.stage.held if node in self.handover.kept])

    def _release(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            try:
                node.release()
            except SightlineError as error:
                self._on_error(error)

    def _run_stage(self) -> None:
        stage = self.stage
        while True:
            try:
                item = stage.inlet.receive()
            except EndOfLink:
                break
            if isinstance(item, WorkItem):
                self._process(item)
            elif isinstance(item, StreamEnd):
                self._end_stream(item)
            else:
                self._hand_over(item)
                return
        for node in stage.nodes:
            node.drain()

    def _process(self, work_item: WorkItem) -> None:
        stage = self.stage
        try:
            batch = self._run_steps(work_item)
            if stage.on_done is not None:
                stage.on_done(work_item, batch)
        except BaseException:
            if stage.on_lost is not None:
                stage.on_lost(work_item)
            raise
        if stage.outlet is not None:
            stage.outlet.send(work_item)

    def _run_steps(self, work_item: WorkItem) -> Batch:
        stage = self.stage
        batch = work_item.batch()
        for step in stage.steps:
            if isinstance(step, Tap):
                step.link.send(WorkItem(work_item.frames, work_item.arrivals_ns, step.prepare(batch)))
                batch = batch.shared()
                continue
            work_item.work = step.process(batch)
            if stage.hands_over and step is stage.steps[-1]:
                return batch
            batch = work_item.batch()
        work_item.work = batch
        return batch

    def _end_stream(self, mark: StreamEnd) -> None:
        for node in self.stage.nodes:
            node.end_stream(mark.stream)
        for link in self.stage.sends:
            link.send(mark)
        self._on_stream_end(mark)

    def _hand_over(self, mark: Handover) -> None:
        for node in self.stage.nodes:
            if node not in mark.kept:
                node.drain()
        for link in self.stage.sends:
            link.send(mark)
        self.handover = mark


def close_all(stages: Sequence[Stage]) -> None:
    """Close every inlet, so that no thread waits any more; what is under way is dropped."""
    for stage in stages:
        stage.inlet.close()
