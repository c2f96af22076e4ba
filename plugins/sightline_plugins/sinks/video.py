"""`video`: write each stream to a file."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from sightline.devices import DeviceKind
from sightline.errors import CudaError, OutputError
from sightline.graph import CheckContext, Element, OutputPath, Problem, RunsOn, Sink, Site, Threading
from sightline.graph.fields import matching
from sightline.graph.outputs import STANDARD_OUTPUT_NAME
from sightline.media import Batch, Frame, Memory, Stream
from sightline.media.time import Duration
from sightline_plugins.encode.settings import (
    CONTAINERS,
    LONGEST_GAP_NS,
    PIPES,
    EncoderChoice,
    EncoderSettings,
    Layout,
)
from sightline_plugins.sinks.files import STANDARD_OUTPUT, Degradation, placeholder_problems

if TYPE_CHECKING:
    from sightline_plugins.encode.raw import RawVideo
    from sightline_plugins.encode.recording import EncoderName, Recording

_BITRATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kM]?)\s*")
_BITRATE_UNITS = {"": 1, "k": 1_000, "M": 1_000_000}
PipeFormat = Literal["mpegts", "matroska", "y4m", "rgb24", "bgr24"]
_OF_ENCODERS = ("codec", "quality", "bitrate", "preset", "gop", "encoder")
_DEFAULT_QUALITY = {"h264": 23, "h265": 28}
_NS_PER_HOUR = 3_600_000_000_000


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
    widths and heights grow by one pixel, which repeats the last one. When the size of the frames changes, or no frame
    comes for six hours, a second file `name-2.mp4` begins.

    A file is playable at every moment: after a crash, a kill or on a full disk it lacks the last second and the few
    frames in the encoder. A shorter `gop` seeks faster, and costs bits. With `on_error: skip`, a file that cannot be
    written stops nothing: frames are lost and counted, with a warning, and a new file `name-2.mp4` begins when there is
    room.

    With `path: "-"` one stream goes to standard output, for another program to read: as MPEG-TS, or in another
    `format`. That program sets the pace: the step waits for it. When it ends (`| head`), the run ends, without an error
    message and with exit code 141. Nothing else may be written to standard output then, and a change of the frames'
    size is an error. Raw frames (`y4m`, `rgb24`, `bgr24`) are not encoded: `rgb24` and `bgr24` are rows of pixels and
    nothing else, Y4M has the rate of the first two frames.

    ```console
    $ sightline run pipeline.yaml | ffplay -
    ```

    On a GPU with NVENC, frames in its memory are encoded there and never copied to the host.

    Encoding is the most expensive step on a CPU, and `preset` trades time for size. On a street scene of 640x360, one
    frame costs 0.8 ms of one core with `ultrafast`, 1.7 ms with `superfast` and 2.4 ms with `veryfast`, which makes the
    file half as large; H.265 costs three to five times as much, for files less than half as large again.

    ```yaml
    - video: {path: "out/{stream}.mp4", quality: 23, preset: superfast, gop: 2s}
    - video: {path: "-", format: matroska, streams: [street]}
    ```
    """

    name: ClassVar[str] = "video"
    threading: ClassVar[Threading] = Threading.OWN
    sink: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"

    path: OutputPath
    """The file, `.mp4` or `.mkv`; `{stream}` stands for the stream's name and is needed with several streams. `-` alone
    is standard output."""
    format: PipeFormat | None = None
    """What goes to standard output; MPEG-TS when not given. The suffix of a file names its format."""
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
        if self.format is not None and self.path != STANDARD_OUTPUT:
            raise ValueError("format is for standard output (path: '-'): the suffix of a file names its format")
        if self.is_raw and (unused := [name for name in _OF_ENCODERS if name in self.model_fields_set]):
            raise ValueError(f"{self.format} is not encoded: leave out {' and '.join(unused)}")
        return self

    @property
    def is_raw(self) -> bool:
        """Whether frames go to standard output as they are."""
        return self.format is not None and self.format not in PIPES

    @property
    def fills_standard_output(self) -> bool:
        """Whether it writes to standard output."""
        return self.path == STANDARD_OUTPUT

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check the suffix, that streams do not share a file, that it can be written, and that `nvenc` has a GPU."""
        if self.encoder == "nvenc" and context.device.kind is DeviceKind.CPU:
            yield Problem("nvenc is an encoder of GPUs, and this runs on the CPU: write auto", ("encoder",))
        if self.path == STANDARD_OUTPUT:
            yield from self._check_standard_output(context)
            return
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

    def _check_standard_output(self, context: CheckContext) -> Iterator[Problem]:
        names = matching(self.streams, context.streams)
        if len(names) > 1 or (context.streams_may_come and self.streams is None):
            text = "standard output holds the video of one stream: name it with streams, as in streams: [gate]"
            yield Problem(text, ("path",))
        if self.on_error == "skip":
            yield Problem("standard output cannot begin again after an error: leave skip out", ("on_error",))

    def serves_all_gpus(self) -> bool:
        """False: each stream has its own files, which are encoded where its images are."""
        return False

    def reason_against_processes(self) -> str | None:
        """None for files: each stream has its own, which its worker writes."""
        return "standard output is the main process's" if self.path == STANDARD_OUTPUT else None

    def build(self, site: Site) -> Sink:
        """Make the writer; files are opened with the first frame of each stream."""
        quality = _DEFAULT_QUALITY[self.codec] if self.quality is None else self.quality
        settings = EncoderSettings(self.codec, self.preset, quality, self.bitrate, self.gop)
        continues = self.on_error == "skip"
        piped = (self.format or "mpegts") if self.path == STANDARD_OUTPUT else None
        return VideoWriter(
            self.path, settings=settings, site=site, encoder=self.encoder, continues=continues, piped=piped
        )


class VideoWriter(Sink):
    """Holds one open recording for each stream, written in the calling thread.

    When it `continues` after errors, the frames of a stream whose file cannot be written are lost for two seconds, and
    then it begins another file. What is `piped` is one video on standard output, in that format.
    """

    def __init__(
        self,
        template: str,
        *,
        settings: EncoderSettings,
        site: Site,
        encoder: EncoderName = "auto",
        continues: bool = False,
        piped: PipeFormat | None = None,
    ) -> None:
        """Raise DeviceUnavailable for an encoder that is missing."""
        from sightline_plugins.encode.recording import Encoders

        self._template = template
        self._site = site
        self._encoders = Encoders(encoder, settings=settings, gpu=site.gpu)
        self._piped = piped
        self._open: dict[Stream, Recording | RawVideo] = {}
        self._choices: dict[str, EncoderChoice] = {}
        self._warned: set[str] = set()
        self._continues = continues
        self._degradations: dict[Stream, Degradation] = {}
        self._unused: dict[Stream, Path] = {}
        self._lost: dict[str, Counter[str]] = {}

    def consume(self, batch: Batch) -> None:
        """Encode the frames of the batch. Raises OutputError, CudaError."""
        for frame in batch.frames:
            if self._continues:
                self._try(frame)
            else:
                self._recording(frame).write(frame)

    def end_stream(self, stream: Stream) -> None:
        """Close the stream's file. Raises OutputError, CudaError."""
        recording = self._open.pop(stream, None)
        if recording is not None:
            self._finish(stream, recording)
        self._degradations.pop(stream, None)
        self._unused.pop(stream, None)

    def close(self) -> None:
        """Close all files that are open; the first failure is raised when all are closed."""
        failure: OutputError | CudaError | None = None
        while self._open:
            try:
                self._finish(*self._open.popitem())
            except (OutputError, CudaError) as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def totals(self) -> Mapping[str, Any]:
        """The latest `encoder` of each stream's video, with the reason for it, and the `lost_frames` by reason, where
        there are any.
        """
        found: dict[str, dict[str, Any]] = {name: {"encoder": str(choice)} for name, choice in self._choices.items()}
        for name, lost in self._lost.items():
            found.setdefault(name, {})["lost_frames"] = dict(lost)
        return found

    def runs_on(self) -> RunsOn:
        """The GPU if it encodes any video; the reason names the videos that it does not."""
        device = next((choice.device for choice in self._choices.values() if choice.device != "cpu"), "cpu")
        reasons = dict.fromkeys(choice.reason for choice in self._choices.values() if choice.reason)
        return RunsOn(device, "; ".join(reasons))

    def _try(self, frame: Frame) -> None:
        """Encode a frame, or lose it."""
        stream = frame.stream
        degradation = self._degradations.get(stream)
        if degradation is None:
            degradation = self._degradations[stream] = Degradation(self._site)
        if degradation.is_waiting:
            self._count_lost(stream, degradation.reason, 1)
            return
        try:
            recording = self._recording(frame)
            recording.write(frame)
        except OutputError as error:
            begun = self._open.pop(stream, None)
            self._failed(stream, error, frames=begun.missing_frames if begun is not None else 1)
        else:
            if recording.is_readable:
                degradation.succeeded(stream=stream.name)

    def _finish(self, stream: Stream, recording: Recording | RawVideo) -> None:
        try:
            recording.finish()
        except OutputError as error:
            if not self._continues:
                raise
            self._failed(stream, error, frames=recording.missing_frames)

    def _failed(self, stream: Stream, error: OutputError, *, frames: int) -> None:
        self._degradations[stream].failed(error, stream=stream.name)
        self._count_lost(stream, error.reason, frames)

    def _count_lost(self, stream: Stream, reason: str, frames: int) -> None:
        self._lost.setdefault(stream.name, Counter())[reason] += frames

    def _recording(self, frame: Frame) -> Recording | RawVideo:
        layout = Layout.of(frame.surface)
        current = self._open.get(frame.stream)
        change = None if current is None else _change(current, layout, pts_ns=frame.pts_ns)
        if current is not None and change is None:
            return current
        from sightline_plugins.encode.recording import Recording

        if self._piped is not None:
            return self._on_standard_output(frame, layout, current)
        path = self._free_path(frame.stream)
        warn = partial(self._site.warn, stream=frame.stream.name)
        if current is not None:
            del self._open[frame.stream]
            self._finish(frame.stream, current)
            warn(f"{change}: going on in {path}")
        self._unused[frame.stream] = path
        opened = Recording(path, first=frame.surface, encoders=self._encoders, outputs=self._site.outputs, warn=warn)
        self._open[frame.stream] = opened
        choice = self._choices[frame.stream.name] = opened.encoder
        if choice.reason and choice.reason not in self._warned and frame.surface.memory is Memory.CUDA:
            self._warned.add(choice.reason)
            warn(f"videos are encoded on the CPU: {choice.reason}")
        return opened

    def _on_standard_output(
        self, frame: Frame, layout: Layout, current: Recording | RawVideo | None
    ) -> Recording | RawVideo:
        """Begin the only video that there is. Raises OutputError."""
        from sightline_plugins.encode.raw import RawVideo
        from sightline_plugins.encode.recording import Recording

        if current is not None or self._choices:
            change = "a second video" if current is None else f"images that change to {_describe(layout)}"
            raise OutputError(f"standard output holds one video, and {change} would follow")
        if sys.stdout.isatty():
            raise OutputError("standard output is a terminal: pipe it into a program (| ffplay -) or a file")
        opened: Recording | RawVideo
        if (container := PIPES.get(self._piped or "")) is None:
            opened = RawVideo(self._piped or "", first=frame.surface)
        else:
            warn = partial(self._site.warn, stream=frame.stream.name)
            opened = Recording(
                STANDARD_OUTPUT_NAME,
                first=frame.surface,
                encoders=self._encoders,
                outputs=self._site.outputs,
                warn=warn,
                container=container,
            )
        self._open[frame.stream] = opened
        self._choices[frame.stream.name] = opened.encoder
        return opened

    def _free_path(self, stream: Stream) -> Path:
        """The path of the next file: that of the last attempt, when nothing is left of it."""
        unused = self._unused.pop(stream, None)
        if unused is not None and not unused.exists():
            return unused
        return self._site.outputs.claim(self._site.outputs.path(self._template, stream=stream.name))


def _change(current: Recording | RawVideo, layout: Layout, *, pts_ns: int) -> str | None:
    """Return why a frame does not fit into the video that is open; None when it does."""
    if current.layout != layout:
        return f"the image changed from {_describe(current.layout)} to {_describe(layout)}"
    if not current.reaches(pts_ns):
        return f"the last frame is more than {LONGEST_GAP_NS // _NS_PER_HOUR} hours away"
    return None


def _describe(layout: Layout) -> str:
    width, height = layout.size_wh
    return f"{width}x{height} {layout.matrix} {layout.range}"
