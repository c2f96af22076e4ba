"""Images of events: the frame on which each happened, made small, and a crop of its object.

Frames are copied in the pipeline's thread, a few a second, and encoded by a thread of its own that rests three times as
long as it works. Only pixels behind the last step that changes images are taken: what `privacy` hides is in no image.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Condition
from time import monotonic

import numpy as np
import numpy.typing as npt

from sightline.graph import Clock, PipelineDescription
from sightline.graph.element import Element
from sightline.graph.site import SystemClock
from sightline.graph.tree import Step, identify
from sightline.media import Batch, Event, Frame
from sightline.media.surface import Memory, Surface
from sightline.runtime.threads import Worker
from sightline.server.event_scenes import box_of
from sightline.server.history_store import HistoryStore
from sightline.server.images import ImageEncoder

FRAME_WH = (640, 360)
CROP_WH = (256, 256)
WHOLE = -1
"""Stands for the whole frame where the id of a track stands for a crop."""
_EACH_SECONDS = 0.5
_BURST = 6
"""Frames of a stream that are taken at once; then one each half second."""
_MOST_STREAMS = 512
_MOST_WANTED = 256
_MOST_WAITING = 8
_MARGIN = 0.3
_SMALLEST_CROP = 64
_NEAR_NS = 500_000_000
_REST = 3.0
_STOP_SECONDS = 10.0
Box = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EventImage:
    """An image of a whole frame, and by how much that frame is later than what was asked for."""

    number: int
    later_ns: int


@dataclass(slots=True, eq=False)
class _Wanted:
    """A frame of which images are wanted, and the boxes of its objects by track; later its pixels."""

    stream: str
    frame: int
    pts_ns: int
    boxes: dict[int, Box] = field(default_factory=dict)
    surface: Surface | None = None


class EventImages:
    """Takes and keeps images of events; nothing while no event happens.

    `want` is a listener for events and `look` a probe, both for the pipeline's threads. `epoch` is that of the feed.
    """

    def __init__(
        self,
        encode: ImageEncoder,
        *,
        store: HistoryStore,
        description: Callable[[], PipelineDescription],
        epoch: int,
        clock: Clock | None = None,
    ) -> None:
        self._encode = encode
        self._store = store
        self._description = description
        self._epoch = epoch
        self._clock = clock or SystemClock()
        self._point = last_change(description())
        self._known: tuple[PipelineDescription, frozenset[str], bool] | None = None
        self._allowed: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._wanted: OrderedDict[tuple[str, int], _Wanted] = OrderedDict()
        self._waiting: deque[_Wanted] = deque()
        self._changed = Condition()
        self._is_closing = False
        self._thread: _Maker | None = None

    @property
    def point(self) -> str | None:
        """The step whose frames `look` has to see; None when no step changes images."""
        return self._point

    def start(self) -> None:
        """Begin to make images."""
        self._thread = _Maker(self)
        self._thread.start()

    def close(self) -> None:
        """Make the images that wait, and end; harmless when called again."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.wait(_STOP_SECONDS)

    def want(self, batch: Batch, events: Sequence[Event]) -> None:
        """Have images made of these events, if there have not been too many lately."""
        behind, is_present = self._steps()
        now = monotonic()
        for event in events:
            frame, box = batch.frames[event.frame], box_of(batch, event)
            key = (frame.stream.name, frame.index)
            with self._changed:
                wanted = self._wanted.get(key) or next(
                    (one for one in self._waiting if (one.stream, one.frame) == key), None
                )
                if wanted is not None and box is not None:
                    wanted.boxes[int(event.data["track_id"])] = box
                if wanted is not None or not self._may(frame.stream.name, now):
                    continue
                wanted = _Wanted(*key, frame.pts_ns, {} if box is None else {int(event.data["track_id"]): box})
                if event.step not in behind:
                    if is_present:
                        self._wanted[key] = wanted
                        if len(self._wanted) > _MOST_WANTED:
                            self._wanted.popitem(last=False)
                    continue
            self._take(frame, wanted)

    def look(self, batch: Batch) -> None:
        """Take the frames that are wanted."""
        if not self._wanted:
            return
        for frame in batch.frames:
            with self._changed:
                wanted = self._wanted.pop((frame.stream.name, frame.index), None)
            if wanted is not None:
                self._take(frame, wanted)

    def crop(self, epoch: int, stream: str, *, frame: int, track: int) -> bytes | None:
        """The image of an object on a frame as JPEG; None when there is none."""
        sql = "SELECT body FROM images WHERE epoch=? AND stream=? AND frame=? AND track=?"
        found = self._store.rows(sql, (epoch, stream, frame, track))
        return bytes(found[0][0]) if found else None

    def nearest(self, epoch: int, stream: str, *, pts_ns: int) -> EventImage | None:
        """The image of a whole frame nearest to that time of a stream, half a second away at most; None without one."""
        sql = (
            "SELECT number, pts_ns FROM images WHERE epoch=? AND stream=? AND track=? AND pts_ns>=? AND pts_ns<=? "
            "ORDER BY abs(pts_ns - ?) LIMIT 1"
        )
        span = (pts_ns - _NEAR_NS, pts_ns + _NEAR_NS)
        found = self._store.rows(sql, (epoch, stream, WHOLE, *span, pts_ns))
        return EventImage(found[0][0], found[0][1] - pts_ns) if found else None

    def body(self, image: EventImage) -> bytes | None:
        """An image as JPEG; None when it is not kept any more."""
        found = self._store.rows("SELECT body FROM images WHERE number=?", (image.number,))
        return bytes(found[0][0]) if found else None

    def make_next(self) -> float | None:
        """Wait for a frame, make its images and keep them; return how long that took, None when it is over."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting) or self._is_closing)
            if not self._waiting:
                return None
            wanted = self._waiting.popleft()
        begin = monotonic()
        time_ms = self._clock.epoch_ns() // 1_000_000
        rows = [
            (time_ms, self._epoch, wanted.stream, wanted.frame, wanted.pts_ns, track, len(jpeg), jpeg)
            for track, jpeg in self._encoded(wanted)
        ]
        columns = "time_ms, epoch, stream, frame, pts_ns, track, size, body"
        sql = f"INSERT OR REPLACE INTO images({columns}) VALUES (?,?,?,?,?,?,?,?)"  # noqa: S608
        self._store.write(lambda database: database.executemany(sql, rows))
        return 0.0 if self._is_closing else monotonic() - begin

    def _encoded(self, wanted: _Wanted) -> Iterator[tuple[int, bytes]]:
        surface = wanted.surface
        assert surface is not None
        yield WHOLE, self._encode(surface, largest_wh=FRAME_WH)
        for track, box in list(wanted.boxes.items()):
            yield track, self._encode(crop_of(surface, box), largest_wh=CROP_WH)

    def _may(self, stream: str, now: float) -> bool:
        """Whether another frame of a stream may be taken now."""
        left, since = self._allowed.pop(stream, (float(_BURST), now))
        left = min(float(_BURST), left + (now - since) / _EACH_SECONDS)
        self._allowed[stream] = (left - 1 if left >= 1 else left, now)
        if len(self._allowed) > _MOST_STREAMS:
            self._allowed.popitem(last=False)
        return left >= 1

    def _take(self, frame: Frame, wanted: _Wanted) -> None:
        """Copy the pixels, unless too many wait."""
        if len(self._waiting) >= _MOST_WAITING or self._is_closing:
            return
        on_host = frame.surface.memory is Memory.HOST
        wanted.surface = frame.surface.shared().writable() if on_host else frame.surface.to_host()
        with self._changed:
            self._waiting.append(wanted)
            self._changed.notify_all()

    def _steps(self) -> tuple[frozenset[str], bool]:
        """The steps on whose frames nothing changes any more, and whether the step that `look` sees is still the last
        one that changes images.
        """
        description = self._description()
        if self._known is None or self._known[0] is not description:
            point = last_change(description)
            behind = frozenset(steps_behind(description, point))
            self._known = description, behind, point is not None and point == self._point
        return self._known[1:]


class _Maker(Worker):
    """Makes images until it is over."""

    def __init__(self, images: EventImages) -> None:
        super().__init__("event-images")
        self._images = images
        self._pause = Condition()

    def work(self) -> None:
        """Make images."""
        while (took := self._images.make_next()) is not None:
            with self._pause:
                self._pause.wait(took * _REST)


def last_change(description: PipelineDescription) -> str | None:
    """The last step that changes images; None when no step does."""
    changing = [name for name, element in description.elements() if element.changes_images]
    return changing[-1] if changing else None


def steps_behind(description: PipelineDescription, point: str | None) -> list[str]:
    """That step, and those that get frames as it left them; all steps when `point` is None."""
    names = [name for name, _ in identify(description.steps)]
    return names if point is None else _behind(description.steps, iter(names), point) or []


def _behind(steps: Sequence[Step], names: Iterator[str], point: str) -> list[str] | None:
    """The ids at and behind that step where it stands among these steps; takes the ids of all of them."""
    found: list[str] | None = None
    for step in steps:
        if isinstance(step, Element):
            name = next(names)
            if name == point:
                found = []
            if found is not None:
                found.append(name)
            continue
        for branch in step.branches.values():
            below = [next(names) for _ in identify(branch)]
            if found is not None:
                found += below
            elif (inside := _behind(branch, iter(below), point)) is not None:
                list(names)
                return inside
    return found


def crop_of(surface: Surface, box: Box) -> Surface:
    """A view of the part of a surface in host memory around a box (4,) in pixels, with some margin."""
    width, height = surface.size_wh
    x1, y1, x2, y2 = (float(one) for one in box)
    reach = max(x2 - x1, y2 - y1, _SMALLEST_CROP) * (0.5 + _MARGIN)
    middle_x, middle_y = (x1 + x2) / 2, (y1 + y2) / 2
    left, top = (max(0, int(middle - reach)) // 2 * 2 for middle in (middle_x, middle_y))
    right, bottom = min(width, int(middle_x + reach) + 1), min(height, int(middle_y + reach) + 1)
    left, top = min(left, max(0, width - 2) // 2 * 2), min(top, max(0, height - 2) // 2 * 2)
    right, bottom = max(right, left + 1), max(bottom, top + 1)
    across, down = surface.format.chroma_shift
    planes = []
    for number, plane in enumerate(surface.planes):
        x, y = (across, down) if number else (0, 0)
        planes.append(plane[top >> y : -(-bottom >> y), left >> x : -(-right >> x)])
    size_wh = (right - left, bottom - top)
    return Surface(surface.format, size_wh, tuple(planes), surface.matrix, surface.range, owner=surface)
