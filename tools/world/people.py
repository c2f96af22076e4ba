"""Walking people and cyclists, drawn from their joints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tools.world.arrays import Colour, Floats
from tools.world.camera import Camera
from tools.world.light import Light
from tools.world.mesh import Pose
from tools.world.sprite import Canvas, Footprint, Sprite

SKINS: tuple[Colour, ...] = ((236, 196, 166), (214, 166, 130), (168, 118, 86), (112, 76, 54))
HAIRS: tuple[Colour, ...] = ((34, 28, 24), (72, 48, 30), (128, 92, 52), (152, 148, 144), (196, 160, 100))
CLOTHES: tuple[Colour, ...] = (
    (44, 48, 58),
    (30, 30, 33),
    (60, 76, 112),
    (142, 36, 40),
    (196, 190, 178),
    (86, 104, 74),
    (176, 128, 48),
    (110, 112, 118),
    (70, 116, 150),
    (120, 70, 110),
    (226, 226, 222),
    (190, 96, 52),
)
TROUSERS: tuple[Colour, ...] = ((38, 42, 54), (26, 26, 28), (58, 68, 92), (112, 100, 82), (84, 84, 88), (46, 58, 82))


EVEN = 0.97
"""Towards 1, legs swing at an even speed, so that a foot stays where it stands."""


@dataclass(frozen=True, slots=True)
class Person:
    """How somebody looks: height in metres, build, and colours."""

    height: float
    girth: float
    skin: Colour
    hair: Colour
    top: Colour
    bottom: Colour
    shoes: Colour
    coat: bool
    bag: Colour | None


def random_person(rng: np.random.Generator) -> Person:
    """Somebody."""

    def pick(choices: tuple[Colour, ...]) -> Colour:
        red, green, blue = np.clip(np.array(choices[rng.integers(len(choices))]) + rng.normal(0, 7, 3), 5, 245)
        return (float(red), float(green), float(blue))

    child = rng.uniform() < 0.06
    height = rng.uniform(1.2, 1.45) if child else rng.normal(1.73, 0.075)
    bag = pick(CLOTHES) if rng.uniform() < 0.4 else None
    dark = (30.0, 29.0, 28.0)
    coat = bool(rng.uniform() < 0.35)
    return Person(
        height, rng.uniform(0.9, 1.15), pick(SKINS), pick(HAIRS), pick(CLOTHES), pick(TROUSERS), dark, coat, bag
    )


def paint_person(
    person: Person, *, pose: Pose, stride: float, moving: float, camera: Camera, light: Light, track_id: int = -1
) -> Sprite | None:
    """Somebody at `stride` radians of the gait; `moving` 0 to 1 is the swing of the limbs."""
    joints = _joints(person, stride=stride, moving=moving)
    placed = pose.place(np.array(list(joints.values())))
    if (camera.to_camera(placed)[:, 2] < 1.0).any():
        return None
    xy = dict(zip(joints, camera.project(placed), strict=True))
    scale = camera.focal_px / max(camera.depth(placed.mean(axis=0)), 1.0)
    canvas = Canvas(np.array(list(xy.values())), pad_px=0.35 * scale, limit_wh=camera.size_wh)
    facing = float(
        np.cos(pose.heading) * camera.world_to_camera[2, 0] + np.sin(pose.heading) * camera.world_to_camera[2, 1]
    )
    _paint_body(canvas, person, xy=xy, scale=scale, facing=facing, light=light)
    footprint = Footprint(pose.x - 0.22, pose.y - 0.22, pose.x + 0.22, pose.y + 0.22)
    return canvas.finish(footprint=footprint, track_id=track_id, ground_shade=0.86)


def _joints(person: Person, *, stride: float, moving: float) -> dict[str, tuple[float, float, float]]:
    """Joints in metres, x ahead, y left, z up."""
    tall = person.height
    bob = 0.018 * tall * np.cos(2 * stride) * moving
    hip_z, shoulder_z = 0.52 * tall + bob, 0.815 * tall + bob
    joints: dict[str, tuple[float, float, float]] = {
        "head": (0.03, 0.0, 0.925 * tall + bob),
        "crown": (0.01, 0.0, 0.955 * tall + bob),
        "neck": (0.0, 0.0, 0.85 * tall + bob),
        "pack": (-0.2, 0.0, 0.70 * tall + bob),
        "pack_low": (-0.2, 0.0, 0.58 * tall + bob),
    }
    for name, sign, phase in (("left", 1, 0.0), ("right", -1, np.pi)):
        swing = 0.40 * float(np.arcsin(EVEN * np.sin(stride + phase)) / np.arcsin(EVEN)) * moving
        bend = 0.75 * max(0.0, np.cos(stride + phase)) * moving
        knee_x, knee_z = np.sin(swing) * 0.25 * tall, hip_z - np.cos(swing) * 0.25 * tall
        shin = swing - bend
        foot_x, foot_z = knee_x + np.sin(shin) * 0.25 * tall, max(0.03, knee_z - np.cos(shin) * 0.25 * tall)
        side = sign * 0.085 * person.girth
        joints[f"{name}_hip"] = (0.0, side, hip_z)
        joints[f"{name}_knee"] = (knee_x + 0.01, side, knee_z)
        joints[f"{name}_foot"] = (foot_x, side, foot_z)
        joints[f"{name}_toe"] = (foot_x + 0.14, side * 1.2, max(0.02, foot_z - 0.03))
        arm = -0.5 * np.sin(stride + phase) * moving
        joints[f"{name}_shoulder"] = (0.0, sign * 0.165 * person.girth, shoulder_z)
        joints[f"{name}_elbow"] = (
            np.sin(arm) * 0.17 * tall - 0.02,
            sign * 0.225 * person.girth,
            shoulder_z - np.cos(arm) * 0.17 * tall,
        )
        forearm = arm + 0.35
        elbow = joints[f"{name}_elbow"]
        joints[f"{name}_hand"] = (
            elbow[0] + np.sin(forearm) * 0.15 * tall,
            elbow[1],
            elbow[2] - np.cos(forearm) * 0.15 * tall,
        )
    return joints


def _paint_body(
    canvas: Canvas, person: Person, *, xy: dict[str, Floats], scale: float, facing: float, light: Light
) -> None:
    """Limbs, trunk and head; `facing` above 0 means that the person walks away from the camera."""
    up = np.array([0.0, 0.0, 1.0])
    flat = np.array([0.0, -0.7, 0.3])

    def lit(colour: Colour, factor: float = 1.0) -> Colour:
        red, green, blue = light.lit(colour, normal=flat)
        return (red * factor, green * factor, blue * factor)

    def limb(start: str, stop: str, thick: float, thin: float, colour: Colour) -> None:
        radii = (thick * person.girth * scale, thin * person.girth * scale)
        canvas.limb(xy[start], xy[stop], radii_px=radii, colour=colour)

    pack = person.bag is not None
    if pack and facing <= 0 and person.bag is not None:
        limb("pack", "pack_low", 0.13, 0.14, lit(person.bag, 0.9))
    for name, shade in (("left", 0.82), ("right", 1.0)):
        limb(f"{name}_shoulder", f"{name}_elbow", 0.055, 0.048, lit(person.top, shade * 0.86))
        limb(f"{name}_hip", f"{name}_knee", 0.088, 0.064, lit(person.bottom, shade))
        limb(f"{name}_knee", f"{name}_foot", 0.062, 0.046, lit(person.bottom, shade))
        limb(f"{name}_foot", f"{name}_toe", 0.046, 0.036, lit(person.shoes))
    for side in ("left", "right"):
        limb(f"{side}_shoulder", f"{side}_hip", 0.085, 0.10, lit(person.top))
    trunk = np.array([xy["left_shoulder"], xy["right_shoulder"], xy["right_hip"], xy["left_hip"]])
    canvas.polygon(trunk, colour=lit(person.top))
    if person.coat:
        limb("left_hip", "left_knee", 0.105, 0.10, lit(person.top, 0.96))
        limb("right_hip", "right_knee", 0.105, 0.10, lit(person.top, 0.96))
    for name in ("left", "right"):
        limb(f"{name}_elbow", f"{name}_hand", 0.046, 0.036, lit(person.top, 0.8))
        canvas.disc(xy[f"{name}_hand"], radius_px=0.045 * scale, colour=lit(person.skin))
    if pack and facing > 0 and person.bag is not None:
        limb("pack", "pack_low", 0.13, 0.14, lit(person.bag))
    limb("neck", "head", 0.055, 0.06, lit(person.skin, 0.85))
    canvas.disc(xy["head"], radius_px=0.112 * scale, colour=lit(person.skin))
    hair = light.lit(person.hair, normal=up)
    canvas.disc(
        xy["crown"] if facing <= 0 else xy["head"], radius_px=(0.1 if facing <= 0 else 0.112) * scale, colour=hair
    )


def paint_cyclist(
    person: Person, *, frame: Colour, pose: Pose, stride: float, camera: Camera, light: Light, track_id: int = -1
) -> Sprite | None:
    """A bicycle with its rider; `stride` turns the cranks."""
    points = _bicycle_joints(person, stride=stride)
    placed = pose.place(np.array(list(points.values())))
    if (camera.to_camera(placed)[:, 2] < 1.0).any():
        return None
    xy = dict(zip(points, camera.project(placed), strict=True))
    scale = camera.focal_px / max(camera.depth(placed.mean(axis=0)), 1.0)
    canvas = Canvas(np.array(list(xy.values())), pad_px=0.3 * scale, limit_wh=camera.size_wh)
    for axle in (-0.52, 0.52):
        turn = np.linspace(0, 2 * np.pi, 24)
        ring = np.stack([axle + 0.34 * np.cos(turn), np.zeros(24), 0.35 + 0.34 * np.sin(turn)], axis=1)
        canvas.line(camera.project(pose.place(ring)), width_px=max(0.05 * scale, 0.4), colour=(22, 22, 24))
    flat = np.array([0.0, -0.7, 0.3])
    metal = light.lit(frame, normal=flat)
    for start, stop in (
        ("rear", "crank"),
        ("crank", "seat"),
        ("crank", "bars"),
        ("seat", "bars"),
        ("bars", "front"),
        ("rear", "seat"),
    ):
        canvas.line(np.array([xy[start], xy[stop]]), width_px=max(0.05 * scale, 0.4), colour=metal)
    _paint_rider(canvas, person, xy=xy, scale=scale, light=light)
    return canvas.finish(footprint=pose.footprint((1.7, 0.5)), track_id=track_id, ground_shade=0.9)


def _bicycle_joints(person: Person, *, stride: float) -> dict[str, tuple[float, float, float]]:
    points: dict[str, tuple[float, float, float]] = {
        "rear": (-0.52, 0.0, 0.35),
        "front": (0.52, 0.0, 0.35),
        "crank": (-0.04, 0.0, 0.32),
        "seat": (-0.22, 0.0, 0.92),
        "bars": (0.40, 0.0, 0.98),
        "hip": (-0.2, 0.0, 1.0),
        "shoulder": (0.12, 0.0, 1.0 + 0.29 * person.height),
        "head": (0.2, 0.0, 1.0 + 0.41 * person.height),
        "tyre_rear": (-0.86, 0.0, 0.0),
        "tyre_front": (0.86, 0.0, 0.0),
    }
    for name, side, phase in (("left", 0.1, 0.0), ("right", -0.1, np.pi)):
        pedal = (-0.04 + 0.17 * np.cos(stride + phase), side, 0.32 + 0.17 * np.sin(stride + phase))
        points[f"{name}_pedal"] = pedal
        points[f"{name}_knee"] = ((pedal[0] - 0.2) / 2 + 0.22, side, (pedal[2] + 1.0) / 2 + 0.02)
        points[f"{name}_shoulder"] = (0.12, side * 1.6, points["shoulder"][2])
        points[f"{name}_hand"] = (0.42, side * 2.2, 1.02)
    return points


def _paint_rider(canvas: Canvas, person: Person, *, xy: dict[str, Floats], scale: float, light: Light) -> None:
    flat = np.array([0.0, -0.7, 0.3])
    top, bottom, skin = (light.lit(colour, normal=flat) for colour in (person.top, person.bottom, person.skin))
    for name in ("left", "right"):
        canvas.limb(xy["hip"], xy[f"{name}_knee"], radii_px=(0.10 * scale, 0.07 * scale), colour=bottom)
        canvas.limb(xy[f"{name}_knee"], xy[f"{name}_pedal"], radii_px=(0.06 * scale, 0.05 * scale), colour=bottom)
    for name in ("left", "right"):
        canvas.limb(xy["hip"], xy[f"{name}_shoulder"], radii_px=(0.14 * scale, 0.10 * scale), colour=top)
        canvas.limb(xy[f"{name}_shoulder"], xy[f"{name}_hand"], radii_px=(0.055 * scale, 0.04 * scale), colour=top)
    canvas.disc(xy["head"], radius_px=0.115 * scale, colour=skin)
    hair = light.lit(person.hair, normal=np.array([0.0, 0.0, 1.0]))
    canvas.disc(xy["head"] - np.array([0, 0.035 * scale]), radius_px=0.105 * scale, colour=hair)
