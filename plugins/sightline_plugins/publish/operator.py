"""The operator of `publish`: a broadcast for each stream, and the servers behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sightline.errors import MissingExtra, OutputError
from sightline.graph import Sink, Site
from sightline.media import Batch, Stream
from sightline_plugins.encode.live import LiveSettings
from sightline_plugins.publish.address import parse_address
from sightline_plugins.publish.broadcast import Broadcast, Hub
from sightline_plugins.publish.hls import HlsWriter
from sightline_plugins.publish.services import Server, Services
from sightline_plugins.publish.video_source import EncodedSource, Encoding, PassthroughSource

if TYPE_CHECKING:
    from sightline_plugins.publish.publish import Publish

_RING_NS = 2_000_000_000
_RING_BYTES = 64 << 20


class Publisher(Sink):
    """Makes images in the pipeline's thread; another thread serves the viewers, and the pipeline never waits for it."""

    def __init__(self, element: Publish, *, site: Site) -> None:
        """Start the servers. Raises OutputError when a port is taken, MissingExtra for `web` without its package."""
        self._element = element
        self._site = site
        self._settings = LiveSettings(element.preset, element.quality, element.bitrate, element.key_interval)
        self._hub = Hub()
        self._broadcasts: dict[Stream, tuple[Broadcast, HlsWriter | None]] = {}
        self._totals: dict[str, Mapping[str, Any]] = {}
        self._services: Services | None = None
        servers = _servers(element, self._hub)
        if servers or element.url is not None:
            self._services = Services(servers, site=site)
            self._services.start()
        self._wanted = site.packets.want(element.streams, duration_ns=_RING_NS, limit_bytes=_RING_BYTES)

    def consume(self, batch: Batch) -> None:
        """Publish the frames of the batch. Raises OutputError."""
        for frame in batch.frames:
            known = self._broadcasts.get(frame.stream)
            broadcast = self._begin(frame.stream) if known is None else known[0]
            broadcast.publish(frame)

    def end_stream(self, stream: Stream) -> None:
        """End the stream's broadcast, and finish its files. Raises OutputError."""
        broadcast, files = self._broadcasts.pop(stream, (None, None))
        if broadcast is None:
            return
        self._hub.remove(broadcast)
        broadcast.end()
        self._totals[stream.name] = broadcast.counts()
        if files is not None:
            files.finish()

    def totals(self) -> Mapping[str, Mapping[str, Any]]:
        """By stream: images and key frames published, whether they were encoded here, viewers, slow ones."""
        running = {stream.name: broadcast.counts() for stream, (broadcast, _) in self._broadcasts.items()}
        return {**self._totals, **running}

    def close(self) -> None:
        """End everything; the first failure is raised when all is closed."""
        failure: OutputError | None = None
        for stream in list(self._broadcasts):
            try:
                self.end_stream(stream)
            except OutputError as error:
                failure = failure or error
        self._wanted.close()
        if self._services is not None:
            self._services.close()
        if failure is not None:
            raise failure

    def _begin(self, stream: Stream) -> Broadcast:
        element, outputs = self._element, self._site.outputs
        files = None
        if element.hls is not None:
            files = HlsWriter(outputs.path(element.hls, stream=stream.name), outputs=outputs)
        passing = PassthroughSource(self._site.packets.of(stream), codecs=element.codecs)
        maker = EncodedSource(passing=passing, encoding=Encoding(self._settings))
        broadcast = Broadcast(stream.name, maker, write=None if files is None else files.write)
        self._broadcasts[stream] = broadcast, files
        self._hub.add(broadcast)
        if element.url is not None and self._services is not None:
            self._services.push(broadcast, element.url.replace("{stream}", quote(stream.name, safe="")))
        return broadcast


def _servers(element: Publish, hub: Hub) -> list[Server]:
    servers: list[Server] = []
    if element.rtsp is not None:
        from sightline_plugins.publish.rtsp import RtspServer

        place, _, path = element.rtsp.partition("/")
        servers.append(RtspServer(parse_address(place), path=path, hub=hub, token=element.token))
    if element.web is not None:
        try:
            from sightline_plugins.publish.web import WebServer
        except ModuleNotFoundError as error:
            raise MissingExtra("websockets", extra="web", purpose="publish: web") from error
        servers.append(WebServer(parse_address(element.web), hub=hub, token=element.token))
    return servers
