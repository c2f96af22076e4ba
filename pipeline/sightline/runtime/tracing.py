"""Trace sampled frames: where each of them spends its time, from its source to the last step.

A `Tracer` decides for each frame that a source delivers whether it is sampled. The trace of a sampled frame travels
with it: in its `Arrival`, and in the `WorkItem` of its batch as a `BatchTrace`. Sources, batchers and stages add spans
to it. When the last of them has released it, it is handed to whoever exports it. A run without a tracer carries None
and measures nothing.

All times are monotonic nanoseconds of the system's clock; `FrameTrace.epoch_ns` places them in the time of day.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from threading import Lock, current_thread
from time import monotonic_ns
from typing import Protocol

from sightline.graph import Message
from sightline.media import Frame
from sightline.runtime.stats.counters import TelemetryStats
from sightline.runtime.stats.snapshot import RunView

_LOG = logging.getLogger(__name__)


class Telemetry(Protocol):
    """What a run needs to know of its telemetry."""

    stats: TelemetryStats

    @property
    def tracer(self) -> Tracer | None:
        """What traces frames; None when none is to be."""
        ...

    def start(self, view: Callable[[], RunView]) -> None:
        """Begin to send what `view` shows of the run, which has begun."""
        ...

    def stop(self, *, seconds: float) -> None:
        """Send what waits, for so long at most, and end."""
        ...


class MakeTelemetry(Protocol):
    """Makes the telemetry of a run, also in a worker process, which it is sent to."""

    def __call__(self, *, post: Callable[[Message], None]) -> Telemetry:
        """Make it; `post` reports trouble."""
        ...


class SpanKind(StrEnum):
    """What takes the time of a span: `read` (reading and decoding the frame), `wait` (in a link), `batch` (waiting for
    the other frames of its batch), or `step` (an element, from the call to its result).
    """

    READ = "read"
    WAIT = "wait"
    BATCH = "batch"
    STEP = "step"


@dataclass(slots=True, eq=False)
class Span:
    """A part of the way of a frame. `name` is the link or the id of the element; `ended_ns` is 0 while it lasts.

    A step has the `element` of its id, and the number of `frames` that it was given at once; `cpu_ns` is the CPU time
    of reading. `parent` is the step during which a wait took place, None for a part of the frame itself.
    """

    kind: SpanKind
    name: str
    began_ns: int
    ended_ns: int = 0
    thread: str = ""
    element: str = ""
    frames: int = 0
    cpu_ns: int = 0
    parent: Span | None = None


class FrameTrace:
    """The spans of one sampled frame. Any thread adds; it is complete when all who held it have released it.

    `trace_id` and `span_id` are random and not 0, as W3C Trace Context has them. `batch_mates` are those ids of the
    other sampled frames in its batch. `lost` is why it was not processed completely, None where it was.
    """

    def __init__(self, frame: Frame, *, began_ns: int, on_complete: Callable[[FrameTrace], None]) -> None:
        self.stream = frame.stream
        self.index = frame.index
        self.pts_ns = frame.pts_ns
        self.is_damaged = frame.damaged
        self.trace_id = random.getrandbits(127) + 1
        self.span_id = random.getrandbits(63) + 1
        self.batch_mates: Sequence[tuple[int, int]] = ()
        self.began_ns = began_ns
        self.ended_ns = 0
        self.arrived_ns = began_ns
        self.finished_ns: int | None = None
        """When it had passed the last step of the main line."""
        self.batch_id: int | None = None
        self.batch_size = 0
        self.lost: str | None = None
        self.spans: list[Span] = []
        self._anchor_ns = time.time_ns() - monotonic_ns()
        self._on_complete = on_complete
        self._holders = 1
        self._is_open = True
        self._lock = Lock()

    def epoch_ns(self, time_ns: int) -> int:
        """Return the time of day of a monotonic time, in nanoseconds since the epoch."""
        return time_ns + self._anchor_ns

    def add(self, span: Span) -> None:
        """Add a span."""
        self.spans.append(span)

    def arrive(self) -> None:
        """Note that the source hands the frame over now: what comes before the link is not waiting in it."""
        self.arrived_ns = monotonic_ns()

    def hold(self) -> None:
        """Keep it open until `release` is called once more."""
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        """Release one hold; with the last one it is complete."""
        with self._lock:
            self._holders -= 1
            is_last = self._is_open and self._holders == 0
            self._is_open = self._is_open and not is_last
        if is_last:
            self._complete()

    def lose(self, reason: str) -> None:
        """Complete it now, because the frame will not be processed completely; nothing when it is complete."""
        with self._lock:
            was_open, self._is_open = self._is_open, False
        if was_open:
            self.lost = reason
            self._complete()

    def _complete(self) -> None:
        self.ended_ns = monotonic_ns()
        self._on_complete(self)


class BatchTrace:
    """The traces of the sampled frames of one item that travels through the stages; for the thread that has the item.

    Each item of a branch has one of its own, which holds the traces for as long as the branch works on them.
    """

    def __init__(self, traces: Sequence[FrameTrace]) -> None:
        self.traces = traces
        self._sent_ns = self._began_ns = 0
        self._pending: Sequence[Span] = ()

    def for_branch(self) -> BatchTrace:
        """Return one for an item with the same frames, in a branch."""
        for trace in self.traces:
            trace.hold()
        return BatchTrace(self.traces)

    def sent(self) -> None:
        """Note that the item is about to be sent through a link."""
        self._sent_ns = monotonic_ns()

    def received(self, link: str) -> None:
        """Add the time that the item was in a link; within the step whose result is pending, if one is."""
        if not self._sent_ns:
            return
        now_ns, thread = monotonic_ns(), current_thread().name
        for number, trace in enumerate(self.traces):
            parent = self._pending[number] if self._pending else None
            trace.add(Span(SpanKind.WAIT, link, self._sent_ns, now_ns, thread, parent=parent))
        self._sent_ns = 0

    def begin_step(self) -> None:
        """Note that a step is about to be called."""
        self._began_ns = monotonic_ns()

    def end_step(self, name: str, *, element: str, is_pending: bool, own: Sequence[Frame]) -> None:
        """Add the step that was called with its `own` frames of the batch; it goes on while its result is pending."""
        ended_ns, thread = 0 if is_pending else monotonic_ns(), current_thread().name
        streams = {frame.stream for frame in own}
        spans = [
            Span(SpanKind.STEP, name, self._began_ns, ended_ns, thread, element=element, frames=len(own))
            for _ in self.traces
        ]
        for trace, span in zip(self.traces, spans, strict=True):
            if trace.stream in streams:
                trace.add(span)
        self._pending = spans if is_pending else ()

    def end_pending(self) -> None:
        """Note that the pending result of a step is there; nothing when none is."""
        now_ns = monotonic_ns() if self._pending else 0
        for span in self._pending:
            span.ended_ns = now_ns
        self._pending = ()

    def finish(self) -> None:
        """Note that the frames have passed the last step of the main line."""
        now_ns = monotonic_ns()
        for trace in self.traces:
            trace.finished_ns = now_ns

    def release(self) -> None:
        """Release the traces: nothing more is done with this item."""
        for trace in self.traces:
            trace.release()

    def lose(self, reason: str) -> None:
        """Complete the traces, because the item is dropped or a step has failed on it."""
        for trace in self.traces:
            trace.lose(reason)


_BATCH_IDS = count(1)


def trace_of_batch(sampled: Sequence[FrameTrace], *, size: int, link: str, requested_ns: int) -> BatchTrace | None:
    """Return the trace of a batch of `size` frames that is formed now, of which some are sampled; None when none is.
    `requested_ns` is when the first stage asked for the batch: until then its frames waited for the pipeline, and from
    then on for each other.
    """
    if not sampled:
        return None
    now_ns, batch_id, thread = monotonic_ns(), next(_BATCH_IDS), current_thread().name
    for trace in sampled:
        asked_ns = min(max(trace.arrived_ns, requested_ns), now_ns)
        trace.add(Span(SpanKind.WAIT, link, trace.arrived_ns, asked_ns, thread))
        trace.add(Span(SpanKind.BATCH, "batch", asked_ns, now_ns, thread))
        trace.batch_id, trace.batch_size = batch_id, size
        trace.batch_mates = [(one.trace_id, one.span_id) for one in sampled if one is not trace]
    return BatchTrace(sampled)


class FrameSampler:
    """Chooses one frame in so many at random (every hundredth would often be a key frame, or never), and
    no more than `most_per_second` in the mean. From any thread.
    """

    def __init__(self, ratio: float, *, most_per_second: float, draw: Callable[[], float] = random.random) -> None:
        self._ratio = ratio
        self._most = most_per_second
        self._draw = draw
        self._left = max(most_per_second, 1.0)
        self._at_ns: int | None = None
        self._lock = Lock()

    def wants(self, now_ns: int) -> bool:
        """Whether a frame that comes now is sampled."""
        if self._draw() >= self._ratio:
            return False
        with self._lock:
            since_ns = 0 if self._at_ns is None else max(now_ns - self._at_ns, 0)
            self._left = min(self._left + since_ns / 1e9 * self._most, max(self._most, 1.0))
            self._at_ns = now_ns
            if self._left < 1:
                return False
            self._left -= 1
            return True


class Tracer:
    """Begins the traces of a run, and hands each to `export` when it is complete, in the thread that completes it.

    What `export` raises is logged once, and stops nothing.
    """

    def __init__(self, sampler: FrameSampler, *, export: Callable[[FrameTrace], None]) -> None:
        self._sampler = sampler
        self._export = export
        self._open: dict[FrameTrace, None] = {}
        self._has_failed = False

    def sample(self, frame: Frame, *, began_ns: int, cpu_ns: int) -> FrameTrace | None:
        """Return the trace of a frame that its source has read since `began_ns`; None when it is not sampled."""
        now_ns = monotonic_ns()
        if not self._sampler.wants(now_ns):
            return None
        trace = FrameTrace(frame, began_ns=began_ns, on_complete=self._complete)
        trace.add(Span(SpanKind.READ, "read", began_ns, now_ns, current_thread().name, cpu_ns=cpu_ns))
        self._open[trace] = None
        return trace

    def close(self, reason: str) -> None:
        """Complete the traces that are open, when the run is over."""
        for trace in list(self._open):
            trace.lose(reason)

    def _complete(self, trace: FrameTrace) -> None:
        self._open.pop(trace, None)
        try:
            self._export(trace)
        except Exception:  # noqa: BLE001  what is traced goes on, whatever the exporter does
            if not self._has_failed:
                _LOG.exception("traces cannot be exported")
            self._has_failed = True
