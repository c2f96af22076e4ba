"""The operator of `publish`: a broadcast for each stream, and what serves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sightline.errors import OutputError
from sightline.graph import Sink, Site
from sightline.media import Batch, Frame, Stream
from sightline_plugins.encode.live import LiveSettings
from sightline_plugins.publish.broadcast import Broadcast, Hub
from sightline_plugins.publish.hls import HlsWriter
from sightline_plugins.publish.services import Server, Services
from sightline_plugins.publish.video_source import EncodedSource, Encoding, PassthroughSource
from sightline_plugins.rtsp.payloads import Codec

_RING_NS = 2_000_000_000
_RING_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """What is published, and how: `hls` and `url` have `{stream}` for the stream's name, `codecs` may be passed on."""

    settings: LiveSettings
    codecs: frozenset[Codec]
    streams: tuple[str, ...] | None = None
    hls: str | None = None
    url: str | None = None


class Publisher(Sink):
    """Makes images in the pipeline's thread; whoever watches is served by another, which it never waits for."""

    def __init__(self, orders: PublishOptions, *, site: Site, hub: Hub, servers: Sequence[Server]) -> None:
        self._orders = orders
        self._site = site
        self._hub = hub
        self._broadcasts: dict[Stream, tuple[Broadcast, HlsWriter | None]] = {}
        self._totals: dict[str, Mapping[str, Any]] = {}
        self._services: Services | None = None
        if servers or orders.url is not None:
            self._services = Services(servers, site=site)
            self._services.start()
        self._wanted = site.packets.want(orders.streams, duration_ns=_RING_NS, limit_bytes=_RING_BYTES)

    def consume(self, batch: Batch) -> None:
        """Publish the frames of the batch. Raises OutputError."""
        for frame in batch.frames:
            self._broadcast(frame).publish(frame)

    def end_stream(self, stream: Stream) -> None:
        """Tell the stream's viewers, and finish its files. Raises OutputError."""
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
        going_on = {stream.name: broadcast.counts() for stream, (broadcast, _) in self._broadcasts.items()}
        return {**self._totals, **going_on}

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

    def _broadcast(self, frame: Frame) -> Broadcast:
        stream = frame.stream
        known = self._broadcasts.get(stream)
        return self._begin(stream) if known is None else known[0]

    def _begin(self, stream: Stream) -> Broadcast:
        orders, outputs = self._orders, self._site.outputs
        files = None
        if orders.hls is not None:
            files = HlsWriter(outputs.path(orders.hls, stream=stream.name), outputs=outputs)
        making = EncodedSource(
            passing=PassthroughSource(self._site.packets.of(stream), codecs=orders.codecs),
            encoding=Encoding(orders.settings),
        )
        broadcast = Broadcast(stream.name, making, write=None if files is None else files.write)
        self._broadcasts[stream] = broadcast, files
        self._hub.add(broadcast)
        if orders.url is not None and self._services is not None:
            self._services.push(broadcast, orders.url.replace("{stream}", quote(stream.name, safe="")))
        return broadcast
