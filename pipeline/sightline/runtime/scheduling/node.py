"""Run operators, with their counters, error policy and probes."""

from __future__ import annotations

import dataclasses
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from threading import Lock, RLock, get_ident
from time import perf_counter_ns, thread_time_ns
from typing import Any

from sightline.errors import CudaFailed, OperatorError, SightlineError
from sightline.graph import (
    Element,
    KeepsState,
    Message,
    MessageKind,
    Operator,
    Pending,
    PreparesChanges,
    RunsOn,
    Site,
    TakesChanges,
)
from sightline.media import Batch, Frame, Stream
from sightline.redaction import redact
from sightline.runtime.inspection import FrameInspection, StepWatch
from sightline.runtime.scheduling.join import marked
from sightline.runtime.scheduling.rule_findings import EventListener, RuleFindings
from sightline.runtime.state.file import SavedState
from sightline.runtime.state.keeper import StateKeeper
from sightline.runtime.stats.counters import ElementStats

MOST_IN_A_ROW = 50
"""After so many failures in a row on one stream, the stream has failed."""

StreamFailed = Callable[[Stream, OperatorError, str], None]
"""Fails a stream for an error; the last argument is its traceback."""


class ErrorPolicy:
    """Implements `on_error: skip`: counts the failures of one element per stream, and reports the first of each row;
    those of a sink as lost output. For one thread.
    """

    def __init__(self, *, site: Site, is_sink: bool, on_hopeless: StreamFailed) -> None:
        self._site = site
        self._kind = MessageKind.SINK_DEGRADED if is_sink else MessageKind.WARNING
        self._on_hopeless = on_hopeless
        self._in_a_row: dict[Stream, int] = {}

    def worked(self, stream: Stream) -> None:
        """Note that the element has processed frames of a stream."""
        self._in_a_row.pop(stream, None)

    def failed(self, stream: Stream, error: OperatorError, *, counted: Counter[str]) -> None:
        """Note that the element has failed on frames of a stream, which continue without it; count in `counted` by the
        type of the error.
        """
        cause = error.__cause__ or error
        counted[type(cause).__name__] += 1
        count = self._in_a_row[stream] = self._in_a_row.get(stream, 0) + 1
        if count == 1:
            text = f"{error}; the frame goes on without this step (on_error: skip)"
            self._site.post(Message(self._kind, text, stream.name, error.element, details=_lines(cause)))
        elif count == MOST_IN_A_ROW:
            self._on_hopeless(stream, error, _lines(cause))

    def forget(self, stream: Stream) -> None:
        """Note that a stream has ended."""
        self._in_a_row.pop(stream, None)


def _lines(error: BaseException) -> str:
    return redact("".join(traceback.format_exception(error)))


