"""A real web server in this process that answers as a test says: it also stalls, drips, breaks off and lies."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Request:
    """A request that arrived whole."""

    path: str
    headers: Message
    body: bytes


@dataclass
class Asked:
    """What arrived at a server, and the event that ends it."""

    requests: list[Request] = field(default_factory=list)
    connections: list[socket.socket] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)
    url: str = ""


class Exchange(BaseHTTPRequestHandler):
    """One request: `answer` sends a whole answer, `raw` sends any bytes."""

    protocol_version = "HTTP/1.1"
    asked: Asked
    script: Callable[[Exchange, Request], None]

    def setup(self) -> None:
        super().setup()
        self.asked.connections.append(self.connection)

    def do_POST(self) -> None:
        request = Request(self.path, self.headers, self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.requests.append(request)
        type(self).script(self, request)

    def answer(self, status: int, text: str = "", headers: dict[str, str] | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def raw(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def break_off(self) -> None:
        self.close_connection = True

    def log_request(self, code: object = "-", size: object = "-") -> None:
        del code, size


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that went away are what tests are about."""
        del request, client_address


@contextmanager
def web_server(
    script: Callable[[Exchange, Request], None], *, tls: ssl.SSLContext | None = None, port: int = 0
) -> Iterator[Asked]:
    """Serve at a port of the loopback while the context is open; `script` answers each request."""
    asked = Asked()
    handler = type("_Exchange", (Exchange,), {"asked": asked, "script": staticmethod(script)})
    server = _Server(("127.0.0.1", port), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    asked.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        asked.ending.set()
        server.shutdown()
        server.server_close()
        for connection in asked.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        thread.join()
