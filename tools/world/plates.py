"""Number plates: put on vehicles, and where they are seen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from tools.world.arrays import Floats, Image
from tools.world.camera import Camera
from tools.world.mesh import Mesh, Part, Pose
from tools.world.sprite import Sprite

LEAST_WIDTH_PX = 56.0
LEAST_HEIGHT_PX = 11.0
LEAST_VISIBLE = 0.95


@dataclass(frozen=True, slots=True)
class Plate:
    """A plate that faces the camera: the track it belongs to, its text, its corners (4, 2) from the reader's lower left
    round, pixels, the box around them, clipped to the image, and the share of it that is inside and not hidden.
    """

    track_id: int
    text: str
    corners: Floats
    xyxy: Floats
    visibility: float

    @property
    def is_readable(self) -> bool:
        """Whether it is large enough, and open enough, that it should be read."""
        width, height = self.xyxy[2:] - self.xyxy[:2]
        return bool(self.visibility >= LEAST_VISIBLE and width >= LEAST_WIDTH_PX and height >= LEAST_HEIGHT_PX)


def with_plates(mesh: Mesh, text: str) -> Mesh:
    """The mesh with a text on its plates."""
    parts = [
        Part(tuple(item if item.text is None else replace(item, text=text) for item in part.faces), part.layer)
        for part in mesh.parts
    ]
    return Mesh(tuple(parts), mesh.size)


def facing(mesh: Mesh, *, pose: Pose, camera: Camera) -> tuple[str, Floats] | None:
    """The text of the plate that faces the camera and its corners (4, 2), pixels of the camera; None when none does."""
    for part in mesh.parts:
        for item in part.faces:
            if not item.text:
                continue
            points = pose.place(item.points)
            normal = np.cross(points[1] - points[0], points[2] - points[0])
            if normal @ (camera.position - points[0]) > 0:
                corners = camera.polygon(points)
                return (item.text, corners) if len(corners) == 4 else None
    return None


def seen(found: tuple[str, Floats], sprite: Sprite, *, shift: Floats, hidden: Image) -> Plate | None:
    """A plate on a sprite as the image shows it; `shift` leads from pixels of the camera to those of the image,
    and `hidden` (height, width) says how much of each is covered by what is nearer. None when it is outside.
    """
    text, corners = found
    corners = corners + shift
    height, width = hidden.shape
    whole = np.concatenate([corners.min(axis=0), corners.max(axis=0)])
    box: Floats = np.clip(whole, 0, [width, height, width, height])
    sides = box[2:] - box[:2]
    if sides.min() < 1:
        return None
    (x0, y0), (x1, y1) = np.floor(box[:2]).astype(int), np.ceil(box[2:]).astype(int)
    inside = float(sides.prod() / (whole[2:] - whole[:2]).prod())
    return Plate(sprite.track_id, text, corners, box, inside * float(1 - hidden[y0:y1, x0:x1].mean()))
