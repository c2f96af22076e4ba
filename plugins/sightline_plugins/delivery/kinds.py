"""What is sent: the bodies of records of each kind, made from the batches that pass.

Every body begins with `stream`, `epoch`, `seq` and `record` (the kind, in the word of the option `send`), which the
format adds; then come the keys of the kind, in the order of the fields here. Keys that hold nothing are left out.
`frame` counts the frames of the stream from 0, `pts_ns` is the time in the stream, `time` the time of day as RFC 3339
in UTC (`time_source` says whose clock), left out where it is not known. Boxes are left, top, right, bottom in pixels.

- `frames` (`FrameRecord`): the keys of `jsonl`: `frame`, `pts_ns`, `time`, `time_source`, `size`, `objects`, `events`.
- `objects` (`ObjectBody`): one object of a frame: `frame`, `index` (among the objects of the frame that are sent),
  `pts_ns`, `time`, `time_source`, `size` (of the frame), then the keys of an object in `frames`: `label`, `class_id`,
  `confidence`, `box`, `track_id`, `attributes`, `parent` (the `index` of another), `keypoints`, `corners`, `mask`.
- `tracks` (`TrackBody`, made in `tracks.py`): a track that has ended: `track_id`, `label`, `class_id`, `frames`,
  `confidence`, `best_confidence`, `first` and `last` (each `frame`, `pts_ns`, `time`, `box`), `path`, `attributes`,
  `rules`, `image`.
- `events` (`EventBody`): one event of a rule: `frame`, `pts_ns`, `time`, `time_source`, `kind`, `rule`, `step` (the id
  of the step whose rule it is), `data` (what the kind of event adds: `direction`, `track_id`, ...), `object` (`label`,
  `class_id`, `confidence`, `box`, `attributes` of the object with that track id, where it is on the frame), `image`.
- `counts` (`CountsBody`): `frame`, `pts_ns`, `time`, `time_source`, then `lines` and `zones`, the running counts of
  each rule by name, as `draw` shows them (`{"gate_in": {"in": 3, "out": 1}}`, `{"plaza": {"inside": 2, "visitors":
  8}}`), and `objects`, the number of objects on this frame by label. These three are always there, perhaps empty. A
  label that was seen once (or is named by the option `labels`) stays, with 0, so that a receiver can rely on the key.
  `final` is true in the last record of a stream, and not there in others.
- `status` (`StatusBody`): `pipeline`, the `state` that a stream is in from now on (a word of `StreamState`), the `text`
  for a person, and the `time`. All of them are always there.

An `image` (`ImageBody`, made in `images.py`) has `media_type`, `frame`, `size`, and one of `data`, `path` and `url`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from sightline.graph.messages import Message
from sightline.media import Batch, Frame, Objects, Overlay, Stream
from sightline.media.events import Event, Scalar
from sightline.media.time import format_time
from sightline_plugins.delivery.images import ImageBody, ImageMaker
from sightline_plugins.delivery.selection import RateLimit
from sightline_plugins.sinks.records import (
    BOX_STEPS,
    CONFIDENCE_STEPS,
    Attribute,
    FrameRecord,
    MaskRecord,
    Numbers,
    attributes_of,
    details,
    frame_bounds,
    frame_records,
    rounded,
)

Kind = Literal["frames", "objects", "tracks", "events", "counts", "status"]

_MOST_LABELS = 1_000
"""More labels than this are not kept with 0."""


Known: TypeAlias = str | msgspec.UnsetType
"""Text, or UNSET where it is not known: the key is left out."""


class ObjectBody(msgspec.Struct, omit_defaults=True, gc=False):
    """One object of a frame; `index` counts the objects of the frame, and `parent` is the `index` of another."""

    stream: str
    frame: int
    index: int
    pts_ns: int
    time: Known
    time_source: Known
    size: tuple[int, int]
    label: str
    class_id: int
    confidence: float | None
    box: Numbers
    track_id: int = -1
    attributes: dict[str, Attribute] | None = None
    parent: int = -1
    keypoints: list[Numbers] | None = None
    corners: list[Numbers] | None = None
    mask: MaskRecord | None = None


class EventObject(msgspec.Struct, omit_defaults=True):
    """The object that an event is about."""

    label: str
    class_id: int
    confidence: float
    box: Numbers
    attributes: dict[str, Attribute] | None = None


class EventBody(msgspec.Struct, omit_defaults=True):
    """One event; `step` is the id of the step whose rule it is."""

    stream: str
    frame: int
    pts_ns: int
    time: Known
    time_source: Known
    kind: str
    rule: str
    step: str = ""
    data: dict[str, Scalar] | None = None
    object: EventObject | None = None
    image: ImageBody | None = None


class CountsBody(msgspec.Struct, omit_defaults=True):
    """The counts of a stream at a frame."""

    stream: str
    frame: int
    pts_ns: int
    time: Known
    time_source: Known
    lines: dict[str, dict[str, int]]
    zones: dict[str, dict[str, int]]
    objects: dict[str, int]
    final: bool = False


class StatusBody(msgspec.Struct, omit_defaults=True):
    """The state of a stream."""

    stream: str
    pipeline: str
    state: str
    text: str
    time: str


class Sighting(msgspec.Struct, gc=False):
    """Where and when a track was first or last seen."""

    frame: int
    pts_ns: int
    time: Known
    box: Numbers


class TrackBody(msgspec.Struct, omit_defaults=True):
    """A track that has ended.

    `frames` counts the frames it was seen on. `label` is the most frequent one, and so is each of `attributes` (of
    numbers with decimals it is the mean). `confidence` is the mean, `best_confidence` the highest. `path` are points
    [x, y] in pixels, simplified. `rules` are the names of those that reported an event about the track. `image` shows
    the object where area times confidence was highest.
    """

    stream: str
    track_id: int
    label: str
    class_id: int
    frames: int
    confidence: float
    best_confidence: float
    first: Sighting
    last: Sighting
    path: list[Numbers]
    attributes: dict[str, Attribute] | None = None
    rules: list[str] = []
    image: ImageBody | None = None


Body: TypeAlias = FrameRecord | ObjectBody | TrackBody | EventBody | CountsBody | StatusBody


When: TypeAlias = tuple[int, Known, Known]


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A record that has no number yet: a body of a kind, made for the frame at `row` of a batch."""

    row: int
    kind: Kind
    body: Body


