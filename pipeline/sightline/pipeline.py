"""The Python API: describe, check, run, watch and iterate a pipeline."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import current_thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from sightline.control.configuration import Configuration
from sightline.control.control import Change, Control, Edit, Source
from sightline.devices import Device, DeviceKind
from sightline.errors import ConfigurationError
from sightline.graph import (
    BatchOptions,
    Clock,
    Message,
    MessageKind,
    Mounts,
    OutboxOptions,
    Outputs,
    Packets,
    PipelineDescription,
    ProcessOptions,
    Step,
    TelemetryOptions,
)
from sightline.graph.site import SystemClock
from sightline.launch import Launch, Surroundings
from sightline.media import Batch, Event, FrameView
from sightline.media.time import parse_duration_ns
from sightline.runtime.call_scope import CallScope
from sightline.runtime.inspection import FrameInspection
from sightline.runtime.iteration import each_frame, each_frame_in_event_loop, end, end_because_of
from sightline.runtime.listeners import Listeners
from sightline.runtime.run import BatchListener, Run
from sightline.runtime.scheduling.link import Item, Link
from sightline.runtime.scheduling.order import BatchOrder
from sightline.runtime.sources.manager import PendingChange
from sightline.runtime.sources.supervisor import Limits
from sightline.runtime.stats.counters import DeliveryStats
from sightline.runtime.stats.report import Report
from sightline.runtime.stats.snapshot import RunLayout, RunView, StreamStatus
from sightline.runtime.threads import Worker

if TYPE_CHECKING:
    from typing import Self

    from sightline.config import ConfigurationFile
    from sightline.devices.cuda.device import CudaDevice

_LOG = logging.getLogger(__name__)
_PROVE = "5s"


class Pipeline:
    """A pipeline: sources, steps and options, ready to run.

    Run it in one of four ways: `run()` blocks and returns the report; iterating yields every frame with what was
    found on it (leaving the loop stops the pipeline); `async for` does the same in an event loop; `start()`, `stop()`
    and `wait()`, or a `with` block, run it in the background. Many pipelines live in one process; one pipeline runs
    once at a time, and may be run again. Sources and steps are elements, or what YAML has in their place. `gpu` is an
    open GPU, or several, that the runs share with the program, unless `device` is `cpu`; the caller closes it.

    Ctrl-C while `run()` or a loop waits ends the sources, finishes what is under way, closes the outputs and is then
    raised; a second one drops what is under way.

    >>> from sightline import Pipeline
    >>> pipeline = Pipeline(sources={"test": {"pattern": "bars", "frames": 3}}, steps=[])
    >>> [frame.index for frame in pipeline]
    [0, 1, 2]
    """

    def __init__(
        self,
        *,
        sources: Mapping[str, Source],
        steps: Sequence[Step | str | Mapping[str, object]] = (),
        keep_running: bool = False,
        overwrite: bool = False,
        name: str = "pipeline",
        device: str = "auto",
        batch: BatchOptions | Mapping[str, Any] | None = None,
        outbox: OutboxOptions | Mapping[str, Any] | None = None,
        state: str | os.PathLike[str] | Literal[False] | None = None,
        processes: int | Literal["auto"] | ProcessOptions | Mapping[str, Any] = 1,
        telemetry: TelemetryOptions | Mapping[str, Any] | None = None,
        outputs: str | os.PathLike[str] | None = None,
        clock: Clock | None = None,
        gpu: CudaDevice | Sequence[CudaDevice] | None = None,
    ) -> None:
        from sightline.config import parts_from

        read_sources, read_steps = parts_from(sources, steps)
        description = PipelineDescription(
            name=name,
            device=device,
            sources=read_sources,
            batch=batch if isinstance(batch, BatchOptions) else BatchOptions(**(batch or {})),
            outbox=outbox if isinstance(outbox, OutboxOptions) else OutboxOptions(**(outbox or {})),
            processes=processes
            if isinstance(processes, ProcessOptions)
            else ProcessOptions(**(processes if isinstance(processes, Mapping) else {"count": processes})),
            telemetry=telemetry if isinstance(telemetry, TelemetryOptions | None) else TelemetryOptions(**telemetry),
            steps=read_steps,
            **({} if state is None else {"state": state if state is False else os.fspath(state)}),
            keep_running=keep_running,
            overwrite=overwrite,
        )
        self._outputs_root = None if outputs is None else Path(outputs)
        self._clock = clock or SystemClock()
        self._gpus = () if gpu is None else tuple(gpu) if isinstance(gpu, Sequence) else (gpu,)
        self.mounts = Mounts()
        """What its steps serve over HTTP, while `sightline.server.listen` serves the pipeline."""
        self.packets = Packets()
        """The encoded images of its streams, as far as somebody wants them."""
        self._scope = CallScope()
        self._listeners = Listeners(self._scope)
        self._probes: dict[str, list[Callable[[Batch], None]]] = {}
        self._control = self._control_of(description)
        self._file: ConfigurationFile | None = None

    @classmethod
    def from_description(
        cls,
        description: PipelineDescription,
        *,
        outputs: str | os.PathLike[str] | None = None,
        clock: Clock | None = None,
        gpu: CudaDevice | Sequence[CudaDevice] | None = None,
        file: ConfigurationFile | None = None,
    ) -> Self:
        """A pipeline from a description, such as `sightline.config.load_description` gives; `file` is where that
        was read.
        """
        pipeline = cls(sources={}, outputs=outputs, clock=clock, gpu=gpu)
        pipeline._control, pipeline._file = pipeline._control_of(description), file
        return pipeline

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str], *, outputs: str | os.PathLike[str] | None = None) -> Self:
        """A pipeline from a YAML file. Raises ConfigurationError with every mistake in it."""
        from sightline.config import ConfigurationFile

        return cls.from_file(ConfigurationFile(path), outputs=outputs)

    @classmethod
    def from_file(cls, file: ConfigurationFile, *, outputs: str | os.PathLike[str] | None = None) -> Self:
        """A pipeline from a YAML file that `reload` reads again, and to which `write_back` writes. Raises
        ConfigurationError with every mistake in it.
        """
        return cls.from_description(file.read(), outputs=outputs, file=file)

    @property
    def description(self) -> PipelineDescription:
        """What the pipeline is now, as a value: streams that came are in it, those that went are not."""
        return self._control.description

    @property
    def configuration(self) -> Configuration:
        """The present version of the description, with its tag (`etag`): what a change is made from."""
        present = self._control.configuration
        held = None if self._file is None else self._file.description
        return replace(present, is_of_file=held is not None and held == present.description)

    @property
    def outputs_root(self) -> Path | None:
        """The folder that outputs are written below; None is the working directory."""
        return self._outputs_root

    @property
    def file(self) -> ConfigurationFile | None:
        """The file that `reload` reads and `write_back` writes; None for a pipeline made in Python."""
        return self._file

    @property
    def versions(self) -> tuple[Configuration, ...]:
        """The last hundred versions of the description, the present one last: since when, and who asked for each."""
        return self._control.versions

    @property
    def _runner(self) -> Run | None:
        return self._control.runner

    def on_message(self, listener: Callable[[Message], None]) -> None:
        """Call `listener` with every message, from the pipeline's threads: it must be quick. What it raises is logged
        and stops nothing.
        """
        self._listeners.of_messages.append(listener)

    def on_state(self, listener: Callable[[Message], None]) -> None:
        """Call `listener` with the messages about a change of a stream's state: `message.stream` is now in
        `message.state`, for the reason in `message.text`. Otherwise as `on_message`.

        >>> from sightline import Pipeline
        >>> pipeline = Pipeline(sources={"test": {"pattern": "bars", "frames": 3}})
        >>> pipeline.on_state(lambda message: print(message.stream, message.state))
        >>> _ = pipeline.run()
        test live
        test ended
        """
        self.on_message(lambda message: listener(message) if message.state is not None else None)

    def on_events(self, listener: Callable[[Batch, Sequence[Event]], None]) -> None:
        """Call `listener` with the events that a step has just reported, and the batch on whose frames they are:
        `event.frame` is the row, `event.step` the step. Every event of a run is reported once, by the step that made
        it, in a branch as well; the events of one step and stream come in order.

        It is called from the pipeline's threads, perhaps from several at once: it must be quick, and must not keep the
        batch, which holds the memory of its images. What it raises is logged and stops nothing.

        >>> from sightline import Pipeline
        >>> pipeline = Pipeline(sources={"gate": "sample_videos/gate.mp4"}, steps=[
        ...     {"replay": {"path": "sample_videos/gate.mot.txt", "format": "mot", "label": "car"}}, "track",
        ...     {"lines": {"gate_in": {"from": [0.1, 0.6], "to": [0.9, 0.6]}}}])
        >>> pipeline.on_events(lambda batch, events: print([event.data["direction"] for event in events]))
        """
        self._listeners.of_events.append(listener)

    def on_batches(self, listener: BatchListener) -> None:
        """Call `listener` with each batch that has passed all steps, whatever these are by then, and the monotonic
        times (nanoseconds) at which its frames arrived. To be called before the start. For the listener, the same holds
        as for that of `on_events`.

        >>> from sightline import Pipeline
        >>> pipeline = Pipeline(sources={"test": {"pattern": "bars", "frames": 3}})
        >>> pipeline.on_batches(lambda batch, arrivals_ns: print([frame.index for frame in batch.frames]))
        """
        self._listeners.of_batches.append(listener)

    def probe(self, element_id: str, probe: Callable[[Batch], None]) -> None:
        """Call `probe` with every batch that leaves an element (`detect-1`); it must not change the batch. What it
        raises stops the pipeline, as a failure of that element.

        Raises ConfigurationError when no step has that id.
        """
        known = [known_id for known_id, _ in self.description.elements()]
        if element_id not in known:
            raise ConfigurationError(f"no step has the id {element_id!r}; the ids are {', '.join(known) or 'none'}")
        self._probes.setdefault(element_id, []).append(probe)

    def check(self) -> None:
        """Check everything that can be checked before anything runs. Raises ConfigurationError with every mistake."""
        self._control.check(self.description)

    def run(
        self,
        *,
        frames: int | None = None,
        duration_ns: int | None = None,
        fresh: bool = False,
        record: str | os.PathLike[str] | None = None,
    ) -> Report:
        """Run to the end, or until `frames` of each stream or `duration_ns` of its time have been read; return the
        report. `fresh` leaves the state that an earlier run has saved. `record` is a file (`run.slr`) to record the run
        in: what went in, batch by batch, so that it can be replayed and its frames inspected.

        Raises ConfigurationError before anything runs, OperatorError when a step fails, and StreamError when no stream
        can be read (when only some cannot, the report and messages say so).
        """
        self._scope.check("run()")
        try:
            return self._begin(Launch(Limits(frames, duration_ns), fresh=fresh, record=record)).wait()
        except KeyboardInterrupt as interrupt:
            if self._runner is not None:
                end_because_of(interrupt, self._runner)
            raise

    def start(
        self,
        *,
        frames: int | None = None,
        duration_ns: int | None = None,
        fresh: bool = False,
        record: str | os.PathLike[str] | None = None,
        order: BatchOrder | None = None,
        inspection: FrameInspection | None = None,
    ) -> None:
        """Run in the background, as `run` does. Raises ConfigurationError before anything runs, also when it is running
        already. A replay gives the `order` of the batches that were recorded, and the `inspection` of a frame.
        """
        limits = Limits(frames, duration_ns)
        self._begin(Launch(limits, fresh=fresh, record=record, order=order, inspection=inspection))

    def stop(self) -> None:
        """Stop the sources, finish what is under way, close the outputs; from any thread, also while `start` works.
        Harmless when nothing runs.
        """
        if self._runner is not None:
            self._runner.stop()

    def abort(self) -> None:
        """Stop at once: drop what is under way, and close the outputs. From any thread, as `stop`."""
        if self._runner is not None:
            self._runner.abort()

    def wait(self) -> Report:
        """Wait for the end of the run and return its report; raises as `run` does. May be called again. Raises
        ConfigurationError in code that the pipeline itself waits for: its listeners, probes and elements, and a loop
        over its frames.
        """
        self._scope.check("wait()")
        runner = self._runner
        if runner is None:
            raise ConfigurationError("the pipeline was not started: call start() or run() first")
        return runner.wait()

    @property
    def report(self) -> Report | None:
        """The report of the last run when `wait` or `run` saw its end, also when they raised; else None."""
        return None if self._runner is None else self._runner.report

    @property
    def has_begun(self) -> bool:
        """Whether everything is built and runs, or has run; it takes no lock."""
        return self._runner is not None and self._runner.has_begun

    @property
    def is_running(self) -> bool:
        """Whether a run was started and has not ended."""
        return self._runner is not None and self._runner.running

    def status(self) -> tuple[StreamStatus, ...]:
        """Return the state of every stream; empty before the start."""
        return () if self._runner is None else self._runner.status()

    def deliveries(self) -> tuple[DeliveryStats, ...]:
        """Return what was delivered to each destination, and what waits; empty before the start."""
        return () if self._runner is None else self._runner.deliveries()

    def view(self) -> RunView | None:
        """Return the run at this moment with all counters, for monitoring; None before the start."""
        return None if self._runner is None else self._runner.view()

    def inspect(self, stream: str, *, timeout: str | float = "10s") -> FrameInspection:
        """Take the next frame of a stream, and return what each step made of it; from any thread. What `timeout` cuts
        off is named in `missing`. One frame at a time is inspected; it costs a copy of its image, and of the outputs
        of models, and nothing while nobody asks.

        Raises ConfigurationError when no such stream runs.

        >>> from sightline import Pipeline
        >>> from sightline_plugins import Draw
        >>> with Pipeline(sources={"yard": {"pattern": "moving", "frames": None}}, steps=[Draw()]) as pipeline:
        ...     inspection = pipeline.inspect("yard")
        >>> list(inspection.steps), inspection.missing
        (['draw-1'], [])
        """
        self._scope.check_called("inspect()")
        runner = self._running_for(stream)
        description = self.description
        if stream not in description.sources:
            raise ConfigurationError(f"there is no stream {stream!r}; streams: {', '.join(description.sources)}")
        inspection = FrameInspection(description, stream)
        runner.inspect(inspection, seconds=parse_duration_ns(timeout) / 1e9)
        return inspection

    def layout(self) -> RunLayout:
        """Return how the steps run: their threads, the links between them, and where each works; empty before the
        start.
        """
        return RunLayout() if self._runner is None else self._runner.layout()

    def engines(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what computes the models of the steps that have one, with the reasons, as the report tells it by the
        ids of the steps; empty before the start.
        """
        return {} if self._runner is None else self._runner.engines()

    def record(
        self,
        stream: str,
        *,
        before: str | float | None = None,
        after: str | float | None = None,
        step: str | None = None,
    ) -> None:
        """Let the `record` steps (or the one with the id `step`) record a stream, from `before` now to `after` it
        (`10s`, or seconds; by default as the step says). From any thread; a message `recording` names the file.

        Raises ConfigurationError when the pipeline does not run, or no such step records that stream.
        """
        before_ns, after_ns = (None if one is None else parse_duration_ns(one) for one in (before, after))
        runner = self._runner
        if runner is None or not runner.record(stream, step=step, before_ns=before_ns, after_ns=after_ns):
            named = "" if step is None else f" {step!r}"
            raise ConfigurationError(
                f"nothing records {stream!r}: start the pipeline, with a step{named} `record` for that stream"
            )

    def reset_counts(self, step: str, *, stream: str | None = None) -> None:
        """Let the counts of the rules of a step (by its id) begin anew with its next frame: those of one stream, or of
        all. Who is inside stays, and what lasts goes on; the counts in the report begin anew as well. From any thread.

        Raises ConfigurationError when the pipeline does not run, or no such step counts.
        """
        runner = self._runner
        if runner is None or not runner.reset_counts(step, stream=stream):
            raise ConfigurationError(f"no step {step!r} counts: start the pipeline, with rules in a step of that id")

    def add_source(self, name: str, source: Source, *, by: str = "", epoch: int | None = None) -> PendingChange:
        """Add a stream while the pipeline runs; nothing else stops. From any thread, and from an event loop, which it
        does not block: the returned change can be waited for (`wait`, or `await`), but need not be.

        A name that was removed before in the same run continues: frame numbers, timestamps and counts go on. When
        nothing runs, the stream is part of the next run. Raises ConfigurationError when the name is taken or not
        allowed, the source is wrong, a step cannot process it, or the run is ending. `by` is who asks, for `versions`.

        `epoch` is what the records of the stream carry from now on, counted from 0 again, where several pipelines read
        it in turn: each gives a higher one. The pipeline must run, and a stream of that name must have ended before.

        >>> from sightline import Pipeline
        >>> pipeline = Pipeline(sources={}, keep_running=True)
        >>> with pipeline:
        ...     pipeline.add_source("yard", {"pattern": "counter", "frames": 3}).wait()
        ...     [status.name for status in pipeline.status()]
        ['yard']
        """
        return self._control.add_source(name, source, by=by, epoch=epoch)

    def remove_source(self, name: str, *, by: str = "") -> PendingChange:
        """Remove a stream while the pipeline runs; nothing else stops. It is done when the last frame that was read has
        passed all steps, and they have closed the stream's files. From any thread, as `add_source`.

        Its counts stay in the report. Raises ConfigurationError when there is no stream of that name.
        """
        return self._control.remove_source(name, by=by)

    def pause(self, stream: str) -> PendingChange:
        """Read nothing of a stream until `resume`; it stays part of the pipeline, in the state `paused`.

        From any thread. A camera is disconnected, and recordings of it are finished. A file stops where it is, and no
        frame is lost. It is done when the input rests and the last frame has passed all steps. Harmless when the stream
        is paused already. A pause survives a reload. Raises ConfigurationError when no such stream runs.

        >>> from sightline import Pipeline
        >>> with Pipeline(sources={"yard": {"pattern": "counter", "frames": None}}) as pipeline:
        ...     pipeline.pause("yard").wait()
        ...     print(pipeline.status()[0].state)
        ...     pipeline.resume("yard")
        paused
        """
        runner = self._begun_for(stream)
        with self._scope.entered():
            change = runner.pause_source(stream)
        change.scope = self._scope
        return change

    def resume(self, stream: str) -> None:
        """Read a paused stream again: a camera is connected anew, as after a loss; a file goes on where it stopped.

        From any thread. Harmless when the stream is not paused. Raises ConfigurationError when no such stream runs.
        """
        runner = self._begun_for(stream)
        with self._scope.entered():
            runner.resume_source(stream)

    def change(self, edit: Edit, *, expected: str | None = None, prove: str | float = _PROVE, by: str = "") -> Change:
        """Change the pipeline to what `edit` makes of its present description. From any thread, and from an event loop.

        Streams are added and removed, changed sources start again. Steps that are the same, by id and options, keep
        their state; others are built first, and then replace the old ones between two batches: no frame of a file is
        lost. Changes take turns, and `edit` gets what the one before has left. A mistake changes nothing; it is posted
        as a message. Name, device, `keep_running` and `sources_file` cannot change while the pipeline runs.

        The change is on probation for `prove` (`5s`, or seconds; 0: not at all). If a step fails meanwhile, or does not
        return, or a stream does not come, the change is reverted, and no such error ends the run: the frames that met
        it are dropped as `reverted`. The returned change is done after that; its `applied` is done before.

        `expected` is the tag of the configuration that the change was made from (`configuration.etag`), `by` who asks,
        for `versions`. Waiting for the change raises ConfigurationError for mistakes (StaleConfiguration when the
        present configuration has another tag), OperatorError when a step cannot be built, ChangeReverted when the
        change did not prove itself, and what `edit` raises.
        """
        return self._control.change(edit, expected=expected, prove_ns=parse_duration_ns(prove), by=by)

    def roll_back(self, *, to: str | None = None, prove: str | float = _PROVE, by: str = "") -> Change:
        """Change the pipeline to the last configuration that worked before the present one; again, to the one before
        that. `to` is the tag of another version that is kept. Everything else is as in `change`.

        Waiting for it raises ConfigurationError when there is no such version. Streams of a sources file stay those
        that the file holds.
        """
        return self._control.roll_back(to=to, prove_ns=parse_duration_ns(prove), by=by)

    def reload(
        self,
        description: PipelineDescription | str | os.PathLike[str] | Callable[[], PipelineDescription] | None = None,
        *,
        prove: str | float = _PROVE,
        by: str = "",
    ) -> Change:
        """Change the pipeline to a description, to a YAML file (by default the one that it comes from), or to what a
        function returns, as `change` does.
        """
        from sightline.config import ConfigurationFile

        if isinstance(description, PipelineDescription):
            return self.change(lambda _: description, prove=prove, by=by)
        if callable(description):
            return self.change(lambda _: description(), prove=prove, by=by)
        file = self._file
        if description is not None and (file is None or file.path.absolute() != Path(description).absolute()):
            file = ConfigurationFile(description, outputs=Outputs(self._outputs_root))
        if file is None:
            raise ConfigurationError("this pipeline comes from no file: give the description to change to")
        read = file.read
        return self.change(lambda _: read(), prove=prove, by=by)

    def write_back(self) -> bool:
        """Write what has changed since the pipeline's file was read to that file; return whether anything has.
        Comments, order, references to the environment and relative paths stay. Streams of a sources file are left out.

        Raises ConfigurationError when the pipeline comes from no file, or its file cannot hold the change,
        StaleConfiguration when somebody has changed the file since it was read, and OutputError when it cannot be
        written; the file is then as it was.
        """
        if self._file is None:
            raise ConfigurationError("this pipeline comes from no file: make it with from_yaml or from_file")
        return self._file.write(self.description)

    def _repr_svg_(self) -> str:
        """The graph of the pipeline, which Jupyter shows; without credentials."""
        from sightline.graph.diagram import diagram_of, svg

        return svg(diagram_of(self.description))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        runner = self._runner
        if runner is None:
            return
        self._scope.check("the end of a `with` block")
        if error is None:
            end(runner)
        else:
            end_because_of(error, runner)

    def __iter__(self) -> Iterator[FrameView]:
        """Run, and yield every frame with what was found on it; raises as `run` does."""
        return each_frame(self._begin_for_loop, self._scope)

    def __aiter__(self) -> AsyncIterator[FrameView]:
        """Run, and yield every frame, without blocking the event loop; raises as `run` does. Cancelling the task stops
        the pipeline and waits for its end.
        """
        return each_frame_in_event_loop(self._begin_for_loop, self._scope)

    def _control_of(self, description: PipelineDescription) -> Control:
        given = Device(DeviceKind.CUDA, self._gpus[0].index) if self._gpus else None
        return Control(
            description,
            outputs_root=self._outputs_root,
            post=self._post,
            clock=self._clock,
            scope=self._scope,
            given=given,
        )

    def _running_for(self, stream: str) -> Run:
        runner = self._runner
        if runner is None or not runner.running:
            raise ConfigurationError(f"the stream {stream!r} is not read: start the pipeline first")
        return runner

    def _begin_for_loop(self, link: Link[Item]) -> Run:
        if self.is_running:
            raise ConfigurationError(
                "the pipeline is running, and a loop over its frames starts it itself: leave out the `with` block or"
                " start(); `probe` and `on_batches` see the frames of a pipeline that runs"
            )
        return self._begin(Launch(consumer=link))

    def _begun_for(self, stream: str) -> Run:
        """The run, whose start is waited for, but not by what the start itself calls."""
        runner = self._running_for(stream)
        if not runner.has_begun and self._scope.is_current and not isinstance(current_thread(), Worker):
            raise ConfigurationError(
                f"the stream {stream!r} is not read yet: this code is called while the pipeline starts; do it when a"
                " message says that it has started (`message.kind` is `started`)"
            )
        return runner

    def _begin(self, launch: Launch) -> Run:
        around = Surroundings(
            outputs_root=self._outputs_root,
            clock=self._clock,
            gpus=self._gpus,
            mounts=self.mounts,
            packets=self.packets,
            probes=self._probes,
            listeners=self._listeners,
            post=self._post,
        )
        return self._control.begin(lambda description, watches: launch.make(description, around, watches))

    def _post(self, message: Message) -> None:
        self._listeners.post(message)
        if message.kind is MessageKind.CANARY_PROVED and message.element and message.data.get("promotes"):
            self._control.promote(message.element, prove_ns=parse_duration_ns(_PROVE))
