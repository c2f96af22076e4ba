"""What rules share when they are described: points, anchors, and the mistakes in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, Field, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from sightline.media import Batch, Stream
from sightline_plugins.rules.geometry import Floats

Coordinate = Annotated[float, Field(allow_inf_nan=False)]
Point = tuple[Coordinate, Coordinate]
"""(x, y) in fractions of the image, or in pixels."""

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

Location = tuple[str | int, ...]


def anchor_fractions(anchors: Iterable[Anchor]) -> Floats:
    """Where anchors lie in a box, in fractions of its width and height, (K, 2)."""
    return np.array([_ANCHORS[anchor] for anchor in anchors], np.float64).reshape(-1, 2)


def require_shape(value: object, *, kind: str, example: str, options: Sequence[str] = ()) -> object:
    """The value, if a shape can be made of it. Raises ValueError: it is most likely a misspelt option of the step."""
    if isinstance(value, Mapping | BaseModel):
        return value
    known = ", ".join(("id", "streams", "pixels", *options))
    raise ValueError(f"is neither a {kind}, which is written {example}, nor an option: those are {known}")


def require_fractions(title: str, places: Iterable[tuple[Location, Point]]) -> None:
    """Raise a ValidationError that names each place whose point lies outside 0..1."""
    errors = [
        InitErrorDetails(
            type=PydanticCustomError(
                "fraction",
                "[{x}, {y}] is outside the image: give fractions from 0 to 1, or pixels and `pixels: true`",
                {"x": f"{x:g}", "y": f"{y:g}"},
            ),
            loc=location,
            input=(x, y),
        )
        for location, (x, y) in places
        if not (0 <= x <= 1 and 0 <= y <= 1)
    ]
    if errors:
        raise ValidationError.from_exception_data(title, errors)


def in_pixels(points: Sequence[Point], *, size_wh: tuple[int, int], pixels: bool) -> Floats:
    """Points as pixels of an image, (K, 2)."""
    array = np.array(points, np.float64)
    return array if pixels else array * np.array(size_wh, np.float64)


Group = tuple[Stream, tuple[int, int], list[int]]
"""A stream, the size of its images, and the rows of its frames in a batch."""


def groups(batch: Batch) -> Iterator[Group]:
    """The frames of a batch by stream (and by size, should it change), each in order."""
    rows: dict[tuple[Stream, tuple[int, int]], list[int]] = {}
    for row, frame in enumerate(batch.frames):
        rows.setdefault((frame.stream, frame.size_wh), []).append(row)
    for (stream, size_wh), own in rows.items():
        yield stream, size_wh, own
