"""A client of live video, as a program would write one: it reads the messages and decodes the images."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from av.codec import CodecContext
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from websockets.sync.client import ClientConnection, connect

HEAD = struct.Struct(">IIdI")
PATIENCE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class LiveImage:
    """One message: the image's data, and what is known of it."""

    ticks: int
    is_key: bool
    about: dict[str, Any]
    data: bytes
    format: dict[str, Any]


@dataclass(slots=True)
class LiveClient:
    """Reads messages; it confirms each, unless it `is_lazy`."""

    socket: ClientConnection
    is_lazy: bool = False
    formats: list[dict[str, Any]] = field(default_factory=list)
    received: int = 0

    def next(self, *, timeout: float = PATIENCE_SECONDS) -> LiveImage:
        """The next message of an image. Raises TimeoutError."""
        while isinstance(message := self.socket.recv(timeout), str):
            self.formats.append(json.loads(message))
        self.received += 1
        if not self.is_lazy:
            self.confirm()
        length, flags, ticks, size = HEAD.unpack_from(message)
        about = json.loads(message[HEAD.size : HEAD.size + length]) if length else {}
        data = message[len(message) - size :] if size else b""
        return LiveImage(int(ticks), bool(flags & 1), about, data, self.formats[-1])

    def confirm(self) -> None:
        """Tell the server that all messages so far have been handled."""
        self.socket.send(str(self.received))

    def images(self, count: int) -> list[LiveImage]:
        """The next messages that hold an image."""
        found: list[LiveImage] = []
        while len(found) < count:
            one = self.next()
            if one.data:
                found.append(one)
        return found


@contextmanager
def watching(
    port: int, token: str, *, plays: tuple[str, ...] = ("h264",), pipeline: str = "street", stream: str = "gate"
) -> Iterator[LiveClient]:
    """Watch a stream."""
    query = "&".join([f"token={token}", *(f"plays={one}" for one in plays)])
    url = f"ws://127.0.0.1:{port}/api/v1/pipelines/{pipeline}/streams/{stream}/live?{query}"
    with connect(url, max_size=None, open_timeout=PATIENCE_SECONDS) as socket:
        yield LiveClient(socket)


def pixels_of(images: list[LiveImage]) -> list[npt.NDArray[np.uint8]]:
    """The images as RGB (height, width, 3), in the order in which they are shown."""
    shown = images[0].format
    if shown["way"] == "jpeg":
        decoder = CodecContext.create("mjpeg", "r")
    else:
        decoder = CodecContext.create("hevc" if shown["codec"].startswith("hvc1") else "h264", "r")
        decoder.extradata = base64.b64decode(shown["configuration"])
    assert isinstance(decoder, VideoCodecContext)
    decoder.thread_count = 1
    frames = [frame for one in images for frame in decoder.decode(Packet(one.data))]
    if shown["way"] != "jpeg":
        frames += decoder.decode(None)
    return [frame.to_ndarray(format="rgb24").astype(np.uint8) for frame in frames]
