"""One run of a pipeline: build what is described, start the threads, watch over them, and say how it went."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Lock

from sightline.devices.discovery import DeviceInUse
from sightline.errors import StreamError
from sightline.graph import (
    BatchOptions,
    Message,
    MessageKind,
    Outputs,
    Packets,
    PipelineDescription,
    Site,
    SourceElement,
    Step,
)
from sightline.graph.site import Clock
from sightline.media import Batch, Stream
from sightline.runtime.scheduling.factory import OperatorFactory
from sightline.runtime.scheduling.lane import Lane, sites_of
from sightline.runtime.scheduling.lanes import Lanes, Rebuilt, RunExits
from sightline.runtime.scheduling.link import Item, Link, WorkItem
from sightline.runtime.scheduling.node import Probe
from sightline.runtime.sources.manager import PendingChange, StreamManager
from sightline.runtime.sources.supervisor import Limits
from sightline.runtime.stats.overload import OverloadMonitor
from sightline.runtime.stats.report import Report
from sightline.runtime.stats.run_stats import RunStats
from sightline.runtime.stats.snapshot import RunView, StreamStatus
from sightline.runtime.watchdog import Watch, Watchdog


class Runner:
    """Runs a description once. Not to be used again.

    `start` builds everything and raises what is wrong; `wait` returns the report when all is over and raises the
    first error of an operator, or the error of the streams when none could be read. `stop` and `abort` may be called
    from any thread at any time, also while `start` builds: the run then ends as soon as it has begun. Streams may come
    and go at any time, too, and steps may be put in the place of others. `report` is there once `wait` has seen the
    end, whatever that was. `watches` are started and ended with the run.
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
        limits: Limits,
        consumer: Link[Item] | None = None,
        watches: Sequence[Watch] = (),
    ) -> None:
        self._description = description
        self._device = device
        self._outputs = outputs
        self._clock = clock
        self._post = post
        self._consumer = consumer
        self._watches = watches
        self._goes_on = description.stays and limits == Limits()
        self._batch = description.batch
        self._error: BaseException | None = None
        self._error_lock = Lock()
        self._begun = Event()
        self.has_streams = False
        self._could_begin = True
        self._stopped = self._aborted = self._is_over = self._is_kept_open = False
        self._concluding = Lock()
        self.report: Report | None = None
        self._lanes = self._lay_lanes(probes)
        self._manager = StreamManager(self._lanes, limits=limits)
        ledger = self._lanes.ledger
        self._watchdog = Watchdog(ledger.each_node, post=self._post)
        self._load = OverloadMonitor(
            streams=lambda: self._manager.present, elements=lambda: ledger.elements, post=self._post
        )
        self._accounts = RunStats(
            name=description.name,
            device=device,
            clock=clock,
            outputs=outputs,
            manager=self._manager,
            lanes=self._lanes,
            load=self._load,
        )
        for name, source in description.sources.items():
            self._manager.add(name, source)
        self._fit()

    def start(self) -> None:
        """Build operators and start all threads. Raises a SightlineError, with nothing left running.

        A KeyboardInterrupt that comes when frames may flow already (`has_streams`) leaves a run that has to be ended.
        """
        try:
            self._lanes.build(self._description.steps)
            self._seal_if_over()
            self._accounts.begin()
            self._lanes.start()
        except BaseException as error:
            self._undo(error)
            raise
        self.has_streams = True
        try:
            self._manager.start()
            self._watchdog.start()
            for watch in self._watches:
                watch.start()
        finally:
            self._begun.set()
        if self._stopped:
            self.stop()
        if self._aborted:
            self.abort()
        where = str(self._device)
        if self._description.device in ("auto", "cuda"):
            where = f"{where} ({self._device.reason})"
        streams = "1 stream" if self._manager.count == 1 else f"{self._manager.count} streams"
        self._post(Message(MessageKind.STARTED, f"started on {where} with {streams}"))

    def stop(self) -> None:
        """End all sources; what is under way is finished and all outputs are closed."""
        self._stopped = True
        self._manager.stop()

    def abort(self) -> None:
        """End everything now; what is under way is dropped, outputs are closed. An operator that does not return from
        what it is doing is left behind.
        """
        self._aborted = True
        self._manager.stop()
        self._lanes.abort()
        if self._consumer is not None:
            self._consumer.close()

    @property
    def running(self) -> bool:
        """Whether it has not ended; also before it has begun."""
        return not self._is_over

    @property
    def has_begun(self) -> bool:
        """Whether all is built and has started, or could not; takes no lock."""
        return self._begun.is_set()

    def wait(self) -> Report:
        """Wait for the end and return the report. Raises what went wrong. May be called again, from any thread."""
        self._begun.wait()
        if not self._could_begin and self._error is not None:
            raise self._error
        self._wait_for_stages()
        with self._concluding:
            report = self.report = self.report or self._conclude()
        if self._error is not None:
            raise self._error
        return report

    def status(self) -> tuple[StreamStatus, ...]:
        """How every stream is doing now; empty before the start."""
        if not self._begun.is_set():
            return ()
        now = self._clock.monotonic_ns()
        return tuple(StreamStatus.of(stream, now_ns=now) for stream in self._manager.present)

    def view(self) -> RunView:
        """The run at this moment; from any thread."""
        return self._accounts.view()

    def record(self, stream: str, *, step: str | None, before_ns: int | None, after_ns: int | None) -> int:
        """Ask the steps that can (or one of them) to record a stream; return how many do."""
        able = self._lanes.ledger.recorders(step)
        return sum([one.request(stream, before_ns=before_ns, after_ns=after_ns) for one in able])

    def check_free(self, name: str) -> None:
        """Raises ConfigurationError when a stream of that name runs."""
        self._manager.check_free(name)

    def add_source(self, name: str, source: SourceElement) -> PendingChange:
        """Let a stream come. Raises ConfigurationError when one of that name runs, or the run is ending."""
        change = self._manager.add(name, source)
        self._fit()
        return change

    def remove_source(self, name: str) -> PendingChange:
        """Let a stream go. Raises ConfigurationError when there is none of that name."""
        return self._manager.remove(name)

    def replace_source(self, name: str, source: SourceElement) -> PendingChange:
        """Let a stream go, and come again from another source. Raises as `remove_source` does."""
        return self._manager.replace(name, source)

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """A block in which it does not end for want of streams, because others come when those before have gone."""
        self._is_kept_open = True
        try:
            with self._lanes.kept_open():
                yield
        finally:
            self._is_kept_open = False
            self._seal_if_over()

    def rebuild(self, steps: tuple[Step, ...]) -> Rebuilt:
        """Go on with other steps; waits until they run. Raises SightlineError, and goes on as before."""
        self._begun.wait()
        return self._lanes.rebuild(steps)

    def differs(self, steps: tuple[Step, ...]) -> bool:
        """Whether these steps are others than the present ones, or files that they read have changed."""
        return self._lanes.differs(steps)

    def gather_by(self, batch: BatchOptions) -> None:
        """Gather batches in another way from now on."""
        self._batch = batch
        self._fit()

    def _conclude(self) -> Report:
        self._watchdog.stop()
        for watch in self._watches:
            watch.stop()
        for name in self._manager.part():
            text = "its input does not answer; it is closed when it does"
            self._post(Message(MessageKind.WARNING, text, stream=name))
        report = self._accounts.report()
        self._device.let_go()
        if self._error is None and report.streams and len(report.failed_streams) == len(report.streams):
            self._error = StreamError("; ".join(f"stream {s.stream.name!r}: {s.error}" for s in report.streams))
        self._post(Message(MessageKind.STOPPED, f"stopped after {report.frames} frames"))
        return report

    def _undo(self, error: BaseException) -> None:
        """Let go of everything although not all of it was begun."""
        self._error = self._error or error
        self.abort()
        self._lanes.discard()
        if self._lanes.is_running:
            self._wait_for_stages()
        self._device.let_go()
        self._could_begin, self._is_over = False, True
        self._begun.set()

    def _wait_for_stages(self) -> None:
        for steps in self._lanes.wait():
            self._post(Message(MessageKind.WARNING, f"{steps}: did not stop, and is left behind with its outputs open"))

    def _fit(self) -> None:
        """Let batches be as large as is wanted, or as suits the number of streams."""
        self._lanes.fit(self._batch, streams=self._manager.count)

    def _seal_if_over(self) -> None:
        """Let the lanes end with their streams; when there are several, not before all streams have ended."""
        all_ended = self._manager.has_ended and not self._is_kept_open
        if not self._goes_on and (self._lanes.count == 1 or all_ended):
            self._lanes.seal()

    def _lay_lanes(self, probes: dict[str, list[Probe]]) -> Lanes:
        """The lanes of the run, and where things go from there."""
        exits = RunExits(
            on_done=self._done,
            on_lost=lambda work_item, reason: self._manager.count_lost(work_item, reason),
            on_error=self._fail,
            on_stream_end=self._stream_ended,
            on_lane_gone=self._lane_gone,
            on_over=self._over,
            consumer=self._consumer,
        )
        factory = OperatorFactory(
            probes=probes,
            on_error=self._fail,
            hopeless=lambda stream, error, details: self._manager.give_up(stream, error, details),
        )
        site = Site(
            device=self._device.devices[0],
            pipeline=self._description.name,
            clock=self._clock,
            outputs=self._outputs,
            packets=Packets(),
            post=self._post,
            live=self._goes_on or any(source.live for source in self._description.sources.values()),
        )
        return Lanes(sites_of(self._device, site), factory=factory, exits=exits)

    def _done(self, work_item: WorkItem, batch: Batch) -> None:
        now_ns = self._clock.monotonic_ns()
        self._manager.count_done(work_item, batch, now_ns=now_ns)
        self._load.look(now_ns)

    def _stream_ended(self, stream: Stream) -> None:
        self._manager.stream_ended(stream)
        self._fit()
        self._seal_if_over()

    def _lane_gone(self, lane: Lane) -> None:
        self._manager.lane_gone(lane)
        self._fit()

    def _over(self) -> None:
        self._is_over = True
        self._manager.run_ended()

    def _fail(self, error: BaseException) -> None:
        with self._error_lock:
            if self._error is not None:
                return
            self._error = error
        self._post(Message(MessageKind.ERROR, str(error)))
        self.stop()
