"""Cameras that go away, fall silent or cannot be reached, and come back."""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest

from sightline.graph import MessageKind, StreamState
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.server import FakeCamera
from tests.conftest import missing
from tests.integration.figures import Record
from tests.integration.live.watching import PATIENCE_SECONDS, Watched, until
from tests.open_files import open_files

CAMERAS = 10
DOWN_SECONDS = (1.0, 1.23)
STAGGER_SECONDS = 0.11
"""So that servers listen again at every phase of the half second between two attempts."""


HELD_BACK = 1
"""FFmpeg hands an image on when the next one begins, so the last one before a silence stays with it."""


@pytest.mark.row(id="A1")
def test_killed_cameras_are_back_within_a_second_of_listening_again(clip: Clip, figure: Record) -> None:
    waits: list[float] = []
    with ExitStack() as stack:
        cameras = {f"cam{number}": stack.enter_context(FakeCamera(clip)) for number in range(CAMERAS)}
        with Watched({name: camera.url for name, camera in cameras.items()}) as watched:
            watched.has_frames(10)
            files, threads = len(open_files()), threading.active_count()
            for down_seconds in DOWN_SECONDS:
                for camera in cameras.values():
                    camera.kill()
                time.sleep(down_seconds)
                listening = {}
                for name, camera in cameras.items():
                    camera.restart()
                    listening[name] = time.monotonic()
                    time.sleep(STAGGER_SECONDS)
                waits += [watched.first_after(name, moment).at_seconds - moment for name, moment in listening.items()]
            # Connections and threads of before the kills end a little later; those of earlier tests may do so, too.
            until(lambda: len(open_files()) <= files and threading.active_count() <= threads)

    assert watched.report is not None
    figure(f"frames again after it listens, {len(waits)} kills, median", statistics.median(waits), limit=1.0, unit="s")
    figure(f"frames again after it listens, {len(waits)} kills, worst", max(waits), limit=1.0, unit="s")
    assert [stream.reconnects for stream in watched.report.streams] == [len(DOWN_SECONDS)] * CAMERAS
    states = [told.message.state for told in watched.told]
    assert states.count(StreamState.LOST) == len(watched.of_kind(MessageKind.STREAM_BACK)) == len(waits)


@pytest.mark.row(id="A2")
def test_a_camera_that_stalls_is_seen_within_five_seconds_and_recovers_at_once(clip: Clip, figure: Record) -> None:
    with FakeCamera({"tcp": clip, "udp": clip}) as camera:
        sources = {name: {"uri": camera.url_of(name), "transport": name} for name in ("tcp", "udp")}
        with Watched(sources) as watched:
            watched.has_frames(30)
            stalled_at = time.monotonic()
            for mount in camera.mounts.values():
                mount.faults.stall = True
            seen = [watched.has_state(StreamState.STALLED, stream=name).at_seconds - stalled_at for name in sources]
            time.sleep(1)
            data_at = time.monotonic()
            for mount in camera.mounts.values():
                mount.faults.stall = False
            recovered = [watched.first_after(name, data_at).at_seconds - data_at for name in sources]

    figure("seen, over TCP and UDP, worse", max(seen), limit=5.0, unit="s")
    figure("frames again after data comes, worse", max(recovered), limit=1.5, unit="s")


def test_a_stall_is_counted_and_ends_in_a_return(clip: Clip) -> None:
    with FakeCamera(clip) as camera, Watched({"cam": {"uri": camera.url, "stall_timeout": "300ms"}}) as watched:
        watched.has_frames(5)
        camera.faults.stall = True
        watched.has_state(StreamState.STALLED, stream="cam")
        camera.faults.stall = False
        until(lambda: bool(watched.of_kind(MessageKind.STREAM_BACK)))

    assert watched.report is not None
    (cam,) = watched.report.streams
    assert cam.stalls >= 1
    until(lambda: cam.state is StreamState.ENDED)  # an input may end a little later than its run


