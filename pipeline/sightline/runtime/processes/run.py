"""One run of a pipeline in several processes: streams are placed, results merged, workers that fail replaced."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event as Flag
from threading import RLock
from typing import Any

from sightline.devices import Device, DeviceKind
from sightline.devices.discovery import choose_device
from sightline.errors import ConfigurationError, OperatorError
from sightline.graph import (
    BatchOptions,
    Clock,
    Element,
    Message,
    MessageKind,
    Mounts,
    Outputs,
    PipelineDescription,
    Site,
    SourceElement,
    Step,
)
from sightline.media import Stream
from sightline.redaction import redact
from sightline.runtime.inspection import FrameInspection
from sightline.runtime.processes.assignment import Assignment, ToldError, share_of
from sightline.runtime.processes.changes import StepChanges, WorkersProbation, merged_failures, of_main
from sightline.runtime.processes.channel import Letter
from sightline.runtime.processes.inbox import Inbox
from sightline.runtime.processes.main_steps import MainSteps
from sightline.runtime.processes.placement import Placement
from sightline.runtime.processes.share import Share, Watching
from sightline.runtime.processes.spare import Spare
from sightline.runtime.processes.stats import ProcessStats
from sightline.runtime.processes.streams import RunStreams
from sightline.runtime.processes.worker import WorkerProcess
from sightline.runtime.run import TELEMETRY_SECONDS, BatchListener, Run
from sightline.runtime.scheduling.element_totals import Failures
from sightline.runtime.scheduling.lanes import Rebuilt
from sightline.runtime.scheduling.rule_findings import EventListener
from sightline.runtime.sources.manager import PendingChange
from sightline.runtime.sources.supervisor import Limits
from sightline.runtime.stats.counters import StreamStats
from sightline.runtime.stats.report import Report
from sightline.runtime.stats.snapshot import RunLayout, RunView
from sightline.runtime.tracing import MakeTelemetry, Telemetry
from sightline.runtime.watchdog import Watch

_LOOK_SECONDS = 0.5
_MOST_FRUITLESS = 5
"""After so many workers in a row that have failed without having processed a frame, their files are given up."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What workers are to run that are started from now on: the description, and the versions of `forwarded` steps."""

    description: PipelineDescription
    forwarded: Mapping[str, int]


