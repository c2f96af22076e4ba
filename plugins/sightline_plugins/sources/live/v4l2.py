"""The `v4l2` source: cameras of this machine."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from sightline.graph import Site, SourceReader
from sightline.media import Stream
from sightline_plugins.decode.kinds import DEFAULT_MAX_PIXELS, is_device
from sightline_plugins.sources.live.options import LiveOptions
from sightline_plugins.sources.options import Rotation, asked_orientation

_Side = Annotated[int, Field(ge=1, le=16384)]


class V4l2(LiveOptions):
    """Read a camera of this machine, mostly on USB, through Video4Linux2.

    It is live, and supervised like a network camera: unplugged it is lost, plugged in again it comes back. Use
    `/dev/v4l/by-id/...`, which stays the same whatever else is plugged in. Without `size` and `fps` the driver decides;
    many cameras provide their largest frames and highest rates only as `mjpeg`.

    ```yaml
    sources:
      desk: {uri: /dev/video0, size: [1280, 720], fps: 30, input_format: mjpeg}
    ```
    """

    name: ClassVar[str] = "v4l2"

    uri: Annotated[str, StringConstraints(pattern=r"^/dev/(video\d+|v4l/by-(id|path)/[^/]+)$")]
    """The device, `/dev/video0` or `/dev/v4l/by-id/...`."""
    size: tuple[_Side, _Side] | None = None
    """Width and height to ask for."""
    fps: Annotated[float, Field(gt=0, le=1000)] | None = None
    """Frames per second to ask for."""
    input_format: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,16}$")] | None = None
    """Format in which the camera delivers frames: `mjpeg`, `h264`, `yuyv422`, ..."""
    max_fps: Annotated[float, Field(gt=0)] | None = None
    """Maximum frames per second; other frames are skipped evenly and counted."""
    rotate: Rotation = "auto"
    """Degrees clockwise to turn images by."""
    max_pixels: Annotated[int, Field(ge=1)] = DEFAULT_MAX_PIXELS
    """Refuse frames with more pixels."""

    @classmethod
    def accepts(cls, uri: str) -> bool:
        """`/dev/video0` and the like."""
        return is_device(uri)

    @property
    def live(self) -> bool:
        """Always: the camera sets the pace."""
        return True

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        """A reader for one attempt."""
        from sightline_plugins.sources.live.reader import LiveReader, LiveReaderOptions

        reading = LiveReaderOptions(
            uri=self.uri,
            stall_ns=self.stall_timeout,
            max_fps=self.max_fps,
            orientation=asked_orientation(self.rotate),
            max_pixels=self.max_pixels,
            sender="the camera",
            demuxer=self.demuxer_options(),
            container_format="video4linux2",
        )
        return LiveReader(reading, stream=stream, site=site)

    def demuxer_options(self) -> dict[str, str]:
        """What the driver is asked for, in FFmpeg's words."""
        options = {}
        if self.size is not None:
            options["video_size"] = "{}x{}".format(*self.size)
        if self.fps is not None:
            options["framerate"] = f"{self.fps:g}"
        if self.input_format is not None:
            options["input_format"] = self.input_format
        return options
