"""What rules on shapes share: points, anchors, named shapes as options, and the mistakes in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError, PydanticKnownError

from sightline.errors import ConfigurationError
from sightline.graph import ChangesLive
from sightline.graph.rule import Rule
from sightline.graph.rule_options import RuleOptions
from sightline.media import Views
from sightline_plugins.rules.geometry import Floats, first_meeting_edges, lie_on_a_line

Coordinate = Annotated[float, Field(allow_inf_nan=False)]
Point = tuple[Coordinate, Coordinate]
"""(x, y) in fractions of the frame, or in pixels."""
_LEAST_CORNERS, _MOST_CORNERS = 3, 1000


def simple_polygon(corners: tuple[Point, ...]) -> tuple[Point, ...]:
    """Refuse a polygon with too few corners, without an area, or whose edges meet elsewhere than in its corners.

    The number of corners is judged here because a corner that is no point would otherwise be a second mistake.
    """
    count = {"field_type": "Tuple", "actual_length": len(corners)}
    if len(corners) < _LEAST_CORNERS:
        raise PydanticKnownError("too_short", {**count, "min_length": _LEAST_CORNERS})
    if len(corners) > _MOST_CORNERS:
        raise PydanticKnownError("too_long", {**count, "max_length": _MOST_CORNERS})
    following = (*corners[1:], corners[0])
    for number, (corner, other) in enumerate(zip(corners, following, strict=True), 1):
        if corner == other:
            last = number == len(corners)
            advice = "the polygon closes by itself, leave out the last" if last else "leave out one of them"
            raise ValueError(f"corners {number} and {1 if last else number + 1} are both {_written(corner)}: {advice}")
    points = np.array(corners, np.float64)
    if lie_on_a_line(points):
        raise ValueError("all corners lie on one line: a polygon needs an area")
    if (meeting := first_meeting_edges(points)) is not None:
        first, second = (
            f"edge {edge + 1} (from {_written(corners[edge])} to {_written(following[edge])})" for edge in meeting
        )
        raise ValueError(
            f"the polygon crosses itself: {first} meets {second}; "
            "give the corners in the order in which somebody walks around it"
        )
    return corners


def _written(point: Point) -> str:
    x, y = point
    return f"[{x:g}, {y:g}]"


Polygon = Annotated[
    tuple[Point, ...],
    AfterValidator(simple_polygon),
    Field(json_schema_extra={"minItems": _LEAST_CORNERS, "maxItems": _MOST_CORNERS}),
]
"""The corners of a polygon in order, without the first one at the end; its edges meet in its corners only (a simple
polygon, ISO 19107)."""
Margin = Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["auto"]
"""A distance in fractions of the frame's height, or in pixels; `auto`: as wide as the box trembles."""
NOISE_MARGIN = 6.0
"""The width of `auto` on each side of an edge, in standard deviations of the box. It is wide because an object that
noise brings over an edge may be three of them away from it, and be three farther with the next box."""
Location = tuple[str | int, ...]

Anchor = Literal["bottom", "center", "top", "left", "right", "bottom_left", "bottom_right", "top_left", "top_right"]
"""The point of a box that stands for the object: the middle of an edge, the centre, or a corner."""

_ANCHORS: dict[Anchor, tuple[float, float]] = {
    "bottom": (0.5, 1),
    "center": (0.5, 0.5),
    "top": (0.5, 0),
    "left": (0, 0.5),
    "right": (1, 0.5),
    "bottom_left": (0, 1),
    "bottom_right": (1, 1),
    "top_left": (0, 0),
    "top_right": (1, 0),
}


