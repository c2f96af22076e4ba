"""Line crossing as nvdsanalytics of DeepStream counts it, for `compat: deepstream`.

The method is that of `nvds_analytics.cpp` of DeepStream 9.1, in integers of frame pixels. It differs from `lines` in
what it looks at (the way since the oldest samples of a ring of frames, not the step between two frames), and in what it
counts (each object once per line, in the direction of an arrow, after a distance in pixels). Results depend on the
frame rate and on the resolution: use it to compare with an installation of DeepStream, not for new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from sightline.graph.rule import Points, RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects
from sightline_plugins.rules.deepstream_history import Histories, ObjectHistories, Pixel, Segment, whole_pixels

Mode: TypeAlias = Literal["loose", "balanced", "strict"]
_THRESHOLDS: Mapping[Mode, tuple[int, float, int]] = {
    "loose": (1000, 0.1, 3),
    "balanced": (3000, 0.5, 10),
    "strict": (6000, 0.8, 20),
}
"""What has to be exceeded: the squared way in pixels, the cosine between way and arrow, and the number of frames."""


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

    @property
    def window(self) -> int:
        """How many frames are remembered of each object."""
        ...

    def directed_lines(self) -> Mapping[str, DirectedLine]:
        """Return the lines."""
        ...


class DeepStreamLines(StreamRule):
    """The lines of one stream, and the histories of its objects."""

    def __init__(self, options: DirectedLines, earlier: DeepStreamLines | None = None) -> None:
        self._take(options)
        self._objects = ObjectHistories(options.window)
        self._size_wh: tuple[int, int] | None = None
        self.tally: dict[str, int] = dict.fromkeys(self._lines, 0) if earlier is None else earlier.tally

    def change(self, rule: Any) -> None:
        """Take over other lines, between two frames. Counts go on by name; objects stay counted at lines that stay."""
        former = self._lines
        self._take(rule)
        self._objects.take_over({name: name for name, line in former.items() if self._lines.get(name) == line})
        self.tally = {**dict.fromkeys(self._lines, 0), **self.tally}
        if self._size_wh is not None:
            self.place(self._size_wh)

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Convert lines and arrows to whole pixels of frames of that size, by truncation."""
        self._size_wh = size_wh
        self._segments = {
            name: (self._whole(line.line, size_wh), self._whole(line.arrow, size_wh))
            for name, line in self._lines.items()
        }
        return {name: tuple((float(x), float(y)) for x, y in line) for name, (line, _) in self._segments.items()}

    def update(self, tracks: TrackedObjects) -> Iterator[Sequence[RuleEvent]]:
        """Yield the crossings of each frame, and count them."""
        seen = tracks.when_active()
        for now_ns, own in zip(tracks.pts_ns.tolist(), tracks.by_frame(), strict=True):
            self._objects.forget(now_ns)
            objects = self._objects.add(tracks, own, now_ns=now_ns)
            squared_way = objects.squared_way()
            labels: list[str] | None = None
            found: list[RuleEvent] = []
            for number, (name, line) in enumerate(self._lines.items()):
                square, _, frames = _THRESHOLDS[line.mode]
                has_come = (objects.frames > frames) & (squared_way > square)
                if seen is not None:
                    has_come &= seen[own, number]
                for row in np.flatnonzero(has_come).tolist():
                    track_id = int(objects.track_id[row])
                    if self._objects.was_reported(track_id, name) or not self._crosses(name, objects, row):
                        continue
                    if line.classes is not None:
                        labels = labels or tracks.labels(np.arange(own.start, own.stop))
                        if labels[row] not in line.classes:
                            continue
                    self._objects.report(track_id, name)
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
        return {"tally": dict(self.tally), "histories": self._objects.save()}

    def restore(self, saved: Saved) -> None:
        """Go on with the counts and the histories."""
        tally = {str(name): int(count) for name, count in saved["tally"].items()}
        self._objects.restore(saved["histories"], set(self._lines))
        self.tally = {**self.tally, **tally}

    def end(self) -> None:
        self._objects.clear()

    def _take(self, options: DirectedLines) -> None:
        self._lines, self._pixels = options.directed_lines(), options.pixels

    def _whole(self, points: Points, size_wh: tuple[int, int]) -> Segment:
        start, end = (whole_pixels(point, size_wh, pixels=self._pixels) for point in points)
        return start, end

    def _crosses(self, name: str, objects: Histories, row: int) -> bool:
        """Return whether an object that has come far enough has crossed a line along its arrow."""
        options = self._lines[name]
        line, arrow = self._segments[name]
        x, y, width, height = objects.sample[row].tolist()
        before_x, before_y, before_width, _ = objects.before[row].tolist()
        mean_height = float(objects.mean_height[row])
        foot, now = before_y + mean_height / 2, (x, y + height // 2)
        if options.mode == "loose":
            towards = 1 if _distance(line, arrow[1]) > _distance(line, arrow[0]) else -1
            has_turned = _distance(line, (before_x, foot)) * towards < 0 <= _distance(line, now) * towards
        else:
            before = before_x, before_y + int(mean_height) // 2
            sides = int(_distance(line, before)), int(_distance(line, now))
            has_turned = sides[0] * sides[1] < 0 and _cosine(before, now, arrow) > _THRESHOLDS[options.mode][1]
        if options.is_extended or not has_turned:
            return has_turned
        shifts = (0, 0), (before_width // 2, width // 2), (-(before_width // 2), -(width // 2))
        return any(
            _meets(line, (before_x + shift, foot), (x + shift_now, y + height / 2)) for shift, shift_now in shifts
        )


def _distance(line: Segment, point: tuple[float, float]) -> float:
    """Return how far a point is from a line, in pixels: of opposite signs on its sides."""
    (x1, y1), (x2, y2) = line
    return ((y1 - y2) * point[0] + (x2 - x1) * point[1] + (x1 * y2 - x2 * y1)) / hypot(x2 - x1, y2 - y1)


def _cosine(before: Pixel, now: Pixel, arrow: Segment) -> float:
    (x1, y1), (x2, y2) = arrow
    way, along = (now[0] - before[0], now[1] - before[1]), (x2 - x1, y2 - y1)
    length = hypot(*way) * hypot(*along)
    return (way[0] * along[0] + way[1] * along[1]) / length if length else 0.0


def _meets(line: Segment, before: tuple[float, float], now: tuple[float, float]) -> bool:
    """Return whether a way, or its straight continuation, meets a segment between its ends."""
    (x1, y1), (x2, y2) = line
    way = now[0] - before[0], now[1] - before[1]
    across = (x2 - x1) * way[1] - (y2 - y1) * way[0]
    if across == 0:
        return False
    return 0 < ((before[0] - x1) * way[1] - (before[1] - y1) * way[0]) / across < 1
