"""What a run is, whether it is in one process or in several: how it begins, fails and ends, and what it offers to the
pipeline and to whoever changes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from threading import Event, Lock
from typing import Any

from sightline.errors import StreamError
from sightline.graph import (
    BatchOptions,
    Clock,
    Element,
    Message,
    MessageKind,
    Outputs,
    PipelineDescription,
    SourceElement,
    Step,
    WaitLimit,
)
from sightline.media import Batch
from sightline.runtime.delivery.outbox import OutboxLimits, RunOutbox
from sightline.runtime.inspection import FrameInspection
from sightline.runtime.probation import Probation
from sightline.runtime.scheduling.element_totals import Failures
from sightline.runtime.scheduling.lanes import Rebuilt
from sightline.runtime.sources.manager import PendingChange
from sightline.runtime.stats.counters import DeliveryStats, StreamStats
from sightline.runtime.stats.report import Report
from sightline.runtime.stats.snapshot import RunLayout, RunView, StreamStatus

BatchListener = Callable[[Batch, Sequence[int]], None]
"""Gets batches that have passed all steps, and the monotonic times (nanoseconds) at which their frames arrived."""
TELEMETRY_SECONDS = 2.0
"""How long the end of a run waits for its last telemetry to be sent."""
_STOP_LINGER_NS = 1_000_000_000
"""How long a run that is stopped waits for records to be delivered, and for others outside."""


class Run(ABC):
    """One run of a description: `Runner` in this process, `ProcessRunner` in several.

    `start` builds everything and raises what is wrong; `wait` returns the report when the run is over and raises the
    first error of an operator, or the error of the streams when none could be read. `stop` and `abort` may be called
    from any thread at any time, also while `start` builds: the run then ends as soon as it has begun. Streams may be
    added and removed at any time, and steps replaced. `report` is set when `wait` has seen the end, whatever it was.
    """

    probation: Probation
    """What operators did wrong while changes of the run were on probation."""

    def __init__(
        self,
        description: PipelineDescription,
        *,
        outputs: Outputs,
        clock: Clock,
        post: Callable[[Message], None],
    ) -> None:
        self._description, self._outputs, self._clock, self._post_outside = description, outputs, clock, post
        self._error: BaseException | None = None
        self._error_lock, self._finishing, self._begun = Lock(), Lock(), Event()
        self._could_begin, self._is_over, self._is_aborted = True, False, False
        self.has_streams = False
        """Whether frames may flow, so that the run has to be ended."""
        self.report: Report | None = None
        options = description.outbox
        self._outbox = RunOutbox(
            outputs.path(description.outbox_path),
            outputs=outputs,
            clock=clock,
            post=self._post_of_element,
            limits=OutboxLimits(options.size, options.age),
        )
        self._outbox.linger(at_most_ns=options.linger)
        self._wait_limit = WaitLimit()

    @property
    def error(self) -> BaseException | None:
        """What the run ends with; None as long as nothing has failed."""
        return self._error

    @property
    def running(self) -> bool:
        """Whether it has not ended; true before it has begun, too."""
        return not self._is_over

    @property
    def has_begun(self) -> bool:
        """Whether the start is over, successfully or not; takes no lock."""
        return self._begun.is_set()

    def wait(self) -> Report:
        """Wait for the end and return the report. Raises the error of the run. May be called again, from any thread."""
        self._begun.wait()
        if not self._could_begin and self._error is not None:
            raise self._error
        self._wait_for_end()
        with self._finishing:
            report = self.report = self.report or self._finish()
        if self._error is not None:
            raise self._error
        return report

    def failed(self, error: BaseException) -> None:
        """Stop the run because of its first error."""
        with self._error_lock:
            if self._error is not None:
                return
            self._error = error
        self._post(Message(MessageKind.ERROR, str(error)))
        self.stop()

    def status(self) -> tuple[StreamStatus, ...]:
        """Return the state of every stream; empty before the start."""
        if not self._begun.is_set():
            return ()
        now = self._clock.monotonic_ns()
        return tuple(StreamStatus.of(one, now_ns=now) for one in self._present())

    def streams(self) -> Mapping[str, StreamStats]:
        """Return the stats of the present streams by name; they go on counting."""
        return {one.stream.name: one for one in self._present()}

    def deliveries(self) -> tuple[DeliveryStats, ...]:
        """Return what was delivered to each destination; it goes on counting."""
        return self._outbox.stats

    @abstractmethod
    def start(self) -> None:
        """Build the operators and begin. Raises SightlineError, with nothing left running."""

    @abstractmethod
    def stop(self) -> None:
        """End all sources, finish what is under way, and close all outputs."""

    @abstractmethod
    def abort(self) -> None:
        """End everything now: drop what is under way, and close the outputs."""

    def _limit_waiting(self, *, within_ns: int = _STOP_LINGER_NS) -> None:
        """Wait for nobody outside for longer than this."""
        self._outbox.linger(at_most_ns=within_ns)
        self._wait_limit.end(until_ns=self._clock.monotonic_ns() + within_ns)

    @abstractmethod
    def failures(self) -> Mapping[str, Failures]:
        """Return how often the present steps have failed that may be skipped, by their ids."""

    @abstractmethod
    def slow_calls(self, *, seconds: float) -> Mapping[str, float]:
        """Return the steps that have been in the same call for longer, and for how long, in seconds."""

    @abstractmethod
    def view(self) -> RunView:
        """Return the run at this moment; from any thread."""

    @abstractmethod
    def has_come(self, name: str) -> bool:
        """Whether a frame of the present source of a stream has come."""

    @abstractmethod
    def layout(self) -> RunLayout:
        """Return how the steps run; from any thread."""

    @abstractmethod
    def engines(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what computes the models of the steps, by their ids; from any thread."""

    @abstractmethod
    def inspect(self, inspection: FrameInspection, *, seconds: float) -> None:
        """Let the next frame of a stream be inspected, and wait until it has passed all steps, or for so long."""

    @abstractmethod
    def record(self, stream: str, *, step: str | None, before_ns: int | None, after_ns: int | None) -> int:
        """Ask the steps that record on request, or one of them, to record a stream; return how many do."""

    @abstractmethod
    def reset_counts(self, element_id: str, *, stream: str | None) -> int:
        """Let the counts of an element begin anew, of a stream or of all; return how many operators count."""

    @abstractmethod
    def check_free(self, name: str) -> None:
        """Raises ConfigurationError when a stream of that name runs."""

    @abstractmethod
    def begin_epoch(self, name: str, epoch: int) -> None:
        """Let the records of a stream that does not run carry this epoch. Raises ConfigurationError when one of that
        name has not ended, or has had that epoch or a higher one.
        """

    @abstractmethod
    def add_source(self, name: str, source: SourceElement) -> PendingChange:
        """Add a stream. Raises ConfigurationError when one of that name runs, or the run is ending."""

    @abstractmethod
    def remove_source(self, name: str) -> PendingChange:
        """Remove a stream. Raises ConfigurationError when there is none of that name."""

    @abstractmethod
    def replace_source(self, name: str, source: SourceElement) -> PendingChange:
        """Replace the source of a stream. Raises as `remove_source` does."""

    @abstractmethod
    def pause_source(self, name: str) -> PendingChange:
        """Pause a stream. Raises ConfigurationError when there is none of that name, or it has ended."""

    @abstractmethod
    def resume_source(self, name: str) -> None:
        """Resume a stream that was paused. Raises ConfigurationError when there is none of that name."""

    @abstractmethod
    def kept_open(self) -> AbstractContextManager[None]:
        """Do not end for lack of streams while the block is open, because others will be added."""

    @abstractmethod
    def runs(self, element_id: str, element: Element) -> bool:
        """Whether it has this step with these options, and the files that it reads have not changed since."""

    @abstractmethod
    def differs(self, steps: tuple[Step, ...]) -> bool:
        """Whether these steps differ from the present ones, or files that they read have changed."""

    @abstractmethod
    def rebuild(self, steps: tuple[Step, ...], *, prove_ns: int = 0) -> Rebuilt:
        """Continue with other steps; wait until they run. Raises SightlineError, and continues as before. `prove_ns` is
        how long the change is on probation.
        """

    @abstractmethod
    def set_batch(self, batch: BatchOptions) -> None:
        """Form batches by other options from now on."""

    @abstractmethod
    def let_frames_in(self) -> None:
        """Go on after an error for which frames wait in front of the steps."""

    @abstractmethod
    def _present(self) -> Iterable[StreamStats]:
        """The stats of the present streams."""

    @abstractmethod
    def _wait_for_end(self) -> None:
        """Wait until nothing runs any more."""

    @abstractmethod
    def _finish(self) -> Report:
        """Close what is open, and make the report; called once, after the end."""

    @abstractmethod
    def _post_of_element(self, message: Message) -> None:
        """Post a message of a part of the run."""

    def _post(self, message: Message) -> None:
        """Post a message to the application, and to the steps that send such."""
        self._post_outside(message)
        self._outbox.hear(message)

    def _conclude(self, report: Report) -> Report:
        """Note the error of a run that could read no stream, and tell the end; return the report."""
        if self._error is None and report.streams and len(report.failed_streams) == len(report.streams):
            self._error = StreamError("; ".join(_failure_of(one) for one in report.streams))
        self._post(Message(MessageKind.STOPPED, f"stopped after {report.frames} frames"))
        return report


def _failure_of(failed: StreamStats) -> str:
    """Why a stream has failed, with its name, which most errors have already."""
    name, text = f"stream {failed.stream.name!r}", str(failed.error)
    return text if text.startswith(name) else f"{name}: {text}"