def when(frame: Frame) -> When:
    """The values of `pts_ns`, `time` and `time_source` of a frame."""
    return _when(frame.pts_ns, frame.capture_ns, frame.time_source)


def _when(pts_ns: int, capture_ns: int | None, time_source: str | None) -> When:
    if capture_ns is None:
        return pts_ns, msgspec.UNSET, msgspec.UNSET
    return pts_ns, format_time(capture_ns), msgspec.UNSET if time_source is None else str(time_source)


class Maker(ABC):
    """Makes the bodies of one kind. Results do not depend on how many frames come together."""

    @abstractmethod
    def make(self, batch: Batch) -> Iterator[Draft]:
        """Yield the bodies of a batch, in the order of its frames."""

    def end(self, stream: Stream) -> Iterator[Draft]:
        """Yield what is left of a stream that has ended, and forget it."""
        del stream
        return iter(())


class FrameBodies(Maker):
    """Makes `frames`: one for each frame, or for each with an object or event, no more than `max_rate` a second."""

    def __init__(self, *, empty: bool, max_rate: float | None) -> None:
        self._empty = empty
        self._limit = RateLimit(max_rate)
        self._takes_all = empty and max_rate is None

    def make(self, batch: Batch) -> Iterator[Draft]:
        """Yield a body for each frame."""
        rows: Sequence[int] = range(len(batch))
        if not self._takes_all:
            rows = list(self._chosen(batch))
            batch = batch if len(rows) == len(batch) else batch.select_frames(rows)
        for row, record in zip(rows, frame_records(batch), strict=True):
            yield Draft(row, "frames", record)

    def end(self, stream: Stream) -> Iterator[Draft]:
        """Forget the stream."""
        self._limit.end(stream)
        return iter(())

    def _chosen(self, batch: Batch) -> Iterator[int]:
        filled = {*batch.objects.frame.tolist(), *(event.frame for event in batch.events)}
        for row, frame in enumerate(batch.frames):
            if (self._empty or row in filled) and self._limit.allows(frame.stream, now_ns=frame.pts_ns):
                yield row


