"""`rerun`: recordings for the viewer of Rerun (https://rerun.io), with images, boxes, tracks, rules and events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from sightline.errors import MissingExtra
from sightline.graph import CheckContext, Element, OutputPath, Problem, Sink, Site, Threading
from sightline.media import Batch, FrameView, Stream
from sightline.media.time import Duration
from sightline_plugins.sinks.files import STANDARD_OUTPUT, STREAM, Degradation, StreamFile, path_problems

if TYPE_CHECKING:
    from sightline_plugins.sinks.rerun_recording import Recording

_MISSING = MissingExtra("rerun", extra="rerun", purpose="the step `rerun`")
_FLUSH_NS = 200_000_000
_FLUSH_BYTES = 1 << 20
SUFFIX = ".rrd"


class Rerun(Element):
    """Write a recording for the viewer of Rerun: images, boxes, tracks, keypoints, rules, counts and events over time.

    Look at it with `rerun out/gate.rrd`, which comes with the extra; while the pipeline runs, with `path: "-"` and
    `sightline run pipeline.yaml | rerun -`. For each stream there are `NAME/image` (JPEG), `NAME/image/objects` (boxes
    with label, track and confidence), `NAME/image/tracks` (where the lower edge of each object was), `NAME/image/
    keypoints`, `NAME/image/rules` (lines and zones with their counts), `NAME/count/LABEL` and `NAME/events`. Timelines
    are `frame`, `pts`, and `time` where the capture time is known. Coordinates are pixels of the frame.

    The file is complete up to the last fifth of a second whenever the pipeline ends, is killed or runs. It has no index
    of its chunks, so the viewer reads it whole: `rerun rrd optimize out/gate.rrd -o indexed.rrd` adds one.

    A full disk ends the run. With `on_error: skip` it does not: frames without room are lost and counted, and writing
    resumes when there is room. Requires the extra `rerun`.

    ```yaml
    - rerun: {path: "out/{stream}.rrd"}
    - rerun: {path: all.rrd, images: 1s, trail: 5s}
    ```
    """

    name: ClassVar[str] = "rerun"
    sink: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"
    threading: ClassVar[Threading] = Threading.OWN

    path: OutputPath
    """File to write, `.rrd`; without `{stream}` all streams are in one, and `-` is standard output."""
    images: Duration | None = 0
    """At most one image in this time: `1s`; every one by default, and none with `null`."""
    quality: Annotated[int, Field(ge=1, le=100)] = 75
    """Quality of the images, which are JPEG."""
    trail: Duration = 2_000_000_000
    """How much of the way of each track is shown; `0s` for none."""

    @property
    def fills_standard_output(self) -> bool:
        """Whether it writes to standard output, where the viewer would not read lines."""
        return self.path == STANDARD_OUTPUT

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check that the file can be written, and that the package is installed."""
        if self.path != STANDARD_OUTPUT and not self.path.lower().endswith(SUFFIX):
            yield Problem(f"{self.path!r} must end in {SUFFIX}, so that the viewer opens it", ("path",))
        yield from path_problems(self, self.path, context=context, shareable=True)
        if find_spec("rerun") is None:
            yield Problem(str(_MISSING))

    def build(self, site: Site) -> RerunWriter:
        """Make the writer; files are opened at their first frame. Raises MissingExtra without rerun-sdk."""
        if find_spec("rerun") is None:
            raise _MISSING
        return RerunWriter(self, site)


@dataclass(slots=True, eq=False)
class _Open:
    """A recording and its file: what was logged and is not written yet."""

    recording: Recording
    file: StreamFile
    frames: Counter[str] = field(default_factory=Counter)
    waiting_bytes: int = 0
    written_ns: int = 0


class RerunWriter(Sink):
    """Logs frames, and appends what Rerun encodes to files five times a second."""

    def __init__(self, element: Rerun, site: Site) -> None:
        self._element = element
        self._site = site
        self._continues = element.on_error == "skip"
        self._open: dict[Stream | None, _Open] = {}
        self._image_due_ns: dict[Stream, int] = {}
        self._lost: dict[str, Counter[str]] = {}

    def consume(self, batch: Batch) -> None:
        """Log the frames of the batch. Raises OutputError."""
        for view in batch:
            part = self._part(view.stream)
            part.waiting_bytes += part.recording.log(view, image=self._image(view))
            part.frames[view.stream.name] += 1
        now_ns = self._site.clock.monotonic_ns()
        for part in self._open.values():
            if part.frames and (part.waiting_bytes >= _FLUSH_BYTES or now_ns - part.written_ns >= _FLUSH_NS):
                self._write(part)
                part.written_ns = now_ns

    def end_stream(self, stream: Stream) -> None:
        """Forget the stream, and finish its file where it has one of its own. Raises OutputError."""
        self._image_due_ns.pop(stream, None)
        part = self._open.pop(stream, None)
        if part is not None:
            self._finish(part)
        elif (shared := self._open.get(None)) is not None:
            shared.recording.forget(stream)

    def close(self) -> None:
        """Finish all files, each of them even if another fails. Raises OutputError."""
        parts, self._open = list(self._open.values()), {}
        with ExitStack() as stack:
            for part in parts:
                stack.callback(self._finish, part)

    def totals(self) -> Mapping[str, Any]:
        """The `lost_frames` of each stream by reason, where there are any."""
        return {stream: {"lost_frames": dict(lost)} for stream, lost in self._lost.items()}

    def _part(self, stream: Stream) -> _Open:
        from sightline_plugins.sinks.rerun_recording import Recording

        key = stream if STREAM in self._element.path else None
        part = self._open.get(key)
        if part is None:
            recording = Recording(trail_ns=self._element.trail)
            outputs, path = self._site.outputs, None
            if self._element.path != STANDARD_OUTPUT:
                path = outputs.claim(outputs.path(self._element.path, stream=stream.name))
            degradation = Degradation(self._site) if self._continues else None
            file = StreamFile(path, outputs=outputs, header=recording.header, degradation=degradation)
            part = self._open[key] = _Open(recording, file, written_ns=self._site.clock.monotonic_ns())
        return part

    def _image(self, view: FrameView) -> bytes | None:
        """The frame as JPEG when one is due."""
        every_ns = self._element.images
        if every_ns is None or view.pts_ns < self._image_due_ns.get(view.stream, view.pts_ns):
            return None
        from sightline_plugins.encode.images import encode_jpeg

        self._image_due_ns[view.stream] = view.pts_ns + every_ns
        return encode_jpeg(view.surface, largest_wh=view.size_wh, quality=self._element.quality)

    def _write(self, part: _Open) -> None:
        lost_because = part.file.write(part.recording.take(), stream=next(iter(part.frames)))
        if lost_because is not None:
            for stream, count in part.frames.items():
                self._lost.setdefault(stream, Counter())[lost_because] += count
        part.frames.clear()
        part.waiting_bytes = 0

    def _finish(self, part: _Open) -> None:
        try:
            if part.frames:
                self._write(part)
        finally:
            part.recording.close()
            part.file.close()
