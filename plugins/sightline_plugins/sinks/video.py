"""`video`: write each stream to a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from sightline.devices import DeviceKind
from sightline.errors import OutputError
from sightline.graph import CheckContext, Element, OutputPath, Problem, Sink, Site, Threading
from sightline.graph.fields import matching
from sightline.media.time import Duration
from sightline_plugins.encode.settings import CONTAINERS
from sightline_plugins.sinks.files import placeholder_problems

_BITRATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kM]?)\s*")
_BITRATE_UNITS = {"": 1, "k": 1_000, "M": 1_000_000}
_DEFAULT_QUALITY = {"h264": 23, "h265": 28}


def parse_bitrate(value: object) -> int:
    """Convert `2M`, `800k` or a number to bits per second. Raises ValueError for other values."""
    match = None if isinstance(value, bool) else _BITRATE.fullmatch(str(value))
    if match is None:
        raise ValueError(f'{value!r} is not a bit rate: write it like "2M", "800k" or as bits a second')
    return round(float(match[1]) * _BITRATE_UNITS[match[2]])


Bitrate = Annotated[
    int,
    BeforeValidator(parse_bitrate),
    Field(ge=1_000),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["2M", "800k"]}),
]


class Video(Element):
    """Write each stream to its own video file: drawn frames after `draw`, original frames before it.

    Timestamps are exact (to 1/90000 s in MP4, 1 ms in Matroska) for any frame rate and start; colour matrix and range
    are tagged as in the source. The encoder gets 4:2:0 frames as they are; 4:2:2, 4:4:4 and RGB are converted. Odd
    widths and heights grow by one pixel, which repeats the last one. When the size of the frames changes, a second file
    `name-2.mp4` begins.

    A file is playable at every moment: after a crash, a kill or on a full disk it lacks the last second and the few
    frames in the encoder. A shorter `gop` seeks faster, and costs bits.

    On a GPU with NVENC, frames in its memory are encoded there and never copied to the host.

    Encoding is the most expensive step on a CPU, and `preset` trades time for size. On a street scene of 640x360, one
    frame costs 0.8 ms of one core with `ultrafast`, 1.7 ms with `superfast` and 2.4 ms with `veryfast`, which makes the
    file half as large; H.265 costs three to five times as much, for files less than half as large again.

    ```yaml
    - video: {path: "out/{stream}.mp4", quality: 23, preset: superfast, gop: 2s}
    ```
    """

    name: ClassVar[str] = "video"
    threading: ClassVar[Threading] = Threading.OWN
    sink: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"

    path: OutputPath
    """The file, `.mp4` or `.mkv`; `{stream}` stands for the stream's name and is needed with several streams."""
    codec: Literal["h264", "h265"] = "h264"
    """How the video is encoded; H.264 plays everywhere."""
    quality: Annotated[int, Field(ge=0, le=51)] | None = None
    """Constant rate factor: lower is better and larger, 6 less doubles the size; 23 for H.264, 28 for H.265 when
    not given."""
    bitrate: Bitrate | None = None
    """Average bits per second, like `2M` or `800k`, instead of `quality`."""
    preset: Literal["ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow"] = "superfast"
    """How much time the encoder takes to make the file smaller."""
    gop: Annotated[Duration, Field(gt=0)] = 2_000_000_000
    """Time from one key frame to the next: how exactly players seek."""
    encoder: Literal["auto", "cpu", "nvenc"] = "auto"
    """What encodes: `auto` is the GPU (NVENC) for images in its memory, where it can, else the CPU; the report says
    which, and why. `nvenc` is an error where it cannot."""

    @model_validator(mode="after")
    def _one_target(self) -> Video:
        if self.quality is not None and self.bitrate is not None:
            raise ValueError("give quality or bitrate, not both")
        return self

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check the suffix, that streams do not share a file, that it can be written, and that `nvenc` has a GPU."""
        if self.encoder == "nvenc" and context.device.kind is DeviceKind.CPU:
            yield Problem("nvenc is an encoder of GPUs, and this runs on the CPU: write auto", ("encoder",))
        if Path(self.path).suffix.lower() not in CONTAINERS:
            yield Problem(f"{self.path!r} must end in {' or '.join(CONTAINERS)}", ("path",))
        yield from placeholder_problems(self.path)
        taken: dict[Path, str] = {}
        for stream in matching(self.streams, context.streams):
            try:
                path = context.outputs.path(self.path, stream=stream)
            except OutputError as error:
                yield Problem(str(error), ("path",))
                return
            if path in taken:
                text = f"streams {taken[path]!r} and {stream!r} would both be written to {path}: "
                yield Problem(f"{text}put {{stream}} into the path, or name the streams differently", ("path",))
                return
            taken[path] = stream
            if obstacle := context.outputs.obstacle(path):
                yield Problem(obstacle, ("path",))

    def serves_all_gpus(self) -> bool:
        """False: each stream has its own files, which are encoded where its images are."""
        return False

    def build(self, site: Site) -> Sink:
        """Make the writer; files are opened with the first frame of each stream."""
        from sightline_plugins.encode.settings import EncoderSettings
        from sightline_plugins.sinks.video_writer import VideoWriter

        quality = _DEFAULT_QUALITY[self.codec] if self.quality is None else self.quality
        settings = EncoderSettings(self.codec, self.preset, quality, self.bitrate, self.gop)
        return VideoWriter(self.path, settings=settings, site=site, encoder=self.encoder)