class ObjectBodies(Maker):
    """Makes `objects`: one for each object, no more than `max_rate` a second in the mean."""

    def __init__(self, *, max_rate: float | None) -> None:
        self._limit = RateLimit(max_rate)

    def end(self, stream: Stream) -> Iterator[Draft]:
        """Forget the stream."""
        self._limit.end(stream)
        return iter(())

    def make(self, batch: Batch) -> Iterator[Draft]:
        """Yield a body for each object, frame by frame."""
        objects = batch.objects
        if not len(objects):
            return
        bounds = frame_bounds(batch)
        sent = [
            last > first and self._limit.allows(frame.stream, now_ns=frame.pts_ns, records=last - first)
            for frame, (first, last) in zip(batch.frames, pairwise(bounds), strict=True)
        ]
        if not any(sent):
            return
        heads = [when(frame) for frame in batch.frames]
        more = details(batch, bounds, with_embeddings=False)
        attributes: Iterable[Any] = attributes_of(objects) if objects.attributes else repeat(None, len(objects))
        columns = zip(
            objects.frame.tolist(),
            objects.labels(),
            objects.class_id.tolist(),
            rounded(objects.confidence, steps=CONFIDENCE_STEPS),
            rounded(objects.xyxy, steps=BOX_STEPS),
            objects.track_id.tolist(),
            attributes,
            strict=True,
        )
        for number, (row, label, class_id, confidence, box, track_id, attribute) in enumerate(columns):
            if not sent[row]:
                continue
            frame = batch.frames[row]
            pts_ns, time, time_source = heads[row]
            body = ObjectBody(
                frame.stream.name,
                frame.index,
                number - bounds[row],
                pts_ns,
                time,
                time_source,
                frame.size_wh,
                label,
                class_id,
                confidence,
                box,
                track_id,
                attribute,
            )
            for name, values in more.items():
                setattr(body, name, values[number])
            yield Draft(row, "objects", body)


class EventBodies(Maker):
    """Makes `events`: one for each event, with the object that it is about where that is on the frame."""

    def __init__(self, images: ImageMaker | None = None) -> None:
        self._images = images

    def make(self, batch: Batch) -> Iterator[Draft]:
        """Yield a body for each event."""
        placed: dict[tuple[int, int | None], ImageBody | None] = {}
        for event in batch.events:
            frame = batch.frames[event.frame]
            row = _row_of(batch.objects, event)
            about = None if row is None else _event_object(batch.objects, row)
            head = (frame.stream.name, frame.index, *when(frame))
            body = EventBody(*head, event.kind, event.rule, event.step, dict(event.data) or None, about)
            if self._images is not None:
                key = (event.frame, row if self._images.is_crop else None)
                if key not in placed:
                    placed[key] = self._place(self._images, frame, batch.objects, key[1])
                body.image = placed[key]
            yield Draft(event.frame, "events", body)

    @staticmethod
    def _place(images: ImageMaker, frame: Frame, objects: Objects, row: int | None) -> ImageBody | None:
        """Take the image of a frame, or of the object in that row, once for all events that it is for."""
        image = images.take(frame, None if row is None else objects.xyxy[row].tolist())
        if image is None:
            return None
        track = None if row is None else int(objects.track_id[row])
        return images.place(image, stream=frame.stream.name, kind="events", track=track)


def _row_of(objects: Objects, event: Event) -> int | None:
    """The row of the object that an event is about; None where it is not on the frame, or there is none."""
    track = event.data.get("track_id", -1)
    if not isinstance(track, int) or track < 0:
        return None
    rows = np.flatnonzero((objects.frame == event.frame) & (objects.track_id == track))
    return int(rows[0]) if len(rows) else None


