"""`lines`: count tracked objects that cross lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from sightline.graph.rule import Points, RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects
from sightline_plugins.rules.deepstream_history import DEFAULT_WINDOW, Window
from sightline_plugins.rules.deepstream_lines import DeepStreamLines, DirectedLine, Mode
from sightline_plugins.rules.settling import LineSettling, Signs
from sightline_plugins.rules.shapes import (
    MEANS_NOTHING,
    NEEDS_COMPAT,
    Anchor,
    Location,
    Margin,
    Point,
    Shape,
    ShapeRule,
    anchor_fractions,
    continued_tally,
    drawings,
    fixed_margins,
    former_names,
    in_pixels,
    measured_widths,
    places_of,
    refuse_window,
)


class Line(Shape):
    """A line from one point to another."""

    kind: ClassVar[str] = "line"
    example: ClassVar[str] = "{from: [x, y], to: [x, y]}"
    other_options: ClassVar[tuple[str, ...]] = ("id", "streams", "pixels", "compat", "window")

    start: Annotated[Point, Field(alias="from")]
    """Where the line begins, [x, y]."""
    to: Point
    """Where it ends, [x, y]."""
    anchor: Anchor = "bottom"
    """The point of the box that has to cross."""
    margin: Margin = "auto"
    """How far beyond the line a change of side counts, in fractions of the frame's height (or pixels). A box that
    trembles on the line is then counted once instead of in and out and in again. By default a
    crossing counts at once, and the next one when the object is farther from the line than its box trembles; 0
    switches that off."""
    arrow: tuple[Point, Point] | None = None
    """With `compat: deepstream`: from where to where objects cross, [[x, y], [x, y]]."""
    mode: Mode = "loose"
    """With `compat: deepstream`: how far an object has to have come, how straight along the arrow, and for how long."""
    extended: bool = False
    """With `compat: deepstream`: whether the line goes on beyond both its ends."""

    @model_validator(mode="after")
    def _has_length(self) -> Self:
        if self.start == self.to:
            raise ValueError("from and to are the same point: a line needs a length")
        if self.arrow is not None:
            (x1, y1), (x2, y2) = self.arrow
            (left, top), (right, bottom) = self.start, self.to
            if (right - left) * (y2 - y1) == (bottom - top) * (x2 - x1):
                raise ValueError("the arrow has to lead from one side of the line to the other")
        return self

    @property
    def drawing(self) -> tuple[object, ...]:
        """What decides who crosses."""
        return self.start, self.to, self.anchor, self.margin, self.arrow, self.mode, self.extended

    def points(self) -> Iterator[tuple[Location, Point]]:
        yield ("from",), self.start
        yield ("to",), self.to
        for number, point in enumerate(self.arrow or ()):
            yield ("arrow", number), point


class Lines(ShapeRule):
    """Count tracked objects that cross lines, and emit an event for each crossing.

    Walking from `from` to `to` on the screen, `in` is from the left-hand to the right-hand side: for a line drawn from
    left to right, downwards. Both directions and every crossing count. The step of the box's anchor from one frame to
    the next has to meet the line: a fast object cannot jump it, and one that walks around its end does not count. Each
    crossing is an event `line` with `direction` and `track_id`. `draw` shows the running counts of each stream, and the
    report holds them.

    A box that trembles on a line would cross it again and again. So after a crossing the next one counts when the
    object is farther from the line than its box trembles. A fixed `margin` widens the line instead: crossings are then
    reported a little later.

    `compat: deepstream` counts as nvdsanalytics of DeepStream does: each object once per line, in the direction of the
    line's `arrow`.

    ```yaml
    - lines: {gate_in: {from: [0.1, 0.6], to: [0.9, 0.6], classes: [car]}}
    ```
    """

    __pydantic_extra__: dict[str, Line] = Field(init=False)

    name: ClassVar[str] = "lines"
    shape: ClassVar[type[Shape]] = Line
    outline: ClassVar[Literal["line", "zone"]] = "line"

    compat: Literal["deepstream"] | None = None
    """Count as another product does, to compare with it; by default as described above."""
    window: Window = DEFAULT_WINDOW
    """With `compat: deepstream`: its `obj-cnt-win-in-ms`, which is the number of frames that it remembers of
    each object."""

    @model_validator(mode="after")
    def _check_compat(self) -> Self:
        """Refuse options of lines that mean nothing in the way in which is counted."""
        refused: tuple[str, ...] = ("arrow", "mode", "extended")
        advice = NEEDS_COMPAT
        if self.compat:
            refused, advice = ("anchor", "margin"), MEANS_NOTHING
        mistakes = [
            ((name, option), advice)
            for name, line in self.lines.items()
            for option in refused
            if option in line.model_fields_set
        ]
        if self.compat:
            missing = "is missing: `compat: deepstream` counts along an arrow, [[x, y], [x, y]]"
            mistakes += [((name, "arrow"), missing) for name, line in self.lines.items() if line.arrow is None]
        refuse_window(self)
        if mistakes:
            errors = [
                InitErrorDetails(
                    type=PydanticCustomError("compat", "{advice}", {"advice": text}), loc=place, input=None
                )
                for place, text in mistakes
            ]
            raise ValidationError.from_exception_data(self.name, errors)
        return self

    @property
    def lines(self) -> Mapping[str, Line]:
        return self.__pydantic_extra__

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        if self.compat:
            return DeepStreamLines(self, earlier if isinstance(earlier, DeepStreamLines) else None)
        return StreamLines(self, earlier if isinstance(earlier, StreamLines) else None)

    def directed_lines(self) -> Mapping[str, DirectedLine]:
        """Return the lines for `compat: deepstream`."""
        return {
            name: DirectedLine((line.start, line.to), line.arrow, line.mode, line.extended, line.classes)
            for name, line in self.lines.items()
            if line.arrow is not None
        }


class StreamLines(StreamRule):
    """The lines of one stream, in pixels of its frames, and what crossed them."""

    def __init__(self, options: Lines, earlier: StreamLines | None = None) -> None:
        self._take(options)
        self._size_wh: tuple[int, int] | None = None
        self._settling = LineSettling(len(self._lines))
        self.tally: dict[str, dict[str, int]] = (
            {name: _none_crossed() for name in self._names} if earlier is None else earlier.tally
        )
        """The counts by line; those of lines that are gone are behind."""

    def change(self, rule: Lines) -> None:
        """Take over other lines, between two frames.

        Each line that is new or moved takes the side that a track is on from its last position: nobody crosses a line
        because that is moved, and a step over its new place counts.
        """
        former_lines, former_pixels, names = self._lines, self._pixels, self._names
        self._take(rule)
        former = former_names(former_lines, self._lines)
        self.tally = continued_tally(self.tally, former=former, names=self._names, make=_none_crossed)
        stays = {
            number: names.index(former[name])
            for number, (name, line) in enumerate(self._lines.items())
            if name in former and self._pixels == former_pixels and line.drawing == former_lines[former[name]].drawing
        }
        if self._size_wh is not None:
            self.place(self._size_wh)
        self._settling.change(stays, len(self._lines))

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Convert the lines to pixels of frames of that size."""
        self._size_wh = size_wh
        lines = self._lines.values()
        ends = [point for line in lines for point in (line.start, line.to)]
        segments = in_pixels(ends, size_wh=size_wh, pixels=self._pixels).reshape(-1, 2, 2)
        height = 1 if self._pixels else size_wh[1]
        margins = [line.margin for line in lines]
        self._settling.place(
            segments,
            fractions=anchor_fractions(line.anchor for line in lines),
            margins=fixed_margins(margins, height=height),
            widths=measured_widths(margins),
        )
        return {name: tuple((x, y) for x, y in own) for name, own in zip(self._names, segments.tolist(), strict=True)}

    def update(self, tracks: TrackedObjects) -> Iterator[Sequence[RuleEvent]]:
        """Yield the crossings of each frame, and count them."""
        crossed = self._settling.judge(tracks)
        events = self._events(tracks, crossed) if crossed.any() else {}
        for frame in range(len(tracks.pts_ns)):
            found = events.get(frame, ())
            for event in found:
                self.tally[event.rule][str(event.data["direction"])] += 1
            yield found

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return how many objects crossed each line `in` and `out`."""
        return {name: self.tally[name] for name in self._names}

    def totals(self) -> Mapping[str, Mapping[str, int]]:
        """Return the same for the report, also of lines that are gone."""
        return self.tally

    def save(self) -> Saved:
        """Return the counts, and the side of each line that each track is on."""
        return {
            "drawings": drawings(self._lines, pixels=self._pixels),
            "tally": {name: dict(own) for name, own in self.tally.items()},
            "settling": self._settling.save(),
        }

    def restore(self, saved: Saved) -> None:
        """Go on with the counts, and with the sides of lines that look the same."""
        moved = places_of(saved["drawings"], drawings(self._lines, pixels=self._pixels))
        tally = {str(name): {one: int(own[one]) for one in _none_crossed()} for name, own in saved["tally"].items()}
        self._settling.restore(saved["settling"], moved, count=len(saved["drawings"]))
        self.tally = {**self.tally, **tally}

    def end(self) -> None:
        self._settling.clear()

    def _take(self, options: Lines) -> None:
        self._lines = options.lines
        self._pixels = options.pixels
        self._names = list(self._lines)

    def _events(self, tracks: TrackedObjects, crossed: Signs) -> dict[int, list[RuleEvent]]:
        """Return the crossings (N, L) of objects of the right class by frame, of lines that are active then."""
        classes = [line.classes for line in self._lines.values()]
        events: dict[int, list[RuleEvent]] = {}
        if (seen := tracks.when_active()) is not None:
            crossed = np.where(seen, crossed, 0)
        rows, lines = np.nonzero(crossed)
        for row, line, sign, label in zip(
            rows.tolist(), lines.tolist(), crossed[rows, lines].tolist(), tracks.labels(rows), strict=True
        ):
            if (wanted := classes[line]) is None or label in wanted:
                direction = "in" if sign > 0 else "out"
                data: dict[str, str | int | float] = {"direction": direction, "track_id": int(tracks.track_id[row])}
                events.setdefault(int(tracks.frame[row]), []).append(RuleEvent("line", self._names[line], data))
        return events


def _none_crossed() -> dict[str, int]:
    return {"in": 0, "out": 0}