class ProcessRunner(Run):
    """Runs a description once, in workers that each read some of its streams.

    Each worker is a process with a `Runner` of its own. It decodes, infers, tracks and applies rules. What sinks that
    need results alone would get goes to this process, which has their operators: so files, connections and the outbox
    are those of a run in one process. A worker that fails costs its streams a reconnect, and is started again.
    `telemetry` sends the metrics of all workers, and `traces` makes what each of them traces its frames with.
    """

    def __init__(
        self,
        description: PipelineDescription,
        *,
        count: int,
        outputs: Outputs,
        clock: Clock,
        post: Callable[[Message], None],
        mounts: Mounts,
        limits: Limits,
        watches: Sequence[Watch] = (),
        on_events: EventListener | None = None,
        on_batch: BatchListener | None = None,
        telemetry: Telemetry | None = None,
        traces: MakeTelemetry | None = None,
        fresh: bool = False,
    ) -> None:
        super().__init__(description, outputs=outputs, clock=clock, post=post)
        self._mounts, self._limits, self._watches = mounts, limits, watches
        self._on_events, self._on_batch, self._fresh = on_events, on_batch, fresh
        self._telemetry, self._traces = telemetry, traces
        self._lock, self._stopping = RLock(), Flag()
        self._lost_outputs: dict[str, str] = {}
        self._steps: MainSteps | None = None
        self._changes: StepChanges | None = None
        self._changing = RLock()
        self._inbox: Inbox | None = None
        self._streams = RunStreams(description.sources, clock=clock, post=self._post)
        self._devices = _devices(description.device)
        self._spare = Spare(gpu_share=-(-count // len(self._devices)) if self._devices[0] != "cpu" else 1)
        watching = Watching(description.processes.hang_timeout / 1e9, description.processes.memory_limit)
        self.shares = [
            Share(
                number,
                device=self._devices[(number - 1) % len(self._devices)],
                events=self,
                watching=watching,
            )
            for number in range(1, count + 1)
        ]
        """The share of each worker."""
        self.probation: WorkersProbation = WorkersProbation(self.shares)
        self._stats = ProcessStats(
            name=description.name,
            devices=self._devices,
            clock=clock,
            outputs=outputs,
            outbox=self._outbox,
            streams=self._streams,
            shares=self.shares,
            main=lambda: self._steps,
            order=lambda: [name for name, _ in self._description.elements()],
            telemetry=None if telemetry is None else telemetry.stats,
        )
        self._ended: set[int] = set()
        self._running = 0
        self._placement: Placement[Share] = Placement(self.shares, description.sources)
        description.limit(outputs)
        _check_travels(description)

    def start(self) -> None:
        """Build the steps of this process, start all workers, in parallel, and wait until they run. Raises
        SightlineError, with nothing left running.
        """
        try:
            self._steps = MainSteps(
                of_main(self._description.steps),
                site=self._site(),
                on_error=self._step_failed,
                on_hopeless=self._fail_stream,
            )
            self._plan = _Plan(self._description, self._steps.forwarded)
            self._changes = StepChanges(self.shares, main=self._steps, adopt=self._adopt, fail=self.failed)
            self._inbox = Inbox(
                steps=self._steps,
                streams=self._streams,
                post=self._post_of_element,
                fail=self.failed,
                probation=self.probation,
                on_events=self._on_events,
                on_batch=self._on_batch,
            )
            self._stats.start()
            for share in self.shares:
                share.start()
            for share in self.shares:
                while not share.begun.wait(_LOOK_SECONDS):
                    pass
            if self._error is not None and not all(share.could_begin for share in self.shares):
                raise self._error
        except BaseException as error:
            self._undo(error)
            raise
        self.has_streams = True
        for watch in self._watches:
            watch.start()
        if self._telemetry is not None:
            self._telemetry.start(self.view)
        self._begun.set()
        streams = "1 stream" if self._streams.count == 1 else f"{self._streams.count} streams"
        where = ", ".join(dict.fromkeys(self._devices))
        text = f"started on {where} in {len(self.shares)} processes with {streams}"
        self._post(Message(MessageKind.STARTED, text))

    def stop(self) -> None:
        """End all sources, finish what is under way, and close all outputs."""
        self._stopping.set()
        self._limit_waiting()
        for share in self.shares:
            share.stop()

    def abort(self) -> None:
        """End everything now: workers that do not end within seconds are killed."""
        self._is_aborted = True
        self._stopping.set()
        self._limit_waiting(within_ns=0)
        for share in self.shares:
            share.abort()

    def failures(self) -> Mapping[str, Failures]:
        """Return how often the present steps have failed that may be skipped, by their ids."""
        answers = [share.ask("failures") or {} for share in self.shares]
        return merged_failures([*answers, self._main_steps.elements.failures()])

    def slow_calls(self, *, seconds: float) -> Mapping[str, float]:
        """Return the steps that have been in the same call for longer, and for how long, in seconds."""
        found = dict(self._main_steps.elements.slow_calls(seconds=seconds))
        for share in self.shares:
            for name, duration in (share.ask("slow_calls", seconds=seconds) or {}).items():
                found[name] = max(duration, found.get(name, 0.0))
        return found

    def has_come(self, name: str) -> bool:
        """Whether a frame of the present source of a stream has come."""
        share = self._placement.of(name)
        return share is not None and bool(share.ask("has_come", name))

    def view(self) -> RunView:
        """Return the run as its workers were half a second ago at most; from any thread."""
        return self._stats.view(is_running=not self._is_over)

    def layout(self) -> RunLayout:
        """Return how the steps run in each worker; empty when none answers."""
        return self._ask_first("layout") or RunLayout()

    def engines(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what computes the models of the steps in a worker."""
        return self._ask_first("engines") or {}

    def inspect(self, inspection: FrameInspection, *, seconds: float) -> None:
        """Raises ConfigurationError: frames stay in the workers."""
        del inspection, seconds
        raise ConfigurationError("a frame cannot be inspected in a run in several processes: leave `processes` out")

    def record(self, stream: str, *, step: str | None, before_ns: int | None, after_ns: int | None) -> int:
        """Ask the steps that record on request, or one of them, to record a stream; return how many do."""
        share = self._placement.of(stream)
        if share is None:
            return 0
        return share.ask("record", stream, step=step, before_ns=before_ns, after_ns=after_ns) or 0

    def reset_counts(self, element_id: str, *, stream: str | None) -> int:
        """Let the counts of an element begin anew, in all workers; return how many operators count."""
        return sum(share.ask("reset_counts", element_id, stream=stream) or 0 for share in self.shares)

    def check_free(self, name: str) -> None:
        """Raises ConfigurationError when a stream of that name runs."""
        self._streams.check_free(name)

    def begin_epoch(self, name: str, epoch: int) -> None:
        """Let the records of a stream carry this epoch. Raises ConfigurationError when it has not ended, or the epoch
        is not a new one.
        """
        self._streams.check_ended(name)
        self._outbox.begin_epoch(name, epoch)

    def add_source(self, name: str, source: SourceElement) -> PendingChange:
        """Add a stream, to the worker with the least load. Raises ConfigurationError when
        one of that name runs, or the run is ending.
        """
        self._outputs.protect_inputs(source, of=f"the source {name!r}")
        self._streams.check_free(name)
        with self._lock:
            share = self._placement.share_for(name)
            if share is None:
                raise ConfigurationError(f"the stream {name!r} cannot come any more: the pipeline is at its end")
            with share.lock:
                self._streams.add(name, source)
                self._placement.place(name, source, share)
                return share.request("add_source", name, source)

    def remove_source(self, name: str) -> PendingChange:
        """Remove a stream. Raises ConfigurationError when there is none of that name."""
        share = self._share_of(name)
        with share.lock:
            share.sources.pop(name, None)
            self._streams.remove(name)
            return share.request("remove_source", name)

    def replace_source(self, name: str, source: SourceElement) -> PendingChange:
        """Replace the source of a stream. Raises as `remove_source` does."""
        share = self._share_of(name)
        with share.lock:
            share.sources[name] = source
            return share.request("replace_source", name, source)

    def pause_source(self, name: str) -> PendingChange:
        """Pause a stream. Raises ConfigurationError when there is none of that name."""
        share = self._share_of(name)
        with share.lock:
            share.paused.add(name)
            return share.request("pause_source", name)

    def resume_source(self, name: str) -> None:
        """Resume a stream that was paused. Raises ConfigurationError when there is none of that name."""
        share = self._share_of(name)
        with share.lock:
            share.paused.discard(name)
            share.request("resume_source", name)

    def runs(self, element_id: str, element: Element) -> bool:
        """Whether it has this step with these options, and the files that it reads have not changed since."""
        return self._step_changes.runs(element_id, element)

    def differs(self, steps: tuple[Step, ...]) -> bool:
        """Whether these steps differ from the present ones, or files that they read have changed."""
        return self._step_changes.differ(steps)

    def rebuild(self, steps: tuple[Step, ...], *, prove_ns: int = 0) -> Rebuilt:
        """Continue with other steps, in all workers; wait until they run. Raises SightlineError, and continues as
        before.
        """
        self._begun.wait()
        _check_travels(self._description.model_copy(update={"steps": steps}))
        with self._changing:
            return self._step_changes.carry_out(self._description.steps, steps, prove_ns=prove_ns)

    def set_batch(self, batch: BatchOptions) -> None:
        """Form batches by other options from now on."""
        with self._changing:
            self._description = self._description.model_copy(update={"batch": batch})
            self._plan = replace(self._plan, description=self._description)
            for share in self.shares:
                share.ask("set_batch", batch)

    def let_frames_in(self) -> None:
        """Go on after an error for which frames wait in front of the steps of a worker."""
        for share in self.shares:
            share.request("let_frames_in")

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Let no worker end for lack of streams while the block is open, because others will be added."""
        for share in self.shares:
            share.ask("keep_open", keeps=True)
        try:
            yield
        finally:
            for share in self.shares:
                share.request("keep_open", keeps=False)

    # What the shares report

    def process(self) -> WorkerProcess:
        """Return the spare process, which has imported everything, or else a new one. Raises OSError."""
        return self._spare.take()

    def has_work(self, share: Share) -> bool:
        """Whether a worker is to be started: it has streams that have not ended, or others may come."""
        if share.is_stopping:
            return False
        return self._description.stays or any(not self._streams.is_over(name) for name in share.sources)

    def assignment(self, share: Share) -> Assignment:
        """Return what the next worker is to run: the streams that have not ended, behind what was processed."""
        sources = {name: one for name, one in share.sources.items() if not self._streams.is_over(name)}
        plan = self._plan
        return Assignment(
            description=share_of(plan.description, sources, number=share.number, device=share.device),
            outputs_root=self._outputs.root,
            limits=self._limits,
            fresh=self._fresh and not share.restarts,
            hang_seconds=self._description.processes.hang_timeout / 1e9,
            forwarded=plan.forwarded,
            former=self._streams.former(sources),
            claimed=share.files,
            wants_events=self._on_events is not None,
            wants_batches=self._on_batch is not None,
            is_on_probation=self.probation.is_open,
            traces=self._traces,
        )

    def take(self, share: Share, letter: Letter) -> None:
        """Take a letter of a worker, in the thread of its share."""
        if letter.kind == "begun":
            self._take_begin()
        elif self._inbox is not None:
            self._inbox.take(share, letter)

    def _take_begin(self) -> None:
        """Note that a worker runs: frames are counted from the first on."""
        with self._lock:
            self._stats.begin()
            self._running += 1
            is_complete = self._running >= len(self.shares)
        if is_complete and self._is_live and not self._stopping.is_set():
            self._spare.renew(self._description.steps, tuple(self._description.sources.values()))

    def lost(self, share: Share, reason: str, *, delay_seconds: float) -> None:
        """Count what a worker has lost, report it, and give up the files that no worker gets any further with."""
        number = f"worker {share.number}"
        if not (share.begun.is_set() or share.progress or self._stopping.is_set()):
            share.could_begin = False
            self.failed(OperatorError(f"{number} {reason} before it ran", element=number))
            return
        lost = self._streams.lost(
            share.sources,
            reason=f"{number} {reason}",
            delay_seconds=None if share.is_stopping else delay_seconds,
            is_hopeless=share.fruitless >= _MOST_FRUITLESS,
        )
        again = "" if share.is_stopping else f"; it is started again in {delay_seconds:.1f} s"
        text = f"{number} {reason}: {lost} frames under way are lost{again}"
        data = {"worker": share.number, "restarts": share.restarts, "frames": lost}
        self._post(Message(MessageKind.WORKER_LOST, text, data=data))
        self.probation.report(OperatorError(f"{number} {reason}", element=number))

    def over(self, share: Share) -> None:
        """Note the end of a worker, and of the run with the last one."""
        with self._lock:
            self._ended.add(share.number)
            self._is_over = len(self._ended) == len(self.shares)

    @property
    def _is_live(self) -> bool:
        return self._description.stays or any(one.live for one in self._description.sources.values())

    @property
    def _step_changes(self) -> StepChanges:
        assert self._changes is not None
        return self._changes

    @property
    def _main_steps(self) -> MainSteps:
        assert self._steps is not None
        return self._steps

    def _share_of(self, name: str) -> Share:
        self._streams.check_present(name)
        share = self._placement.of(name)
        assert share is not None  # a stream that is present was placed
        return share

    def _site(self) -> Site:
        description = self._description
        return Site(
            device=Device(DeviceKind.CPU),
            pipeline=description.name,
            clock=self._clock,
            outputs=self._outputs,
            post=self._post_of_element,
            streams=tuple(description.sources),
            live=self._is_live,
            outbox=self._outbox,
            mounts=self._mounts,
            wait_limit=self._wait_limit,
        )

    def _ask_first(self, name: str) -> Any:
        for share in self.shares:
            if (answer := share.ask(name)) is not None:
                return answer
        return None

    def _adopt(self, steps: tuple[Step, ...], forwarded: Mapping[str, int]) -> None:
        """Let workers that are started from now on have these steps."""
        self._description = self._description.model_copy(update={"steps": steps})
        self._plan = _Plan(self._description, forwarded)

    def _step_failed(self, error: BaseException) -> None:
        """End the run because a step of this process has failed, unless a change is on probation: then that has."""
        is_ordinary = isinstance(error.__cause__ or error, Exception)
        if not (isinstance(error, OperatorError) and is_ordinary and self.probation.takes(error)):
            self.failed(error)

    def _fail_stream(self, stream: Stream, error: OperatorError, details: str) -> None:
        if self.probation.takes(error):
            return
        share = self._placement.of(stream.name)
        if share is not None:
            share.fail_stream(((stream.name, stream.live), ToldError.of(error), details))

    def _post_of_element(self, message: Message) -> None:
        if message.kind is MessageKind.SINK_DEGRADED and message.element is not None:
            self._lost_outputs.setdefault(message.element, message.text)
        self._post(message)

    def _present(self) -> Iterable[StreamStats]:
        return self._streams.present

    def _stop_telemetry(self, *, seconds: float) -> None:
        if self._telemetry is not None:
            self._telemetry.stop(seconds=seconds)

    def _wait_for_end(self) -> None:
        for share in self.shares:
            while not share.wait(_LOOK_SECONDS):
                pass

    def _finish(self) -> Report:
        for watch in self._watches:
            watch.stop()
        self._spare.discard()
        with self._changing:  # a change that is under way ends with its workers
            self._main_steps.close(drained=not self._is_aborted)
        self._outbox.close()
        self._streams.finish()
        self._stop_telemetry(seconds=0.0 if self._is_aborted else TELEMETRY_SECONDS)
        report = self._stats.report(lost_outputs=self._lost_outputs)
        self._is_over = True
        return self._conclude(report)

    def _undo(self, error: BaseException) -> None:
        self._error = self._error or error
        self.abort()
        for share in self.shares:
            if share.ident is not None:
                while not share.wait(_LOOK_SECONDS):
                    pass
        self._spare.discard()
        if self._steps is not None:
            self._steps.close(drained=False)
        self._outbox.close()
        self._stop_telemetry(seconds=0.0)
        self._could_begin, self._is_over = False, True
        self._begun.set()


def _check_travels(description: PipelineDescription) -> None:
    """Raises ConfigurationError for a step or source that another process cannot be given."""
    parts: list[tuple[str, object]] = [(f"the step {name!r}", one) for name, one in description.elements()]
    parts += [(f"the source {name!r}", one) for name, one in description.sources.items()]
    for name, part in parts:
        module = type(part).__module__
        try:
            pickle.dumps(part)
        except Exception as error:
            raise ConfigurationError(f"{name} cannot be sent to another process: {redact(error)}") from error
        if module == "__main__":
            text = f"{type(part).__name__} is defined in the program itself, which processes of a run do not import"
            raise ConfigurationError(f"{name}: {text}: move it to a module of its own")


def _devices(name: str) -> list[str]:
    """The devices that workers are spread over. Raises DeviceUnavailable."""
    return [str(one) for one in choose_device(name).devices]