def _event_object(objects: Objects, row: int) -> EventObject:
    one = objects.select(np.array([row]))
    attributes = attributes_of(one)[0] if one.attributes else None
    confidence = rounded(one.confidence, steps=CONFIDENCE_STEPS)[0]
    box = rounded(one.xyxy, steps=BOX_STEPS)[0]
    return EventObject(one.labels()[0], int(one.class_id[0]), confidence, box, attributes)


class _Latest(NamedTuple):
    """What is counted on the latest frame of a stream, and its times; not its image, which would stay in memory."""

    frame: int
    pts_ns: int
    capture_ns: int | None
    time_source: str | None
    overlays: tuple[Overlay, ...]
    objects: Objects
    row: int


class _Counted:
    """The latest frame of a stream, and when its counts are due."""

    __slots__ = ("due_ns", "labels", "latest")

    def __init__(self, labels: Iterable[str]) -> None:
        self.due_ns: int | None = None
        self.labels = dict.fromkeys(labels, 0)
        self.latest: _Latest | None = None

    def body(self, stream: str, *, final: bool = False) -> CountsBody:
        """The counts on the latest frame."""
        assert self.latest is not None
        frame, pts_ns, capture_ns, time_source, overlays, objects, row = self.latest
        now = Counter(objects.of_frame(row).labels())
        for label in now:
            if len(self.labels) < _MOST_LABELS:
                self.labels.setdefault(label, 0)
        lines: dict[str, dict[str, int]] = {}
        zones: dict[str, dict[str, int]] = {}
        for overlay in overlays:
            shapes = lines if overlay.kind == "line" else zones
            shapes[_free_name(overlay.name, shapes)] = dict(overlay.counts)
        times = _when(pts_ns, capture_ns, time_source)
        return CountsBody(stream, frame, *times, lines, zones, {**self.labels, **now}, final)


class CountsBodies(Maker):
    """Makes `counts`: with the first frame of a stream, then every `interval_ns` of its time, and at its end."""

    def __init__(self, *, interval_ns: int, labels: Iterable[str] = ()) -> None:
        self._interval_ns = interval_ns
        self._labels = tuple(labels)
        self._streams: dict[Stream, _Counted] = {}

    def make(self, batch: Batch) -> Iterator[Draft]:
        """Yield the counts that are due."""
        overlays = batch.columns.overlays
        for row, frame in enumerate(batch.frames):
            counted = self._streams.get(frame.stream)
            if counted is None:
                counted = self._streams[frame.stream] = _Counted(self._labels)
            shown = overlays[row] if overlays else ()
            due_ns, pts_ns = counted.due_ns, frame.pts_ns
            times = (frame.index, pts_ns, frame.capture_ns, frame.time_source)
            counted.latest = _Latest(*times, shown, batch.objects, row)
            if due_ns is None or pts_ns >= due_ns or pts_ns < due_ns - self._interval_ns:
                counted.due_ns = _next_due(due_ns, now_ns=pts_ns, interval_ns=self._interval_ns)
                yield Draft(row, "counts", counted.body(frame.stream.name))

    def end(self, stream: Stream) -> Iterator[Draft]:
        """Yield the last counts of a stream."""
        counted = self._streams.pop(stream, None)
        if counted is not None:
            yield Draft(0, "counts", counted.body(stream.name, final=True))


def _next_due(due_ns: int | None, *, now_ns: int, interval_ns: int) -> int:
    """The next time on the stream's own grid; the grid begins anew where the stream's time went back."""
    if due_ns is None or now_ns < due_ns:
        return now_ns + interval_ns
    return due_ns + ((now_ns - due_ns) // interval_ns + 1) * interval_ns


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    """The name of a rule, or `name-2` and so on where another step has a rule of that name."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free


def status_body(message: Message, *, pipeline: str, now_ns: int) -> StatusBody | None:
    """The body of a message that tells of a new state of a stream; None for another message."""
    if message.state is None or message.stream is None:
        return None
    return StatusBody(message.stream, pipeline, str(message.state), message.text, format_time(now_ns))
