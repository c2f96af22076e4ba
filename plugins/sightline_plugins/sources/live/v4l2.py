"""The `v4l2` source: cameras of this machine."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from sightline.graph import Site, SourceReader
from sightline.graph.fields import Shape
from sightline.media import Stream
from sightline_plugins.decode.kinds import is_device
from sightline_plugins.sources.options import LiveOptions, Side


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

    uri: Annotated[str, Shape(r"/dev/(video\d+|v4l/by-(id|path)/[^/]+)", "must be /dev/video0 or /dev/v4l/by-id/...")]
    """The device, `/dev/video0` or `/dev/v4l/by-id/...`."""
    size: tuple[Side, Side] | None = None
    """Width and height to ask for."""
    fps: Annotated[float, Field(gt=0, le=1000)] | None = None
    """Frames per second to ask for."""
    input_format: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,16}$")] | None = None
    """Format in which the camera delivers frames: `mjpeg`, `h264`, `yuyv422`, ..."""

    @classmethod
    def accepts(cls, uri: str) -> bool:
        """Accept `/dev/video0` and other names of devices."""
        return is_device(uri)

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        """Make a reader for one attempt."""
        from sightline_plugins.sources.live.reader import LiveReader, LiveReaderOptions

        demuxer = self.demuxer_options()
        live = LiveReaderOptions(self, demuxer=demuxer, container_format="video4linux2", sender="the camera")
        return LiveReader(live, stream=stream, site=site)

    def demuxer_options(self) -> dict[str, str]:
        """Options of FFmpeg's demuxer that ask the driver for size, rate and format."""
        options = {}
        if self.size is not None:
            options["video_size"] = "{}x{}".format(*self.size)
        if self.fps is not None:
            options["framerate"] = f"{self.fps:g}"
        if self.input_format is not None:
            options["input_format"] = self.input_format
        return options
