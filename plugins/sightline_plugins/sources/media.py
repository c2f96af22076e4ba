"""The `media` source: any video file or URL that FFmpeg reads."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from sightline.graph import Site, SourceElement, SourceReader
from sightline.graph.fields import InputUri, is_url
from sightline.media import Stream
from sightline.media.time import Duration
from sightline_plugins.sources.kinds import is_readable_url, is_rtsp, names_pictures
from sightline_plugins.sources.options import DEFAULT_MAX_PIXELS, Rotation, clockwise_degrees, passes_of

_SENT_LIVE = ("udp://", "rtp://", "tcp://", "srt://", "rtmp://", "rtmps://")


class Media(SourceElement):
    """A video file, or a stream at a URL, through FFmpeg: MP4, MOV, MKV, WebM, AVI, TS, FLV, HLS and more.

    Every frame comes once, in presentation order, with the timestamps of the file: not shifted to zero, exact to the
    nanosecond, variable frame rate included. Pixels stay as they are decoded (YUV with its own matrix and range;
    BT.601 limited where the file does not say); more than 8 bits, alpha and palettes are converted.

    A packet that does not decode costs that packet and is counted; a file that is cut off ends with a warning. What
    is no video at all is an error of this stream only.

    Decoding takes one thread a stream, which is the least work; `threads` trades work for speed of a single stream.
    Streams over `udp`, `rtp`, `tcp`, `srt` and `rtmp` are live: frames are dropped when the pipeline is slow, and a
    stream that breaks off is tried again.

    ```yaml
    sources:
      gate: {uri: street.mp4, start: 2s, duration: 10s, max_fps: 12.5, loop: 2}
    ```
    """

    name: ClassVar[str] = "media"

    uri: InputUri
    """File or URL."""
    loop: bool | Annotated[int, Field(ge=1)] = False
    """Read it again and again (`true`), or so many times in all; timestamps and frame numbers go on."""
    start: Duration = 0
    """Begin this long after the first frame, at the first frame that is not earlier."""
    duration: Annotated[Duration, Field(gt=0)] | None = None
    """Read this much of it; all when not given."""
    max_fps: Annotated[float, Field(gt=0)] | None = None
    """Frames a second at most; the others are left out evenly, by their timestamps, and counted as skipped."""
    stream_index: Annotated[int, Field(ge=0)] = 0
    """Which of the file's video streams, from 0."""
    threads: Annotated[int, Field(ge=0, le=64)] = 1
    """Threads that decode; 0 takes one for each core."""
    rotate: Rotation = "auto"
    """Degrees clockwise to turn pictures by; `auto` follows the file's own rotation metadata."""
    max_pixels: Annotated[int, Field(ge=1)] = DEFAULT_MAX_PIXELS
    """Refuse pictures with more pixels."""

    @classmethod
    def accepts(cls, uri: str) -> bool:
        """Every file that is no picture and no folder, and every URL of a scheme that is read but RTSP."""
        return is_readable_url(uri) and not is_rtsp(uri) if is_url(uri) else not names_pictures(uri)

    @property
    def live(self) -> bool:
        """Whether the sender sets the pace, as the URL's scheme tells."""
        return self.uri.lower().startswith(_SENT_LIVE)

    @model_validator(mode="after")
    def _live_has_no_beginning(self) -> Media:
        if self.live and (self.loop or self.start):
            raise ValueError(f"{self.uri.partition(':')[0]} is a live stream: it has no start and can not be looped")
        return self

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        """A reader for one attempt."""
        from sightline_plugins.decode.media_reader import MediaReader, Reading
        from sightline_plugins.decode.open_media import OpenOptions
        from sightline_plugins.decode.orientation import orientation_from_degrees

        degrees = clockwise_degrees(self.rotate)
        reading = Reading(
            uri=self.uri,
            passes=passes_of(self.loop),
            start_ns=self.start,
            duration_ns=self.duration,
            max_fps=self.max_fps,
            stream_number=self.stream_index,
            threads=self.threads,
            orientation=None if degrees is None else orientation_from_degrees(degrees),
            options=OpenOptions(max_pixels=self.max_pixels, live=self.live),
        )
        return MediaReader(reading, stream=stream, warn=lambda text: site.warn(text, stream=stream.name))
