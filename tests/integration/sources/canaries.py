"""Servers that must not be reached, and servers that try to lead FFmpeg to them."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Answer = Callable[[bytes], bytes | None]
"""What a server sends for what it has received; None ends the connection."""


class Server:
    """A TCP server on the loopback. It notes what it receives, and that a connection was made at all."""

    def __init__(self, answer: Answer, *, host: str = "127.0.0.1") -> None:
        self._answer = answer
        self._listener = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._open: list[socket.socket] = []
        self.received: list[bytes] = []
        self.connections = 0
        self.port = int(self._listener.getsockname()[1])

    def serve(self) -> None:
        """Serve until the listener is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                self._open.append(client)
                threading.Thread(target=self._converse, args=(client,), daemon=True).start()

    def close(self) -> None:
        """Close the listener and all connections."""
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _converse(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            while data := client.recv(1 << 16):
                self.received.append(data)
                answer = self._answer(data)
                if answer is None:
                    return
                client.sendall(answer)


@contextmanager
def serving(answer: Answer = lambda request: None, *, host: str = "127.0.0.1") -> Iterator[Server]:
    """A server in a thread; by default one that ends every connection once it has received something."""
    server = Server(answer, host=host)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()


@contextmanager
def hearing() -> Iterator[tuple[int, Callable[[], int]]]:
    """A UDP port on the loopback, and how many packets have come to it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard:
        heard.bind(("127.0.0.1", 0))
        heard.setblocking(False)
        count = 0

        def packets() -> int:
            nonlocal count
            with suppress(BlockingIOError):
                while True:
                    heard.recv(1 << 16)
                    count += 1
            return count

        yield int(heard.getsockname()[1]), packets


def sequence(request: bytes) -> bytes:
    """The line `CSeq` of an RTSP request."""
    found = re.search(rb"CSeq: *\d+", request)
    return b"CSeq: 1" if found is None else found[0]


def rtsp_reply(request: bytes, *, status: bytes = b"200 OK", headers: bytes = b"", body: bytes = b"") -> bytes:
    """An RTSP response; `headers` are whole lines."""
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    return b"RTSP/1.0 " + status + b"\r\n" + sequence(request) + b"\r\n" + headers + length + b"\r\n" + body


SDP = (
    b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 %s\r\nt=0 0\r\nm=video %d RTP/AVP 96\r\n"
    b"a=rtpmap:96 H264/90000\r\na=control:%s\r\n"
)


def camera(*, describe: Answer, setup: Answer | None = None, options: Answer = rtsp_reply) -> Answer:
    """What a camera answers that does as it likes at DESCRIBE and SETUP."""

    def answer(request: bytes) -> bytes | None:
        if request.startswith(b"DESCRIBE"):
            return describe(request)
        if request.startswith(b"SETUP") and setup is not None:
            return setup(request)
        return options(request)

    return answer
