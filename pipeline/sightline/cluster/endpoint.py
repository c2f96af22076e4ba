"""The controller's end of the connections of all workers: it listens, answers heartbeats, and notices ends."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from sightline.cluster.controller import Controller
from sightline.cluster.engine import ControllerAbsent, ControllerLoop
from sightline.cluster.model import ClusterEvent, ClusterStatus, Grant, Heartbeat, Refusal
from sightline.cluster.transfer import part_of
from sightline.cluster.wire import Connection, TokenRefused, beat_from, has_ended, plain_answer
from sightline.errors import ConfigurationError, SightlineError
from sightline.redaction import redact
from sightline.runtime.threads import Worker

_LOG = logging.getLogger(__name__)
_HANDSHAKE_SECONDS = 5.0
_QUESTIONS, _QUESTION_SECONDS = 10, 0.5
"""How often a worker whose connection has ended is asked for, and how long an answer may take."""
_KEPT_EVENTS = 200
_BACKLOG = 1024


def listen(address: tuple[str, int]) -> socket.socket:
    """Return a socket that listens at one address of this machine. Raises ConfigurationError when it cannot, and for
    all addresses at once.
    """
    host, port = address
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if place[0] in ("0.0.0.0", "::"):  # noqa: S104  refused
            raise ConfigurationError(
                f"{host!r} is every address of this machine: give the one that the other machines reach"
            )
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigurationError(f"{host}:{port} is no address of this machine: {error.strerror}") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise ConfigurationError(f"the controller cannot listen at {host}:{port}: {error.strerror}") from error
    return listening


class ControllerEndpoint(Worker):
    """Serves a controller at a socket: a `ClusterEngine`, and the loop that steps the controller.

    The socket has to listen before the controller is made, and until the process ends: a refused connection proves that
    there is none. Who has the token may report as a worker, ask for the status and whether the controller goes on
    deciding, bring files of models, drain workers, and have refused configurations tried again.
    """

    def __init__(
        self, controller: Controller, listening: socket.socket, *, token: str, on_event: Callable[[ClusterEvent], None]
    ) -> None:
        super().__init__("cluster-endpoint")
        self._listening, self._token, self._on_event = listening, token, on_event
        self._options = controller.options
        self._loop = ControllerLoop(controller, engine=self, on_event=self._note)
        self._lock = Lock()
        self._sessions: dict[str, _Session] = {}
        self._events: list[Mapping[str, Any]] = []
        self._refused = ""
        self._open: set[_Session] = set()
        self._closing = False

    def start(self) -> None:
        """Step the controller, and answer."""
        self._loop.start()
        super().start()

    def work(self) -> None:
        """Take connections until `close`."""
        while True:
            try:
                connected, (host, *_) = self._listening.accept()
            except OSError as error:
                if not self._closing:
                    _LOG.error("the controller takes no connections any more: %s", error)
                return
            session = _Session(self, connected, host)
            with self._lock:
                self._open.add(session)
            session.start()

    def call(self, action: Callable[[Controller], None]) -> None:
        """Let something change the controller; raises what it raises."""
        self._loop.call(action)

    def close(self) -> None:
        """Step no more, then refuse connections: in this order, so that a refused one proves that nobody decides.
        Harmless when called again.
        """
        if self._closing:
            return
        self._loop.stop()
        self._closing = True
        self._listening.shutdown(socket.SHUT_RDWR)
        self.wait(60)
        self._listening.close()
        with self._lock:
            sessions = tuple(self._open)
        for session in sessions:
            session.close()

    def report(self, beat: Heartbeat) -> Grant | Refusal | None:
        """Answer a heartbeat. Raises ControllerAbsent after the end of the loop."""
        return self._loop.report(beat)

    def wake(self, workers: Sequence[str]) -> None:
        """Ask workers that are connected to report now."""
        with self._lock:
            sessions = [session for name in workers if (session := self._sessions.get(name)) is not None]
        for session in sessions:
            session.wake()

    def _note(self, event: ClusterEvent) -> None:
        with self._lock:
            self._events = [*self._events[1 - _KEPT_EVENTS :], {"time_ns": time.time_ns(), **asdict(event)}]
        self._on_event(event)

    def greet(self, connected: socket.socket, host: str) -> Connection | None:
        """Return the connection with who has the token; None for others."""
        try:
            return Connection.from_worker(connected, token=self._token, timeout_seconds=_HANDSHAKE_SECONDS)
        except (TokenRefused, OSError) as error:
            text = f"{host}: {error}"
            if text != self._refused:  # repeats are folded
                self._refused = text
                _LOG.warning("a connection is refused: %s", redact(text))
            connected.close()
            return None

    @property
    def silence_seconds(self) -> float:
        """After so long without a message, nobody waits for a worker's connection any more."""
        return 2 * (self._options.lease_ns + self._options.grace_ns) / 1e9

    def answer(self, message: Mapping[str, Any], *, session: _Session) -> Mapping[str, Any]:
        """Answer one message. Raises OSError for one that cannot be read."""
        if "beat" in message:
            try:
                beat = beat_from(message["beat"])
            except msgspec.ValidationError as error:
                raise OSError(f"no heartbeat: {error}") from error
            with self._lock:
                self._sessions[beat.worker] = session
            session.is_of, session.presence = beat, _address_in(message)
            try:
                return {"to": beat.number, **plain_answer(self.report(beat))}
            except ControllerAbsent as error:
                raise OSError("the controller has ended") from error
        try:
            return self._asked(message)
        except SightlineError as error:
            return {"error": str(error)}

    def leave(self, session: _Session) -> None:
        """Forget a connection."""
        with self._lock:
            self._open.discard(session)
            if session.is_of is not None and self._sessions.get(session.is_of.worker) is session:
                del self._sessions[session.is_of.worker]

    def note_end(self, beat: Heartbeat) -> None:
        """Note that the process of a worker has ended."""
        self._loop.call(lambda controller: controller.worker_ended(beat.worker, beat.incarnation))

    def _asked(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer a person. Raises ConfigurationError."""
        if message.get("ask") == "status":
            found: list[ClusterStatus] = []
            self._loop.call(lambda controller: found.append(controller.status))
            with self._lock:
                return {"status": asdict(found[0]), "events": self._events}
        if message.get("ask") == "steps":
            return {"steps": self._loop.steps}
        if message.get("ask") == "part":
            return self._part(str(message.get("sha256")), message.get("offset"))
        if message.get("ask") == "drain":
            worker, is_draining = str(message.get("worker")), bool(message.get("draining"))
            self._loop.call(lambda controller: controller.drain(worker, is_draining=is_draining))
            return {}
        if message.get("ask") == "retry":
            self._loop.call(Controller.retry)
            return {}
        raise ConfigurationError("the controller does not know this request: use the same version of Sightline")

    def _part(self, sha256: str, offset: object) -> Mapping[str, Any]:
        """A part of a file that workers are to have. Raises ConfigurationError."""
        paths: list[Path | None] = []
        self._loop.call(lambda controller: paths.append(controller.path_of(sha256)))
        if paths[0] is None or not isinstance(offset, int):
            raise ConfigurationError("no configuration in use has such a file")
        return part_of(paths[0], sha256, offset)


class _Session(Worker):
    """One connection."""

    def __init__(self, endpoint: ControllerEndpoint, connected: socket.socket, host: str) -> None:
        super().__init__("cluster-session")
        self._endpoint, self._socket, self._host = endpoint, connected, host
        self._connection: Connection | None = None
        self.is_of: Heartbeat | None = None
        """The last heartbeat that came over it."""
        self.presence: tuple[str, int] | None = None
        """Where its worker listens as long as it lives."""
        self._closing = threading.Event()

    def wake(self) -> None:
        """Ask for a report; never waits."""
        if self._connection is not None:
            self._connection.nudge({"wake": True})

    def close(self) -> None:
        """End the connection and the thread."""
        self._closing.set()
        if self._connection is not None:
            self._connection.interrupt()
        self.wait(60)

    def work(self) -> None:
        """Answer until the connection ends."""
        connection = self._connection = self._endpoint.greet(self._socket, self._host)
        if connection is None:
            self._endpoint.leave(self)
            return
        try:
            while True:
                message = connection.receive(timeout_seconds=self._endpoint.silence_seconds)
                connection.send(self._endpoint.answer(message, session=self))
        except OSError as error:
            if self.is_of is not None:  # people leave when they have their answer
                _LOG.info("the connection of %s is lost: %s", self._host, error)
        self._endpoint.leave(self)
        connection.close()
        self._ask_presence()

    def _ask_presence(self) -> None:
        """Find out whether the process at the other end has ended. When it does, its connection ends a moment before
        its presence.
        """
        if self.is_of is None or self.presence is None:
            return
        for _ in range(_QUESTIONS):
            if has_ended(self.presence, timeout_seconds=_QUESTION_SECONDS):
                self._endpoint.note_end(self.is_of)
                return
            if self._closing.wait(_QUESTION_SECONDS / 2):
                return


def _address_in(message: Mapping[str, Any]) -> tuple[str, int]:
    """Where a worker shows its presence. Raises OSError."""
    match message.get("presence"):
        case [str(host), int(port)] if 0 < port < 65536:
            return host, port
        case _:
            raise OSError("no heartbeat: it does not say where the worker is present")
