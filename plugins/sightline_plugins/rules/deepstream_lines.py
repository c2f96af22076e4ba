"""Line crossing as nvdsanalytics of DeepStream counts it, for `compat: deepstream`.

The method is that of `nvds_analytics.cpp` of DeepStream 9.1, in integers of frame pixels. It differs from `lines` in
what it looks at (the way since the oldest samples of a ring of frames, not the step between two frames), and in what it
counts (each object once per line, in the direction of an arrow, after a distance in pixels). Results depend on the
frame rate and on the resolution: use it to compare with an installation of DeepStream, not for new ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from sightline.graph.rule import Points, RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects

RING_FRAMES = 50
"""Samples that an object's history holds: DeepStream's value where `obj-cnt-win-in-ms` is not set."""
MEMORY_NS = 300_000_000
"""An object that was not seen for longer is another one: it can be counted again."""
_FIRST_SAMPLES, _OLDEST_SAMPLES = 2, 4
Mode: TypeAlias = Literal["loose", "balanced", "strict"]
_THRESHOLDS: Mapping[Mode, tuple[int, float, int]] = {
    "loose": (1000, 0.1, 3),
    "balanced": (3000, 0.5, 10),
    "strict": (6000, 0.8, 20),
}
"""What has to be exceeded: the squared way in pixels, the cosine between way and arrow, and the number of frames."""

Pixel: TypeAlias = tuple[int, int]
Segment: TypeAlias = tuple[Pixel, Pixel]


@dataclass(frozen=True, slots=True)
class DirectedLine:
    """A line and the arrow along which it is crossed, in fractions of the frame or pixels."""

    line: Points
    arrow: Points
    mode: Mode
    is_extended: bool
    classes: tuple[str, ...] | None


class DirectedLines(Protocol):
    """The element: its lines by name."""

    @property
    def pixels(self) -> bool:
        """Whether coordinates are pixels."""
        ...

    def directed_lines(self) -> Mapping[str, DirectedLine]:
        """Return the lines."""
        ...


@dataclass(slots=True)
class ObjectHistory:
    """The newest samples of an object, centre and size as x, y, width, height, and how many frames it was seen on."""

    seen_ns: int
    frames: int = 0
    samples: deque[tuple[int, int, int, int]] = field(default_factory=lambda: deque(maxlen=RING_FRAMES))
    counted: set[str] = field(default_factory=set)
    """The lines that it has crossed."""

    def add(self, box: Sequence[float], *, now_ns: int) -> None:
        left, top = int(box[0]), int(box[1])
        width, height = int(box[2] - box[0]), int(box[3] - box[1])
        self.samples.append((left + width // 2, top + height // 2, width, height))
        self.seen_ns, self.frames = now_ns, self.frames + 1

    def save(self) -> list[Any]:
        """Return it as plain values."""
        return [self.seen_ns, self.frames, [list(sample) for sample in self.samples], sorted(self.counted)]

    @classmethod
    def restored(cls, saved: Sequence[Any]) -> ObjectHistory:
        """Return the history that was saved. Raises TypeError or ValueError when it is something else."""
        seen_ns, frames, samples, counted = saved
        history = cls(int(seen_ns), int(frames), counted=set(counted))
        history.samples.extend((int(x), int(y), int(width), int(height)) for x, y, width, height in samples)
        return history

    def before(self) -> tuple[int, int, int]:
        """Return centre and height of before: the mean of the first two samples, or of the oldest four of a full
        ring.
        """
        count = _FIRST_SAMPLES if len(self.samples) < RING_FRAMES else _OLDEST_SAMPLES
        oldest = [self.samples[number] for number in range(count)]
        x, y, _, height = (sum(column) // count for column in zip(*oldest, strict=True))
        return x, y, height

    def mean_height(self) -> int:
        return sum(height for _, _, _, height in self.samples) // len(self.samples)


class DeepStreamLines(StreamRule):
    """The lines of one stream, and the histories of its objects."""

    def __init__(self, options: DirectedLines, earlier: DeepStreamLines | None = None) -> None:
        self._take(options)
        self._objects: dict[int, ObjectHistory] = {}
        self._size_wh: tuple[int, int] | None = None
        self.tally: dict[str, int] = dict.fromkeys(self._lines, 0) if earlier is None else earlier.tally

    def change(self, rule: Any) -> None:
        """Take over other lines, between two frames. Counts go on by name; objects stay counted at lines that stay."""
        former = self._lines
        self._take(rule)
        gone = {name for name, line in former.items() if self._lines.get(name) != line}
        for one in self._objects.values():
            one.counted -= gone
        self.tally = {**dict.fromkeys(self._lines, 0), **self.tally}
        if self._size_wh is not None:
            self.place(self._size_wh)

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Convert lines and arrows to whole pixels of frames of that size, by truncation."""
        self._size_wh = size_wh
        scale = (1, 1) if self._pixels else size_wh
        self._segments = {
            name: (_whole(line.line, scale), _whole(line.arrow, scale)) for name, line in self._lines.items()
        }
        return {name: tuple((float(x), float(y)) for x, y in line) for name, (line, _) in self._segments.items()}

    def update(self, tracks: TrackedObjects) -> Iterator[Sequence[RuleEvent]]:
        """Yield the crossings of each frame, and count them."""
        seen = tracks.when_active()
        for now_ns, own in zip(tracks.pts_ns.tolist(), tracks.by_frame(), strict=True):
            self._objects = {
                number: one for number, one in self._objects.items() if abs(now_ns - one.seen_ns) <= MEMORY_NS
            }
            found: list[RuleEvent] = []
            for row in range(own.start, own.stop):
                track_id = int(tracks.track_id[row])
                history = self._objects.setdefault(track_id, ObjectHistory(now_ns))
                history.add(tracks.xyxy[row].tolist(), now_ns=now_ns)
                for number, name in enumerate(self._lines):
                    if (seen is None or seen[row, number]) and self._crosses(name, history, tracks, row):
                        history.counted.add(name)
                        self.tally[name] += 1
                        found.append(RuleEvent("line", name, {"direction": "in", "track_id": track_id}))
            yield found

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return how many objects crossed each line along its arrow."""
        return {name: {"in": self.tally[name]} for name in self._lines}

    def totals(self) -> Mapping[str, Mapping[str, int]]:
        """Return the same for the report, also of lines that are gone."""
        return {name: {"in": count} for name, count in self.tally.items()}

    def save(self) -> Saved:
        """Return the counts and the histories."""
        objects = {str(number): one.save() for number, one in self._objects.items()}
        return {"tally": dict(self.tally), "objects": objects}

    def restore(self, saved: Saved) -> None:
        """Go on with the counts and the histories."""
        objects = {int(number): ObjectHistory.restored(one) for number, one in saved["objects"].items()}
        for one in objects.values():
            one.counted &= set(self._lines)
        tally = {str(name): int(count) for name, count in saved["tally"].items()}
        self._objects, self.tally = objects, {**self.tally, **tally}

    def end(self) -> None:
        self._objects = {}

    def _take(self, options: DirectedLines) -> None:
        self._lines, self._pixels = options.directed_lines(), options.pixels

    def _crosses(self, name: str, history: ObjectHistory, tracks: TrackedObjects, row: int) -> bool:
        """Return whether an object crosses a line that it has not yet crossed."""
        options = self._lines[name]
        square, cosine, frames = _THRESHOLDS[options.mode]
        if name in history.counted or history.frames <= frames:
            return False
        line, arrow = self._segments[name]
        x, y, width, height = history.samples[-1]
        before_x, before_y, before_height = history.before()
        way = x - before_x, (y + height // 2) - (before_y + before_height // 2)
        if way[0] ** 2 + way[1] ** 2 <= square:
            return False
        before, now = (before_x, before_y + history.mean_height() // 2), (x, y + height // 2)
        side_before, side_now = _form(line, before), _form(line, now)
        towards = 1 if _turn(line, arrow) > 0 else -1
        if options.mode == "loose":
            turned = side_before * towards < 0 <= side_now * towards
        else:
            turned = side_before * towards < 0 < side_now * towards and _cosine(way, arrow) > cosine
        if not turned:
            return False
        shifts = (0, -(width // 2), width // 2)
        if not options.is_extended and not any(_meet(line, before, now, shift) for shift in shifts):
            return False
        return options.classes is None or tracks.labels(np.array([row]))[0] in options.classes


def _whole(points: Points, scale: tuple[int, int]) -> Segment:
    (x1, y1), (x2, y2) = points
    return (int(x1 * scale[0]), int(y1 * scale[1])), (int(x2 * scale[0]), int(y2 * scale[1]))


def _form(line: Segment, point: Pixel) -> int:
    """Return the form of a line at a point: 0 on it, and of opposite signs on its sides."""
    (x1, y1), (x2, y2) = line
    return (y1 - y2) * point[0] + (x2 - x1) * point[1] + (x1 * y2 - x2 * y1)


def _turn(line: Segment, arrow: Segment) -> int:
    """Return how the form of a line changes along an arrow."""
    return _form(line, arrow[1]) - _form(line, arrow[0])


def _cosine(way: Pixel, arrow: Segment) -> float:
    along = arrow[1][0] - arrow[0][0], arrow[1][1] - arrow[0][1]
    length = sqrt((way[0] ** 2 + way[1] ** 2) * (along[0] ** 2 + along[1] ** 2))
    return (way[0] * along[0] + way[1] * along[1]) / length if length else 0.0


def _meet(line: Segment, before: Pixel, now: Pixel, shift: int) -> bool:
    """Return whether a way, shifted sideways, and a segment have a point in common."""
    way = (before[0] + shift, before[1]), (now[0] + shift, now[1])
    sides = _form(line, way[0]) * _form(line, way[1]), _form(way, line[0]) * _form(way, line[1])
    return sides[0] <= 0 and sides[1] <= 0
