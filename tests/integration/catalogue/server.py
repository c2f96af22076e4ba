"""A real HTTP server on the loopback that can stall, lie and break off."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Behaviour:
    """What the server does. `breaks` says after how many bytes it breaks off, for one request after the other."""

    content: bytes
    breaks: list[int] = field(default_factory=list)
    knows_ranges: bool = True
    claims_bytes: int | None = None
    stalls_after: int | None = None
    status: int = 200
    moved: bool = False
    asked: list[str] = field(default_factory=list)
    """The `Range` of each request, empty without one."""


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[str]:
    """Serve while the block is open; yields the address of the root."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            wanted = self.headers.get("Range", "")
            behaviour.asked.append(wanted)
            if behaviour.moved and not self.path.startswith("/moved"):
                self.send_response(302)
                self.send_header("Location", f"/moved{self.path}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            first = int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted and behaviour.knows_ranges else 0
            body = behaviour.content[first:]
            if behaviour.status != 200:
                self.send_error(behaviour.status)
                return
            self.send_response(206 if first else 200)
            self.send_header("Content-Length", str(behaviour.claims_bytes or len(body)))
            self.end_headers()
            if behaviour.stalls_after is not None:
                self.wfile.write(body[: behaviour.stalls_after])
                over.wait(60)
                self.close_connection = True
                return
            if behaviour.breaks:
                body = body[: behaviour.breaks.pop(0)]
                self.close_connection = True
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            del args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()
