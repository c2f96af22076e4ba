"""`snapshots`: pictures of what happened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from sightline.errors import OutputError
from sightline.graph import CheckContext, Element, OutputPath, Problem, Sink, Site, Threading
from sightline.graph.fields import Fraction
from sightline.media import Batch, Frame, FrameView, Stream
from sightline.media.time import Duration
from sightline_plugins.sinks.files import path_problems

SUFFIXES = (".jpg", ".jpeg", ".png")
FRAME, TRACK = "{frame}", "{track}"
MEMORY_NS = 60_000_000_000
MOST_TRACKS = 4096
"""Tracks not seen for a minute are forgotten when more than this are known."""

Picture = npt.NDArray[np.uint8]


class Snapshots(Element):
    """Save pictures as JPEG or PNG: when a rule reports an event, when a track is first seen, or at regular times.

    The picture is the frame as it looks at this place (drawn upon after `draw`, untouched before it), or with `crop`
    the object alone. Pictures are encoded in a thread of their own. After `limit` pictures of a stream no more are
    saved, with one warning, so that a rule that never stops can not fill a disk.

    In the path `{stream}` stands for the stream's name, `{frame}` for the number of the frame in six digits and
    `{track}` for the number of the track.

    ```yaml
    - snapshots: {path: "out/{stream}-{frame}.jpg", on: event, rules: [gate_in], limit: 100}
    ```
    """

    name: ClassVar[str] = "snapshots"
    sink: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"
    threading: ClassVar[Threading] = Threading.OWN

    path: OutputPath
    """File of each picture, `.jpg` or `.png`, with `{frame}`, `{track}` or both."""
    on: Literal["event", "track"] | None = None
    """Save on each `event`, or once for each `track`; on events when neither this nor `every` is given."""
    every: Annotated[Duration, Field(gt=0)] | None = None
    """Save the first frame, and one each time this long has passed."""
    rules: tuple[str, ...] | None = None
    """Rules whose events count; all when not given."""
    crop: bool = False
    """Save the object that the event or the track is about instead of the whole frame."""
    margin: Fraction = 0.1
    """How much around the object is saved, as a share of its width and height."""
    quality: Annotated[int, Field(ge=1, le=100)] = 90
    """Quality of JPEG."""
    limit: Annotated[int, Field(ge=1)] = 1000
    """Pictures of each stream at most."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.on is not None and self.every is not None:
            raise ValueError("give on or every, not both")
        if self.crop and self.every is not None:
            raise ValueError("crop needs an object: save on event or track, not every so often")
        if self.rules is not None and (self.on == "track" or self.every is not None):
            raise ValueError("rules have a meaning with on: event only")
        return self

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """The path names a kind of picture, gives each picture a name of its own, and can be written."""
        if PurePath(self.path).suffix.lower() not in SUFFIXES:
            yield Problem(f"{self.path!r} must end in {', '.join(SUFFIXES)}", ("path",))
        if TRACK not in self.path and (self.crop or FRAME not in self.path):
            wanted = "{track}" if self.crop else "{frame} or {track}"
            yield Problem(f"pictures would overwrite each other: put {wanted} into the path", ("path",))
        if TRACK in self.path and not self.crop and self.on != "track":
            yield Problem("{track} has a meaning with crop or on: track only", ("path",))
        yield from path_problems(self, self.path, context=context, shareable=False)

    def build(self, site: Site) -> SnapshotWriter:
        """Make the writer."""
        return SnapshotWriter(self, site)


