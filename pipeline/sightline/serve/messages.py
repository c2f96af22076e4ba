"""Requests and responses of HTTP, as far as they are needed here: GET without a body, one to a connection."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException, parse_headers
from io import BytesIO
from urllib.parse import parse_qs, unquote, urlsplit

MOST_HEAD_BYTES = 8192
_END_OF_HEAD = b"\r\n\r\n"
_SAFE = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Refused(Exception):
    """The answer to a request is an error; `response` is what is sent."""

    def __init__(self, status: HTTPStatus, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.response = Response.text(text, status=status, headers=headers)


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked. `path` is decoded, header names are in lower case, `query` has every value of a name."""

    method: str
    path: str
    query: Mapping[str, list[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, head: bytes) -> Request:
        """Raises Refused."""
        first, _, rest = head.partition(b"\r\n")
        words = first.decode("latin-1").split(" ")
        if len(words) != 3 or not words[1].startswith("/") or not words[2].startswith("HTTP/1."):
            raise Refused(HTTPStatus.BAD_REQUEST, "this is no request of HTTP/1.1")
        try:
            headers = parse_headers(BytesIO(rest))
            target = urlsplit("//host" + words[1])
            query = parse_qs(target.query, max_num_fields=32)
        except (HTTPException, ValueError) as error:
            raise Refused(HTTPStatus.BAD_REQUEST, "the request cannot be read") from error
        return cls(words[0], unquote(target.path), query, {name.lower(): value for name, value in headers.items()})

    @property
    def cookies(self) -> Mapping[str, str]:
        """The cookies of the request."""
        pairs = (part.strip().partition("=") for part in self.headers.get("cookie", "").split(";"))
        return {name: value for name, _, value in pairs}


@dataclass(frozen=True, slots=True)
class Response:
    """What is answered."""

    body: bytes
    content_type: str
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def text(
        cls, text: str, *, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
    ) -> Response:
        """A line of plain text."""
        return cls(f"{text}\n".encode(), "text/plain; charset=utf-8", status, headers or {})

    def to_bytes(self, *, head_only: bool = False) -> bytes:
        """The response as it is sent; the connection is closed behind it."""
        headers = {
            **_SAFE,
            "Content-Type": self.content_type,
            "Content-Length": str(len(self.body)),
            "Connection": "close",
            **self.headers,
        }
        lines = [
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            *(f"{name}: {headers[name]}" for name in headers),
        ]
        return "\r\n".join(lines).encode("latin-1") + _END_OF_HEAD + (b"" if head_only else self.body)


def receive_head(connection: socket.socket, *, timeout_seconds: float) -> bytes:
    """The head of a request, up to the empty line; empty when the client sent nothing.

    Raises Refused when it is too long, and TimeoutError when it is not there in time, however it trickles.
    """
    deadline, head = time.monotonic() + timeout_seconds, b""
    while _END_OF_HEAD not in head:
        if len(head) > MOST_HEAD_BYTES:
            raise Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a request has {MOST_HEAD_BYTES} bytes at most")
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        part = connection.recv(4096)
        if not part:
            return b""
        head += part
        if time.monotonic() > deadline:
            raise TimeoutError
    return head
