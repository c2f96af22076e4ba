"""`transport: auto` with servers that refuse TCP, in the ways in which servers refuse."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import pytest
from tests.integration.sources.clips import write_clip

from sightline.devices import Device
from sightline.errors import StreamError, StreamRefused
from sightline.graph import Site
from sightline.media import Frame, Stream
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from sightline_plugins.sources.live.rtsp import Rtsp

Refusal = Literal["goes on", "closes", "falls silent"]
UDP_ONLY = CameraOptions(passes=1, transports=("udp",))
REFUSAL = b"RTSP/1.0 461"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path: Path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    clip = load_clip(str(write_clip(path, count=10, key_every=5, b_frames=0)))
    with FakeCamera(clip, options=UDP_ONLY) as camera:
        yield camera.url


@contextmanager
def behind_proxy(url: str, *, refusal: Refusal) -> Iterator[str]:
    """The camera's address through a proxy that does so, once the camera has refused a transport."""
    host, _, rest = url.removeprefix("rtsp://").partition(":")
    port, _, path = rest.partition("/")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        own = str(listener.getsockname()[1])
        opened, threads = [listener], list[threading.Thread]()

        def copy(source: socket.socket, target: socket.socket, ports: tuple[str, str]) -> None:
            with suppress(OSError):
                while data := source.recv(1 << 16):
                    target.sendall(data.replace(f":{ports[0]}/".encode(), f":{ports[1]}/".encode()))
                    if data.startswith(REFUSAL) and refusal == "closes":
                        target.shutdown(socket.SHUT_RDWR)
                    while data.startswith(REFUSAL) and refusal == "falls silent" and source.recv(1 << 16):
                        pass
                target.shutdown(socket.SHUT_RDWR)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    camera = socket.create_connection((host, int(port)))
                    opened.extend([client, camera])
                    start(copy, client, camera, (own, port))
                    start(copy, camera, client, (port, own))

        def start(work: Callable[..., None], *arguments: object) -> None:
            threads.append(threading.Thread(target=work, args=arguments))
            threads[-1].start()

        start(serve)
        try:
            yield f"rtsp://{host}:{own}/{path}"
        finally:
            for one in opened:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()
            for one in opened:
                one.close()


def first_frame(source: Rtsp) -> Frame:
    """The first frame of one attempt. Raises StreamError."""
    reader = source.build(Site(device=Device()), stream=Stream("yard", live=True))
    try:
        return next(iter(reader.frames()))
    finally:
        reader.close()


@pytest.mark.parametrize("refusal", ["goes on", "closes", "falls silent"])
def test_the_first_attempt_has_frames_however_tcp_is_refused(url: str, refusal: Refusal) -> None:
    with behind_proxy(url, refusal=refusal) as address:
        assert first_frame(Rtsp(uri=address, transport="auto")).index == 0


def test_a_transport_that_was_chosen_is_kept(url: str) -> None:
    with pytest.raises(StreamRefused, match="does not offer that transport; try transport: udp"):
        first_frame(Rtsp(uri=url, transport="tcp"))


def test_no_other_refusal_is_tried_again(url: str) -> None:
    with pytest.raises(StreamError) as raised:
        first_frame(Rtsp(uri=url + "-of-somebody", transport="auto"))
    assert "transport" not in str(raised.value)
