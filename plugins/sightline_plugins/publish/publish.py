"""`publish`: live video for viewers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from sightline.errors import OutputError
from sightline.graph import CheckContext, Element, OutputPath, Problem, Sink, Site, Threading
from sightline.graph.fields import checked_url, matching
from sightline.media.time import Duration
from sightline_plugins.publish.address import check_access, parse_address
from sightline_plugins.rtsp.payloads import Codec
from sightline_plugins.sinks.files import placeholder_problems
from sightline_plugins.sinks.video import Bitrate

_SCHEMES = ("rtsp", "rtsps", "rtmp", "rtmps")


def _checked_rtsp(text: str) -> str:
    parse_address(text.partition("/")[0])
    return text


def _checked_web(text: str) -> str:
    parse_address(text)
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
    - `web`: a page with all streams for browsers, a fifth of a second behind.

    Use any of them together: a stream is encoded once for all. If no earlier step changes pixels, nothing is encoded:
    the packets of the source pass unchanged, if all outputs can carry their codec (H.264; H.265 for all but `web` and
    RTMP; MJPEG for `rtsp` alone). Nothing is encoded while there are no viewers.

    Viewers never slow the pipeline. A viewer that falls two seconds behind loses its queue and continues with the next
    key frame; the report counts these. A push reconnects when its server is lost.

    An address without a host is reachable from every network and needs a `token`: browsers open `/?token=...`, RTSP
    clients log in as `viewer` with the token as password. Neither `rtsp` nor `web` is encrypted.

    ```yaml
    - publish: {rtsp: "127.0.0.1:8554/{stream}", web: "127.0.0.1:8090", hls: "out/{stream}/index.m3u8"}
    ```
    """

    name: ClassVar[str] = "publish"
    threading: ClassVar[Threading] = Threading.OWN
    sink: ClassVar[bool] = True

    rtsp: Annotated[str, AfterValidator(_checked_rtsp)] | None = None
    """Where the RTSP server listens: `HOST:PORT/PATH` with `{stream}` for the stream's name."""
    url: Annotated[str, AfterValidator(_checked_target)] | None = None
    """Server that streams are pushed to, `rtsp://` or `rtmp://`; `{stream}` stands for the stream's name."""
    hls: OutputPath | None = None
    """The playlist, `.m3u8`; segments lie beside it. `{stream}` stands for the stream's name."""
    web: Annotated[str, AfterValidator(_checked_web)] | None = None
    """Where the page for browsers is served: `HOST:PORT`."""
    token: Annotated[str | None, Field(repr=False)] = None
    """Token of viewers; required unless `rtsp` and `web` listen on loopback only."""
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
        for text in (self.rtsp, self.web):
            if text is not None:
                check_access(parse_address(text.partition("/")[0]), token=self.token)
        return self

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check that streams do not share an address or file, and that files can be written."""
        streams = matching(self.streams, context.streams)
        for key, text in (("rtsp", self.rtsp), ("url", self.url), ("hls", self.hls)):
            yield from placeholder_problems(text or "", key=key)
            if text is not None and len(streams) > 1 and "{stream}" not in text:
                yield Problem(f"{len(streams)} streams would share {key}: put {{stream}} into it", (key,))
        if self.hls is not None:
            yield from self._check_files(self.hls, context, streams)

    def build(self, site: Site) -> Sink:
        """Make the publisher and start its servers. Raises OutputError when a port is taken, MissingExtra for `web`
        without its package.
        """
        from sightline_plugins.publish.operator import Publisher

        return Publisher(self, site=site)

    def _check_files(self, hls: str, context: CheckContext, streams: tuple[str, ...]) -> Iterator[Problem]:
        if not hls.lower().endswith(".m3u8"):
            yield Problem(f"{hls!r} must end in .m3u8", ("hls",))
            return
        for stream in streams:
            try:
                path = context.outputs.path(hls, stream=stream)
            except OutputError as error:
                yield Problem(str(error), ("hls",))
                return
            if obstacle := context.outputs.obstacle(path):
                yield Problem(obstacle, ("hls",))

    @property
    def codecs(self) -> frozenset[Codec]:
        """Codecs that all outputs can carry, so that packets may pass unchanged."""
        pushes_rtmp = self.url is not None and self.url.lower().startswith("rtmp")
        if self.web is not None or pushes_rtmp:
            return frozenset({Codec.H264})
        if self.hls is not None or self.url is not None:
            return frozenset({Codec.H264, Codec.H265})
        return frozenset(Codec)
