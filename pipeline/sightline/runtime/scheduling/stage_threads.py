"""Run the stages of a lane, each in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Event, Lock
from time import perf_counter_ns, process_time_ns, thread_time_ns

from sightline.errors import EndOfLink, LinkClosed, OperatorError, SightlineError
from sightline.graph import Clock
from sightline.media import Batch
from sightline.redaction import redact
from sightline.runtime.scheduling.link import (
    Handover,
    Item,
    Link,
    OptionsChange,
    StateRequest,
    StreamEnd,
    StreamPause,
    WorkItem,
)
from sightline.runtime.scheduling.node import Node
from sightline.runtime.scheduling.plan import LaneEvents, Stage, Tap
from sightline.runtime.threads import Worker
from sightline.runtime.tracing import BatchTrace


class StageThread(Worker):
    """Runs one stage until its inlet ends or something fails, then closes its operators and ends its outlets; or until
    it hands over to a stage that takes its place (`handover` is then the mark) and goes on with the same inlet.

    Errors are reported once, and not raised again. When the thread has ended, `cpu_ns` is the CPU time that it took,
    and `ended_ns` and `process_cpu_ns` are the clock's and the process's times at that moment.
    """

    def __init__(self, stage: Stage, *, clock: Clock, events: LaneEvents, group: StageGroup) -> None:
        super().__init__(stage.name)
        self.stage = stage
        self.handover: Handover | None = None
        self.cpu_ns = 0
        self.ended_ns: int | None = None
        self.process_cpu_ns = 0
        self._clock = clock
        self._events = events
        self._group = group

    def work(self) -> None:
        """Run the stage."""
        try:
            self._run_stage()
        except LinkClosed:
            pass
        except SightlineError as error:
            self._events.failed(error)
        except BaseException as error:  # noqa: BLE001  the thread's outermost frame: whatever ends it is reported, once
            message = f"{self.stage.name!r} failed: {redact(f'{type(error).__name__}: {error}')}"
            failure = OperatorError(message, element=self.stage.name)
            failure.__cause__ = error
            self._events.failed(failure)
        finally:
            self.release()
            self.cpu_ns, self.process_cpu_ns = thread_time_ns(), process_time_ns()
            self.ended_ns = self._clock.monotonic_ns()
            self._group.count_ended_thread()

    def is_in_a_call_for(self, seconds: float) -> bool:
        """Whether it has been in the same call of an operator for so long."""
        calls = [node.call for node in self.stage.held]
        limit_ns = perf_counter_ns() - seconds * 1e9
        return any(call and call.thread_id == self.ident and call.since_ns <= limit_ns for call in calls)

    def release(self) -> None:
        """Release the operators, close the inlet and end the outlets; after a handover only the operators that do not
        go on in other stages. Also for a thread that was never started.
        """
        stage, mark = self.stage, self.handover
        if mark is None:
            stage.inlet.close()
        self._release([node for node in stage.held if mark is None or node not in mark.kept])
        if mark is None:
            for outlet in stage.outlets:
                outlet.end()

    def release_kept(self) -> None:
        """Release the operators that were to go on in other stages, when there will be none; after the thread has
        ended.
        """
        if self.handover is not None:
            self._release([node for node in self.stage.held if node in self.handover.kept])

    def _release(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            try:
                node.release()
            except SightlineError as error:
                if not self._goes_on(error, closing=True):
                    self._events.failed(error)

    def _goes_on(self, error: BaseException, *, closing: bool = False) -> bool:
        """Whether the run goes on although an operator has failed, because a change is on probation."""
        if not (isinstance(error, OperatorError) and self._events.takes(error, closing=closing)):
            return False
        for node in self.stage.held:
            if node.element_id == error.element:
                node.stats.failures[type(error.__cause__ or error).__name__] += 1
        return True

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
            elif isinstance(item, StreamPause):
                self._pause_stream(item)
            elif isinstance(item, OptionsChange):
                self._change_options(item)
            elif isinstance(item, StateRequest):
                self._save_state(item)
            else:
                self._hand_over(item)
                return
        for node in stage.nodes:
            node.drain()

    def _process(self, item: WorkItem) -> None:
        stage, trace = self.stage, item.trace
        try:
            if trace is not None:
                trace.received(stage.link)
            if not item.is_lost:
                batch = self._run_steps(item)
                if stage.is_last:
                    self._events.batch_done(item, batch)
        except BaseException as error:
            item.is_lost = self._goes_on(error)
            if trace is not None and isinstance(error, OperatorError):
                trace.lose(redact(error))
            if stage.trunk:
                self._events.batch_lost(item)
            if not item.is_lost:
                raise
        if trace is not None:
            self._pass_on(trace)
        if stage.outlet is not None and not (stage.trunk and item.is_lost):
            stage.outlet.send(item)

    def _pass_on(self, trace: BatchTrace) -> None:
        """Send a trace along with its item, or release it where the line of steps ends."""
        stage = self.stage
        if stage.outlet is not None and not stage.is_last:
            trace.sent()
            return
        if stage.is_last:
            trace.finish()
        trace.release()

    def _run_steps(self, item: WorkItem) -> Batch:
        stage = self.stage
        batch, trace = item.batch(), item.trace
        if item.inspection is not None and stage.is_first:
            item.inspection.begin(batch)
        if trace is not None:
            trace.end_pending()
        for step in stage.steps:
            if isinstance(step, Tap):
                self._tap(item, step, batch)
                batch = batch.shared()
                continue
            if trace is not None:
                trace.begin_step()
            item.work = step.process(batch, item.inspection)
            hands_over = stage.hands_over and step is stage.steps[-1]
            if not hands_over:
                batch = item.batch()
            if trace is not None:
                own = [frame for frame in item.frames if step.takes(frame.stream)]
                trace.end_step(step.element_id, element=step.element.name, is_pending=hands_over, own=own)
            if hands_over:
                return batch
        item.work = batch
        return batch

    def _tap(self, item: WorkItem, tap: Tap, batch: Batch) -> None:
        """Send a batch into a branch as well."""
        branched = WorkItem(item.frames, item.arrivals_ns, tap.prepare(batch), inspection=item.inspection)
        if item.trace is not None:
            branched.trace = item.trace.for_branch()
            branched.trace.sent()
        tap.link.send(branched)

    def _end_stream(self, mark: StreamEnd) -> None:
        if self._tell_all(mark, lambda node: node.end_stream(mark.stream)):
            self._events.stream_ended(mark.stream)

    def _pause_stream(self, mark: StreamPause) -> None:
        if self._tell_all(mark, lambda node: node.pause_stream(mark.stream)):
            self._events.stream_paused(mark.stream, number=mark.number)

    def _tell_all(self, mark: StreamEnd | StreamPause, tell: Callable[[Node], None]) -> bool:
        """Tell the nodes what a mark says, and send it on; return whether it has passed all stages."""
        for node in self.stage.nodes:
            try:
                tell(node)
            except OperatorError as error:
                if not self._goes_on(error):
                    raise
        for outlet in self.stage.outlets:
            outlet.send(mark)
        return self._group.has_passed_all(mark)

    def _change_options(self, mark: OptionsChange) -> None:
        for node in self.stage.nodes:
            element = mark.elements.get(node.element_id)
            if element is not None and (error := node.change(element)) is not None:
                mark.errors.append(error)
        self._send_to_the_end(mark)

    def _save_state(self, mark: StateRequest) -> None:
        for node in self.stage.nodes:
            mark.saved.extend(node.save(mark.streams, at_ns=mark.at_ns))
        self._send_to_the_end(mark)

    def _send_to_the_end(self, mark: OptionsChange | StateRequest) -> None:
        """Send a mark on; note when it has passed all stages."""
        for outlet in self.stage.outlets:
            outlet.send(mark)
        if self._group.has_passed_all(mark):
            mark.has_passed.set()
            mark.over.set()

    def _hand_over(self, mark: Handover) -> None:
        for node in self.stage.nodes:
            if node not in mark.kept:
                try:
                    node.drain()
                except OperatorError as error:
                    if not self._goes_on(error, closing=True):
                        raise
        for outlet in self.stage.outlets:
            outlet.send(mark)
        self.handover = mark


class StageGroup:
    """The threads of all stages of a lane. They run until all have ended, or all have handed over to another group.

    `on_ended` is called when the last thread has ended.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        links: Mapping[str, Link[Item]],
        *,
        clock: Clock,
        events: LaneEvents,
        on_ended: Callable[[StageGroup], None],
    ) -> None:
        self.links = links
        self.threads = [StageThread(stage, clock=clock, events=events, group=self) for stage in stages]
        self.ended = Event()
        self._events = events
        self._on_ended = on_ended
        self._lock = Lock()
        self._is_discarded = False
        self._running = len(stages)
        self._passed: dict[object, int] = {}
        self._expected: list[OptionsChange | StateRequest] = []

    @property
    def is_handed_over(self) -> bool:
        """Whether all stages have handed over."""
        return all(thread.handover is not None for thread in self.threads)

    @property
    def cpu_ns(self) -> int:
        """The CPU time of the threads that have ended."""
        return sum(thread.cpu_ns for thread in self.threads)

    def start(self) -> None:
        """Start all threads. When that fails, end those that run and raise the error."""
        try:
            for thread in self.threads:
                thread.start()
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """End the group although not all threads were started; harmless when called again."""
        if self._is_discarded:
            return
        self._is_discarded = True
        self.close()
        for thread in self.threads:
            if thread.ident is None:
                thread.release()
                self.count_ended_thread()

    def close(self) -> None:
        """End the group now: close every inlet, so that no thread waits any more, and drop what is under way."""
        for thread in self.threads:
            thread.stage.inlet.close()

    def hangs(self, *, seconds: float) -> bool:
        """Whether all threads that have not ended have been in the same call of an operator for so long."""
        running = [thread for thread in self.threads if thread.running]
        return bool(running) and all(thread.is_in_a_call_for(seconds) for thread in running)

    def release_kept(self) -> None:
        """Release the operators that were to go on in another group, when there will be none."""
        for thread in self.threads:
            thread.release_kept()

    def has_passed_all(self, mark: StreamEnd | StreamPause | OptionsChange | StateRequest) -> bool:
        """Note that a mark has passed one stage; return whether it has passed all."""
        key = mark.number if isinstance(mark, StreamEnd) else mark
        with self._lock:
            left = self._passed.pop(key, len(self.threads)) - 1
            if left:
                self._passed[key] = left
        return not left

    def expect(self, mark: OptionsChange | StateRequest) -> None:
        """Prepare for a mark: it is over when it has passed all stages, or these have ended."""
        with self._lock:
            self._expected = [one for one in self._expected if not one.over.is_set()] + [mark]
            has_ended = not self._running
        if has_ended:
            mark.over.set()

    def count_ended_thread(self) -> None:
        """Note that one thread has ended; report it when all have."""
        with self._lock:
            self._running -= 1
            is_last = not self._running
            expected = self._expected
        if is_last:
            self.ended.set()
            for mark in expected:
                mark.over.set()
            self._on_ended(self)
