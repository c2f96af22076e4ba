"""What a cluster engine carries between controller and workers, and the loop that keeps a controller going."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from sightline.cluster.controller import Controller
from sightline.cluster.model import ClusterEvent, Grant, Heartbeat, Refusal
from sightline.errors import OutputError
from sightline.runtime.threads import Worker

_LOG = logging.getLogger(__name__)


class ControllerAbsent(Exception):
    """The controller's address refuses connections: no controller runs."""


class ControllerSilent(Exception):
    """No answer came: the controller is busy, or the way to it is cut."""


class ClusterEngine(Protocol):
    """Carries messages between the workers of a cluster and its controller. From any thread.

    It moves no frames, and decides nothing. Messages may be lost, late or overtake each other.
    """

    def report(self, beat: Heartbeat) -> Grant | Refusal | None:
        """Carry a worker's heartbeat to the controller, and return its answer, within one `heartbeat_ns`.

        Raises ControllerAbsent only when it is certain that no controller runs, and ControllerSilent otherwise.
        """
        ...

    def wake(self, workers: Sequence[str]) -> None:
        """Ask workers to report now rather than at their next heartbeat; never waits, and may fail silently."""
        ...


class ControllerLoop(Worker):
    """Steps a controller, and answers heartbeats between its steps. From any thread.

    `engine` is woken for workers whose assignment has changed. `on_event` gets what happened, from the loop's thread,
    and must be quick; what it raises is logged.
    """

    def __init__(
        self, controller: Controller, *, engine: ClusterEngine, on_event: Callable[[ClusterEvent], None]
    ) -> None:
        super().__init__("cluster-controller")
        self._controller, self._engine, self._on_event = controller, engine, on_event
        self._lock = threading.Lock()
        self._due, self._stopping = threading.Event(), threading.Event()
        self._pause_seconds = controller.options.heartbeat_ns / 4e9
        self._confirmed: dict[str, int] = {}
        self._has_failed = False
        self._steps = 0

    @property
    def steps(self) -> int:
        """How many steps have been done, also those that could not be kept: it grows as long as the loop decides."""
        with self._lock:
            return self._steps

    def work(self) -> None:
        """Step until it is stopped."""
        while not self._stopping.is_set():
            self._due.wait(self._pause_seconds)
            self._due.clear()
            if not self._stopping.is_set():
                self._step()

    def call(self, action: Callable[[Controller], None]) -> None:
        """Let something change the controller between two steps, and step soon; raises what it raises."""
        with self._lock:
            action(self._controller)
        self._due.set()

    def report(self, beat: Heartbeat) -> Grant | Refusal | None:
        """Answer a heartbeat. Raises ControllerAbsent after the end."""
        with self._lock:
            if self._stopping.is_set():
                raise ControllerAbsent
            answer = self._controller.heartbeat(beat)
        if self._confirmed.get(beat.worker) != beat.generation:
            self._confirmed[beat.worker] = beat.generation
            self._due.set()  # what has stopped there can start elsewhere
        return answer

    def stop(self) -> None:
        """End the loop: no step and no answer comes after it."""
        with self._lock:
            self._stopping.set()
        self._due.set()
        if self.ident is not None:
            self.wait(60)

    def _step(self) -> None:
        with self._lock:
            if self._stopping.is_set():
                return
            self._steps += 1
            try:
                events = self._controller.step()
            except OutputError as error:
                if not self._has_failed:
                    _LOG.error("the cluster changes nothing until its state can be kept: %s", error)
                self._has_failed = True
                return
            self._has_failed = False
            changed = self._controller.changed
        for event in events:
            try:
                self._on_event(event)
            except Exception:  # noqa: BLE001  the boundary to foreign code; logged with its traceback
                _LOG.exception("a listener failed on the event %r", event.text)
        if changed:
            self._engine.wake(changed)