def test_states_are_told_in_their_order(clip: Clip) -> None:
    with FakeCamera(clip) as camera, Watched({"cam": camera.url}) as watched:
        watched.has_frames(3)
        camera.kill()
        watched.has_state(StreamState.LOST, stream="cam")
        camera.restart()
        until(lambda: bool(watched.of_kind(MessageKind.STREAM_BACK)))

    def states() -> list[StreamState]:
        return [told.message.state for told in watched.told if told.message.state is not None]

    until(lambda: states()[-1] is StreamState.ENDED)
    assert states() == [
        StreamState.CONNECTING,
        StreamState.LIVE,
        StreamState.LOST,
        StreamState.LIVE,
        StreamState.ENDED,
    ]


def test_one_camera_s_trouble_costs_no_frame_of_another(clip: Clip) -> None:
    with (
        FakeCamera(clip) as well,
        FakeCamera(clip) as ill,
        Watched({"well": {"uri": well.url, "stall_timeout": "5m"}, "ill": {"uri": ill.url}}) as watched,
    ):
        watched.has_frames(5)
        ill.kill()
        watched.has_state(StreamState.LOST, stream="ill")
        watched.has_frames(len(watched.frames["well"]) + 25, of="well")
        well.faults.stall = True
        sent = well.sent.images  # or one more, which is on its way
        until(lambda: received(watched, "well") >= sent - HELD_BACK)

    assert watched.report is not None
    stream = watched.report.streams[0]
    assert sent - HELD_BACK <= stream.received <= well.sent.images
    assert (stream.reconnects, stream.stalls, stream.damaged) == (0, 0, 0)


def received(watched: Watched, stream: str) -> int:
    """Frames of a stream that were received so far; a busy machine may have dropped some of them afterwards."""
    return next(status.frames for status in watched.pipeline.status() if status.name == stream)


@contextmanager
def black_hole() -> Iterator[str]:
    """An address where connections are neither accepted nor refused: a listener whose queue is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def nobody() -> Iterator[str]:
    """An address where connections are refused."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{reserved.getsockname()[1]}"


@contextmanager
def mute() -> Iterator[str]:
    """An address where connections are accepted, and nothing is ever said."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield f"127.0.0.1:{listener.getsockname()[1]}"


Hole = Callable[[], AbstractContextManager[str]]


@pytest.mark.row(id="A3")
@pytest.mark.parametrize("hole", [nobody, black_hole, mute], ids=lambda hole: hole.__name__)
def test_a_camera_that_can_not_be_reached_is_left_at_once(hole: Hole, figure: Record) -> None:
    with hole() as address:
        urls = {name: f"rtsp://{address}/{name}" for name in ("goes", "stays")}
        with Watched(urls) as watched:
            until(lambda: len(watched.of_kind(MessageKind.STREAM_CONNECTING)) == len(urls))
            time.sleep(0.3)
            begun = time.monotonic()
            watched.pipeline.remove_source("goes").wait(PATIENCE_SECONDS)
            removal_seconds = time.monotonic() - begun

    figure("the stream is removed", removal_seconds, limit=2.0, unit="s")
    figure("the run is stopped", watched.stop_seconds, limit=2.0, unit="s")


HANGING_RESOLVER = """
import pathlib, socket, subprocess, sys, tempfile, time
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
configuration = pathlib.Path(tempfile.mkdtemp()) / "resolv.conf"
configuration.write_text("nameserver 127.0.0.1\\n")
subprocess.run(["mount", "--bind", str(configuration), "/etc/resolv.conf"], check=True)
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 53))
from sightline import Pipeline
pipeline = Pipeline(sources={"cam": "rtsp://camera.example/main"})
pipeline.start()
silent.settimeout(20)
silent.recvfrom(512)
begun = time.monotonic()
pipeline.stop()
pipeline.wait()
print(time.monotonic() - begun)
"""


@pytest.mark.row(id="A3")
def test_a_resolver_that_hangs_does_not_keep_a_run_from_stopping(figure: Record) -> None:
    apart = ["unshare", "--user", "--map-root-user", "--mount", "--net"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        missing("namespaces are not allowed here")
    done = subprocess.run(
        [*apart, sys.executable, "-c", HANGING_RESOLVER], capture_output=True, text=True, check=False, timeout=300
    )

    assert done.returncode == 0, done.stderr
    seconds = float(done.stdout)
    figure("the run is stopped while a resolver hangs", seconds, limit=2.0, unit="s")