class Shape(RuleOptions):
    """A line or zone as an option of its rule; the option's key is its name."""

    kind: ClassVar[str]
    example: ClassVar[str]
    other_options: ClassVar[tuple[str, ...]] = ("id", "streams", "pixels")
    """Options of the step that are no shapes."""

    classes: tuple[str, ...] | None = None
    """Labels of the objects that count; all when not given."""
    view: str | None = None
    """The view, of those that `dewarp` makes, whose coordinates these are; those of the whole frame when not given."""

    @model_validator(mode="before")
    @classmethod
    def _is_shape(cls, value: object) -> object:
        """Refuse a value that cannot be a shape: most likely a misspelt option of the step."""
        if isinstance(value, Mapping | BaseModel):
            return value
        known = ", ".join(cls.other_options)
        raise ValueError(f"is neither a {cls.kind}, which is written {cls.example}, nor an option: those are {known}")

    @property
    def drawing(self) -> tuple[object, ...]:
        """What decides which objects the shape concerns: points, anchor, margin and so on."""
        raise NotImplementedError

    def points(self) -> Iterator[tuple[Location, Point]]:
        """Yield the points with their paths below the shape."""
        raise NotImplementedError

    def in_frame(self, view_xyxy: Sequence[float], *, size_wh: tuple[int, int], pixels: bool) -> Self:
        """Return the shape in coordinates of a frame of that size, in which its view lies at `view_xyxy`.

        A polygon that is not given, and stands for all of the view, becomes the view; a margin keeps its share of the
        view's height.
        """
        left, top, right, bottom = view_xyxy
        width, height = (1, 1) if pixels else size_wh
        scale = (1, 1) if pixels else (right - left, bottom - top)
        moved = self
        for path, (x, y) in list(self.points()):
            point = ((left + x * scale[0]) / width, (top + y * scale[1]) / height)
            moved = _with_value(moved, path, point)
        changes: dict[str, Any] = {}
        if getattr(self, "polygon", ()) is None:
            corners = ((left, top), (right, top), (right, bottom), (left, bottom))
            changes["polygon"] = tuple((x / width, y / height) for x, y in corners)
        if isinstance(margin := getattr(self, "margin", None), float | int):
            changes["margin"] = margin * scale[1] / height
        return moved.model_copy(update=changes)


def _with_value(of: Any, path: Location, value: object) -> Any:
    """Return a copy of a value, a tuple or an element, with another value at a path below it."""
    if not path:
        return value
    first, *rest = path
    if isinstance(of, BaseModel):
        names = {field.alias: name for name, field in type(of).model_fields.items() if field.alias}
        name = names.get(str(first), str(first))
        return of.model_copy(update={name: _with_value(getattr(of, name), tuple(rest), value)})
    number = int(first)
    return (*of[:number], _with_value(of[number], tuple(rest), value), *of[number + 1 :])


