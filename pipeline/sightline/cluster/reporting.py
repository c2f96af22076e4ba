"""The worker's end of the connection to its controller."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sightline.cluster.engine import ControllerAbsent, ControllerSilent
from sightline.cluster.model import Grant, Heartbeat, Refusal
from sightline.cluster.wire import Connection, Presence, TokenRefused, answer_from
from sightline.runtime.threads import Worker

_LOG = logging.getLogger(__name__)
_SILENT_HEARTBEATS = 2
"""After so many without an answer, another connection is tried."""


class ControllerLink:
    """Carries a worker's heartbeats, over a connection that is made when it is needed: a `ClusterEngine`.

    One thread at a time may report. `on_wake` is called when the controller asks for a report, from another thread, and
    must be quick. `presence` tells the controller when this process has ended.
    """

    def __init__(
        self,
        address: tuple[str, int],
        *,
        token: str,
        timeout_seconds: float,
        presence: Presence,
        on_wake: Callable[[], None],
    ) -> None:
        self._address, self._token, self._timeout_seconds = address, token, timeout_seconds
        self._presence, self._on_wake = presence, on_wake
        self._receiver: _Receiver | None = None
        self._silent = 0
        self._problem = ""

    def report(self, beat: Heartbeat) -> Grant | Refusal | None:
        """Carry a heartbeat to the controller, and return its answer within the time. Raises ControllerAbsent where the
        controller's address refuses the connection, and ControllerSilent.
        """
        until = time.monotonic() + self._timeout_seconds
        for _ in range(2):  # a connection that has broken since is found so when it is used
            if self._receiver is None:
                self._receiver = self._connected(until)
            try:
                answer = self._receiver.ask(
                    {"beat": asdict(beat), "presence": self._presence.address}, number=beat.number, until=until
                )
            except TimeoutError:
                self._silent += 1
                if self._silent >= _SILENT_HEARTBEATS:
                    self.drop()
                raise ControllerSilent from None
            except OSError:
                self.drop()
            else:
                self._silent = 0
                return answer_from(answer)
        raise ControllerSilent

    def wake(self, workers: Sequence[str]) -> None:
        """Ask the worker of this process to report."""
        del workers
        self._on_wake()

    def _connected(self, until: float) -> _Receiver:
        left = max(until - time.monotonic(), 0.001)
        try:
            connection = Connection.to_controller(self._address, token=self._token, timeout_seconds=left)
        except ConnectionRefusedError:
            self._note("no controller runs there: streams go on as they are")
            raise ControllerAbsent from None
        except (TokenRefused, OSError) as error:
            self._note(str(error) or type(error).__name__)
            raise ControllerSilent from error
        _LOG.info("connected to the controller at %s:%d", *self._address)
        self._problem = ""
        receiver = _Receiver(connection, on_wake=lambda: self.wake(()))
        receiver.start()
        return receiver

    def drop(self) -> None:
        """Give up the connection; the next report makes another."""
        receiver, self._receiver, self._silent = self._receiver, None, 0
        if receiver is not None:
            receiver.close()

    def _note(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            _LOG.warning("the controller at %s:%d is not reached: %s", *self._address, problem)


class _Receiver(Worker):
    """Takes what comes over one connection."""

    def __init__(self, connection: Connection, *, on_wake: Callable[[], None]) -> None:
        super().__init__("cluster-link")
        self._connection, self._on_wake = connection, on_wake
        self._arrived = threading.Condition()
        self._answers: dict[int, Mapping[str, Any]] = {}
        self._is_broken = False
        self._closing = threading.Event()

    def ask(self, message: Mapping[str, Any], *, number: int, until: float) -> Mapping[str, Any]:
        """Send a message and return the answer of that number. Raises TimeoutError, and OSError when it breaks."""
        with self._arrived:
            self._answers.clear()  # late ones
        self._connection.send(message)
        with self._arrived:
            while number not in self._answers:
                if self._is_broken:
                    raise ConnectionError
                if not self._arrived.wait(until - time.monotonic()):
                    raise TimeoutError
            return self._answers.pop(number)

    def close(self) -> None:
        """End the connection and the thread."""
        self._closing.set()
        self._connection.interrupt()
        self.wait(60)

    def work(self) -> None:
        """Take answers and requests to report, until the connection ends."""
        while True:
            try:
                message = self._connection.receive()
            except OSError:
                break
            if "wake" in message:
                self._on_wake()
            else:
                with self._arrived:
                    self._answers[message.get("to", 0)] = message
                    self._arrived.notify_all()
        with self._arrived:
            self._is_broken = True
            self._arrived.notify_all()
        self._closing.wait()
        self._connection.close()
