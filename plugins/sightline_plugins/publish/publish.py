"""`publish`: live video for viewers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import quote

from pydantic import AfterValidator, Field, model_validator

from sightline.errors import OutputError
from sightline.graph import CheckContext, Element, OutputPath, Problem, Sink, Site, Threading
from sightline.graph.fields import Reach, checked_url, matching
from sightline.media import Batch, Stream
from sightline.media.time import Duration
from sightline_plugins.publish.address import check_access, parse_address
from sightline_plugins.rtsp.payloads import Codec
from sightline_plugins.sinks.files import path_problems, placeholder_problems
from sightline_plugins.sinks.video import Bitrate

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from sightline_plugins.publish.broadcast import Broadcast, Hub, Image
    from sightline_plugins.publish.hls import HlsWriter
    from sightline_plugins.publish.services import Server, Services

_RING_NS = 2_000_000_000
_RING_BYTES = 64 << 20
_SCHEMES = ("rtsp", "rtsps", "rtmp", "rtmps")


def _checked_rtsp(text: str) -> str:
    parse_address(text.partition("/")[0])
    return text


def _checked_target(url: str) -> str:
    if url.partition("://")[0].lower() not in _SCHEMES:
        raise ValueError(f"streams are pushed to {', '.join(f'{scheme}://' for scheme in _SCHEMES)}")
    return checked_url(url)


class Publish(Element):
    """Publish live video: drawn frames after `draw`, the original video before it.

    - `rtsp`: an RTSP server in this process, for players, recorders and other pipelines (TCP and UDP);
    - `url`: push each stream to an RTSP or RTMP server;
    - `hls`: a playlist and segments for any web server, some six seconds behind;
    - `web`: a page with all streams for browsers, a fifth of a second behind, where the run is served (`--listen`):
      `/steps/ID/`, behind its login.

    Use any of them together: a stream is encoded once for all. If no earlier step changes pixels, nothing is encoded:
    the packets of the source pass unchanged, if all outputs can carry their codec (H.264; H.265 for all but `web` and
    RTMP; MJPEG for `rtsp` alone). Nothing is encoded while there are no viewers.

    Viewers never slow the pipeline. A viewer that falls two seconds behind loses its queue and continues with the next
    key frame; the report counts these. A push reconnects when its server is lost.

    An `rtsp` address without a host is reachable from every network and needs a `token`: clients log in as `viewer`
    with the token as password. RTSP is not encrypted.

    ```yaml
    - publish: {rtsp: "127.0.0.1:8554/{stream}", web: true, hls: "out/{stream}/index.m3u8"}
    ```
    """

    name: ClassVar[str] = "publish"
    threading: ClassVar[Threading] = Threading.OWN
    sink: ClassVar[bool] = True
    takes_packets: ClassVar[bool] = True

    rtsp: Annotated[str, AfterValidator(_checked_rtsp), Reach.LISTENS] | None = None
    """Where the RTSP server listens: `HOST:PORT/PATH` with `{stream}` for the stream's name."""
    url: Annotated[str, AfterValidator(_checked_target)] | None = None
    """Server that streams are pushed to, `rtsp://` or `rtmp://`; `{stream}` stands for the stream's name."""
    hls: OutputPath | None = None
    """The playlist, `.m3u8`; segments lie beside it. `{stream}` stands for the stream's name."""
    web: bool = False
    """Serve a page for browsers, and what `hls` writes, where the run is served."""
    token: Annotated[str | None, Field(repr=False)] = None
    """Token of RTSP viewers; required unless `rtsp` listens on loopback only."""
    quality: Annotated[int, Field(ge=0, le=51)] = 26
    """Constant rate factor: lower is better and larger, 6 less doubles the size."""
    bitrate: Bitrate | None = None
    """Maximum average bits per second, like `2M` or `800k`, instead of `quality`."""
    preset: Literal["ultrafast", "superfast", "veryfast", "faster", "fast", "medium"] = "ultrafast"
    """How much time the encoder takes to make the video smaller."""
    key_interval: Annotated[Duration, Field(ge=100_000_000)] = 1_000_000_000
    """Time from one key frame to the next: how long a slow viewer waits to go on."""

    @model_validator(mode="after")
    def _has_a_way(self) -> Publish:
        if not any((self.rtsp, self.url, self.hls, self.web)):
            raise ValueError("say how to publish: rtsp, url, hls or web")
        if self.bitrate is not None and "quality" in self.model_fields_set:
            raise ValueError("give quality or bitrate, not both")
        if self.rtsp is not None:
            check_access(parse_address(self.rtsp.partition("/")[0]), token=self.token)
        elif self.token is not None:
            raise ValueError("token is for rtsp; `web` has the login of the run's server")
        return self

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check that streams do not share an address or file, and that files can be written."""
        streams = matching(self.streams, context.streams)
        for key, text in (("rtsp", self.rtsp), ("url", self.url), ("hls", self.hls)):
            if text is not None and len(streams) > 1 and "{stream}" not in text:
                yield Problem(f"{len(streams)} streams would share {key}: put {{stream}} into it", (key,))
            if text is not None and key != "hls":
                yield from placeholder_problems(text, key=key)
        if self.hls is not None and not self.hls.lower().endswith(".m3u8"):
            yield Problem(f"{self.hls!r} must end in .m3u8", ("hls",))
        elif self.hls is not None:
            yield from path_problems(self, self.hls, context=context, shareable=True, key="hls")

    def reason_against_processes(self) -> str | None:
        """A push and the files of `hls` are those of one stream; a port, or the server of the run, is there once."""
        if self.rtsp is not None:
            return "`rtsp` serves all its streams at one port"
        return "`web` serves all its streams on one page" if self.web else None

    def build(self, site: Site) -> Sink:
        """Make the publisher and start its servers. Raises OutputError when a port is taken."""
        return Publisher(self, site=site)

    @property
    def codecs(self) -> frozenset[Codec]:
        """Codecs that all outputs can carry, so that packets may pass unchanged."""
        pushes_rtmp = self.url is not None and self.url.lower().startswith("rtmp")
        if self.web or pushes_rtmp:
            return frozenset({Codec.H264})
        if self.hls is not None or self.url is not None:
            return frozenset({Codec.H264, Codec.H265})
        return frozenset(Codec)


class Publisher(Sink):
    """Makes images in the pipeline's thread; another thread serves the viewers, and the pipeline never waits for it."""

    def __init__(self, element: Publish, *, site: Site) -> None:
        """Start the servers. Raises OutputError when a port is taken."""
        from sightline_plugins.encode.live import LiveSettings
        from sightline_plugins.publish.broadcast import Hub
        from sightline_plugins.publish.services import Services

        self._element = element
        self._site = site
        self._settings = LiveSettings(element.preset, element.quality, element.bitrate, element.key_interval)
        self._hub = Hub()
        self._broadcasts: dict[Stream, tuple[Broadcast[Image], HlsWriter | None]] = {}
        self._totals: dict[str, Mapping[str, Any]] = {}
        self._services: Services | None = None
        servers = _servers(element, self._hub)
        if servers or element.url is not None:
            self._services = Services(servers, site=site)
            self._services.start()
        self._application: ASGIApp | None = None
        if element.web:
            from sightline_plugins.publish.web import application_of

            self._application = application_of(self._hub, playlist=self._playlist)
            site.mounts.add(site.element_id, self._application)
            if not site.mounts.is_served:
                site.warn("`web` is served where the run is: start it with --listen (`sightline.server.listen`)")
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
        if self._application is not None:
            self._site.mounts.remove(self._site.element_id, self._application)
        if self._services is not None:
            self._services.close()
        if failure is not None:
            raise failure

    def _playlist(self, stream: str) -> Path | None:
        """Return the playlist of a stream that runs; from any thread."""
        if self._element.hls is None or self._hub.get(stream) is None:
            return None
        return self._site.outputs.path(self._element.hls, stream=stream)

    def _begin(self, stream: Stream) -> Broadcast[Image]:
        from sightline_plugins.publish.broadcast import Broadcast
        from sightline_plugins.publish.hls import HlsWriter
        from sightline_plugins.publish.video_source import EncodedSource, Encoding, PassthroughSource

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
    return servers
