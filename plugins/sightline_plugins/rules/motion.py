"""What rules of motion share: named areas of the frame that need no outline, and what is counted in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from sightline_plugins.rules.deepstream_history import DEFAULT_WINDOW, Window
from sightline_plugins.rules.shapes import (
    Anchor,
    Location,
    Point,
    Polygon,
    Shape,
    ShapeRule,
    refuse_window,
)

Distance = Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["auto"]
"""A distance in fractions of the frame's height, or in pixels; `auto`: by the size of the box and how it trembles."""
Tally = dict[str, int | float]
"""What one rule counted on one stream, by name; it outlives the tracks."""


class MotionArea(Shape):
    """Where a rule of motion looks, and at which objects."""

    kind: ClassVar[str] = "rule"

    polygon: Polygon | None = None
    """The corners of the area, [[x, y], ...], in which objects are looked at; the whole frame when not given."""
    anchor: Anchor = "bottom"
    """The point of the box that moves, and has to be in the area."""

    def points(self) -> Iterator[tuple[Location, Point]]:
        for number, point in enumerate(self.polygon or ()):
            yield ("polygon", number), point

    @property
    def distances(self) -> Iterator[tuple[str, Distance]]:
        """The distances in fractions of the frame's height (or pixels), by option."""
        yield from ()

    @property
    def drawing(self) -> tuple[object, ...]:
        return *self.identity, self.polygon

    @property
    def identity(self) -> tuple[object, ...]:
        """What the positions of tracks depend on: another one begins with new tracks."""
        return self.anchor, self.classes


class MotionRule(ShapeRule):
    """Base of rules of motion."""

    counted: ClassVar[tuple[str, ...]]
    """The names of what is in a tally."""

    def summary(self, tally: Tally) -> dict[str, Any]:
        """Return a tally as it stands in the report."""
        raise NotImplementedError

    def new_tally(self) -> Tally:
        """Make the tally of a rule that has counted nothing."""
        return dict.fromkeys(self.counted, 0)

    @model_validator(mode="after")
    def _distances_are_in_the_frame(self) -> Self:
        for name, area in self.__pydantic_extra__.items():
            for option, distance in area.distances:
                if distance != "auto" and distance > 1 and not self.pixels:
                    raise ValueError(
                        f"{name}.{option} is {distance:g} times the height of the frame: give a fraction of it from 0 "
                        "to 1, or pixels and `pixels: true`"
                    )
        return self


class ComparedMotionRule(MotionRule):
    """Base of rules of motion that can also find what another product finds."""

    compat: Literal["deepstream"] | None = None
    """Find what another product does, to compare with it; by default as described above."""
    window: Window = DEFAULT_WINDOW
    """With `compat: deepstream`: its `obj-cnt-win-in-ms`, which is the number of frames that it remembers of
    each object."""

    @model_validator(mode="after")
    def _has_window_with_compat(self) -> Self:
        refuse_window(self)
        return self
