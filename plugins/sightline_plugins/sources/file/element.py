"""The `media` source: any video file or URL that FFmpeg reads."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, model_validator

from sightline.errors import ConfigurationError
from sightline.graph import Site, SourceReader
from sightline.graph.fields import InputUri, is_url
from sightline.media import Stream
from sightline.media.time import Duration
from sightline_plugins.decode.kinds import is_device, is_readable_url, is_rtsp, names_images, videos_of
from sightline_plugins.sources.options import Loop, NetworkOptions

if TYPE_CHECKING:
    from typing import Self

_SENT_LIVE = ("udp://", "rtp://", "tcp://", "srt://", "rtmp://", "rtmps://")


class Media(NetworkOptions):
    """Read a video file, or a stream at a URL, through FFmpeg: MP4, MOV, MKV, WebM, AVI, TS, FLV and more, and HLS over
    `http` and `https`.

    Every frame comes once, in presentation order, with the timestamps of the file: not shifted to zero, exact to the
    nanosecond, variable frame rate included. Pixels stay as they are decoded (YUV with its own matrix and range; BT.601
    limited if the file does not state it); more than 8 bits, alpha and palettes are converted.

    A folder of videos, or a glob such as `clips/*.mp4` or `clips/**/*.mp4`, becomes one stream for each file, in
    natural order: a source `day` with `a.mp4` and `b.mp4` becomes `day-a` and `day-b`, with the same options. Where
    names are the same, the folder or the suffix is added; characters that names of streams do not allow become `_`.
    The files are listed when the configuration is read, and again when it is reloaded. Hidden files and files of other
    kinds are left out; a folder with videos and images is refused.

    All files are read at once, each with its own decoder. With `in_turn: true` they are read one after another: use it
    for more than about 64 files, or when decoders take too much memory.

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
    """File, folder or glob of videos, or URL."""
    is_live: Annotated[bool | None, Field(alias="live")] = None
    """Whether the sender sets the pace; default: by the URL's scheme."""
    loop: Loop = False
    """Repeat without end (`true`), or this many times in all; timestamps and frame numbers continue."""
    in_turn: bool = False
    """Read the files of a folder or glob one after another. Of all streams with `in_turn`, one is read at a time."""
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
        """Accept every file that is no image, folders and globs of videos, and every readable URL but RTSP."""
        if is_url(uri):
            return is_readable_url(uri) and not is_rtsp(uri)
        return not names_images(uri) and not is_device(uri)

    def split(self) -> Mapping[str, Self] | None:
        """Return one source for each file of a folder or glob; None for a file and a URL."""
        paths = videos_of(self.uri)
        if paths is None:
            return None
        if not paths:
            raise ConfigurationError(f"no file matches {self.uri}")
        return {
            name: self.model_copy(update={"uri": str(path)})
            for name, path in zip(_distinct_names(paths), paths, strict=True)
        }

    @property
    def takes_turns(self) -> bool:
        """The option `in_turn`."""
        return self.in_turn

    @property
    def live(self) -> bool:
        """Whether the sender sets the pace: the option `live`, else by the URL's scheme."""
        return self.uri.lower().startswith(_SENT_LIVE) if self.is_live is None else self.is_live

    def gpu_memory_bytes(self) -> int:
        """What NVDEC and the surfaces take of a video file of this size, or of an ordinary camera."""
        from sightline_plugins.decode.nvdec_memory import CAMERA, file_bytes, stream_bytes

        if is_url(self.uri):
            return stream_bytes(*CAMERA)
        return file_bytes(self.uri, number=self.stream_index)

    def pixels_per_second(self) -> float:
        """Size and rate of a video file, from its head."""
        from sightline_plugins.decode.file_head import read_head

        head = None if is_url(self.uri) else read_head(self.uri, number=self.stream_index)
        if head is None:
            return 0.0
        return math.prod(head.size_wh) * min(head.fps, self.max_fps or head.fps)

    @model_validator(mode="after")
    def _live_has_no_beginning(self) -> Media:
        if self.is_live and not is_url(self.uri):
            raise ValueError("a file is not live: leave live out (realtime: true shows it at its own speed)")
        if self.live and (self.loop or self.start or self.in_turn or self.duration is not None):
            scheme = self.uri.partition(":")[0]
            raise ValueError(f"{scheme} is a live stream: leave out loop, start, duration and in_turn")
        if self.in_turn and self.loop is True:
            raise ValueError("with loop: true the first file never ends: leave in_turn out, or give loop a number")
        return self

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        """Make a reader for one attempt."""
        if self.live:
            from sightline_plugins.sources.live.reader import LiveReader, LiveReaderOptions

            live = LiveReaderOptions(self, threads=self.threads, stream_number=self.stream_index)
            return LiveReader(live, stream=stream, site=site)
        from sightline_plugins.sources.file.reader import MediaReader

        return MediaReader(self, stream=stream, site=site)


def _distinct_names(paths: Sequence[Path]) -> list[str]:
    """Different names for files: without suffix; else with their folders; else with folders and suffix."""
    stems = [path.stem for path in paths]
    folder = os.path.commonpath([path.parent for path in paths])
    below = [path.relative_to(folder) for path in paths]
    folders = ["-".join(path.with_suffix("").parts) for path in below]
    whole = ["-".join(path.parts) for path in below]
    return next((names for names in (stems, folders) if len(set(names)) == len(names)), whole)
