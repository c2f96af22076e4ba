"""The `rtsp` source: network cameras."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints

from sightline.graph import Site, SourceElement, SourceReader
from sightline.graph.fields import checked_url
from sightline.media import Stream
from sightline.media.time import Duration
from sightline_plugins.sources.kinds import is_rtsp
from sightline_plugins.sources.options import DEFAULT_MAX_PIXELS, Rotation, clockwise_degrees


class Rtsp(SourceElement):
    """A network camera, or any other RTSP server.

    The stream is live: a slow pipeline gets the newest frames, older ones are dropped and counted. A camera that ends
    the stream, falls silent for `stall` or can not be reached counts as lost and is tried again; wrong credentials
    and an unknown path are errors. Frames begin with the first key frame.

    `tcp` loses nothing on the way and is right for nearly every camera; `udp` has less delay on a perfect network;
    `auto` asks for TCP and takes UDP when the server offers nothing else. Each frame carries the time of day at which
    it was taken when the camera tells it (RTCP), else the time at which it arrived.

    ```yaml
    sources:
      yard: {uri: "rtsp://user:${YARD_PASSWORD:-secret}@10.0.0.7/main", transport: tcp, stall: 5s}
    ```
    """

    name: ClassVar[str] = "rtsp"

    uri: Annotated[str, StringConstraints(pattern=r"(?i)^rtsps?://"), AfterValidator(checked_url)]
    """Address of the camera's stream, `rtsp://` or `rtsps://`."""
    transport: Literal["tcp", "udp", "auto"] = "tcp"
    """How packets travel."""
    stall: Annotated[Duration, Field(ge=200_000_000)] = 5_000_000_000
    """Without data for this long the stream counts as lost."""
    max_fps: Annotated[float, Field(gt=0)] | None = None
    """Frames a second at most; the others are left out evenly and counted as skipped."""
    threads: Annotated[int, Field(ge=0, le=64)] = 1
    """Threads that decode; 0 takes one for each core."""
    rotate: Rotation = "auto"
    """Degrees clockwise to turn pictures by; `auto` follows the stream's own metadata."""
    max_pixels: Annotated[int, Field(ge=1)] = DEFAULT_MAX_PIXELS
    """Refuse pictures with more pixels."""

    @classmethod
    def accepts(cls, uri: str) -> bool:
        """`rtsp://` and `rtsps://`."""
        return is_rtsp(uri)

    @property
    def live(self) -> bool:
        """Always: the camera sets the pace."""
        return True

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        """A reader for one attempt."""
        from sightline_plugins.decode.orientation import orientation_from_degrees
        from sightline_plugins.decode.rtsp_reader import CameraReading, RtspReader

        degrees = clockwise_degrees(self.rotate)
        reading = CameraReading(
            uri=self.uri,
            transport=self.transport,
            stall_ns=self.stall,
            max_fps=self.max_fps,
            threads=self.threads,
            orientation=None if degrees is None else orientation_from_degrees(degrees),
            max_pixels=self.max_pixels,
        )
        return RtspReader(reading, stream=stream, site=site)
