"""A pinhole camera above a flat ground: metres to pixels and back.

World axes: x to the right, y away from the camera, z up, metres; the ground is z = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tools.world.arrays import Floats

NEAR_METRES = 0.6


@dataclass(frozen=True, slots=True)
class Camera:
    """Where the camera stands, how it looks and how it maps metres to pixels of its `size_wh` image."""

    position: Floats
    world_to_camera: Floats
    focal_px: float
    size_wh: tuple[int, int]

    @staticmethod
    def looking_at(
        target: tuple[float, float, float],
        *,
        position: tuple[float, float, float],
        field_of_view_degrees: float,
        size_wh: tuple[int, int],
    ) -> Camera:
        """A camera at `position` whose optical axis passes through `target`, without roll."""
        forward = np.subtract(target, position).astype(np.float64)
        forward /= np.linalg.norm(forward)
        right = np.array([forward[1], -forward[0], 0.0])
        right /= np.linalg.norm(right)
        down = np.cross(forward, right)
        focal_px = size_wh[0] / 2 / np.tan(np.radians(field_of_view_degrees) / 2)
        return Camera(np.array(position, dtype=np.float64), np.stack([right, down, forward]), float(focal_px), size_wh)

    def to_camera(self, points: Floats) -> Floats:
        """World points (N, 3) as right, down, forward metres seen from the camera."""
        seen: Floats = (points - self.position) @ self.world_to_camera.T
        return seen

    def to_pixels(self, seen: Floats) -> Floats:
        """Points in camera axes (N, 3) as pixels (N, 2); they must lie in front of the camera."""
        xy: Floats = seen[:, :2] / seen[:, 2:3] * self.focal_px + np.array(self.size_wh) / 2
        return xy

    def project(self, points: Floats) -> Floats:
        """World points (N, 3) as pixels (N, 2); what lies behind the near plane is pushed onto it."""
        seen = self.to_camera(points)
        seen[:, 2] = np.maximum(seen[:, 2], NEAR_METRES)
        return self.to_pixels(seen)

    def polygon(self, points: Floats) -> Floats:
        """A flat polygon (N, 3) as pixels (M, 2), cut at the near plane; empty when it lies behind."""
        seen = self.to_camera(points)
        if (seen[:, 2] < NEAR_METRES).any():
            seen = cut_at_depth(seen, depth=NEAR_METRES)
        return self.to_pixels(seen) if len(seen) else np.zeros((0, 2))

    def depth(self, point: Floats) -> float:
        """Metres along the optical axis."""
        return float((point - self.position) @ self.world_to_camera[2])

    def ground_under_pixels(self, *, oversampling: int = 1) -> tuple[Floats, Floats, Floats]:
        """Ground x, y and metres per pixel under each pixel (height, width); y is infinite above the horizon."""
        width, height = (side * oversampling for side in self.size_wh)
        columns = ((np.arange(width) + 0.5) / oversampling - self.size_wh[0] / 2) / self.focal_px
        rows = ((np.arange(height) + 0.5) / oversampling - self.size_wh[1] / 2) / self.focal_px
        ahead = np.stack(np.broadcast_arrays(columns[None], rows[:, None], np.ones((1, 1))), axis=-1)
        rays = ahead @ self.world_to_camera
        falling = np.where(rays[..., 2] < -1e-4, rays[..., 2], np.nan)
        steps = -self.position[2] / falling
        x = self.position[0] + rays[..., 0] * steps
        y = self.position[1] + rays[..., 1] * steps
        return x, np.where(np.isnan(y), np.inf, y), steps / self.focal_px


def cut_at_depth(seen: Floats, *, depth: float) -> Floats:
    """The part of a polygon in camera axes that lies beyond `depth` (Sutherland and Hodgman, one plane)."""
    kept: list[Floats] = []
    for start, stop in zip(seen, np.roll(seen, -1, axis=0), strict=True):
        if start[2] >= depth:
            kept.append(start)
        if (start[2] >= depth) != (stop[2] >= depth):
            kept.append(start + (stop - start) * (depth - start[2]) / (stop[2] - start[2]))
    return np.array(kept).reshape(-1, 3)
