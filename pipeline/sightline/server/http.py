"""A small HTTP server: messages, addresses, access control."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
import logging
import re
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException, parse_headers
from io import BytesIO
from threading import Condition, Event
from urllib.parse import parse_qs, unquote, urlsplit

from sightline.errors import ConfigurationError
from sightline.runtime.threads import Worker

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


_FORM = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]:/\s]*):)?(?P<port>\d{1,5})")
_LARGEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port; port 0 is any free one. An empty host is every address of the machine."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """`HOST:PORT`, `[IPV6]:PORT`, `:PORT` (every address of the machine) or `PORT` (this machine only).

        Raises ConfigurationError.

        >>> Address.parse("127.0.0.1:8080"), Address.parse("8080")
        (Address(host='127.0.0.1', port=8080), Address(host='127.0.0.1', port=8080))
        """
        match = _FORM.fullmatch(text.strip())
        if match is None or int(match["port"]) > _LARGEST_PORT:
            raise ConfigurationError(f"{text!r} is no address to listen on: give HOST:PORT, such as 127.0.0.1:8080")
        host = "127.0.0.1" if match["host"] is None else match["host"].strip("[]")
        return cls(host, int(match["port"]))

    def resolve(self) -> tuple[socket.AddressFamily, tuple[str, int]]:
        """What to bind. Raises ConfigurationError when the host has no address."""
        try:
            found = socket.getaddrinfo(self.host or "0.0.0.0", self.port, type=socket.SOCK_STREAM)  # noqa: S104
        except OSError as error:
            raise ConfigurationError(f"{self}: the host has no address: {error.strerror}") from error
        family, _, _, _, place = found[0]
        return family, (str(place[0]), self.port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


SHORTEST_TOKEN = 16
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_COOKIE_SECONDS = 30 * 24 * 3600


class Access:
    """Decides on every request.

    With a token, each request needs it: `Authorization: Bearer TOKEN`, `?token=TOKEN`, or the cookie that the page
    gets. Without one the server listens on the loopback only, and answers only requests that name it by a loopback
    name: else a web page from elsewhere could read it by pointing its own name to 127.0.0.1. Requests that say that
    they come from a page of another origin are refused in any case.
    """

    def __init__(self, *, token: str | None, port: int) -> None:
        self._token = token
        self._cookie = f"sightline-{port}"
        self._pass = "" if token is None else hmac.new(token.encode(), b"sightline page", hashlib.sha256).hexdigest()

    def check(self, request: Request) -> None:
        """Raises Refused: 403 for the wrong host or origin, 401 without the token."""
        host = request.headers.get("host", "")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            raise Refused(HTTPStatus.FORBIDDEN, "pages of other sites may not ask")
        if self._token is None:
            if _host_name(host) not in _LOOPBACK_NAMES:
                raise Refused(HTTPStatus.FORBIDDEN, "without a token only localhost is answered")
        elif not self._has_token(request):
            headers = {"WWW-Authenticate": 'Bearer realm="sightline"'}
            raise Refused(HTTPStatus.UNAUTHORIZED, "a token is needed: Authorization: Bearer TOKEN", headers)

    def welcome(self, request: Request) -> Response | None:
        """The way from `/?token=TOKEN` to the page: the token becomes a cookie and leaves the address bar."""
        if self._token is None or "token" not in request.query:
            return None
        cookie = f"{self._cookie}={self._pass}; HttpOnly; SameSite=Strict; Path=/; Max-Age={_COOKIE_SECONDS}"
        headers = {"Set-Cookie": cookie, "Location": "/"}
        return Response.text("see /", status=HTTPStatus.SEE_OTHER, headers=headers)

    def _has_token(self, request: Request) -> bool:
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        shown = [bearer.strip()] if kind.lower() == "bearer" else []
        shown += request.query.get("token", [])
        is_token = [_same(one, self._token or "") for one in shown]
        return any([*is_token, _same(request.cookies.get(self._cookie, ""), self._pass)])


def check_token(token: str | None, *, is_loopback: bool, address: str) -> None:
    """Raises ConfigurationError when a token is needed and there is none, or it is too short to keep anybody out."""
    if token is None:
        if not is_loopback:
            raise ConfigurationError(
                f"{address} can be reached from other machines, so a token is needed: set SIGHTLINE_TOKEN (or --token),"
                " such as from `openssl rand -hex 16`, or listen on 127.0.0.1"
            )
    elif len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigurationError(
            f"a token has {SHORTEST_TOKEN} characters or more, letters and digits: `openssl rand -hex 16` makes one"
        )


def _same(shown: str, wanted: str) -> bool:
    return hmac.compare_digest(shown.encode(), wanted.encode())


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


_THREADS = 8
"""Requests that are answered at a time."""
_MOST_OPEN = 512
"""Connections whose request is not complete; when there are more, the oldest is closed."""
_BACKLOG = 128
_HEAD_SECONDS = 10.0
_SEND_SECONDS = 10.0
_LEAVE_SECONDS = 0.5
_POLL_SECONDS = 0.25
_LOG = logging.getLogger(__name__)

Answer = Callable[[Request], Response]


class Server:
    """Listens from the moment it is made. `answer` is called from several threads at once; it may raise Refused.

    One thread reads the requests of all clients, and others answer those that are complete: a client that sends
    nothing, or half a request, keeps nobody waiting.
    """

    def __init__(self, address: Address) -> None:
        family, place = address.resolve()
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(place)
            self._socket.listen(_BACKLOG)
            self._socket.setblocking(False)
        except OSError as error:
            self._socket.close()
            raise ConfigurationError(f"cannot listen on {address}: {error.strerror}; choose another port") from error
        self._closing = Event()
        self._complete = _Complete()
        self._workers: list[Worker] = []

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
        answerers = [_Answerer(self._complete, answer, number=number) for number in range(_THREADS)]
        self._workers = [_HeadReader(self._socket, self._complete, closing=self._closing), *answerers]
        for worker in self._workers:
            worker.start()

    def close(self) -> None:
        """Stop listening; answers under way are given half a second. Harmless when called again."""
        self._closing.set()
        self._complete.close()
        for worker in self._workers:
            worker.wait(_LEAVE_SECONDS)
        self._socket.close()


class _Complete:
    """Connections with the heads of their requests, on the way from the thread that reads to those that answer."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[socket.socket, bytes]] = deque()
        self._changed = Condition()
        self._is_closed = False

    def put(self, connection: socket.socket, head: bytes) -> None:
        with self._changed:
            self._waiting.append((connection, head))
            self._changed.notify()

    def take(self) -> tuple[socket.socket, bytes] | None:
        """Wait for the next one; None when there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            return None if self._is_closed else self._waiting.popleft()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            while self._waiting:
                self._waiting.popleft()[0].close()
            self._changed.notify_all()


class _HeadReader(Worker):
    """Accepts connections, and reads the heads of their requests, in one thread."""

    def __init__(self, listening: socket.socket, complete: _Complete, *, closing: Event) -> None:
        super().__init__("serve-heads")
        self._listening = listening
        self._complete = complete
        self._closing = closing
        self._heads: dict[socket.socket, tuple[bytes, float]] = {}
        """What has been read of each connection, and until when it must be complete; the oldest first."""

    def work(self) -> None:
        """Read until the server is closed."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._listening, selectors.EVENT_READ)
            while not self._closing.is_set():
                for key, _ in selector.select(_POLL_SECONDS):
                    if key.fileobj is self._listening:
                        self._accept(selector)
                    else:
                        assert isinstance(key.fileobj, socket.socket)
                        self._read(key.fileobj, selector)
                self._close_late(selector)
        for connection in self._heads:
            connection.close()

    def _accept(self, selector: selectors.BaseSelector) -> None:
        try:
            connection, _ = self._listening.accept()
        except BlockingIOError:
            return
        except OSError:  # the process has no file to spare now
            self._closing.wait(_POLL_SECONDS)
            return
        connection.setblocking(False)
        self._heads[connection] = b"", time.monotonic() + _HEAD_SECONDS
        selector.register(connection, selectors.EVENT_READ)

    def _read(self, connection: socket.socket, selector: selectors.BaseSelector) -> None:
        head, deadline = self._heads[connection]
        try:
            part = connection.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        head += part
        if part and _END_OF_HEAD not in head and len(head) <= MOST_HEAD_BYTES:
            self._heads[connection] = head, deadline
            return
        del self._heads[connection]
        selector.unregister(connection)
        if part:
            self._complete.put(connection, head)
        else:
            connection.close()

    def _close_late(self, selector: selectors.BaseSelector) -> None:
        """Close connections that have not asked in time, and the oldest where there are too many."""
        now = time.monotonic()
        for connection, (_, deadline) in list(self._heads.items()):
            if deadline > now and len(self._heads) <= _MOST_OPEN:
                break
            del self._heads[connection]
            selector.unregister(connection)
            connection.close()


class _Answerer(Worker):
    """Answers one request after another."""

    def __init__(self, complete: _Complete, answer: Answer, *, number: int) -> None:
        super().__init__(f"serve-{number}")
        self._complete = complete
        self._answer = answer

    def work(self) -> None:
        """Answer until the server is closed."""
        while (taken := self._complete.take()) is not None:
            connection, head = taken
            with connection, contextlib.suppress(OSError):
                self._serve(connection, head)

    def _serve(self, connection: socket.socket, head: bytes) -> None:
        head_only = False
        try:
            if _END_OF_HEAD not in head:
                text = f"a request has {MOST_HEAD_BYTES} bytes at most"
                raise Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text)
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
