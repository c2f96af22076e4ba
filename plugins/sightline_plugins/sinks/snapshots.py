"""`snapshots`: save images of events and tracks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from sightline.errors import OutputError
from sightline.graph import ChangesLive, CheckContext, Element, OutputPath, Problem, Sink, Site, Threading
from sightline.graph.fields import Fraction
from sightline.media import Batch, Frame, FrameView, Objects, Stream
from sightline.media.time import Duration
from sightline_plugins.sinks.files import STREAM, Degradation, path_problems
from sightline_plugins.sinks.retention import KEEPS_FOR_ALL, FileNames, Keep, Retention

Image = npt.NDArray[np.uint8]
SUFFIXES = (".jpg", ".jpeg", ".png")
FRAME, TRACK = "{frame}", "{track}"
NO_TRACK = -1
_LIMIT = 1000
MEMORY_NS = 60_000_000_000
MOST_TRACKS = 4096
"""With more tracks than this, those not seen for a minute (or `again`) are forgotten."""


class Snapshots(Element):
    """Save images as JPEG or PNG: when a rule reports an event, when a track is first seen, or at intervals.

    The image is the frame at this step (drawn after `draw`, original before it), or with `crop` the object alone.
    Images are encoded in a separate thread. After `limit` images of a stream no more are saved, with one warning, so
    that a rule that never stops cannot fill a disk; with `keep` the oldest are removed instead.

    A track is saved once, and again when `again` has passed or when it is seen `better`: larger and with more
    confidence. If the path contains only the track id, the better image replaces the other. When the disk is full, the
    step reports `sink_degraded` and continues when there is room.

    In the path, `{stream}` is the stream's name, `{frame}` the frame index in six digits and `{track}` the track id.

    ```yaml
    - snapshots: {path: "out/{stream}-{frame}.jpg", on: event, rules: [gate_in], limit: 100}
    - snapshots: {path: "faces/{track}.jpg", on: track, crop: true, better: 1.5, keep: {count: 1000, age: 7d}}
    ```
    """

    name: ClassVar[str] = "snapshots"
    sink: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"
    threading: ClassVar[Threading] = Threading.OWN

    path: OutputPath
    """File of each image, `.jpg` or `.png`, with `{frame}`, `{track}` or both."""
    on: Literal["event", "track"] | None = None
    """Save on each `event`, or once for each `track`; on events when neither this nor `every` is given."""
    every: Annotated[Duration, Field(gt=0)] | None = None
    """Save the first frame, and one each time this long has passed."""
    rules: ChangesLive[tuple[str, ...] | None] = None
    """Rules whose events count; all when not given."""
    again: ChangesLive[Annotated[Duration, Field(gt=0)] | None] = None
    """A track is saved again when this long has passed since it was; events of the same track within it are not."""
    better: ChangesLive[Annotated[float, Field(gt=1, allow_inf_nan=False)] | None] = None
    """A track is saved again when area times confidence is this many times that of its last image."""
    crop: bool = False
    """Save the object that the event or the track is about instead of the whole frame."""
    margin: ChangesLive[Fraction] = 0.1
    """How much around the object is saved, as a share of its width and height."""
    quality: ChangesLive[Annotated[int, Field(ge=1, le=100)]] = 90
    """Quality of JPEG."""
    limit: ChangesLive[Annotated[int, Field(ge=1)] | None] = None
    """Maximum number of images per stream in one run; 1000 if neither this nor `keep` is given."""
    keep: Keep | None = None
    """What is kept of the images; all when not given."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.on is not None and self.every is not None:
            raise ValueError("give on or every, not both")
        if self.crop and self.every is not None:
            raise ValueError("crop needs an object: save on event or track, not every so often")
        if self.rules is not None and (self.on == "track" or self.every is not None):
            raise ValueError("rules have a meaning with on: event only")
        if self.every is not None and (self.again is not None or self.better is not None):
            raise ValueError("again and better are about tracks: save on event or track, not every so often")
        return self

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check the suffix, that each image has its own name, and that it can be written."""
        if PurePath(self.path).suffix.lower() not in SUFFIXES:
            yield Problem(f"{self.path!r} must end in {', '.join(SUFFIXES)}", ("path",))
        if TRACK not in self.path and (self.crop or FRAME not in self.path):
            wanted = "{track}" if self.crop else "{frame} or {track}"
            yield Problem(f"images would overwrite each other: put {wanted} into the path", ("path",))
        if TRACK in self.path and not self.crop and self.on != "track":
            yield Problem("{track} has a meaning with crop or on: track only", ("path",))
        known = (STREAM, FRAME, TRACK)
        yield from path_problems(self, self.path, context=context, shareable=False, known=known)

    def reason_against_processes(self) -> str | None:
        """Images are files of one stream, which its worker writes; what `keep` limits are those of all streams."""
        return None if self.keep is None else KEEPS_FOR_ALL

    def build(self, site: Site) -> SnapshotWriter:
        """Make the writer."""
        return SnapshotWriter(self, site)


@dataclass(slots=True)
class _Track:
    seen_ns: int
    saved_ns: int
    score: float


class Sightings:
    """The tracks of one stream: when each was last seen and saved, and its score then.

    A track is saved when it is new, when `again_ns` has passed since it was saved, and when its score is `better` times
    that of the last image. None switches the second and the third off.
    """

    def __init__(self, *, again_ns: int | None, better: float | None) -> None:
        self.again_ns = again_ns
        self.better = better
        self._tracks: dict[int, _Track] = {}

    def is_worth(self, track: int, *, now_ns: int, score: float) -> bool:
        """Return whether to save this sighting; if so it counts as saved."""
        known = self._tracks.get(track)
        if known is None:
            self._tracks[track] = _Track(now_ns, now_ns, score)
            if len(self._tracks) > MOST_TRACKS:
                memory_ns = max(MEMORY_NS, self.again_ns or 0)
                self._tracks = {key: one for key, one in self._tracks.items() if now_ns - one.seen_ns <= memory_ns}
            return True
        known.seen_ns = now_ns
        is_time = self.again_ns is not None and now_ns - known.saved_ns >= self.again_ns
        if not is_time and (self.better is None or score < self.better * known.score):
            return False
        known.saved_ns, known.score = now_ns, score
        return True


class SnapshotWriter(Sink):
    """Saves snapshots; keeps the tracks of each stream, and when its next image is due."""

    def __init__(self, element: Snapshots, site: Site) -> None:
        self._element = element
        self._site = site
        self._limit = _limit_of(element)
        self._saved: dict[Stream, int] = {}
        self._due_ns: dict[Stream, int] = {}
        self._sightings: dict[Stream, Sightings] = {}
        self._degradation = Degradation(site)
        names = FileNames(element.path, {FRAME: r"\d{6,}", TRACK: r"\d+"})
        self._retention = Retention(element.keep, names=names, outputs=site.outputs, clock=site.clock, warn=site.warn)

    def consume(self, batch: Batch) -> None:
        """Save the snapshots that are due."""
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

    def change(self, element: Snapshots) -> None:
        """Take over other options; what was saved counts on."""
        former, self._element, self._limit = self._limit, element, _limit_of(element)
        if former is not None:  # one more says that the limit was reported
            self._saved = {stream: min(saved, former) for stream, saved in self._saved.items()}
        for sightings in self._sightings.values():
            sightings.again_ns, sightings.better = element.again, element.better

    def end_stream(self, stream: Stream) -> None:
        """Forget the stream."""
        for state in (self._saved, self._due_ns, self._sightings):
            state.pop(stream, None)

    def _chosen(self, view: FrameView) -> list[int]:
        """The tracks to save a frame for, -1 for no particular one; empty when it is not saved."""
        if (every_ns := self._element.every) is not None:
            if view.pts_ns < self._due_ns.get(view.stream, view.pts_ns):
                return []
            self._due_ns[view.stream] = view.pts_ns + every_ns
            return [NO_TRACK]
        if self._element.on == "track":
            return list(self._worth(view, (track for track in view.objects.track_id.tolist() if track >= 0)))
        events = [event for event in view.events if self._element.rules is None or event.rule in self._element.rules]
        tracks = dict.fromkeys(int(event.data.get("track_id", NO_TRACK)) for event in events)
        has_rules_for_tracks = self._element.again is not None or self._element.better is not None
        return list(self._worth(view, tracks) if has_rules_for_tracks else tracks)

    def _worth(self, view: FrameView, tracks: Iterable[int]) -> Iterator[int]:
        """The tracks that are new, due again, or seen better."""
        sightings = self._sightings.get(view.stream)
        if sightings is None:
            sightings = Sightings(again_ns=self._element.again, better=self._element.better)
            self._sightings[view.stream] = sightings
        objects = view.objects
        for track in tracks:
            if track < 0 or sightings.is_worth(track, now_ns=view.pts_ns, score=_score(objects, track)):
                yield track

    def _save_objects(self, view: FrameView, tracks: Iterable[int]) -> None:
        objects, rgb = view.objects, None
        for track in tracks:
            rows = _rows(objects, track)
            if len(rows):
                rgb = view.rgb() if rgb is None else rgb
                image = self._cut(rgb, objects.xyxy[rows[0]])
                if image.size:
                    self._save(view.frame, image, track)

    def _cut(self, rgb: Image, xyxy: npt.NDArray[np.float32]) -> Image:
        """The part of an image under a box and the margin around it."""
        around = (xyxy[2:] - xyxy[:2]) * np.float32(self._element.margin)
        height, width = rgb.shape[:2]
        left, top = np.clip(np.floor(xyxy[:2] - around), 0, (width, height)).astype(int)
        right, bottom = np.clip(np.ceil(xyxy[2:] + around), 0, (width, height)).astype(int)
        return rgb[top:bottom, left:right]

    def _save(self, frame: Frame, rgb: Image, track: int) -> None:
        from sightline_plugins.encode.images import encode_rgb

        saved, limit = self._saved.get(frame.stream, 0), self._limit
        if self._degradation.is_waiting or (limit is not None and saved > limit):
            return
        if saved == limit:
            self._saved[frame.stream] = saved + 1
            self._site.warn(f"{saved} images are saved, which is the limit", stream=frame.stream.name)
            return
        template = self._element.path.replace(FRAME, f"{frame.index:06d}").replace(TRACK, str(track))
        path = self._site.outputs.path(template, stream=frame.stream.name)
        data = encode_rgb(rgb, suffix=path.suffix, quality=self._element.quality)
        if self._write(path, data, stream=frame.stream):
            self._saved[frame.stream] = saved + 1

    def _write(self, path: Path, data: bytes, *, stream: Stream) -> bool:
        """Write an image; returns False when that failed."""
        try:
            file = self._site.outputs.open_lines(path)
            file.write(data)
            file.close()
        except OutputError as error:
            self._degradation.failed(error, stream=stream.name, at_once=self._retention.make_room())
            return False
        self._degradation.succeeded(stream=stream.name)
        self._retention.add(path, size_bytes=len(data))
        self._retention.tidy()
        return True


def _limit_of(element: Snapshots) -> int | None:
    return _LIMIT if element.limit is None and element.keep is None else element.limit


def _rows(objects: Objects, track: int) -> npt.NDArray[np.intp]:
    return np.flatnonzero(objects.track_id == track) if track >= 0 else np.empty(0, np.intp)


def _score(objects: Objects, track: int) -> float:
    """Score of an object: its area in pixels times its confidence; 0 when it is absent."""
    rows = _rows(objects, track)
    if not len(rows):
        return 0.0
    left, top, right, bottom = objects.xyxy[rows[0]].tolist()
    return float((right - left) * (bottom - top) * objects.confidence[rows[0]])