Probe = Callable[[Batch], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A call of an operator that has not returned: its thread, and when it began (`perf_counter_ns`)."""

    thread_id: int
    since_ns: int


class Node:
    """Runs one operator; entered by one thread at a time.

    Pending results may be collected by the thread of the stage behind (`share`): the last of the two threads that
    releases the node closes the operator, so that no result is asked for after that.
    """

    def __init__(
        self,
        element: Element,
        operator: Operator,
        *,
        element_id: str,
        probes: list[Probe],
        probing: Lock | None = None,
        error_policy: ErrorPolicy | None = None,
        on_events: EventListener | None = None,
        keeper: StateKeeper | None = None,
    ) -> None:
        self.call: Call | None = None
        self.findings = RuleFindings(element_id, on_events=on_events)
        self._error_policy = error_policy
        self.element_id = element_id
        self.element = element
        self.stats = ElementStats(element_id, element.name)
        self.operator = operator
        self._keeper = keeper if isinstance(operator, KeepsState) else None
        self._patterns = element.streams
        self._probes = probes
        self._probing = probing or Lock()
        self._streams: dict[Stream, bool] = {}
        self._seen_streams: dict[Stream, None] = {}
        self._lock = Lock()
        self._holders = 1
        self._is_shared = False

    def share(self) -> None:
        """Let another thread collect the pending results; it calls `release` as well."""
        self._holders, self._is_shared = 2, True

    def process(self, batch: Batch, inspection: FrameInspection | None = None) -> Batch | Pending:
        """Return what the operator makes of a batch; frames of streams that it does not process pass unchanged.
        `inspection` gets what it makes of one of the frames.
        """
        own = self._own_rows(batch)
        if not own:
            return _Unprocessed(self, batch) if self._is_shared else self._shown(batch, batch)
        given = batch if len(own) == len(batch) else batch.select_frames(own)
        for frame in given.frames:
            if frame.stream not in self._seen_streams:
                self._begin_stream(frame.stream)
        if self._error_policy is not None:
            return self._shown(batch, self._by_frame(batch, own, self._error_policy, inspection))
        watch = self._watch(given, inspection)
        started, cpu_started = perf_counter_ns(), thread_time_ns()
        self.call = Call(get_ident(), started)
        try:
            result = self._operate(given, watch)
        except BaseException as error:
            raise self._failed(given, _describe(error)) from error
        finally:
            self.call = None
        self._count(given, started_ns=started, cpu_started_ns=cpu_started)
        if isinstance(result, Batch):
            self.stats.latency.add(perf_counter_ns() - started)
            return self._finish(batch, given, own, result, watch)
        if not hasattr(result, "result"):  # sixty times as fast as isinstance with a protocol
            raise self._failed(given, f"it returned {_kind(result)}, not a Batch or a Pending")
        return _PendingAtNode(self, batch, given, own, result, started, watch)

    def pause_stream(self, stream: Stream) -> None:
        """Pause a stream in the operator, if it was given frames of it. Raises OperatorError."""
        if stream in self._seen_streams:
            self._guarded(lambda: self.operator.pause_stream(stream), doing="pausing", stream=stream.name)

    def can_become(self, element: Element) -> bool:
        """Whether the operator can take over the options of this element."""
        return isinstance(self.operator, TakesChanges) and self.element.changes_live_into(element)

    def prepare(self, element: Element, *, prove_ns: int) -> None:
        """Let the operator make ready, beside its work, what it needs to become this element. Raises SightlineError."""
        operator = self.operator
        if isinstance(operator, PreparesChanges):
            try:
                operator.prepare(element, prove_ns=prove_ns)
            except SightlineError:
                raise
            except Exception as error:
                message = f"element {self.element_id!r} cannot prepare its change: {_describe(error)}"
                raise OperatorError(message, element=self.element_id) from error

    def abandon(self) -> None:
        """Let the operator release what it has made ready for a change that does not come. Raises OperatorError."""
        operator = self.operator
        if isinstance(operator, PreparesChanges):
            self._guarded(operator.abandon, doing="abandoning a change")

    def change(self, element: Element) -> OperatorError | None:
        """Let the operator take over the options of this element. Return its error when it goes on with the present
        ones. Raises OperatorError when it cannot do that either.
        """
        former, operator = self.element, self.operator
        if not isinstance(operator, TakesChanges) or (former == element and not isinstance(operator, PreparesChanges)):
            return None
        try:
            self._guarded(lambda: operator.change(element), doing="changing its options")
        except OperatorError as error:
            self._guarded(lambda: operator.change(former), doing="changing its options back")
            return error
        self.element = element
        return None

    def end_stream(self, stream: Stream) -> None:
        """End a stream in the operator, if it was given frames of it. Raises OperatorError."""
        self._streams.pop(stream, None)
        if stream in self._seen_streams:
            if self._keeper is not None:
                for saved in self.save([stream], at_ns=self._keeper.now_ns()):
                    self._keeper.put(saved)
            del self._seen_streams[stream]
            if self._error_policy is not None:
                self._error_policy.forget(stream)
            self._guarded(lambda: self.operator.end_stream(stream), doing="ending", stream=stream.name)

    def save(self, streams: Collection[Stream], *, at_ns: int) -> list[SavedState]:
        """Return the operator's state of those of these streams that are live, if it keeps any; `at_ns` is the time of
        day.
        """
        keeper, operator = self._keeper, self.operator
        if keeper is None or not isinstance(operator, KeepsState):
            return []
        saved = []
        for stream in self._seen_streams:
            if stream.live and stream in streams:
                try:
                    state = operator.save(stream)
                except Exception as error:  # noqa: BLE001  a run is worth more than its state; reported, once
                    keeper.failed(self.element_id, stream=stream.name, error=error, doing="saved")
                    continue
                if state is not None:
                    saved.append(SavedState(self.element_id, self.element.name, stream.name, at_ns, state))
        return saved

    def drain(self) -> None:
        """End the streams that have not ended, and drain the operator. Raises OperatorError."""
        for stream in list(self._seen_streams):
            self.end_stream(stream)
        self._guarded(self.operator.drain, doing="finishing")

    def release(self) -> None:
        """Release one hold on the operator; the last one closes it. Raises OperatorError."""
        with self._lock:
            self._holders -= 1
            last = self._holders == 0
        if last:
            self._close()

    def discard(self) -> None:
        """Release the hold of a stage that was never started. Raises OperatorError."""
        self.release()

    def _close(self) -> None:
        self._guarded(self.operator.close, doing="closing")

    def runs_on(self) -> RunsOn:
        """Return where the operator runs. Raises OperatorError."""
        found: list[RunsOn] = []
        self._guarded(lambda: found.append(self.operator.runs_on()), doing="reporting")
        return found[0]

    def engine_report(self) -> Mapping[str, Any]:
        """Return what computes the operator's model. Raises OperatorError."""
        report: dict[str, Any] = {}
        self._guarded(lambda: report.update(self.operator.engine_report()), doing="reporting")
        return report

    def totals(self) -> Mapping[str, Any]:
        """Return what the operator counted. Raises OperatorError."""
        totals: dict[str, Any] = {}
        self._guarded(lambda: totals.update(self.operator.totals()), doing="reporting")
        return totals

    def _begin_stream(self, stream: Stream) -> None:
        """Restore what an earlier run saved of a live stream."""
        self._seen_streams[stream] = None
        keeper, operator = self._keeper, self.operator
        if keeper is None or not stream.live or not isinstance(operator, KeepsState):
            return
        left = keeper.take(self.element_id, element=self.element.name, stream=stream.name)
        if left is not None:
            try:
                operator.restore(stream.name, left)
            except Exception as error:  # noqa: BLE001  a run is worth more than its state; reported, once
                keeper.failed(self.element_id, stream=stream.name, error=error, doing="restored")

    def _by_frame(
        self, batch: Batch, own: Sequence[int], error_policy: ErrorPolicy, inspection: FrameInspection | None
    ) -> Batch:
        """Process each frame by itself, and keep those on which the operator fails unchanged."""
        for row in own:
            stream, given = batch.frames[row].stream, batch.select_frames([row])
            watch = self._watch(given, inspection)
            try:
                result = self._process_now(given, watch)
            except OperatorError as error:
                cause = error.__cause__ or error
                if isinstance(cause, CudaFailed) or not isinstance(cause, Exception):
                    raise
                self.stats.last_failure = str(error)
                error_policy.failed(stream, error, counted=self.stats.failures)
                if watch is not None:
                    watch.fail(str(error))
            else:
                error_policy.worked(stream)
                batch = result if len(batch) == 1 else batch.with_rows([row], result)
        return batch

    def _process_now(self, given: Batch, watch: StepWatch | None) -> Batch:
        """Process a batch and wait for the result; it is not shown to probes."""
        started, cpu_started = perf_counter_ns(), thread_time_ns()
        self.call = Call(get_ident(), started)
        try:
            result = self._operate(given, watch)
            result = result if isinstance(result, Batch) else result.result()
        except BaseException as error:
            raise self._failed(given, _describe(error)) from error
        finally:
            self.call = None
            self._count(given, started_ns=started, cpu_started_ns=cpu_started)
        if not isinstance(result, Batch):
            raise self._failed(given, f"its pending result is {_kind(result)}, not a Batch")
        self.stats.latency.add(perf_counter_ns() - started)
        self._check(given, result)
        self.findings.take(given, result)
        if watch is not None:
            watch.leave(result)
        return result

    def _watch(self, given: Batch, inspection: FrameInspection | None) -> StepWatch | None:
        return None if inspection is None else inspection.enter(self.element_id, self.element, given)

    def _operate(self, given: Batch, watch: StepWatch | None) -> Batch | Pending:
        return self.operator.process(given) if watch is None else watch.process(self.operator)

    def _own_rows(self, batch: Batch) -> Sequence[int]:
        if self._patterns is None:
            return range(len(batch))
        return [row for row, frame in enumerate(batch.frames) if self.takes(frame.stream)]

    def takes(self, stream: Stream) -> bool:
        """Whether the operator works on frames of a stream."""
        own = self._streams.get(stream)
        if own is None:
            patterns = self._patterns
            own = patterns is None or any(fnmatchcase(stream.name, pattern) for pattern in patterns)
            self._streams[stream] = own
        return own

    def _count(self, batch: Batch, *, started_ns: int, cpu_started_ns: int) -> None:
        self.stats.calls += 1
        self.stats.frames += len(batch)
        self.stats.busy_ns += perf_counter_ns() - started_ns
        self.stats.cpu_ns += thread_time_ns() - cpu_started_ns

    def _finish(self, batch: Batch, given: Batch, own: Sequence[int], result: Batch, watch: StepWatch | None) -> Batch:
        self._check(given, result)
        self.findings.take(given, result)
        if watch is not None:
            watch.leave(result)
        result = marked(given, result, element=self.element)
        if len(own) < len(batch):
            result = batch.with_rows(own, result)
        return self._shown(batch, result)

    def _check(self, given: Batch, result: Batch) -> None:
        if len(result) != len(given):
            raise self._failed(given, f"it was given {len(given)} frames and returned {len(result)}")
        if result.frames is not given.frames:
            for before, after in zip(given.frames, result.frames, strict=True):
                if before.index != after.index or before.stream != after.stream:
                    raise self._failed(given, f"it returned {_place(after)} in the place of {_place(before)}")
        rows = result.objects.frame
        if len(rows) and not 0 <= rows[0] <= rows[-1] < len(result):
            raise self._failed(given, f"its objects are on frames {rows[0]} to {rows[-1]} of a batch of {len(result)}")

    def _shown(self, batch: Batch, result: Batch) -> Batch:
        if not self._probes:
            return result
        with self._probing:
            for probe in self._probes:
                try:
                    probe(result.shared())
                except BaseException as error:
                    raise self._failed(batch, f"a probe of it raised {_describe(error)}") from error
        return result

    def _collect(self, held: _PendingAtNode) -> Batch:
        batch, given = held.batch, held.given
        started, cpu_started = perf_counter_ns(), thread_time_ns()
        self.call = Call(get_ident(), started)
        try:
            result = held.pending.result()
        except BaseException as error:
            raise self._failed(given, _describe(error)) from error
        finally:
            self.call = None
        if not isinstance(result, Batch):
            raise self._failed(given, f"its pending result is {_kind(result)}, not a Batch")
        self.stats.result_wait_ns += perf_counter_ns() - started
        self.stats.latency.add(perf_counter_ns() - held.given_at_ns)
        self.stats.cpu_ns += thread_time_ns() - cpu_started
        return self._finish(batch, given, held.own, result, held.watch)

    def _guarded(self, work: Callable[[], None], *, doing: str, stream: str | None = None) -> None:
        try:
            work()
        except BaseException as error:
            where = f" stream {stream!r}" if stream else ""
            message = f"element {self.element_id!r} failed while {doing}{where}: {_describe(error)}"
            raise OperatorError(message, element=self.element_id, stream=stream) from error

    def _failed(self, batch: Batch, cause: str) -> OperatorError:
        first = batch.frames[0]
        message = f"element {self.element_id!r} failed on {_place_of(batch)}: {cause}"
        return OperatorError(message, element=self.element_id, stream=first.stream.name, frame=first.index)


@dataclasses.dataclass(frozen=True, slots=True)
class _PendingAtNode:
    """An operator's pending result, still to be merged, probed and counted."""

    node: Node
    batch: Batch
    given: Batch
    own: Sequence[int]
    pending: Pending
    given_at_ns: int
    watch: StepWatch | None

    def result(self) -> Batch:
        return self.node._collect(self)  # noqa: SLF001  two halves of one class


@dataclasses.dataclass(frozen=True, slots=True)
class _Unprocessed:
    """A batch without frames for an operator with pending results: probes see it when its turn comes."""

    node: Node
    batch: Batch

    def result(self) -> Batch:
        return self.node._shown(self.batch, self.batch)  # noqa: SLF001  two halves of one class


def _place_of(batch: Batch) -> str:
    first, last = batch.frames[0], batch.frames[-1]
    if len(batch.frames) == 1:
        return f"stream {first.stream.name!r}, frame {first.index}"
    if any(frame.stream != first.stream for frame in batch.frames):
        return f"a batch of {len(batch.frames)} frames, the first of stream {first.stream.name!r}, frame {first.index}"
    return f"stream {first.stream.name!r}, frames {first.index} to {last.index}"


def _place(frame: Frame) -> str:
    return f"frame {frame.index} of stream {frame.stream.name!r}"


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _describe(error: BaseException) -> str:
    text = redact(error).strip()
    return text if isinstance(error, SightlineError) and text else f"{type(error).__name__}: {text}".rstrip(": ")


class SharedNode(Node):
    """Runs one operator for several lanes, whose threads enter it one at a time.

    Each lane holds it as if it were its own. The end of a stream may come by another lane than its frames did. It is
    drained when the last lane has released it, if any lane has ended regularly.
    """

    def __init__(
        self,
        element: Element,
        operator: Operator,
        *,
        element_id: str,
        probes: list[Probe],
        lanes: int,
        error_policy: ErrorPolicy | None = None,
        on_events: EventListener | None = None,
        keeper: StateKeeper | None = None,
    ) -> None:
        super().__init__(
            element,
            operator,
            element_id=element_id,
            probes=probes,
            error_policy=error_policy,
            on_events=on_events,
            keeper=keeper,
        )
        self._holders = lanes
        self._turn = RLock()
        self._has_drained = False

    def share(self) -> None:
        """Let another thread of each lane collect the pending results."""
        with self._lock:
            if not self._is_shared:
                self._holders, self._is_shared = self._holders * 2, True

    def process(self, batch: Batch, inspection: FrameInspection | None = None) -> Batch | Pending:
        """Return what the operator makes of a batch, one lane at a time."""
        with self._turn:
            return super().process(batch, inspection)

    def pause_stream(self, stream: Stream) -> None:
        """Pause a stream in the operator. Raises OperatorError."""
        with self._turn:
            super().pause_stream(stream)

    def change(self, element: Element) -> OperatorError | None:
        """Let the operator take over options, with the first lane in which they change."""
        with self._turn:
            return super().change(element)

    def save(self, streams: Collection[Stream], *, at_ns: int) -> list[SavedState]:
        """Return the operator's state of these streams, one lane at a time."""
        with self._turn:
            return super().save(streams, at_ns=at_ns)

    def end_stream(self, stream: Stream) -> None:
        """End a stream in the operator. Raises OperatorError."""
        with self._turn:
            super().end_stream(stream)

    def drain(self) -> None:
        """Note that all streams of one lane have ended."""
        self._has_drained = True

    def discard(self) -> None:
        """Release the holds of a lane that was never started. Raises OperatorError."""
        for _ in range(2 if self._is_shared else 1):
            self.release()

    def _close(self) -> None:
        try:
            if self._has_drained:
                super().drain()
        finally:
            super()._close()

    def _collect(self, held: _PendingAtNode) -> Batch:
        with self._turn:
            return super()._collect(held)
