"""What clients that mean ill cost a running pipeline: `python -m benchmarks.hostile_clients`.

Four streams at the speed of cameras are drawn on and served. Each kind of client works against the server from another
process for some seconds, before and after seconds of calm in the same run. The table has the frame rate in relation to
that of the calm, how long `/healthz` takes at most, asked ten times a second, and how much the process grows.
"""

from __future__ import annotations

import argparse
import http.client
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from sightline import Pipeline
from sightline.server import listen

TOKEN = "0123456789abcdef"  # of the server of this benchmark, on the loopback
_HEAD = b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n"
_BOMB_BYTES = 50_000_000
_LONG_SECONDS = 3600.0
Attack = Callable[[int, float], None]
"""Works against a port until a time (monotonic)."""


def connected(port: int) -> socket.socket:
    """Connect to the server."""
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def idle(port: int, until: float) -> None:
    """Hold 200 connections that send nothing, and open each again when it is closed."""
    _hold(port, until, count=200, said=b"")


def half(port: int, until: float) -> None:
    """Hold 200 connections that send half a request."""
    _hold(port, until, count=200, said=_HEAD[:60])


def unread(port: int, until: float) -> None:
    """Ask for much on 50 connections, again and again, and read nothing."""
    _hold(port, until, count=50, said=(_HEAD + b"\r\n") * 200)


def vanishing(port: int, until: float) -> None:
    """Ask, 50 at a time, and be gone before the answer."""
    while time.monotonic() < until:
        with ExitStack() as stack, suppress(OSError):
            for client in [stack.enter_context(connected(port)) for _ in range(50)]:
                client.sendall(_HEAD + b"\r\n")
        time.sleep(0.1)


def head_bombs(port: int, until: float) -> None:
    """Send heads without end."""
    _bomb(port, until, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X-Padding: " + b"x" * 4000 + b"\r\n")


def body_bombs(port: int, until: float) -> None:
    """Send bodies without end, by length and in chunks."""
    put = b"PUT /api/v1/pipelines/street/configuration HTTP/1.1\r\nHost: 127.0.0.1\r\nIf-Match: *\r\n"
    put += b"Content-Type: application/yaml\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n"
    half_way = time.monotonic() + (until - time.monotonic()) / 2
    _bomb(port, half_way, put + b"Content-Length: 900000000\r\n\r\n", b"x" * 65_536)
    _bomb(port, until, put + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"x" * 65_536 + b"\r\n")


def garbage(port: int, until: float) -> None:
    """Say what is no request."""
    while time.monotonic() < until:
        with suppress(OSError), connected(port) as client:
            client.sendall(os.urandom(2000))
            client.recv(1000)


def flood(port: int, until: float) -> None:
    """Ask for the status as fast as answers come."""
    while time.monotonic() < until:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        with suppress(OSError, http.client.HTTPException):
            while time.monotonic() < until:
                connection.request("GET", "/status", headers={"Authorization": f"Bearer {TOKEN}"})
                connection.getresponse().read()
        connection.close()


ATTACKS: Mapping[str, Attack] = MappingProxyType(
    {
        "200 idle connections": idle,
        "200 half-sent requests": half,
        "50 that read nothing": unread,
        "50 that vanish, ten times a second": vanishing,
        "heads without end": head_bombs,
        "bodies without end": body_bombs,
        "garbage": garbage,
        "requests without pause": flood,
    }
)


def _hold(port: int, until: float, *, count: int, said: bytes) -> None:
    held: list[socket.socket] = []
    while time.monotonic() < until:
        with suppress(OSError):
            while len(held) < count:
                client = connected(port)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.setblocking(False)
                held.append(client)
                with suppress(BlockingIOError):
                    client.sendall(said)
        time.sleep(0.1)
        held = [one for one in held if not _is_closed(one)]
    for one in held:
        one.close()


def _is_closed(client: socket.socket) -> bool:
    try:
        is_closed = client.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        is_closed = True
    if is_closed:
        client.close()
    return is_closed


def _bomb(port: int, until: float, begun: bytes, piece: bytes) -> None:
    while time.monotonic() < until:
        with suppress(OSError), connected(port) as client:
            client.sendall(begun)
            for _ in range(_BOMB_BYTES // len(piece)):
                client.sendall(piece)
        time.sleep(0.05)


@contextmanager
def attacking(name: str, port: int) -> Iterator[None]:
    """Work against a port from another process while the block is open."""
    command = [sys.executable, "-m", "benchmarks.hostile_clients", "--attack", name, "--port", str(port)]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[1])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def resident_bytes() -> int:
    """The memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def health_seconds(port: int) -> float:
    """How long the server takes to say that it lives."""
    begun = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/healthz", headers={"Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise RuntimeError(f"/healthz answers {answer.status}")
    return time.monotonic() - begun


def frames_of(pipeline: Pipeline) -> int:
    """Frames that were processed so far."""
    return sum(one.processed for one in pipeline.status())


def served_pipeline() -> Pipeline:
    """Four streams at 25 frames a second, drawn on."""
    card = {"pattern": "moving", "size": [640, 360], "fps": 25, "frames": None, "realtime": True}
    return Pipeline(name="street", sources={f"cam{number}": card for number in range(4)}, steps=["draw"])


def measured(pipeline: Pipeline, port: int, seconds: float) -> tuple[float, float]:
    """The frame rate over some seconds, and the slowest answer of `/healthz` meanwhile."""
    frames, begun, slowest = frames_of(pipeline), time.monotonic(), 0.0
    while time.monotonic() < begun + seconds:
        slowest = max(slowest, health_seconds(port))
        time.sleep(0.1)
    return (frames_of(pipeline) - frames) / (time.monotonic() - begun), slowest


def rows(seconds: float) -> Iterator[str]:
    """The table, row by row."""
    yield "| clients | frame rate / calm | `/healthz`, slowest | memory grows by |"
    yield "|---|---|---|---|"
    pipeline = served_pipeline()
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        measured(pipeline, listener.port, 2)
        for name in ATTACKS:
            before, memory = measured(pipeline, listener.port, seconds)[0], resident_bytes()
            with attacking(name, listener.port):
                time.sleep(1)
                rate, slowest = measured(pipeline, listener.port, seconds)
            grown = (resident_bytes() - memory) / 1e6
            calm = statistics.mean([before, measured(pipeline, listener.port, seconds)[0]])
            yield f"| {name} | {rate / calm:.3f} | {slowest * 1000:.0f} ms | {grown:.1f} MB |"


def main() -> None:
    """Run the benchmark, or one kind of clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="how long each kind of client works")
    parser.add_argument("--attack", choices=list(ATTACKS), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.attack is not None:
        ATTACKS[options.attack](options.port, time.monotonic() + _LONG_SECONDS)
        return
    for row in rows(options.seconds):
        print(row, flush=True)


if __name__ == "__main__":
    main()
