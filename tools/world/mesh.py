"""Solids made of flat faces, in metres, x ahead, y to the left, z up; painted face by face."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from tools.world.arrays import Colour, Floats
from tools.world.camera import Camera
from tools.world.lettering import INK, ink
from tools.world.light import Light
from tools.world.sprite import Canvas, Footprint, Sprite

Point = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Face:
    """A flat convex face; its corners run counter-clockwise seen from outside. `glow` is added by night.

    `text` is printed on a four-cornered one that begins at the reader's lower left; None for faces that are no plates.
    """

    points: Floats
    colour: Colour
    edge: float = 1.0
    glow: Colour | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A convex solid with what is painted on it; parts are painted by `layer`, then the farthest first."""

    faces: tuple[Face, ...]
    layer: int = 0


@dataclass(frozen=True, slots=True)
class Mesh:
    """All parts of a thing and the size of its footprint (length, width)."""

    parts: tuple[Part, ...]
    size: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Pose:
    """Where a thing stands on the ground and where it heads (radians, 0 along x)."""

    x: float
    y: float
    heading: float

    def place(self, points: Floats) -> Floats:
        """Points of the thing (N, 3) in world axes."""
        cosine, sine = np.cos(self.heading), np.sin(self.heading)
        placed = points.copy()
        placed[:, 0] = self.x + cosine * points[:, 0] - sine * points[:, 1]
        placed[:, 1] = self.y + sine * points[:, 0] + cosine * points[:, 1]
        return placed

    def footprint(self, size: tuple[float, float]) -> Footprint:
        """The ground rectangle, along the world axes, around a thing of that length and width."""
        cosine, sine = abs(np.cos(self.heading)), abs(np.sin(self.heading))
        half_x = float(cosine * size[0] + sine * size[1]) / 2
        half_y = float(sine * size[0] + cosine * size[1]) / 2
        return Footprint(self.x - half_x, self.y - half_y, self.x + half_x, self.y + half_y)


def face(*points: Point, colour: Colour, edge: float = 1.0, glow: Colour | None = None) -> Face:
    """A face from its corners."""
    return Face(np.array(points, dtype=np.float64), colour, edge, glow)


def prism(
    profile: Sequence[tuple[float, float]], *, half_width: float, colour: Colour, edge: float = 0.8
) -> list[Face]:
    """A convex side profile (x, z), counter-clockwise seen from the right side, drawn across the width."""
    right = [(x, -half_width, z) for x, z in profile]
    left = [(x, half_width, z) for x, z in profile]
    faces = [face(*right, colour=colour, edge=edge), face(*reversed(left), colour=colour, edge=edge)]
    for index in range(len(profile)):
        following = (index + 1) % len(profile)
        faces.append(face(right[index], left[index], left[following], right[following], colour=colour, edge=edge))
    return faces


def frustum(
    *,
    bottom: tuple[float, float],
    top: tuple[float, float],
    z: tuple[float, float],
    half: tuple[float, float],
    colour: Colour,
) -> list[Face]:
    """A solid between two level rectangles: x from-to and half width at the bottom and at the top."""
    low = [
        (bottom[0], -half[0], z[0]),
        (bottom[1], -half[0], z[0]),
        (bottom[1], half[0], z[0]),
        (bottom[0], half[0], z[0]),
    ]
    high = [(top[0], -half[1], z[1]), (top[1], -half[1], z[1]), (top[1], half[1], z[1]), (top[0], half[1], z[1])]
    sides = [face(low[i], low[(i + 1) % 4], high[(i + 1) % 4], high[i], colour=colour, edge=0.8) for i in range(4)]
    return [*sides, face(*high, colour=colour, edge=0.8)]


def inset(
    base: Face, *, across: tuple[float, float], up: tuple[float, float], colour: Colour, glow: Colour | None = None
) -> Face:
    """A patch on a four-cornered face: fractions along its first edge and up its second."""
    p00, p10, p11, p01 = base.points
    corners = []
    for u, v in ((across[0], up[0]), (across[1], up[0]), (across[1], up[1]), (across[0], up[1])):
        corners.append((1 - v) * ((1 - u) * p00 + u * p10) + v * ((1 - u) * p01 + u * p11))
    return Face(np.array(corners), colour, 1.0, glow)


def paint(mesh: Mesh, *, pose: Pose, camera: Camera, light: Light, track_id: int = -1) -> Sprite | None:
    """The mesh as the camera sees it, or None when it is not in front of the camera."""
    placed = [[pose.place(item.points) for item in part.faces] for part in mesh.parts]
    outlines = [camera.polygon(points) for part in placed for points in part]
    seen = [xy for xy in outlines if len(xy)]
    if not seen:
        return None
    canvas = Canvas(np.concatenate(seen), pad_px=1.0, limit_wh=camera.size_wh)
    for index in _far_to_near(mesh.parts, placed=placed, camera=camera):
        _paint_part(canvas, mesh.parts[index], placed=placed[index], camera=camera, light=light)
    return canvas.finish(footprint=pose.footprint(mesh.size), track_id=track_id, ground_shade=0.84)


def _normal(points: Floats) -> Floats:
    """The unit normal of a flat face."""
    (ax, ay, az), (bx, by, bz) = (points[1] - points[0]).tolist(), (points[2] - points[0]).tolist()
    x, y, z = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
    return np.array([x, y, z]) / (math.sqrt(x * x + y * y + z * z) or 1.0)


def _far_to_near(parts: Sequence[Part], *, placed: Sequence[Sequence[Floats]], camera: Camera) -> Iterable[int]:
    depths = [camera.depth(np.concatenate(points).mean(axis=0)) for points in placed]
    return sorted(range(len(parts)), key=lambda index: (parts[index].layer, -depths[index]))


def _paint_part(canvas: Canvas, part: Part, *, placed: Sequence[Floats], camera: Camera, light: Light) -> None:
    for item, points in zip(part.faces, placed, strict=True):
        normal = _normal(points)
        if normal @ (camera.position - points[0]) <= 0:
            continue
        colour = light.lit(item.colour, normal=normal)
        if item.glow is not None and light.lamps:
            red, green, blue = (min(255.0, c + g * light.lamps) for c, g in zip(colour, item.glow, strict=True))
            colour = (red, green, blue)
        outline = camera.polygon(points)
        canvas.polygon(outline, colour=colour, edge=item.edge)
        if item.text and len(outline) == 4:
            canvas.printed(outline, ink(item.text), colour=light.lit(INK, normal=normal))
