"""The server: a few threads that answer one request after another, so that whoever asks cannot slow a pipeline."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable
from http import HTTPStatus
from threading import Event

from sightline.errors import ConfigurationError
from sightline.runtime.worker import Worker
from sightline.serve.address import Address
from sightline.serve.messages import Refused, Request, Response, receive_head

THREADS = 8
"""Requests that are answered at a time; others wait, and more than _WAITING are turned away by the system."""
_WAITING = 64
_IDLE_SECONDS = 30
_HEAD_SECONDS = 2.0
_SEND_SECONDS = 10.0
_LEAVE_SECONDS = 0.5
_RETRY_SECONDS = 0.1
_LOG = logging.getLogger(__name__)

Answer = Callable[[Request], Response]


class Server:
    """Listens from the moment it is made. `answer` is called from several threads at once; it may raise Refused."""

    def __init__(self, address: Address) -> None:
        family, place = address.resolve()
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_DEFER_ACCEPT"):  # connections on which nothing is asked take no thread
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, _IDLE_SECONDS)
            self._socket.bind(place)
            self._socket.listen(_WAITING)
        except OSError as error:
            self._socket.close()
            raise ConfigurationError(f"cannot listen on {address}: {error.strerror}; choose another port") from error
        self._closing = Event()
        self._workers: list[_Answerer] = []

    @property
    def host(self) -> str:
        """The address that it is bound to."""
        return str(self._socket.getsockname()[0])

    @property
    def port(self) -> int:
        """The port that it is bound to."""
        return int(self._socket.getsockname()[1])

    def start(self, answer: Answer) -> None:
        """Begin to answer."""
        self._workers = [
            _Answerer(self._socket, answer, closing=self._closing, number=number) for number in range(THREADS)
        ]
        for worker in self._workers:
            worker.start()

    def close(self) -> None:
        """Stop listening; answers under way are given half a second. Harmless when called again."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for worker in self._workers:
            worker.wait(_LEAVE_SECONDS)


class _Answerer(Worker):
    """Takes one connection after another."""

    def __init__(self, listening: socket.socket, answer: Answer, *, closing: Event, number: int) -> None:
        super().__init__(f"serve-{number}")
        self._listening = listening
        self._answer = answer
        self._closing = closing

    def work(self) -> None:
        """Answer until the socket is closed."""
        while not self._closing.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:  # closed, or the process has no file to spare now
                self._closing.wait(_RETRY_SECONDS)
                continue
            with connection, contextlib.suppress(OSError):
                self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        head_only = False
        try:
            head = receive_head(connection, timeout_seconds=_HEAD_SECONDS)
            if not head:
                return
            request = Request.parse(head)
            head_only = request.method == "HEAD"
            response = self._answer(request)
        except Refused as refusal:
            response = refusal.response
        except OSError:
            raise
        except Exception:  # noqa: BLE001  the boundary to foreign code: a fault in one answer ends nothing but that answer
            _LOG.exception("an answer failed")
            response = Response.text("the answer failed; the log says why", status=HTTPStatus.INTERNAL_SERVER_ERROR)
        connection.settimeout(_SEND_SECONDS)
        connection.sendall(response.to_bytes(head_only=head_only))
        connection.shutdown(socket.SHUT_WR)
