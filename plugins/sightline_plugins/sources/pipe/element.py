"""The `pipe` source: video from standard input or a named pipe."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from sightline.graph import Site, SourceReader
from sightline.graph.fields import STANDARD_STREAM, InputUri
from sightline.media import Stream
from sightline_plugins.decode.kinds import is_pipe, name_of_pipe
from sightline_plugins.sources.options import InputOptions, Side

RawFormat = Literal["rgb24", "bgr24", "rgba", "bgra", "nv12", "yuv420p", "gray"]
_BYTES_OF_A_PIXEL = {"rgb24": 3, "bgr24": 3, "rgba": 4, "bgra": 4, "gray": 1}


class Pipe(InputOptions):
    """Read video that another program writes: from standard input (`-`, in quotes), or from a named pipe by its path.

    Encoded video is recognised: MPEG-TS, Matroska and WebM, fragmented MP4, FLV, NUT, raw H.264 and H.265, MJPEG, Y4M
    and more. For an ordinary MP4, whose index is at its end, the whole file would have to be kept: write it as another
    format, or with `-movflags frag_keyframe+empty_moov`. Raw frames, one after another without anything between them,
    need `raw`, `size` and `fps`:

    ```console
    $ ffmpeg -i gate.mp4 -c copy -f mpegts - | sightline run pipeline.yaml --source gate=-
    $ gst-launch-1.0 -q videotestsrc ! video/x-raw,format=RGB,width=640 ! fdsink | sightline run raw.yaml
    ```

    Nothing is lost: when the pipeline is slow, the writer waits. The stream ends when the last writer closes the pipe;
    a named pipe that nobody writes to yet is waited for. There is no way back in a pipe, so that there is no `loop` and
    no `start`, and one stream alone can read it. Timestamps are those of the container; where there are none (raw
    frames, raw H.264), frames are `1/fps` apart. A last frame that is cut off is left out, with a warning. GStreamer's
    names of raw formats: RGB is `rgb24`, BGR `bgr24`, I420 `yuv420p`, GRAY8 `gray`; its rows must be without padding,
    which they are for widths that four divides.

    ```yaml
    sources:
      gate: {uri: "-", raw: rgb24, size: [640, 360], fps: 25}
    ```
    """

    name: ClassVar[str] = "pipe"
    priority: ClassVar[int] = 1

    uri: InputUri
    """`-` for standard input, or the path of a named pipe (`mkfifo`)."""
    raw: RawFormat | None = None
    """Layout of raw frames, by FFmpeg's name of the pixel format. Video is encoded when not given."""
    size: tuple[Side, Side] | None = None
    """Width and height of raw frames."""
    fps: Annotated[float, Field(gt=0, le=1000)] | None = None
    """Frames per second of video without timestamps of its own; 25 when not given."""
    stream_index: Annotated[int, Field(ge=0)] = 0
    """Which of several videos in a container to read."""
    threads: Annotated[int, Field(ge=0, le=64)] = 1
    """Decoder threads; 0 takes one per core."""
    verify_nvdec: bool = True
    """On a GPU: compare the first frame that NVDEC decodes with the CPU's decoding of it. Where they differ, the CPU
    decodes the stream, and a warning reports it."""

    @model_validator(mode="after")
    def _raw_frames_have_a_size(self) -> Pipe:
        if (self.raw is None) != (self.size is None):
            text = "size is for raw frames: give raw too, as in raw: rgb24"
            raise ValueError("raw frames need their size: size: [WIDTH, HEIGHT]" if self.size is None else text)
        if self.size is not None and self.size[0] * self.size[1] > self.max_pixels:
            raise ValueError(f"size has more than {self.max_pixels} pixels; if it is meant to, raise max_pixels")
        return self

    @classmethod
    def accepts(cls, uri: str) -> bool:
        """Accept `-` and paths of named pipes."""
        return is_pipe(uri)

    @property
    def read_once(self) -> str:
        """The pipe: two streams would each get a part of what comes."""
        return name_of_pipe(self.uri)

    def reason_against_processes(self) -> str | None:
        """Standard input is the main process's alone."""
        return "a worker process has no standard input" if self.uri == STANDARD_STREAM else None

    def gpu_memory_bytes(self) -> int:
        """What NVDEC and the surfaces take of an ordinary camera; the CPU decodes raw frames."""
        from sightline_plugins.decode.nvdec_memory import CAMERA, stream_bytes

        return 0 if self.raw is not None else stream_bytes(*CAMERA)

    @property
    def frame_bytes(self) -> int | None:
        """The bytes of one raw frame; None for encoded video."""
        if self.raw is None or self.size is None:
            return None
        width, height = self.size
        if self.raw in _BYTES_OF_A_PIXEL:
            return width * height * _BYTES_OF_A_PIXEL[self.raw]
        return width * height + 2 * ((width + 1) // 2) * ((height + 1) // 2)

    def demuxer_options(self) -> dict[str, str]:
        """Options of FFmpeg's demuxer that say what the container does not."""
        options = {} if self.fps is None else {"framerate": f"{self.fps:.10g}"}
        if self.raw is not None and self.size is not None:
            options |= {"pixel_format": self.raw, "video_size": "{}x{}".format(*self.size)}
        return options

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        """Make a reader for the one attempt that a pipe allows."""
        from sightline_plugins.sources.pipe.reader import PipeReader

        return PipeReader(self, stream=stream, site=site)