class SnapshotWriter(Sink):
    """Chooses frames and objects, and saves their pictures."""

    def __init__(self, element: Snapshots, site: Site) -> None:
        self._element = element
        self._site = site
        self._saved: dict[Stream, int] = {}
        self._due_ns: dict[Stream, int] = {}
        self._known: dict[Stream, dict[int, int]] = {}

    def consume(self, batch: Batch) -> None:
        """Save what is worth it on each frame."""
        for view in batch:
            tracks = self._chosen(view)
            if not tracks:
                continue
            if self._element.crop:
                self._save_objects(view, tracks)
            else:
                rgb = view.rgb()
                for track in tracks if TRACK in self._element.path else tracks[:1]:
                    self._save(view.frame, rgb, track)

    def end_stream(self, stream: Stream) -> None:
        """Forget the stream."""
        for state in (self._saved, self._due_ns, self._known):
            state.pop(stream, None)

    def _chosen(self, view: FrameView) -> list[int]:
        """The tracks that a frame is to be saved for, -1 for none in particular; empty when it is not to be saved."""
        if self._element.every is not None:
            return [-1] if self._is_due(view, self._element.every) else []
        if self._element.on == "track":
            return self._new_tracks(view)
        events = [event for event in view.events if self._element.rules is None or event.rule in self._element.rules]
        return list(dict.fromkeys(int(event.data.get("track_id", -1)) for event in events))

    def _is_due(self, view: FrameView, every_ns: int) -> bool:
        if view.pts_ns < self._due_ns.get(view.stream, view.pts_ns):
            return False
        self._due_ns[view.stream] = view.pts_ns + every_ns
        return True

    def _new_tracks(self, view: FrameView) -> list[int]:
        known = self._known.setdefault(view.stream, {})
        ids = [number for number in view.objects.track_id.tolist() if number >= 0]
        new = [number for number in ids if number not in known]
        known.update(dict.fromkeys(ids, view.pts_ns))
        if len(known) > MOST_TRACKS:
            for number in [number for number, seen_ns in known.items() if view.pts_ns - seen_ns > MEMORY_NS]:
                del known[number]
        return new

    def _save_objects(self, view: FrameView, tracks: Iterable[int]) -> None:
        objects, rgb = view.objects, None
        for track in tracks:
            rows = np.flatnonzero(objects.track_id == track) if track >= 0 else np.empty(0, np.intp)
            if len(rows):
                rgb = view.rgb() if rgb is None else rgb
                picture = self._cut(rgb, objects.xyxy[rows[0]])
                if picture.size:
                    self._save(view.frame, picture, track)

    def _cut(self, rgb: Picture, xyxy: npt.NDArray[np.float32]) -> Picture:
        """The part of a picture under a box and the margin around it."""
        around = (xyxy[2:] - xyxy[:2]) * np.float32(self._element.margin)
        height, width = rgb.shape[:2]
        left, top = np.clip(np.floor(xyxy[:2] - around), 0, (width, height)).astype(int)
        right, bottom = np.clip(np.ceil(xyxy[2:] + around), 0, (width, height)).astype(int)
        return rgb[top:bottom, left:right]

    def _save(self, frame: Frame, rgb: Picture, track: int) -> None:
        saved = self._saved.get(frame.stream, 0)
        if saved > self._element.limit:
            return
        self._saved[frame.stream] = saved + 1
        if saved == self._element.limit:
            self._site.warn(f"{saved} pictures are saved, which is the limit", stream=frame.stream.name)
            return
        template = self._element.path.replace(FRAME, f"{frame.index:06d}").replace(TRACK, str(track))
        path = self._site.outputs.path(template, stream=frame.stream.name)
        file = self._site.outputs.open_lines(path)
        file.write(self._encoded(rgb, path.suffix))
        file.close()

    def _encoded(self, rgb: Picture, suffix: str) -> bytes:
        import cv2

        bgr = np.ascontiguousarray(rgb[..., ::-1])
        options = [] if suffix.lower() == ".png" else [cv2.IMWRITE_JPEG_QUALITY, self._element.quality]
        done, data = cv2.imencode(suffix, bgr, options)
        if not done:
            raise OutputError(f"a picture of {rgb.shape[1]} x {rgb.shape[0]} pixels can not be saved as {suffix}")
        return bytes(data)
