"""Segments of a stream that are asked about: some frames of each, and what was found and happened in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sightline.media import Batch, Frame, Stream, Surface
from sightline.media.frame import NANOSECONDS
from sightline_plugins.describe.describe import Describe
from sightline_plugins.describe.facts import Moment
from sightline_plugins.describe.questions import CaptionedImage

_MOST_NAMES = 100


@dataclass(slots=True, eq=False)
class Segment:
    """A segment so far. `last` is its last frame, with what was done to all frames that are sent."""

    first_ns: int
    last: Moment
    images: list[CaptionedImage] = field(default_factory=list)
    most: Counter[str] = field(default_factory=Counter)
    """By label, how many objects were on a frame at most."""
    events: Counter[str] = field(default_factory=Counter)

    def facts(self) -> dict[str, Any]:
        """Return what is known, as JSON values."""
        seconds = round((self.last.pts_ns - self.first_ns) / NANOSECONDS, 1)
        about = {"seconds": seconds, "most_objects_at_once": dict(self.most), "events": dict(self.events)}
        return {**self.last.facts(), "segment": about}


class Segments:
    """Cuts each stream into segments. `copy` makes an image with a caption."""

    def __init__(self, element: Describe, copy: Callable[[Surface, str], CaptionedImage]) -> None:
        self._length_ns = element.segment
        self._frames = element.frames
        self._copy = copy
        self._open: dict[Stream, Segment] = {}

    def follow(self, batch: Batch) -> Iterator[Segment]:
        """Take the frames of a batch; yield the segments that are over."""
        by_row: dict[int, list[str]] = {}
        for event in batch.events:
            by_row.setdefault(event.frame, []).append(f"{event.rule}: {event.kind}")
        for row, frame in enumerate(batch.frames):
            segment = self._open.get(frame.stream)
            if segment is not None and not 0 <= frame.pts_ns - segment.first_ns < self._length_ns:
                yield segment
                segment = None
            moment = Moment.of(frame)
            if segment is None:
                segment = self._open[frame.stream] = Segment(frame.pts_ns, moment)
            self._take(segment, frame, moment)
            for label, count in Counter(batch.objects.of_frame(row).labels()).items():
                if label in segment.most or len(segment.most) < _MOST_NAMES:
                    segment.most[label] = max(segment.most[label], count)
            for name in by_row.get(row, ()):
                if name in segment.events or len(segment.events) < _MOST_NAMES:
                    segment.events[name] += 1

    def end(self, stream: Stream) -> Segment | None:
        """Return the open segment of a stream that has ended, if it has lasted half of its time."""
        segment = self._open.pop(stream, None)
        is_worth = segment is not None and 2 * (segment.last.pts_ns - segment.first_ns) >= self._length_ns
        return segment if is_worth else None

    def _take(self, segment: Segment, frame: Frame, moment: Moment) -> None:
        """Go on with a frame, and copy it if it is one of those that are sent: the middle of each equal part."""
        altered = segment.last.altered
        into_ns = frame.pts_ns - segment.first_ns
        due_ns = (2 * len(segment.images) + 1) * self._length_ns // (2 * self._frames)
        if len(segment.images) < self._frames and into_ns >= due_ns:
            altered = altered & moment.altered if segment.images else moment.altered
            segment.images.append(self._copy(frame.surface, f"After {into_ns / NANOSECONDS:.1f} s:"))
        segment.last = moment._replace(altered=altered)
