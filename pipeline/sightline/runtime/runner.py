"""One run of a pipeline: build what is described, start the threads, watch over them, and say how it went."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from sightline.devices import Device
from sightline.errors import OperatorError, SightlineError, StreamError
from sightline.graph import (
    Element,
    Message,
    MessageKind,
    Operator,
    Outputs,
    Packets,
    PipelineDescription,
    Site,
    SourceElement,
)
from sightline.graph.site import Clock
from sightline.media import Batch, Stream
from sightline.redaction import redact
from sightline.runtime.gather import Arrival, Gather
from sightline.runtime.link import DropReason, Link, LinkPolicy
from sightline.runtime.load import Load
from sightline.runtime.node import Node, Probe
from sightline.runtime.parcel import Item, Parcel
from sightline.runtime.plan import Planner
from sightline.runtime.report import Report
from sightline.runtime.stage import StageThread, close_all
from sightline.runtime.statistics import ElementStatistics, StreamStatistics, count_objects
from sightline.runtime.status import StreamStatus
from sightline.runtime.supervise import Limits, SourceThread
from sightline.runtime.view import LinkView, ModelRuns, RunView

_LARGEST_DEFAULT_BATCH = 16
_FRAMES_IN_A_STREAM_LINK = 4
_FRAMES_IN_A_LIVE_LINK = 2
_FRAMES_IN_A_STAGE_LINK = 8
_PATIENCE_WITH_SOURCES_SECONDS = 0.5
_PATIENCE_AFTER_ABORT_SECONDS = 1.0
_GLANCE_SECONDS = 0.1


class Runner:
    """Runs a description once. Not to be used again.

    `start` builds everything and raises what is wrong; `wait` returns the report when all is over and raises the
    first error of an operator, or the error of the streams when none could be read. `stop` and `abort` may be called
    from any thread at any time, also while `start` builds: the run then ends as soon as it has begun. `report` is
    there once `wait` has seen the end, whatever that was.
    """

    def __init__(
        self,
        description: PipelineDescription,
        *,
        device: Device,
        outputs: Outputs,
        clock: Clock,
        post: Callable[[Message], None],
        probes: dict[str, list[Probe]],
        limits: Limits,
        consumer: Link[Item] | None = None,
    ) -> None:
        self._description = description
        self._device = device
        self._outputs = outputs
        self._clock = clock
        self._post = post
        self._probes = probes
        self._limits = limits
        self._consumer = consumer
        self._error: BaseException | None = None
        self._error_lock = Lock()
        self._operators: list[tuple[str, Element, Operator]] = []
        self._packets = Packets()
        self._streams: dict[Stream, StreamStatistics] = {}
        self._sources: list[SourceThread] = []
        self._stages: list[StageThread] = []
        self._planner: Planner | None = None
        self._stopped = self._aborted = False
        self._concluding = Lock()
        self.report: Report | None = None
        self._gather = self._make_gather()
        self._load = Load(streams=self._all_streams, elements=self._all_elements, post=post)
        self._build_ns = 0
        self._begun_ns = 0
        self._cpu_begun_ns = 0

    def start(self) -> None:
        """Build operators and start all threads. Raises a SightlineError, with nothing left running."""
        started_ns = self._clock.monotonic_ns()
        try:
            self._build()
            self._plan()
            self._begun_ns, self._cpu_begun_ns = self._clock.monotonic_ns(), time.process_time_ns()
            self._build_ns = self._begun_ns - started_ns
            for thread in (*self._stages, *self._sources):
                thread.start()
        except BaseException:
            self._undo()
            raise
        if self._stopped:
            self.stop()
        if self._aborted:
            self.abort()
        self._post(Message(MessageKind.STARTED, f"started on {self._device} with {len(self._sources)} streams"))

    def stop(self) -> None:
        """End all sources; what is under way is finished and all outputs are closed."""
        self._stopped = True
        for source in self._sources:
            source.stop()
        for link in self._gather.links().values():
            link.end()

    def abort(self) -> None:
        """End everything now; what is under way is dropped, outputs are closed. An operator that does not return from
        what it is doing is left behind.
        """
        self._aborted = True
        for source in self._sources:
            source.stop()
        close_all([thread.stage for thread in self._stages])
        if self._consumer is not None:
            self._consumer.close()

    @property
    def running(self) -> bool:
        """Whether a stage still runs."""
        return any(stage.running for stage in self._stages)

    def wait(self) -> Report:
        """Wait for the end and return the report. Raises what went wrong. May be called again, from any thread."""
        for stage in self._stages:
            self._join(stage)
        with self._concluding:
            report = self.report = self.report or self._conclude()
        if self._error is not None:
            raise self._error
        return report

    def status(self) -> tuple[StreamStatus, ...]:
        """How every stream is doing now."""
        now = self._clock.monotonic_ns()
        return tuple(StreamStatus.of(stream, now_ns=now) for stream in self._streams.values())

    def view(self) -> RunView:
        """The run at this moment; from any thread."""
        now = self._clock.monotonic_ns()
        self._load.look(now)
        sources = self._gather.links().items()
        stages = list(self._planner.links.items()) if self._planner is not None else []
        models = {
            name: ModelRuns(one.runs, one.saved) for name, _, one in list(self._operators) if one.runs or one.saved
        }
        return RunView(
            pipeline=self._description.name,
            device=str(self._device),
            is_running=self.running,
            at_ns=now,
            running_ns=now - self._begun_ns if self._begun_ns else 0,
            streams=self._all_streams(),
            rates=self._load.rates,
            elements=self._all_elements(),
            models=models,
            links=(
                *(LinkView.of_source(stream, link, now_ns=now) for stream, link in sources),
                *(LinkView.of_stage(name, link, now_ns=now) for name, link in stages),
            ),
        )

    def _all_streams(self) -> tuple[StreamStatistics, ...]:
        return tuple(self._streams.values())

    def _all_elements(self) -> tuple[ElementStatistics, ...]:
        return tuple(node.statistics for stage in self._stages for node in stage.stage.nodes)

    def _conclude(self) -> Report:
        self._part_from_sources()
        totals = {node.element_id: self._totals(node) for stage in self._stages for node in stage.stage.nodes}
        report = self._make_report(totals)
        if self._error is None and report.streams and len(report.failed_streams) == len(report.streams):
            self._error = StreamError("; ".join(f"stream {s.stream.name!r}: {s.error}" for s in report.streams))
        self._post(Message(MessageKind.STOPPED, f"stopped after {report.frames} frames"))
        return report

    def _part_from_sources(self) -> None:
        """Wait a little for the sources; one whose input does not answer closes it when it does."""
        deadline = time.monotonic() + _PATIENCE_WITH_SOURCES_SECONDS
        for source in self._sources:
            source.stop()
        for source in self._sources:
            if not source.wait(max(0.0, deadline - time.monotonic())):
                text = "its input does not answer; it is closed when it does"
                self._post(Message(MessageKind.WARNING, text, stream=source.statistics.stream.name))

    def _totals(self, node: Node) -> Mapping[str, Any]:
        try:
            return node.totals()
        except OperatorError as error:
            self._fail(error)
            return {}

    def _undo(self) -> None:
        """Let go of everything although not all of it was begun."""
        self.abort()
        for stage in self._stages:
            if stage.ident is None:
                stage.leave()
            else:
                self._join(stage)
        if not self._stages:
            for element_id, element, operator in self._operators:
                try:
                    Node(element, operator, element_id=element_id, probes=[]).release()
                except OperatorError as error:
                    self._fail(error)

    def _join(self, stage: StageThread) -> None:
        patience = _PATIENCE_AFTER_ABORT_SECONDS
        while patience > 0 and not stage.wait(_GLANCE_SECONDS):
            patience -= _GLANCE_SECONDS if self._aborted else 0
        if stage.running:
            steps = ", ".join(node.element_id for node in stage.stage.nodes)
            self._post(Message(MessageKind.WARNING, f"{steps}: did not stop, and is left behind with its outputs open"))

    def _make_gather(self) -> Gather:
        batch = self._description.batch
        size = batch.size or min(max(len(self._description.sources), 1), _LARGEST_DEFAULT_BATCH)
        return Gather(size=size, timeout_ns=batch.timeout, clock=self._clock)

    def _build(self) -> None:
        for element_id, element in self._description.elements():
            try:
                operator = element.build(self._site(element_id))
            except SightlineError:
                raise
            except Exception as error:
                message = f"element {element_id!r} can not be built: {redact(f'{type(error).__name__}: {error}')}"
                raise OperatorError(message, element=element_id) from error
            self._operators.append((element_id, element, operator))

    def _plan(self) -> None:
        planner = Planner(
            built=iter(self._operators),
            probes=self._probes,
            capacity=max(2, _FRAMES_IN_A_STAGE_LINK // self._gather.size),
            on_lost=self._lost,
        )
        last = planner.lay_out(self._gather, self._description.steps)
        last.on_done = self._done
        last.outlet = self._consumer
        self._planner = planner
        self._stages = [StageThread(stage, clock=self._clock, on_error=self._fail) for stage in planner.stages]
        self._sources = [self._source(name, source) for name, source in self._description.sources.items()]
        self._streams = {source.statistics.stream: source.statistics for source in self._sources}
        self._gather.seal()

    def _source(self, name: str, source: SourceElement) -> SourceThread:
        stream = Stream(name, live=source.live)
        link = self._gather.add(
            stream,
            capacity=_FRAMES_IN_A_LIVE_LINK if source.live else _FRAMES_IN_A_STREAM_LINK,
            policy=LinkPolicy.LATEST if source.live else LinkPolicy.BLOCK,
            on_drop=self._dropped,
        )
        statistics = StreamStatistics(stream)
        return SourceThread(source, site=self._site(name), link=link, statistics=statistics, limits=self._limits)

    def _site(self, element_id: str) -> Site:
        return Site(
            device=self._device,
            element_id=element_id,
            pipeline=self._description.name,
            clock=self._clock,
            outputs=self._outputs,
            packets=self._packets,
            post=self._post,
        )

    def _done(self, parcel: Parcel, batch: Batch) -> None:
        now = self._clock.monotonic_ns()
        statistics = [self._streams[frame.stream] for frame in parcel.frames]
        count_objects(batch, statistics)
        for stream, frame, arrived_ns in zip(statistics, parcel.frames, parcel.arrivals_ns, strict=True):
            stream.finish(damaged=frame.damaged, latency_ns=now - arrived_ns)
        self._load.look(now)

    def _lost(self, parcel: Parcel) -> None:
        for frame in parcel.frames:
            self._streams[frame.stream].drop(DropReason.STOPPED)

    def _dropped(self, arrival: Arrival, reason: DropReason) -> None:
        self._streams[arrival.frame.stream].drop(reason)

    def _fail(self, error: BaseException) -> None:
        with self._error_lock:
            if self._error is not None:
                return
            self._error = error
        self._post(Message(MessageKind.ERROR, str(error)))
        self.stop()

    def _make_report(self, totals: Mapping[str, Mapping[str, Any]]) -> Report:
        planner = self._planner
        assert planner is not None
        now_ns = self._clock.monotonic_ns()
        ended_ns = max(now_ns if stage.ended_ns is None else stage.ended_ns for stage in self._stages)
        cpu_ns = max(stage.process_cpu_ns for stage in self._stages) - self._cpu_begun_ns
        streams = tuple(self._streams.values())
        order = {element_id: number for number, (element_id, _, _) in enumerate(self._operators)}
        nodes = [node for stage in planner.stages for node in stage.nodes]
        elements = sorted((node.statistics for node in nodes), key=lambda one: order[one.element_id])
        threads_ns = sum(stage.cpu_ns for stage in self._stages) + sum(source.cpu_ns for source in self._sources)
        own_ns = threads_ns - sum(one.cpu_ns for one in elements) - sum(one.read_cpu_ns for one in streams)
        return Report(
            name=self._description.name,
            device=str(self._device),
            build_seconds=self._build_ns / 1e9,
            wall_seconds=(ended_ns - self._begun_ns) / 1e9,
            cpu_seconds=max(cpu_ns, 0) / 1e9,
            streams=streams,
            elements=tuple(elements),
            links={name: link.statistics for name, link in planner.links.items()},
            totals={one.element_id: totals[one.element_id] for one in elements},
            outputs=tuple(str(path) for path in self._outputs.files),
            framework_cpu_seconds=max(own_ns, 0) / 1e9,
            engine_cpu_seconds=max(cpu_ns - threads_ns, 0) / 1e9,
        )