class ShapeRule(Rule):
    """Base of rules whose options are named shapes."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Any] = Field(init=False)

    shape: ClassVar[type[Shape]]
    others_change_live: ClassVar[bool] = True

    pixels: ChangesLive[bool] = False
    """Coordinates are pixels of the frame instead of fractions of it."""

    @model_validator(mode="after")
    def _check_shapes(self) -> Self:
        if not self.__pydantic_extra__:
            raise ValueError(f"no {self.shape.kind} is given: write NAME: {self.shape.example}")
        places = (
            ((name, *path), point) for name, shape in self.__pydantic_extra__.items() for path, point in shape.points()
        )
        _require_inside(self.name, places, pixels=self.pixels)
        return self

    def rule_names(self) -> Iterable[str]:
        """Return the names of the shapes."""
        return self.__pydantic_extra__

    def rule_options(self) -> Mapping[str, RuleOptions]:
        """Return the shapes."""
        return self.__pydantic_extra__

    def in_views(self, views: Views | None, *, size_wh: tuple[int, int]) -> Self:
        """Return the rule with the shapes that have a view in coordinates of the frame."""
        shapes: Mapping[str, Shape] = self.__pydantic_extra__
        if all(shape.view is None for shape in shapes.values()):
            return self
        places = {} if views is None else dict(zip(views.names, views.xyxy.tolist(), strict=True))
        placed = dict(shapes)
        for name, shape in shapes.items():
            if shape.view is None:
                continue
            if shape.view not in places:
                known = f"its views are {', '.join(places)}" if places else "put dewarp before this step"
                raise ConfigurationError(f"{self.name}.{name}: the frame has no view {shape.view!r}: {known}")
            placed[name] = shape.in_frame(places[shape.view], size_wh=size_wh, pixels=self.pixels)
        copy = self.model_copy()
        object.__setattr__(copy, "__pydantic_extra__", placed)
        return copy

    def wanted_views(self) -> Iterator[tuple[Location, str]]:
        """Yield the view of each shape that has one."""
        for name, shape in self.__pydantic_extra__.items():
            if shape.view is not None:
                yield (name, "view"), shape.view

    def wanted_labels(self) -> Iterator[tuple[Location, str]]:
        """Yield the classes of each shape."""
        for name, shape in self.__pydantic_extra__.items():
            for number, label in enumerate(shape.classes or ()):
                yield (name, "classes", number), label


MEANS_NOTHING = "means nothing with `compat: deepstream`: leave it out"
NEEDS_COMPAT = "needs `compat: deepstream` in the step"
AREA_OPTIONS = "polygon", "anchor", "view"
"""Options of areas that `compat: deepstream` does not have where it looks at whole frames."""


def refuse_options(title: str, shapes: Mapping[str, Shape], options: Iterable[str], advice: str) -> None:
    """Raise a ValidationError that names each place where a shape has one of these options."""
    errors = [
        InitErrorDetails(
            type=PydanticCustomError("compat", "{advice}", {"advice": advice}), loc=(name, option), input=None
        )
        for name, shape in shapes.items()
        for option in options
        if option in shape.model_fields_set
    ]
    if errors:
        raise ValidationError.from_exception_data(title, errors)


def refuse_window(rule: ShapeRule) -> None:
    """Raise a ValidationError when a rule that does not count as DeepStream has the option `window`."""
    if "window" in rule.model_fields_set and getattr(rule, "compat", None) is None:
        error = InitErrorDetails(
            type=PydanticCustomError("compat", "{advice}", {"advice": NEEDS_COMPAT}), loc=("window",), input=None
        )
        raise ValidationError.from_exception_data(rule.name, [error])


_MOST_FORMER = 1000
Counted = TypeVar("Counted")


def former_names(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, str]:
    """Return the name that each shape of `new` had in `old`, for those that were there.

    They have the same name, or are renamed: a shape is renamed when its name is new, and an equal shape's name is gone.
    """
    gone = [name for name in old if name not in new]
    former: dict[str, str] = {}
    for name, shape in new.items():
        if name in old:
            former[name] = name
        elif (before := next((one for one in gone if old[one] == shape), None)) is not None:
            gone.remove(before)
            former[name] = before
    return former


def continued_tally(
    tally: Mapping[str, Counted], *, former: Mapping[str, str], names: Sequence[str], make: Callable[[], Counted]
) -> dict[str, Counted]:
    """Return the counts of shapes by name after a change: those of `names` first, then of shapes that are gone.

    A shape whose name was there before, at any time, goes on counting.
    """
    present = {name: tally.get(former.get(name, name)) for name in names}
    counts = {name: make() if one is None else one for name, one in present.items()}
    taken = {*names, *former.values()}
    gone = [name for name in tally if name not in taken]
    return counts | {name: tally[name] for name in gone[-_MOST_FORMER:]}


def drawings(shapes: Mapping[str, Shape], *, pixels: bool) -> dict[str, str]:
    """Return what each shape looks like, as text that is equal when the shape is: for states of another process."""
    return {name: repr((pixels, shape.drawing)) for name, shape in shapes.items()}


def places_of(saved: Mapping[str, str], present: Mapping[str, str]) -> dict[int, int]:
    """Return the numbers that saved shapes have now, by the number that they had: of those that look the same."""
    numbers = {name: number for number, name in enumerate(present)}
    return {
        before: numbers[name] for before, (name, drawing) in enumerate(saved.items()) if present.get(name) == drawing
    }


def anchor_fractions(anchors: Iterable[Anchor]) -> Floats:
    """Return where anchors lie in a box, (K, 2) in fractions of its width and height."""
    return np.array([_ANCHORS[anchor] for anchor in anchors], np.float64).reshape(-1, 2)


def fixed_margins(margins: Iterable[Margin], *, height: float) -> Floats:
    """Return margins (K,) in pixels, 0 for `auto`; `height` is that of the frame, or 1 where margins are pixels."""
    return np.array([0.0 if margin == "auto" else margin * height for margin in margins])


def measured_widths(margins: Iterable[Margin]) -> Floats:
    """Return how wide the margins (K,) are in standard deviations of the box, 0 for those that are fixed."""
    return np.array([NOISE_MARGIN if margin == "auto" else 0.0 for margin in margins])


def in_pixels(points: Sequence[Point], *, size_wh: tuple[int, int], pixels: bool) -> Floats:
    """Return points as pixels of a frame, (K, 2)."""
    array = np.array(points, np.float64)
    return array if pixels else array * np.array(size_wh, np.float64)


def _require_inside(title: str, places: Iterable[tuple[Location, Point]], *, pixels: bool) -> None:
    """Raise a ValidationError that names each place whose point lies outside 0..1, or is a negative pixel."""
    most = np.inf if pixels else 1
    advice = "pixels count from 0" if pixels else "give fractions from 0 to 1, or pixels and `pixels: true`"
    errors = [
        InitErrorDetails(
            type=PydanticCustomError(
                "outside", "{point} is outside the image: {advice}", {"point": _written((x, y)), "advice": advice}
            ),
            loc=location,
            input=(x, y),
        )
        for location, (x, y) in places
        if not (0 <= x <= most and 0 <= y <= most)
    ]
    if errors:
        raise ValidationError.from_exception_data(title, errors)
