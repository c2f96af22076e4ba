"""One run of a pipeline: build the operators, start the threads, supervise them, and report the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import Any

from sightline.devices.discovery import DeviceInUse
from sightline.errors import OperatorError
from sightline.graph import (
    BatchOptions,
    Element,
    Message,
    MessageKind,
    Mounts,
    Outputs,
    Packets,
    PipelineDescription,
    Site,
    SourceElement,
    Step,
)
from sightline.graph.site import Clock
from sightline.media import Batch, Stream
from sightline.runtime.gpu_memory import too_little_memory
from sightline.runtime.inspection import FrameInspection
from sightline.runtime.probation import Probation
from sightline.runtime.recording.recorder import RunRecorder
from sightline.runtime.run import TELEMETRY_SECONDS, BatchListener, Run
from sightline.runtime.run_stats import RunStats
from sightline.runtime.scheduling.element_totals import Failures
from sightline.runtime.scheduling.factory import OperatorFactory
from sightline.runtime.scheduling.lanes import Lane, Lanes, Rebuilt, sites_of
from sightline.runtime.scheduling.link import Item, Link, WorkItem
from sightline.runtime.scheduling.node import Probe
from sightline.runtime.scheduling.order import BatchOrder
from sightline.runtime.scheduling.rule_findings import EventListener
from sightline.runtime.sources.examples import examples_of
from sightline.runtime.sources.manager import PendingChange, StreamManager
from sightline.runtime.sources.supervisor import Limits
from sightline.runtime.state.keeper import StateKeeper
from sightline.runtime.stats.counters import DropReason, StreamStats
from sightline.runtime.stats.overload import OverloadMonitor
from sightline.runtime.stats.report import Report
from sightline.runtime.stats.snapshot import RunLayout, RunView
from sightline.runtime.tracing import Telemetry
from sightline.runtime.watchdog import Watch, Watchdog


class Runner(Run):
    """Runs a description once, in this process.

    `watches` are started and stopped with the run. `fresh` says to leave what the last run has saved of its state.
    `record` is the file that the run is recorded in, `order` that of the batches of a run that is replayed, and
    `inspection` that of a frame of it. `former` are the counts of streams that go on where another process has ended.

    It implements `RunEvents`: its lanes report to it what becomes of batches and streams.
    """

    def __init__(
        self,
        description: PipelineDescription,
        *,
        device: DeviceInUse,
        outputs: Outputs,
        clock: Clock,
        post: Callable[[Message], None],
        probes: dict[str, list[Probe]],
        mounts: Mounts,
        packets: Packets,
        limits: Limits,
        consumer: Link[Item] | None = None,
        watches: Sequence[Watch] = (),
        on_events: EventListener | None = None,
        on_batch: BatchListener | None = None,
        telemetry: Telemetry | None = None,
        fresh: bool = False,
        record: str | None = None,
        order: BatchOrder | None = None,
        inspection: FrameInspection | None = None,
        former: Sequence[StreamStats] = (),
    ) -> None:
        super().__init__(description, outputs=outputs, clock=clock, post=post)
        self._device = device
        self._mounts = mounts
        self._packets = packets
        self._consumer = consumer
        self._on_batch = on_batch
        self._watches = watches
        self._telemetry = telemetry
        self._stays = description.stays and limits == Limits()
        self._batch = description.batch
        self._inspecting = Lock()
        self._is_stopped = self._is_kept_open = False
        self.probation = Probation(hold=lambda: self._lanes.suspend())
        self._keeper = self._make_keeper(fresh=fresh)
        self._lanes = self._make_lanes(probes, on_events, order)
        self._lanes.inspect(inspection)
        self._recorder = self._make_recorder(record)
        tracer = None if telemetry is None else telemetry.tracer
        self._manager = StreamManager(self._lanes, limits=limits, tracer=tracer, former=former)
        self._watchdog = Watchdog(self._lanes.elements.each_node, post=self._post, gpus=device.gpus)
        self._overload = OverloadMonitor(
            streams=lambda: self._manager.present, elements=lambda: self._lanes.elements.stats, post=self._post
        )
        self._stats = RunStats(
            name=description.name,
            device=device,
            clock=clock,
            outputs=outputs,
            manager=self._manager,
            lanes=self._lanes,
            overload=self._overload,
            outbox=self._outbox,
            telemetry=None if telemetry is None else telemetry.stats,
        )
        description.limit(outputs)
        for name, source in description.sources.items():
            self._manager.add(name, source)
        self._resize_batches()

    def start(self, *, on_built: Callable[[], None] = lambda: None) -> None:
        """Build the operators and start all threads; `on_built` is called between, before the first frame flows. Raises
        SightlineError, or what `on_built` does, with nothing left running.

        A KeyboardInterrupt that arrives when frames may flow already (`has_streams`) leaves a run that must be ended.
        """
        try:
            self._lanes.build(self._description.steps)
            self._seal_if_over()
            if (warning := too_little_memory(self._device.gpus, self._description.sources.values())) is not None:
                self._post(Message(MessageKind.WARNING, warning))
            if self._recorder is not None:
                self._recorder.begin(engines=self.engines())
            self._stats.begin()
            self._lanes.start()
            on_built()
        except BaseException as error:
            self._undo(error)
            raise
        self.has_streams = True
        try:
            self._manager.start()
            self._watchdog.start()
            for watch in self._watches:
                watch.start()
            if self._telemetry is not None:
                self._telemetry.start(self.view)
        finally:
            self._begun.set()
        if self._is_stopped:
            self.stop()
        if self._is_aborted:
            self.abort()
        where = str(self._device)
        if self._description.device in ("auto", "cuda"):
            where = f"{where} ({self._device.reason})"
        streams = "1 stream" if self._manager.count == 1 else f"{self._manager.count} streams"
        self._post(Message(MessageKind.STARTED, f"started on {where} with {streams}"))

    def stop(self) -> None:
        """End all sources, finish what is under way, and close all outputs."""
        self._is_stopped = True
        self._limit_waiting()
        self._manager.stop()

    def abort(self) -> None:
        """End everything now: drop what is under way, and close the outputs. An operator that does not return is left
        behind.
        """
        self._is_aborted = True
        self._limit_waiting(within_ns=0)
        self._manager.stop()
        self._lanes.abort()
        if self._consumer is not None:
            self._consumer.receiver.close()

    @property
    def device(self) -> DeviceInUse:
        """Where it runs."""
        return self._device

    def view(self) -> RunView:
        """Return the run at this moment; from any thread."""
        return self._stats.view()

    def inspect(self, inspection: FrameInspection, *, seconds: float) -> None:
        """Let the next frame of a stream be inspected, and wait until it has passed all steps, or for so long."""
        with self._inspecting:
            self._lanes.inspect(inspection)
            try:
                inspection.wait(seconds)
            finally:
                self._lanes.inspect(None)
                inspection.close()

    def layout(self) -> RunLayout:
        """Return how the steps run; from any thread."""
        return self._lanes.layout()

    def engines(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what computes the models of the steps, by their ids; from any thread."""
        return self._lanes.elements.engines()

    def record(self, stream: str, *, step: str | None, before_ns: int | None, after_ns: int | None) -> int:
        """Ask the steps that record on request, or one of them, to record a stream; return how many do."""
        recorders = self._lanes.elements.recorders(step)
        return sum([one.request(stream, before_ns=before_ns, after_ns=after_ns) for one in recorders])

    def reset_counts(self, element_id: str, *, stream: str | None) -> int:
        """Let the counts of an element begin anew, of a stream or of all; return how many operators count."""
        self._note(f"the counts of {element_id} began anew")
        counters = self._lanes.elements.counters(element_id)
        for one in counters:
            one.reset_counts(stream)
        return len(counters)

    def check_free(self, name: str) -> None:
        """Raises ConfigurationError when a stream of that name runs."""
        self._manager.check_free(name)

    def begin_epoch(self, name: str, epoch: int) -> None:
        """Let the records of a stream carry this epoch. Raises ConfigurationError when it has not ended, or the epoch
        is not a new one.
        """
        self._manager.check_ended(name)
        self._outbox.begin_epoch(name, epoch)

    def add_source(self, name: str, source: SourceElement) -> PendingChange:
        """Add a stream. Raises ConfigurationError when one of that name runs, or the run is ending."""
        self._outputs.protect_inputs(source, of=f"the source {name!r}")
        change = self._manager.add(name, source)
        self._resize_batches()
        return change

    def remove_source(self, name: str) -> PendingChange:
        """Remove a stream. Raises ConfigurationError when there is none of that name."""
        return self._manager.remove(name)

    def replace_source(self, name: str, source: SourceElement) -> PendingChange:
        """Replace the source of a stream. Raises as `remove_source` does."""
        return self._manager.replace(name, source)

    def pause_source(self, name: str) -> PendingChange:
        """Pause a stream. Raises ConfigurationError when there is none of that name, or it has ended."""
        self._begun.wait()
        change = self._manager.pause(name)
        self._resize_batches()
        return change

    def resume_source(self, name: str) -> None:
        """Resume a stream that was paused. Raises ConfigurationError when there is none of that name."""
        self._begun.wait()
        self._manager.resume(name)
        self._resize_batches()

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Do not end for lack of streams while the block is open, because others will be added."""
        self._is_kept_open = True
        try:
            with self._lanes.kept_open():
                yield
        finally:
            self._is_kept_open = False
            self._seal_if_over()

    def rebuild(
        self, steps: tuple[Step, ...], *, prove_ns: int = 0, agree: Callable[[], None] = lambda: None
    ) -> Rebuilt:
        """Continue with other steps; wait until they run. Raises SightlineError, and continues as before. `prove_ns` is
        how long the change is on probation; `agree` is called when all is built, and what it raises ends the change.
        """
        self._begun.wait()
        self._note("the steps were changed")
        return self._lanes.rebuild(steps, prove_ns=prove_ns, agree=agree)

    def runs(self, element_id: str, element: Element) -> bool:
        """Whether it has this step with these options, and the files that it reads have not changed since."""
        return self._lanes.has(element_id, element)

    def differs(self, steps: tuple[Step, ...]) -> bool:
        """Whether these steps differ from the present ones, or files that they read have changed."""
        return self._lanes.differs(steps)

    def set_batch(self, batch: BatchOptions) -> None:
        """Form batches by other options from now on."""
        self._batch = batch
        self._resize_batches()

    def let_frames_in(self) -> None:
        """Go on after an error for which frames wait in front of the steps."""
        self._lanes.resume()

    def has_come(self, name: str) -> bool:
        """Whether a frame of the present source of a stream has come."""
        return self._manager.has_come(name)

    def failures(self) -> Mapping[str, Failures]:
        """Return how often the present steps have failed that may be skipped, by their ids."""
        return self._lanes.elements.failures()

    def slow_calls(self, *, seconds: float) -> Mapping[str, float]:
        """Return the steps that have been in the same call for longer, and for how long, in seconds."""
        return self._lanes.elements.slow_calls(seconds=seconds)

    def _present(self) -> Iterable[StreamStats]:
        return self._manager.present

    def _finish(self) -> Report:
        self._watchdog.stop()
        for watch in self._watches:
            watch.stop()
        self._close_state()
        if self._recorder is not None:
            self._recorder.end()
        self._outbox.close()
        for name, records in self._outbox.others.items():
            text = f"{records} records for {name!r}, which is no step now, stay in the outbox {self._outbox.path}"
            text += ": give the step its id again, or use `sightline outbox purge`"
            self._post(Message(MessageKind.WARNING, text))
        for name in self._manager.close():
            text = "its input does not answer; it is closed when it does"
            self._post(Message(MessageKind.WARNING, text, stream=name))
        self._stop_telemetry(seconds=0.0 if self._is_aborted else TELEMETRY_SECONDS)
        report = self._stats.report()
        self._device.let_go()
        return self._conclude(report)

    def _undo(self, error: BaseException) -> None:
        """Release everything although not all of it was started."""
        self._error = self._error or error
        self.abort()
        self._lanes.discard()
        if self._lanes.is_running:
            self._wait_for_end()
        self._close_state()
        if self._recorder is not None:
            self._recorder.end()
        self._limit_waiting(within_ns=0)
        self._outbox.close()
        self._stop_telemetry(seconds=0.0)
        self._device.let_go()
        self._could_begin, self._is_over = False, True
        self._begun.set()

    def _make_keeper(self, *, fresh: bool) -> StateKeeper | None:
        path = self._description.state_path
        if path is None:
            return None
        return StateKeeper(
            self._outputs.path(path),
            pipeline=self._description.name,
            outputs=self._outputs,
            clock=self._clock,
            post=self._post,
            saved=lambda: self._lanes.saved_states(),
            fresh=fresh,
        )

    def _close_state(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()

    def _stop_telemetry(self, *, seconds: float) -> None:
        if self._telemetry is not None:
            self._telemetry.stop(seconds=seconds)

    def _wait_for_end(self) -> None:
        for steps in self._lanes.wait():
            self._post(Message(MessageKind.WARNING, f"{steps}: did not stop, and is left behind with its outputs open"))

    def _resize_batches(self) -> None:
        """Set the size of batches, as configured or for the number of streams, and that of the streams' links."""
        self._lanes.resize_batches(
            self._batch,
            streams=self._manager.count_read,
            in_real_time=self._manager.comes_in_real_time,
            may_change=self._stays,
        )
        self._manager.resize_links()

    def _seal_if_over(self) -> None:
        """Let the lanes end with their streams; several lanes not before all streams have ended."""
        all_ended = self._manager.has_ended and not self._is_kept_open
        if not self._stays and (self._lanes.count == 1 or all_ended):
            self._lanes.seal()

    def _make_recorder(self, path: str | None) -> RunRecorder | None:
        if path is None:
            return None
        return RunRecorder(
            path,
            self._description,
            outputs=self._outputs,
            packets=self._packets,
            clock=self._clock,
            post=self._post,
        )

    def _note(self, text: str) -> None:
        if self._recorder is not None:
            self._recorder.note(text)

    def _make_lanes(
        self, probes: dict[str, list[Probe]], on_events: EventListener | None, order: BatchOrder | None
    ) -> Lanes:
        factory = OperatorFactory(
            probes=probes,
            on_error=self.failed,
            on_hopeless=self.fail_stream,
            on_events=on_events,
            keeper=self._keeper,
        )
        site = Site(
            device=self._device.devices[0],
            pipeline=self._description.name,
            clock=self._clock,
            outputs=self._outputs,
            packets=self._packets,
            post=self._post_of_element,
            streams=tuple(self._description.sources),
            live=self._stays or any(source.live for source in self._description.sources.values()),
            outbox=self._outbox,
            mounts=self._mounts,
            wait_limit=self._wait_limit,
        )
        site = replace(site, examples=examples_of(self._description.sources, site))
        return Lanes(sites_of(self._device, site), factory=factory, events=self, consumer=self._consumer, order=order)

    def _post_of_element(self, message: Message) -> None:
        """Post a message of a part of the run; remember outputs that are not whole, and changes that have failed."""
        if message.kind is MessageKind.SINK_DEGRADED and message.element is not None:
            self._stats.lost_outputs.setdefault(message.element, message.text)
        if message.kind is MessageKind.MODEL_TAKEN_BACK and message.element is not None:
            self.probation.report(OperatorError(message.text, element=message.element))
        self._post(message)

    def batch_begun(self, item: WorkItem) -> None:
        """Record a batch that enters the first step."""
        if self._recorder is not None:
            self._recorder.take(item)

    def batch_done(self, item: WorkItem, batch: Batch) -> None:
        """Count a batch that was processed completely, and show it to the application."""
        now_ns = self._clock.monotonic_ns()
        self._manager.count_done(item, batch, now_ns=now_ns)
        if self._recorder is not None:
            self._recorder.add_results(batch)
        if self._on_batch is not None:
            item.work = batch = batch.shared()
            self._on_batch(batch, item.arrivals_ns)
        self._overload.update(now_ns)

    def batch_lost(self, item: WorkItem, reason: DropReason) -> None:
        """Count a batch that was dropped."""
        if item.trace is not None:
            item.trace.lose(reason)
        self._manager.count_lost(item, reason)
        if item.is_lost:
            self.probation.lose(len(item.frames))

    def stream_ended(self, stream: Stream) -> None:
        """Let go of a stream whose end has passed all steps."""
        self._manager.stream_ended(stream)
        self._resize_batches()
        self._seal_if_over()

    def stream_paused(self, stream: Stream, *, number: int) -> None:
        """Note that nothing of a paused stream is under way."""
        self._manager.stream_paused(stream, number=number)

    def lane_lost(self, lane: Lane) -> None:
        """Move the streams of a lost lane to others."""
        self._manager.lane_lost(lane)
        self._resize_batches()

    def lanes_ended(self) -> None:
        """Note the end of the run."""
        self._is_over = True
        self._manager.run_ended()

    def takes(self, error: OperatorError, *, closing: bool = False) -> bool:
        """Go on although an operator has failed, if a change is on probation."""
        return isinstance(error.__cause__ or error, Exception) and self.probation.takes(error, closing=closing)

    def fail_stream(self, stream: Stream, error: OperatorError, details: str) -> None:
        """End a stream on which a step fails again and again, unless a change is on probation: then that has failed."""
        if not self.takes(error):
            self._manager.fail(stream, error, details)
