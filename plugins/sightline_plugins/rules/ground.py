"""Where points of the frame are on the ground, in metres: a plane, given by four points or by one length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from sightline.graph.described import Described
from sightline_plugins.rules.geometry import Floats, lie_on_a_line
from sightline_plugins.rules.shapes import Coordinate, Location, Point, in_pixels

Metres = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_FARTHEST = 3.0
"""Beyond so many times the distance of the farthest given point the ground is not known well enough."""
Place = tuple[Coordinate, Coordinate]
"""(x, y) on the ground, in metres from any origin."""


class Ground(Described):
    """What is known of the ground: four points and where they are, a rectangle, or one length seen from above."""

    frame: tuple[Point, Point, Point, Point] | None = None
    """Four points of the frame that lie on the ground, [[x, y], ...]; no three of them on a line."""
    metres: tuple[Place, Place, Place, Place] | None = None
    """Where those points are, [[x, y], ...] in metres from any origin, in the same order."""
    width: Metres | None = None
    """When the four points are the corners of a rectangle, in the order in which somebody walks around it: how far it
    is from the first to the second, in metres."""
    length: Metres | None = None
    """How far it is from the second to the third, in metres; or from `from` to `to`."""
    start: Annotated[Point | None, Field(alias="from")] = None
    """One end of a line with a known `length`, [x, y], for a camera that looks straight down."""
    to: Point | None = None
    """The other end of it, [x, y]."""

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        is_line = self.start is not None or self.to is not None
        given = (self.frame is not None, self.metres is not None, self.width is not None, self.length is not None)
        if is_line:
            if self.start is None or self.to is None or given != (False, False, False, True):
                raise ValueError("a line with a known length, seen from above, is given by from, to and length alone")
            if self.start == self.to:
                raise ValueError("from and to are the same point: give two points, and the length between them")
        elif given not in ((True, True, False, False), (True, False, True, True)):
            raise ValueError(
                "give `frame` (four points on the ground) with `metres` (their places), or with width and length of "
                "the rectangle; or from, to and length for a camera that looks straight down"
            )
        else:
            self._check_points()
        return self

    def points(self) -> Iterator[tuple[Location, Point]]:
        """Yield the points of the frame with their paths below this option."""
        for number, point in enumerate(self.frame or ()):
            yield ("frame", number), point
        for option, end in (("from", self.start), ("to", self.to)):
            if end is not None:
                yield (option,), end

    def plane(self, size_wh: tuple[int, int], *, pixels: bool) -> GroundPlane:
        """Return the map from pixels of frames of that size to metres."""
        if self.frame is None:
            assert self.start is not None
            assert self.to is not None
            assert self.length is not None
            start, to = in_pixels([self.start, self.to], size_wh=size_wh, pixels=pixels)
            scale = self.length / np.hypot(*(to - start))
            return GroundPlane(np.diag([scale, scale, 1.0]))
        points = in_pixels(self.frame, size_wh=size_wh, pixels=pixels)
        matrix = _homography(points, self._places())
        return GroundPlane(matrix, least_depth=float(_depths(matrix, points).min()) / _FARTHEST)

    def _places(self) -> Floats:
        if self.metres is not None:
            return np.array(self.metres, np.float64)
        width, length = self.width or 0, self.length or 0
        return np.array([(0, 0), (width, 0), (width, length), (0, length)], np.float64)

    def _check_points(self) -> None:
        frame, places = np.array(self.frame, np.float64), self._places()
        for option, points in (("frame", frame), ("metres", places)):
            for three in combinations(range(4), 3):
                if lie_on_a_line(points[list(three)]):
                    first, second, third = (number + 1 for number in three)
                    raise ValueError(
                        f"points {first}, {second} and {third} of {option} lie on one line: give four points of which "
                        "no three do"
                    )
        if not _is_in_order(frame, places):
            raise ValueError(
                "the four points are not in the order of their places: give both in the order in which somebody walks "
                "around them"
            )


@dataclass(frozen=True, slots=True, eq=False)
class GroundPlane:
    """A homography: `matrix` (3, 3) takes (x, y, 1) in pixels to metres.

    The third coordinate, the depth, falls to 0 at the horizon; points below `least_depth` are not used.
    See Hartley and Zisserman, Multiple View Geometry, 2.3 and 4.1.
    """

    matrix: Floats
    least_depth: float = 0.0


def _depths(matrix: Floats, points: Floats) -> Floats:
    depths: Floats = points @ matrix[2, :2] + matrix[2, 2]
    return depths


def _is_in_order(points: Floats, places: Floats) -> bool:
    """Return whether four points and their places go around in the same order: then all are before the horizon."""
    try:
        matrix = _homography(points, places)
    except np.linalg.LinAlgError:
        return False
    return bool((_depths(matrix, points) > 0).all())


def _homography(points: Floats, places: Floats) -> Floats:
    """Return the matrix (3, 3) that takes four points to their places; no three of them lie on a line.

    Its third row is 1 in the middle of the points.
    """
    middle = points.mean(axis=0)
    zero, one = np.zeros(4), np.ones(4)
    (x, y), (u, v) = (points - middle).T, places.T
    rows = np.concatenate(
        [
            np.stack([x, y, one, zero, zero, zero, -u * x, -u * y], axis=1),
            np.stack([zero, zero, zero, x, y, one, -v * x, -v * y], axis=1),
        ]
    )
    scale = np.abs(rows).max(axis=0)
    solved = np.linalg.solve(rows / scale, np.concatenate([u, v])) / scale
    from_middle = np.array([[1, 0, -middle[0]], [0, 1, -middle[1]], [0, 0, 1]])
    matrix: Floats = np.append(solved, 1).reshape(3, 3) @ from_middle
    return matrix
