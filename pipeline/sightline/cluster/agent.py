"""The agent of a worker: keeps its lease, and lets its pipeline be what is ordered, and read what the lease allows."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sightline.cluster.configured import WorkerPipeline
from sightline.cluster.engine import ClusterEngine, ControllerAbsent, ControllerSilent
from sightline.cluster.lease import WorkerLease
from sightline.cluster.model import ClusterOptions, Grant, GrantedStream, Refusal
from sightline.errors import SightlineError
from sightline.runtime.threads import Worker

if TYPE_CHECKING:
    from sightline.graph import Clock
    from sightline.pipeline import Pipeline
    from sightline.runtime.sources.manager import PendingChange

_LOG = logging.getLogger(__name__)
_STOPPING_SECONDS = 0.02
"""How often streams that are being stopped are looked at."""
_MARGIN = 0.75
"""After this share of the grace, what has not stopped is aborted."""


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """What a worker says of itself: proved frames a second, most streams, labels, and what must be equal everywhere."""

    capacity: float
    limit: int = 1_000_000
    labels: Mapping[str, str] = field(default_factory=dict)
    version: str = ""


class WorkerAgent(Worker):
    """Runs the pipeline that a controller orders, with the streams that it grants, and nothing else.

    The pipeline stays the caller's to end. When streams do not stop in time after the end of the lease, the pipeline is
    aborted: nobody else may read them as long as this one does.
    """

    def __init__(
        self,
        lease: WorkerLease,
        pipeline: WorkerPipeline,
        *,
        facts: WorkerFacts,
        engine: ClusterEngine,
        options: ClusterOptions,
        clock: Clock,
    ) -> None:
        super().__init__(f"cluster-{lease.worker}")
        self._lease, self._configured, self._engine, self._options = lease, pipeline, engine, options
        self._clock = clock
        self.facts = facts
        """What the next heartbeat reports; may be replaced."""
        self._wanted_now, self._stopping_now = threading.Event(), threading.Event()
        pipeline.on_done = self.wake
        self._running: dict[str, GrantedStream] = {}
        self._ending: dict[str, PendingChange] = {}
        self._epochs: dict[str, int] = {}
        """The last epoch of each stream in this run."""
        self._refused: dict[str, tuple[int, str]] = {}
        """Streams that the pipeline has not taken, with the epoch and why: a new epoch tries them again."""
        self._lapsed_ns: int | None = None
        self._known_lapses = 0
        self._confirmed = 0
        """The last order that the controller knows to be here: before that, it is not begun with."""
        self._last_refusal = ""
        self._beat_ns = 0

    def wake(self) -> None:
        """Report soon. From any thread."""
        self._wanted_now.set()

    def stop(self) -> None:
        """Stop at once, without a word to the controller, and leave the pipeline as it is. From any thread."""
        self._stopping_now.set()
        self._wanted_now.set()
        if self.ident is not None:
            self.wait(60)

    def work(self) -> None:
        """Report and run streams until `stop`, or until the pipeline has ended, or has to start in a new process."""
        while not self._stopping_now.is_set():
            is_asked = self._wanted_now.is_set()
            self._wanted_now.clear()
            if self._configured.has_ended:
                _LOG.error("the pipeline of the worker %s has ended: its streams start elsewhere", self._lease.worker)
                return
            order = self._lease.order
            self._configured.follow(order if order is not None and order.number == self._confirmed else None)
            if self._configured.must_restart:
                _LOG.info("the worker %s ends, because its configuration takes a new process", self._lease.worker)
                return
            if is_asked or self._clock.monotonic_ns() >= self._beat_ns:
                self._report()
            if not self._stopping_now.is_set():
                self._reconcile()
                self._wanted_now.wait(self._pause_seconds)

    @property
    def _pause_seconds(self) -> float:
        """Until the next heartbeat, the end of the lease, or the next question whether streams have stopped."""
        if self._ending:
            return _STOPPING_SECONDS
        left_ns = max(0, self._beat_ns - self._clock.monotonic_ns())
        remaining_ns = self._lease.remaining_ns
        return (min(left_ns, remaining_ns) if remaining_ns else left_ns) / 1e9

    def _report(self) -> None:
        self._beat_ns = self._clock.monotonic_ns() + self._options.heartbeat_ns
        facts = self.facts
        beat = self._lease.heartbeat(
            capacity=facts.capacity,
            limit=facts.limit,
            labels=facts.labels,
            version=facts.version,
            refused={name: why for name, (_, why) in self._refused.items()},
            configuration=self._configured.report,
        )
        try:
            answer = self._engine.report(beat)
        except ControllerAbsent:
            self._lease.controller_absent(beat.number)
        except ControllerSilent:
            pass  # the lease runs out if this lasts
        else:
            if isinstance(answer, Grant):
                self._lease.take(answer)
                self._confirmed, self._last_refusal = beat.configuration.received, ""
                if (order := self._lease.order) is not None and order.number != self._confirmed:
                    self._wanted_now.set()
            elif isinstance(answer, Refusal) and answer.text != self._last_refusal:
                self._last_refusal = answer.text
                _LOG.error("the controller refuses the worker %s: %s", self._lease.worker, answer.text)

    def _reconcile(self) -> None:
        """Stop what is not wanted, start what is, and report when that is done."""
        wanted, pipeline = dict(self._lease.wanted), self._configured.pipeline
        if pipeline is None:
            if not wanted and self._lease.generation != self._lease.in_effect:
                self._lease.applied(self._lease.generation)
            return
        for name, granted in tuple(self._running.items()):
            if wanted.get(name) != granted and name not in self._ending:
                self._ending[name] = pipeline.remove_source(name)
        for name, change in tuple(self._ending.items()):
            if change.done:
                del self._ending[name], self._running[name]
        self._fence(is_lapsed=not wanted and bool(self._ending))
        self._note_lapse()
        self._refused = {
            name: one for name, one in self._refused.items() if name in wanted and wanted[name].epoch == one[0]
        }
        for name, granted in wanted.items():
            if name not in self._running and name not in self._refused:
                self._start(granted, pipeline)
        if not self._ending and self._lease.generation != self._lease.in_effect:
            self._lease.applied(self._lease.generation)
            self._wanted_now.set()

    def _note_lapse(self) -> None:
        """Log once that everything has stopped after the end of a lease."""
        if self._lease.lapses == self._known_lapses:
            return
        if self._lease.remaining_ns:
            self._known_lapses = self._lease.lapses
        elif not self._running:
            self._known_lapses = self._lease.lapses
            _LOG.warning(
                "the worker %s has no contact with its controller: its streams have stopped", self._lease.worker
            )

    def _start(self, granted: GrantedStream, pipeline: Pipeline) -> None:
        name, epoch = granted.name, granted.epoch
        is_same = self._epochs.get(name) == epoch  # it was stopped at the end of a lease, and goes on
        try:
            pipeline.add_source(name, granted.source, by="cluster", epoch=None if is_same else epoch)  # type: ignore[arg-type]
        except SightlineError as error:
            self._refused[name] = epoch, str(error)
            _LOG.error("the worker %s cannot run the stream %s: %s", self._lease.worker, name, error)
        else:
            self._running[name], self._epochs[name] = granted, epoch

    def _fence(self, *, is_lapsed: bool) -> None:
        """Abort the pipeline when the lease is over and streams do not stop."""
        now_ns = self._clock.monotonic_ns()
        if not is_lapsed or self._lease.remaining_ns:
            self._lapsed_ns = None
            return
        if self._lapsed_ns is None:
            self._lapsed_ns = now_ns
        elif now_ns - self._lapsed_ns >= _MARGIN * self._options.grace_ns:
            _LOG.error("the worker %s aborts: %s did not stop in time", self._lease.worker, ", ".join(self._ending))
            self._configured.abort()
            self._stopping_now.set()
