"""Views: cameras that do not exist, turned and mounted as one likes, which look at what a lens has seen.

A view's ray is turned by roll, pitch and yaw into the axes of the room (x to the right, y down, z ahead, level), and
from there, by how the camera is mounted, into the axes of the camera.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from sightline.graph.described import Described
from sightline.media import Views
from sightline.media.views import Written
from sightline_plugins.warp.lens import Floats, Lens

Mount: TypeAlias = Literal["wall", "ceiling", "floor"]
Side = Annotated[int, Field(ge=16, le=8192)]
Angle = Annotated[float, Field(ge=-360, le=360, allow_inf_nan=False)]

_CAMERA_FROM_ROOM: Mapping[Mount, Floats] = {
    "wall": np.eye(3),
    "ceiling": np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]),
    "floor": np.array([[-1.0, 0, 0], [0, 0, -1], [0, -1, 0]]),
}
"""The optical axis looks ahead, down or up; of a camera that looks down or up, the top of its image is ahead."""


class View(Described):
    """One view of a camera."""

    projection: Literal["perspective", "panorama"] = "perspective"
    """`perspective` is what an ordinary camera sees: straight lines are straight. `panorama` unrolls a cylinder around
    the room's vertical axis: upright lines are straight, and all directions fit in one image."""
    yaw: Angle = 0
    """Where it looks, in degrees to the right of ahead. Ahead of a camera on a ceiling is the top of its image."""
    pitch: Annotated[float, Field(ge=-90, le=90)] = 0
    """How far it looks up from level, in degrees; -90 is straight down. Of a panorama, its middle row."""
    roll: Angle = 0
    """How far it is turned around its own axis, in degrees clockwise; not of a panorama."""
    fov: Annotated[float, Field(gt=0, le=360)] | None = None
    """Its width as an angle in degrees: below 180 for `perspective`, where it is 90 when not given; up to 360 for
    `panorama`, where it is all around (180 on a wall)."""
    size: tuple[Side, Side] | None = None
    """Width and height in pixels, both even; [640, 480], and [1280, 320] for a panorama, when not given."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.projection == "perspective" and self.fov is not None and self.fov >= 180:
            raise ValueError(f"a perspective view is less than 180 degrees wide, not {self.fov:g}: use a panorama")
        if self.projection == "panorama" and (self.roll or abs(self.pitch) > 80):
            raise ValueError("a panorama has no roll, and a pitch from -80 to 80")
        if self.size is not None and (self.size[0] % 2 or self.size[1] % 2):
            raise ValueError(f"size [{self.size[0]}, {self.size[1]}] must be even: chroma has half as many pixels")
        return self

    @property
    def size_wh(self) -> tuple[int, int]:
        """Its width and height in pixels."""
        return self.size or ((640, 480) if self.projection == "perspective" else (1280, 320))

    def rays(self, points: Floats, *, mount: Mount) -> Floats:
        """Return the rays (..., 3), in the axes of the camera, that pixels (..., 2) of the view show."""
        width, height = self.size_wh
        x, y = points[..., 0] - width / 2, points[..., 1] - height / 2
        if self.projection == "perspective":
            focal = width / 2 / math.tan(math.radians(90 if self.fov is None else self.fov) / 2)
            room = np.stack([x, y, np.full_like(x, focal)], axis=-1) @ self._room_from_view().T
        else:
            widest = math.radians(self.fov or (180 if mount == "wall" else 360))
            focal = width / widest
            angle = x / focal + math.radians(self.yaw)
            down = y / focal - math.tan(math.radians(self.pitch))
            room = np.stack([np.sin(angle), down, np.cos(angle)], axis=-1)
        rays: Floats = room @ _CAMERA_FROM_ROOM[mount].T
        return rays

    def _room_from_view(self) -> Floats:
        yaw, pitch, roll = (math.radians(angle) for angle in (self.yaw, self.pitch, self.roll))
        turn_yaw = np.array([[math.cos(yaw), 0, math.sin(yaw)], [0, 1, 0], [-math.sin(yaw), 0, math.cos(yaw)]])
        turn_pitch = np.array(
            [[1, 0, 0], [0, math.cos(pitch), -math.sin(pitch)], [0, math.sin(pitch), math.cos(pitch)]]
        )
        turn_roll = np.array([[math.cos(roll), -math.sin(roll), 0], [math.sin(roll), math.cos(roll), 0], [0, 0, 1]])
        turned: Floats = turn_yaw @ turn_pitch @ turn_roll
        return turned


@dataclass(frozen=True, slots=True)
class Layout:
    """Where views lie in the image that holds them: in rows of `columns`, `gap` pixels apart."""

    names: tuple[str, ...]
    views: tuple[View, ...]
    mount: Mount
    columns: int
    gap: int

    def corners(self) -> list[tuple[int, int]]:
        """The left top corner of each view."""
        found: list[tuple[int, int]] = []
        top = 0
        for row in self._rows():
            left = 0
            for view in row:
                found.append((left, top))
                left += view.size_wh[0] + self.gap
            top += max(view.size_wh[1] for view in row) + self.gap
        return found

    @property
    def size_wh(self) -> tuple[int, int]:
        """Width and height of the image."""
        places = list(zip(self.corners(), self.views, strict=True))
        width, height = (max(corner[side] + view.size_wh[side] for corner, view in places) for side in (0, 1))
        return width, height

    def rectangles(self) -> npt.NDArray[np.int32]:
        """Where each view lies, (V, 4)."""
        pairs = zip(self.corners(), self.views, strict=True)
        return np.array([(x, y, x + view.size_wh[0], y + view.size_wh[1]) for (x, y), view in pairs], np.int32)

    def pixels(self, lens: Lens, *, size_wh: tuple[int, int], shift: tuple[int, int] = (0, 0)) -> Floats:
        """Return for each pixel of a plane of the image, (H, W, 2), the pixel of the lens's image of that size that it
        shows, both in pixels of the first plane; NaN where it shows nothing. `shift` is that of the plane's chroma.
        """
        width, height = (side >> bits for side, bits in zip(self.size_wh, shift, strict=True))
        found = np.full((height, width, 2), np.nan)
        for (left, top), view in zip(self.corners(), self.views, strict=True):
            own_wh = view.size_wh[0] >> shift[0], view.size_wh[1] >> shift[1]
            x, y = ((np.arange(side) + 0.5) * (1 << bits) for side, bits in zip(own_wh, shift, strict=True))
            points = np.stack(np.meshgrid(x, y), axis=-1)
            first_x, first_y = left >> shift[0], top >> shift[1]
            found[first_y : first_y + own_wh[1], first_x : first_x + own_wh[0]] = lens.pixels(
                view.rays(points, mount=self.mount), size_wh=size_wh
            )
        return found

    def metadata(self, lens: Lens, *, size_wh: tuple[int, int], written: Written | None) -> Views:
        """What goes with each frame, for the lens's image of that size."""
        rectangles = self.rectangles()

        def locate(view: npt.NDArray[np.intp], points: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
            found = np.empty(points.shape, np.float64)
            for number in np.unique(view).tolist():
                own = view == number
                inside = points[own].astype(np.float64) - rectangles[number, :2]
                found[own] = lens.pixels(self.views[number].rays(inside, mount=self.mount), size_wh=size_wh)
            return found

        return Views(self.names, rectangles, locate, written)

    def _rows(self) -> Sequence[tuple[View, ...]]:
        return [self.views[first : first + self.columns] for first in range(0, len(self.views), self.columns)]
