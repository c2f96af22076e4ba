"""A source for a protocol of your own: raw I420 frames of a known size, one after another, over TCP."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import ClassVar
from urllib.parse import urlsplit

import numpy as np

from sightline.errors import StreamLost, StreamUnreadable
from sightline.graph import Site, SourceElement, SourceReader
from sightline.media import Frame, PixelFormat, Stream, Surface


class RawTcp(SourceElement):
    """Read raw I420 frames from a TCP server.

    ```yaml
    sources:
      lab: {uri: "i420+tcp://127.0.0.1:9000", size: [320, 240]}
    ```
    """

    name: ClassVar[str] = "rawtcp"
    uri: str
    """Address of the server, `i420+tcp://HOST:PORT`."""
    size: tuple[int, int]
    """Width and height of the frames in pixels; both are even."""

    @classmethod
    def accepts(cls, uri: str) -> bool:
        """Claim the scheme of this protocol."""
        return uri.startswith("i420+tcp://")

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        """Return a reader for one attempt."""
        return RawTcpReader(self, site, stream)


class RawTcpReader(SourceReader):
    """Connect once, read frames until the server closes the connection, raise when it breaks."""

    def __init__(self, source: RawTcp, site: Site, stream: Stream) -> None:
        self.size_wh, self.site, self.stream = source.size, site, stream
        address = urlsplit(source.uri)
        self.address = (address.hostname or "", address.port or 0)

    def frames(self) -> Iterator[Frame]:
        """Yield frames; the time of a frame is its arrival."""
        try:
            connection = socket.create_connection(self.address, timeout=5)
        except OSError as error:
            raise StreamUnreadable(f"cannot connect to {self.address}: {error}") from error
        (width, height), start_ns, index = self.size_wh, self.site.clock.monotonic_ns(), 0
        with connection, connection.makefile("rb") as incoming:
            while not self.is_stopping and (data := incoming.read(width * height * 3 // 2)):
                if len(data) < width * height * 3 // 2:
                    raise StreamLost("the connection broke within a frame")
                luma, chroma = (
                    np.frombuffer(data, np.uint8, width * height),
                    np.frombuffer(data, np.uint8, offset=width * height),
                )
                planes = luma.reshape(height, width), *chroma.reshape(2, height // 2, width // 2)
                pts_ns = self.site.clock.monotonic_ns() - start_ns
                yield Frame(self.stream, index, pts_ns, Surface(PixelFormat.I420, self.size_wh, planes))
                index += 1
