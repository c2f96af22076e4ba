"""Viewers who do not take what they asked for: the pipeline goes on, and so do the others."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests.integration.figures import Record
from tests.integration.publish.publishing import FPS, TOKEN, Published, publishing, read_back
from tests.open_files import open_files
from tests.ports import free_port
from tests.waiting import wait_until

NOISE = {"pattern": {"pattern": "noise", "size": [320, 176], "fps": FPS, "frames": None}, "realtime": True}
SECONDS = 5


@contextmanager
def stalled_rtsp(port: int) -> Iterator[None]:
    """A client that asks for the stream and never reads it."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        url = f"rtsp://127.0.0.1:{port}/gate"
        transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n"
        for number, (method, header) in enumerate((("DESCRIBE", ""), ("SETUP", transport), ("PLAY", "")), start=1):
            where = f"{url}/video" if method == "SETUP" else url
            client.sendall(f"{method} {where} RTSP/1.0\r\nCSeq: {number}\r\n{header}\r\n".encode())
            assert client.recv(4096).startswith(b"RTSP/1.0 200")
        yield


@contextmanager
def stalled_browser(port: int) -> Iterator[None]:
    """A player whose connection takes nothing."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        head = f"GET /steps/publish-1/live/gate?token={TOKEN} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        head += "Upgrade: websocket\r\nConnection: Upgrade\r\n"
        head += "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        client.sendall(head.encode())
        assert client.recv(64).startswith(b"HTTP/1.1 101")
        yield


def seconds_for(published: Published, frames: int) -> float:
    """How long the pipeline takes for so many frames."""
    goal, begun = published.frames + frames, time.monotonic()
    published.wait_for(lambda: published.frames >= goal)
    return time.monotonic() - begun


@pytest.mark.row(id="C7")
def test_viewers_that_take_nothing_change_no_rate_and_are_counted(figure: Record) -> None:
    rtsp = free_port()
    options = {"rtsp": f"127.0.0.1:{rtsp}/{{stream}}", "web": True, "quality": 18}
    with ExitStack() as stack:
        published = stack.enter_context(publishing(options, sources={"gate": NOISE}))
        for stalled, port in ((stalled_rtsp, rtsp), (stalled_browser, published.port)) * 2:
            stack.enter_context(stalled(port))
        seconds = seconds_for(published, SECONDS * FPS)

    totals = published.totals()
    figure(
        "viewers that take nothing: time of the pipeline, to that of its source",
        seconds / SECONDS,
        limit=1.05,
        unit="x",
    )
    assert totals["slow_viewers"] == 4
    assert totals["skipped_images"] > FPS


def test_a_viewer_that_takes_everything_loses_nothing_beside_one_that_takes_nothing() -> None:
    with (
        publishing({"web": True, "quality": 18}, sources={"gate": NOISE}) as published,
        stalled_browser(published.port),
        connect(published.url("/live/gate", scheme="ws")) as client,
    ):
        got = [len(client.recv(timeout=300)) for _ in range(4 * FPS)]

    assert len(got) == 4 * FPS
    assert published.totals()["slow_viewers"] == 1


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    def once() -> None:
        port = free_port()
        options = {"rtsp": f"127.0.0.1:{port}/{{stream}}", "web": True, "hls": "{stream}.m3u8"}
        with publishing(options, outputs=tmp_path) as published:
            read_back(f"rtsp://127.0.0.1:{port}/gate", count=3)
            with connect(published.url("/live/gate", scheme="ws")) as client:
                client.recv(timeout=300)

    once()
    files, threads = len(open_files()), threading.active_count()
    for _ in itertools.repeat(None, 3):
        once()

    # What waits for the end of a connection ends a little later; that of earlier tests may do so, too.
    wait_until(lambda: len(open_files()) <= files and threading.active_count() <= threads)
