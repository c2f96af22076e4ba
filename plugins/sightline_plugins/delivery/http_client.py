"""One kept HTTP connection, whose exchanges end in time whatever the server does."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, cast

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse
from urllib3.util import make_headers

from sightline.errors import DestinationLost, DestinationRefused

_PIECE_BYTES = 64 << 10
_MOST_ANSWER_BYTES = 64 << 10
_DAY_NS = 86_400_000_000_000
_CLOSED = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
_BROKEN = (HTTPError, http.client.HTTPException, OSError)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request, with at most 64 KiB of its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text, with a replacement for bytes that are none."""
        return self.body.decode(errors="replace")


class HttpClient:
    """Posts to one server over one connection. An exchange ends within the time limit, also when the server sends or
    takes a byte now and then.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int | None,
        tls: ssl.SSLContext | None,
        user: tuple[str, str] | None,
        timeout_seconds: float,
    ) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._headers = {} if user is None else make_headers(basic_auth=":".join(user))
        self._deadline = _Deadline(timeout_seconds)
        self._connection: HTTPConnection | None = None
        self._is_proven = False

    def connect(self) -> None:
        """Open the connection. Raises DestinationLost, DestinationRefused."""
        self._open()

    def post(self, target: str, *, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Post, and return the answer. Raises DestinationLost, DestinationRefused.

        A server may close a kept connection at any time. When that crosses a request, it is sent once more.
        """
        connection = self._connection or self._open()
        headers = {**self._headers, **headers, "Content-Length": str(len(body))}
        try:
            try:
                response = self._exchange(connection, target, body=body, headers=headers)
            except _CLOSED:
                if not self._is_proven:
                    raise
                connection = self._open()
                response = self._exchange(connection, target, body=body, headers=headers)
        except _BROKEN as error:
            self.close()
            raise self._failure(error) from error
        self._is_proven = True
        return Answer(response.status, response.headers, self._body(response))

    def close(self) -> None:
        """Close the connection; harmless when called again."""
        connection, self._connection, self._is_proven = self._connection, None, False
        if connection is not None:
            connection.close()

    def _open(self) -> HTTPConnection:
        self.close()
        limit = self._deadline.limit_seconds
        connection = (
            HTTPConnection(self._host, self._port, timeout=limit)
            if self._tls is None
            else HTTPSConnection(self._host, self._port, timeout=limit, ssl_context=self._tls)
        )
        connection.response_class = cast("Any", partial(_TimedResponse, deadline=self._deadline))
        try:
            connection.connect()
        except _BROKEN as error:
            connection.close()
            raise self._failure(error) from error
        self._connection = connection
        return connection

    def _exchange(
        self, connection: HTTPConnection, target: str, *, body: bytes, headers: Mapping[str, str]
    ) -> BaseHTTPResponse:
        self._deadline.start()
        try:
            pieces = self._pieces(connection, body)
            connection.request("POST", target, body=pieces, headers=headers, preload_content=False)
        except _CLOSED as error:
            # The server may have answered without reading all of the body.
            try:
                return connection.getresponse()
            except _BROKEN:
                raise error from None
        return connection.getresponse()

    def _pieces(self, connection: HTTPConnection, body: bytes) -> Iterator[bytes]:
        """Yield the body in pieces, and leave each the time that is left."""
        for start in range(0, len(body), _PIECE_BYTES):
            if connection.sock is not None:
                connection.sock.settimeout(self._deadline.left())
            yield body[start : start + _PIECE_BYTES]

    def _body(self, response: BaseHTTPResponse) -> bytes:
        """Read the answer's body. If it breaks off or is long, the connection is closed; the answer still counts."""
        body, is_complete = b"", False
        with suppress(*_BROKEN):
            body = response.read(_MOST_ANSWER_BYTES, decode_content=False)
            is_complete = not response.read(1, decode_content=False)
        if not is_complete:
            self.close()
        return body

    def _failure(self, error: Exception) -> DestinationLost:
        """The error to raise for an exception of the client."""
        cause: BaseException = error
        if isinstance(error, HTTPError) and error.__cause__ is not None:
            cause = error.__cause__
        if isinstance(cause, ssl.SSLError):
            reason = getattr(cause, "verify_message", None) or cause.reason or str(cause)
            text = f"TLS failed: {str(reason).replace('_', ' ').lower()}"
            if isinstance(cause, ssl.SSLCertVerificationError) or "CERTIFICATE" in str(cause.reason):
                return DestinationRefused(text)
            return DestinationLost(text)
        if isinstance(cause, TimeoutError) or "timed out" in str(error):
            return DestinationLost(f"no answer within {self._deadline.limit_seconds:g} s")
        if isinstance(cause, http.client.RemoteDisconnected):
            return DestinationLost("the connection was closed before an answer came")
        if isinstance(cause, OSError) and cause.strerror:
            return DestinationLost(cause.strerror)
        return DestinationLost(f"{type(cause).__name__}: {cause}")


class _Deadline:
    """When the exchange that has begun must have ended."""

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        self._end = 0.0

    def start(self) -> None:
        self._end = time.monotonic() + self.limit_seconds

    def left(self) -> float:
        """Return the seconds that are left. Raises TimeoutError when none are."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left


class _TimedResponse(http.client.HTTPResponse):
    """Reads within the deadline, not with a new time limit for each piece that arrives."""

    def __init__(self, sock: socket.socket, *args: Any, deadline: _Deadline, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        unlimited = self.fp
        self.fp = io.BufferedReader(_TimedReader(sock, deadline))
        unlimited.close()


class _TimedReader(io.RawIOBase):
    def __init__(self, sock: socket.socket, deadline: _Deadline) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        self._sock.settimeout(self._deadline.left())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def retry_after_ns(text: str | None) -> int | None:
    """Return how long the header `Retry-After` asks to wait: seconds or a date, at most a day; None for anything else.

    >>> retry_after_ns("120")
    120000000000
    """
    if text is None:
        return None
    try:
        if text.strip().isdecimal():
            seconds = float(int(text))
        else:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
    return round(min(max(seconds * 1e9, 0), _DAY_NS))
