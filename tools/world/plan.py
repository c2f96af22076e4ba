"""What can be asked of every scene, whatever it shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tools.world.camera import Camera
from tools.world.rules import Line, Zone
from tools.world.scene import CALM, MARGIN_PX, Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenePlan:
    """RgbImage, camera, light, effects and rules of a scene; the seed decides what is not asked for.

    The camera stands at (`camera_x`, 0, `camera_height`) and looks at `target` on the ground, metres.
    """

    seed: int
    size_wh: tuple[int, int] = (640, 360)
    fps: int = 25
    frames: int = 500
    light: str = "day"
    camera_x: float
    camera_height: float
    target: tuple[float, float]
    field_of_view_degrees: float
    effects: Effects = CALM
    lines: tuple[Line, ...] = ()
    zones: tuple[Zone, ...] = ()

    def camera(self) -> Camera:
        """The camera, with MARGIN_PX around its image."""
        width, height = self.size_wh[0] + 2 * MARGIN_PX, self.size_wh[1] + 2 * MARGIN_PX
        half_angle = np.radians(self.field_of_view_degrees) / 2
        wider = 2 * np.degrees(np.arctan(np.tan(half_angle) * width / self.size_wh[0]))
        return Camera.looking_at(
            (*self.target, 0.0),
            position=(self.camera_x, 0.0, self.camera_height),
            field_of_view_degrees=float(wider),
            size_wh=(width, height),
        )
