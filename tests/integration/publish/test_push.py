"""Streams pushed to servers of others: there, not there, and silent."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.integration.publish.publishing import FPS, lumas, number_in, publishing
from tests.ports import free_port

SECRET = "hunter2"


@contextmanager
def ffmpeg(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """FFmpeg as a server that waits for one stream."""
    program = shutil.which("ffmpeg")
    if program is None:
        missing("ffmpeg is not installed (Debian: ffmpeg)")
    with subprocess.Popen([str(program), "-v", "error", *arguments], stdin=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def shown(path: Path) -> list[int]:
    return [number_in(luma) for luma in lumas(path)]


def content(path: Path) -> str:
    """What is in a file of a thread or a process, nothing when that has ended just now."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return path.read_text()
    return ""


def senders() -> list[str]:
    """Processes of ours that push."""
    children = [pid for file in Path("/proc/self/task").glob("*/children") for pid in content(file).split()]
    return [line for pid in children if "publish.sender" in (line := content(Path("/proc", pid, "cmdline")))]


def receiving(scheme: str, port: int, target: Path) -> list[str]:
    how = {"rtmp": ["-listen", "1", "-analyzeduration", "100000"], "rtsp": ["-rtsp_flags", "listen"]}[scheme]
    take = ["-frames:v", "30", "-c", "copy", "-f", "matroska", "-y", str(target)]
    return [*how, "-i", f"{scheme}://127.0.0.1:{port}/live/gate", *take]


@pytest.mark.parametrize("scheme", ["rtmp", "rtsp"])
def test_images_arrive_in_order_at_a_server(scheme: str, tmp_path: Path) -> None:
    port, target = free_port(), tmp_path / "received.mkv"
    with (
        ffmpeg(*receiving(scheme, port, target)) as server,
        publishing({"url": f"{scheme}://127.0.0.1:{port}/live/{{stream}}"}),
    ):
        server.wait(timeout=300)

    found = shown(target)
    assert len(found) >= 25
    assert found == list(range(found[0], found[0] + len(found)))


def test_a_server_that_comes_back_is_found_again(tmp_path: Path) -> None:
    port = free_port()
    targets = [tmp_path / "first.mkv", tmp_path / "second.mkv"]
    with publishing({"url": f"rtmp://127.0.0.1:{port}/live/{{stream}}"}) as published:
        for target in targets:
            with ffmpeg(*receiving("rtmp", port, target)) as server:
                server.wait(timeout=300)

    assert all(len(shown(target)) >= 25 for target in targets)
    assert len(published.warnings) >= 1


def test_a_server_that_is_not_there_is_told_once_without_its_password() -> None:
    port = free_port()
    with publishing({"url": f"rtmp://admin:{SECRET}@127.0.0.1:{port}/live/{{stream}}"}) as published:
        published.wait_for(lambda: any("pushing to" in text for text in published.warnings))
        begun = published.frames
        published.wait_for(lambda: published.frames > begun + 2 * FPS)

    told = [text for text in published.warnings if "pushing to" in text]
    assert len(told) == 1
    assert "it is tried again" in told[0]
    assert not any(SECRET in message.text for message in published.messages)


@pytest.mark.parametrize("scheme", ["rtmp", "rtsp"])
def test_a_server_that_says_nothing_does_not_slow_the_pipeline_and_is_left_at_once(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with publishing({"url": f"{scheme}://127.0.0.1:{port}/live/{{stream}}"}) as published:
            silent.settimeout(30)
            connection, _ = silent.accept()
            begun = published.frames
            published.wait_for(lambda: published.frames >= begun + 2 * FPS)
        connection.close()

    assert senders() == []


@pytest.mark.parametrize("frames", [1, 3, 12])
def test_no_process_is_left_however_early_the_pipeline_ends(frames: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with publishing({"url": f"rtmp://127.0.0.1:{port}/live/{{stream}}"}) as published:
            published.wait_for(lambda: published.frames >= frames)

    assert senders() == []
