"""What things do to the light on the ground: shadows, the dark under a car, headlights."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
from tools.world.arrays import Floats, Image
from tools.world.camera import Camera
from tools.world.light import Light
from tools.world.mesh import Mesh, Pose
from tools.world.scene import Actor, Scene
from tools.world.vehicles import Vehicle


def _size(actor: Actor, meshes: dict[int, Mesh]) -> tuple[float, float, float]:
    """Length, width and height of the box that throws the shadow, metres."""
    if isinstance(actor.look, Vehicle):
        length, width = meshes[actor.track_id].size
        return length, width, {"car": 1.35, "van": 2.3, "truck": 3.1, "bus": 3.0}[actor.look.kind]
    return (1.5, 0.3, 1.6) if actor.label == "bicycle" else (0.3, 0.4, 1.65)


def pose_of(actor: Actor, *, frame: int) -> Pose:
    """Where an actor stands in a frame."""
    step = frame - actor.first_frame
    return Pose(float(actor.x[step]), float(actor.y[step]), float(actor.heading[step]))


def _corners(length: float, width: float, height: float) -> Floats:
    flat = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * np.array([length, width]) / 2
    low = np.concatenate([flat, np.zeros((4, 1))], axis=1)
    return np.concatenate([low, low + np.array([0, 0, height])])


def thrown(points: Floats, *, light: Light) -> Floats:
    """Where the shadows of points (N, 3) fall on the ground."""
    slope = light.towards_sun[:2] / max(float(light.towards_sun[2]), 0.25)
    fallen = points.copy()
    fallen[:, :2] -= points[:, 2:3] * slope
    fallen[:, 2] = 0.0
    return fallen


def fill_hull(mask: npt.NDArray[np.uint8], points: Floats, *, camera: Camera, value: int = 255) -> None:
    """Fill the hull of ground points (N, 3); nothing where one lies behind the camera."""
    seen = camera.to_camera(points)
    if (seen[:, 2] < 1.0).any():
        return
    xy = np.clip(camera.to_pixels(seen), -20_000, 20_000).astype(np.float32)
    hull = cv2.convexHull(xy)
    cv2.fillConvexPoly(mask, np.round(hull * 16).astype(np.int32), value, cv2.LINE_AA, 4)


def darken(base: Image, *, scene: Scene, present: list[Actor], meshes: dict[int, Mesh], frame: int) -> None:
    """Darken the ground by the shadows of all actors."""
    sun = np.zeros(base.shape[:2], np.uint8)
    touch = np.zeros(base.shape[:2], np.uint8)
    front = scene.entrance.y if scene.entrance else np.inf
    for actor in present:
        pose = pose_of(actor, frame=frame)
        if pose.y > front:
            continue
        length, width, height = _size(actor, meshes)
        placed = pose.place(_corners(length, width, height))
        fallen = thrown(placed, light=scene.light)
        fallen[:, 1] = np.minimum(fallen[:, 1], front)
        fill_hull(sun, fallen, camera=scene.camera)
        fill_hull(touch, placed[:4], camera=scene.camera)
    soft_sun = cv2.GaussianBlur(sun, (0, 0), 0.9).astype(np.float32) / 255
    soft_touch = cv2.GaussianBlur(touch, (0, 0), 2.2).astype(np.float32) / 255
    shade = (1 - scene.light.shadow * soft_sun) * (1 - 0.42 * soft_touch)
    base *= shade[..., None]


def headlights(base: Image, *, scene: Scene, present: list[Actor], meshes: dict[int, Mesh], frame: int) -> None:
    """Light the ground before each vehicle."""
    beams = np.zeros(base.shape[:2], np.uint8)
    for actor in present:
        if isinstance(actor.look, Vehicle):
            front = meshes[actor.track_id].size[0] / 2
            for reach, spread, level in ((8.0, 1.9, 90), (5.0, 1.3, 200)):
                beam = np.array(
                    [(front, -0.6, 0), (front, 0.6, 0), (front + reach, spread, 0), (front + reach, -spread, 0)]
                )
                fill_hull(beams, pose_of(actor, frame=frame).place(beam), camera=scene.camera, value=level)
    soft = cv2.GaussianBlur(beams, (0, 0), 5.0).astype(np.float32) / 255
    base *= 1 + soft[..., None] * np.array([0.95, 0.9, 0.72], np.float32)
