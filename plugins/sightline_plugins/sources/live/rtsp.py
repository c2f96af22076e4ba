"""The `rtsp` source: network cameras."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from sightline.graph import Site, SourceReader
from sightline.graph.fields import checked_url
from sightline.media import Stream
from sightline_plugins.decode.kinds import is_rtsp
from sightline_plugins.sources.options import NetworkOptions

# Over TCP nothing arrives out of order; a queue of two packets makes FFmpeg report those that a camera left out.
_TRANSPORTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "tcp": {"rtsp_transport": "tcp", "reorder_queue_size": "2"},
        "udp": {"rtsp_transport": "udp"},
    }
)


class Rtsp(NetworkOptions):
    """Read a network camera or another RTSP server: H.264, H.265 or MJPEG, over `rtsp` or `rtsps`.

    The stream is live: a slow pipeline gets the newest frames, and older ones are dropped and counted. The source
    reconnects without end when the camera ends the stream, delivers no data for `stall_timeout`, or cannot be reached:
    after 0.1 s, then every 0.5 s for ten seconds, then less and less often, up to every 30 s. When the camera refuses
    the credentials, it tries less than twice a minute, so that it locks nobody out. The stream's state names the
    trouble.

    Frames begin with the first key frame. After lost or undecodable packets, frames are marked as damaged until the
    next intact key frame. Size, frame rate and codec may change while it runs; a message reports that.

    `tcp` loses no packets and is right for nearly every camera. `udp` has less delay on a perfect network. `auto` asks
    for TCP, and connects again with UDP when the server refuses that. Each frame carries the time of day at which it
    was taken: by the camera's clock if it sends it (RTCP sender reports, at most five minutes off), else its arrival;
    `time_source` states which. Timestamps that jump, step back, repeat or are missing are repaired and counted.

    ```yaml
    sources:
      yard: {uri: "rtsp://user:${YARD_PASSWORD:-secret}@10.0.0.7/main", transport: tcp, stall_timeout: 5s}
    ```
    """

    name: ClassVar[str] = "rtsp"

    uri: Annotated[str, StringConstraints(pattern=r"(?i)^rtsps?://"), AfterValidator(checked_url)]
    """Address of the camera's stream, `rtsp://` or `rtsps://`."""
    transport: Literal["tcp", "udp", "auto"] = "tcp"
    """How packets travel."""
    threads: Annotated[int, Field(ge=0, le=64)] = 1
    """Decoder threads; 0 takes one per core."""

    @model_validator(mode="after")
    def _is_confined_over_tcp(self) -> Self:
        if self.networks is not None and self.transport != "tcp":
            raise ValueError("with networks, packets travel over tcp only: leave transport out")
        return self

    @classmethod
    def accepts(cls, uri: str) -> bool:
        """Accept `rtsp://` and `rtsps://`."""
        return is_rtsp(uri)

    def gpu_memory_bytes(self) -> int:
        """What NVDEC and the surfaces of an ordinary camera take."""
        from sightline_plugins.decode.nvdec_memory import CAMERA, stream_bytes

        return stream_bytes(*CAMERA)

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        """Make a reader for one attempt."""
        return self._reader(site, stream=stream, media="video")

    def build_to_test(self, site: Site, *, stream: Stream) -> SourceReader:
        """Make a reader that also asks for sound, to tell whether there is some."""
        return self._reader(site, stream=stream, media="video+audio")

    def _reader(self, site: Site, *, stream: Stream, media: str) -> SourceReader:
        from sightline_plugins.sources.live.reader import LiveReader, LiveReaderOptions

        first, *others = ("tcp", "udp") if self.transport == "auto" else (self.transport,)
        live = LiveReaderOptions(
            self,
            self.threads,
            demuxer={"allowed_media_types": media, **_TRANSPORTS[first]},
            transports=tuple(_TRANSPORTS[other] for other in others),
            resumable=True,
            sender="the camera",
        )
        return LiveReader(live, stream=stream, site=site)
