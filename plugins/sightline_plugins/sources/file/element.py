"""The `media` source: any video file or URL that FFmpeg reads."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from sightline.graph import Site, SourceReader
from sightline.graph.fields import InputUri, is_url
from sightline.media import Stream
from sightline.media.time import Duration
from sightline_plugins.decode.kinds import is_device, is_readable_url, is_rtsp, names_images
from sightline_plugins.sources.options import LiveOptions, Loop

_SENT_LIVE = ("udp://", "rtp://", "tcp://", "srt://", "rtmp://", "rtmps://")


class Media(LiveOptions):
    """Read a video file, or a stream at a URL, through FFmpeg: MP4, MOV, MKV, WebM, AVI, TS, FLV, HLS and more.

    Every frame comes once, in presentation order, with the timestamps of the file: not shifted to zero, exact to the
    nanosecond, variable frame rate included. Pixels stay as they are decoded (YUV with its own matrix and range; BT.601
    limited if the file does not state it); more than 8 bits, alpha and palettes are converted.

    A packet that does not decode is lost and counted. A truncated file ends with a warning. A file without video is an
    error of this stream only.

    Decoding uses one thread per stream, which is the least work; `threads` speeds up a single stream at more work.
    Streams over `udp`, `rtp`, `tcp`, `srt` and `rtmp` are live, and those over `http` with `live: true` (an MJPEG
    camera, a live HLS playlist): frames are dropped when the pipeline is slow, and the source reconnects as with
    `rtsp`. `loop`, `start` and `duration` do not apply to live streams.

    ```yaml
    sources:
      gate: {uri: street.mp4, start: 2s, duration: 10s, max_fps: 12.5, loop: 2}
    ```
    """

    name: ClassVar[str] = "media"

    uri: InputUri
    """File or URL."""
    is_live: Annotated[bool | None, Field(alias="live")] = None
    """Whether the sender sets the pace; default: by the URL's scheme."""
    loop: Loop = False
    """Repeat without end (`true`), or this many times in all; timestamps and frame numbers continue."""
    start: Duration = 0
    """Begin this long after the first frame, at the first frame that is not earlier."""
    duration: Annotated[Duration, Field(gt=0)] | None = None
    """Read this much; default: all."""
    stream_index: Annotated[int, Field(ge=0)] = 0
    """Which of the file's video streams, from 0."""
    threads: Annotated[int, Field(ge=0, le=64)] = 1
    """Decoder threads; 0 takes one per core."""

    @classmethod
    def accepts(cls, uri: str) -> bool:
        """Accept every file but images and folders, and every readable URL but RTSP."""
        if is_url(uri):
            return is_readable_url(uri) and not is_rtsp(uri)
        return not names_images(uri) and not is_device(uri)

    @property
    def live(self) -> bool:
        """Whether the sender sets the pace: the option `live`, else by the URL's scheme."""
        return self.uri.lower().startswith(_SENT_LIVE) if self.is_live is None else self.is_live

    @model_validator(mode="after")
    def _live_has_no_beginning(self) -> Media:
        if self.is_live and not is_url(self.uri):
            raise ValueError("a file is not live: leave live out (realtime: true shows it at its own speed)")
        if self.live and (self.loop or self.start or self.duration is not None):
            scheme = self.uri.partition(":")[0]
            raise ValueError(f"{scheme} is a live stream: it has no start, no duration and cannot be looped")
        return self

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        """Make a reader for one attempt."""
        if self.live:
            from sightline_plugins.sources.live.reader import LiveReader, LiveReaderOptions

            live = LiveReaderOptions(self, threads=self.threads, stream_number=self.stream_index)
            return LiveReader(live, stream=stream, site=site)
        from sightline_plugins.sources.file.reader import MediaReader

        return MediaReader(self, stream=stream, site=site)
