"""Things that stand in a scene and are nothing to be found: trees, lamp posts, signs, bins, benches, planters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tools.world.arrays import Colour
from tools.world.camera import Camera
from tools.world.light import Light
from tools.world.mesh import Face, Mesh, Part, Pose, frustum, inset, paint
from tools.world.sprite import Canvas, Footprint, Sprite


@dataclass(frozen=True, slots=True)
class Thing:
    """A piece of scenery: its kind, its place in metres and the seed of its details."""

    kind: str
    x: float
    y: float
    seed: int


def paint_thing(thing: Thing, *, camera: Camera, light: Light) -> Sprite | None:
    """The thing as the camera sees it, or None when it is not in front of the camera."""
    if camera.depth(np.array([thing.x, thing.y, 1.0])) < 3.0:
        return None
    if thing.kind == "tree":
        return _tree(thing, camera=camera, light=light)
    if thing.kind in ("lamp", "sign"):
        return _post(thing, camera=camera, light=light)
    return paint(_block(thing), pose=Pose(thing.x, thing.y, _turn(thing)), camera=camera, light=light)


def lamp_head(thing: Thing) -> tuple[float, float, float]:
    """Where the lamp of a lamp post hangs: towards the road, metres."""
    return (thing.x - np.sign(thing.x) * 1.4, thing.y, 6.3)


def shadow_outline(thing: Thing) -> tuple[list[tuple[float, float, float]], float]:
    """Points whose shadow is that of the thing, and the radius of each."""
    if thing.kind == "tree":
        rng = np.random.default_rng(thing.seed)
        height, radius = rng.uniform(4.6, 7.0), rng.uniform(1.4, 2.1)
        return [(thing.x, thing.y, z) for z in np.linspace(height - radius, height + radius * 0.3, 4)], radius * 0.9
    if thing.kind in ("lamp", "sign"):
        return [(thing.x, thing.y, z) for z in np.linspace(0, 6.0 if thing.kind == "lamp" else 2.5, 70)], 0.12
    return [(thing.x, thing.y, z) for z in np.linspace(0.1, 0.8, 4)], 0.5


def _turn(thing: Thing) -> float:
    return float(np.random.default_rng(thing.seed).choice([0.0, np.pi / 2]))


def _tree(thing: Thing, *, camera: Camera, light: Light) -> Sprite | None:
    rng = np.random.default_rng(thing.seed)
    height, radius = rng.uniform(4.6, 7.0), rng.uniform(1.4, 2.1)
    base = np.array([(56, 92, 44), (70, 104, 50), (84, 110, 58), (122, 112, 48)][rng.integers(4)], dtype=np.float64)
    trunk = np.array([[thing.x, thing.y, 0.0], [thing.x, thing.y, height]])
    scale = camera.focal_px / camera.depth(trunk.mean(axis=0))
    xy = camera.project(trunk)
    canvas = Canvas(xy, pad_px=(radius + 1.2) * scale, limit_wh=camera.size_wh)
    bark = light.lit((84, 66, 50), normal=np.array([0.0, -0.8, 0.2]))
    canvas.limb(xy[0], xy[1], radii_px=(0.14 * scale, 0.08 * scale), colour=bark)
    count = 150
    spread = rng.normal(size=(count, 3))
    spread *= (radius * rng.uniform(0.35, 1.0, count) ** 0.5 / np.linalg.norm(spread, axis=1))[:, None]
    spread[:, 2] *= 0.9
    blobs = spread + np.array([thing.x, thing.y, height])
    depths = (blobs - camera.position) @ camera.world_to_camera[2]
    for index in np.argsort(-depths):
        normal = spread[index] / (np.linalg.norm(spread[index]) or 1.0)
        tone = base * (0.74 + 0.34 * (normal[2] + 1) / 2 + rng.uniform(-0.1, 0.1))
        colour = light.lit((float(tone[0]), float(tone[1]), float(tone[2])), normal=normal)
        canvas.disc(camera.project(blobs[index][None])[0], radius_px=rng.uniform(0.16, 0.42) * scale, colour=colour)
    return canvas.finish(footprint=Footprint(thing.x - 0.2, thing.y - 0.2, thing.x + 0.2, thing.y + 0.2))


def _post(thing: Thing, *, camera: Camera, light: Light) -> Sprite | None:
    lamp = thing.kind == "lamp"
    head = np.array(lamp_head(thing)) if lamp else np.array([thing.x, thing.y, 2.5])
    points = np.array([[thing.x, thing.y, 0.0], [thing.x, thing.y, head[2]], head])
    if (camera.to_camera(points)[:, 2] < 1.0).any():
        return None
    scale = camera.focal_px / camera.depth(points.mean(axis=0))
    xy = camera.project(points)
    canvas = Canvas(xy, pad_px=0.6 * scale, limit_wh=camera.size_wh)
    steel = light.lit((112, 116, 120), normal=np.array([0.0, -0.8, 0.2]))
    canvas.limb(xy[0], xy[1], radii_px=(0.075 * scale, 0.05 * scale), colour=steel)
    if lamp:
        canvas.limb(xy[1], xy[2], radii_px=(0.05 * scale, 0.05 * scale), colour=steel)
        glow: Colour = (255, 232, 180) if light.lamps else (206, 208, 206)
        canvas.limb(xy[2], xy[2] + np.array([0.4 * scale, 0]), radii_px=(0.1 * scale, 0.08 * scale), colour=glow)
    else:
        rng = np.random.default_rng(thing.seed)
        plate: Colour = [(34.0, 70.0, 150.0), (190.0, 30.0, 34.0), (226.0, 190.0, 40.0)][rng.integers(3)]
        lit = light.lit(plate, normal=np.array([0.0, -0.9, 0.1]))
        canvas.disc(xy[1], radius_px=0.34 * scale, colour=light.lit((226, 226, 222), normal=np.array([0.0, -0.9, 0.1])))
        canvas.disc(xy[1], radius_px=0.28 * scale, colour=lit)
    return canvas.finish(footprint=Footprint(thing.x - 0.15, thing.y - 0.15, thing.x + 0.15, thing.y + 0.15))


def _block(thing: Thing) -> Mesh:
    """Bins, benches and planters: boxes with some detail."""
    rng = np.random.default_rng(thing.seed)
    if thing.kind == "bin":
        colour: Colour = [(52.0, 74.0, 60.0), (60.0, 62.0, 68.0), (112.0, 92.0, 40.0), (40.0, 60.0, 96.0)][
            rng.integers(4)
        ]
        solid = frustum(bottom=(-0.27, 0.27), top=(-0.33, 0.33), z=(0.06, 0.95), half=(0.27, 0.33), colour=colour)
        dark = (colour[0] * 0.7, colour[1] * 0.7, colour[2] * 0.7)
        lid = frustum(bottom=(-0.36, 0.36), top=(-0.34, 0.3), z=(0.95, 1.07), half=(0.36, 0.33), colour=dark)
        return Mesh((Part(tuple(solid)), Part(tuple(lid), layer=1)), (0.7, 0.7))
    if thing.kind == "bench":
        wood: Colour = (138, 98, 62)
        seat = frustum(bottom=(-0.9, 0.9), top=(-0.9, 0.9), z=(0.40, 0.47), half=(0.24, 0.24), colour=wood)
        legs = frustum(bottom=(-0.75, 0.75), top=(-0.75, 0.75), z=(0.0, 0.40), half=(0.1, 0.1), colour=(52, 52, 54))
        back = frustum(bottom=(-0.9, 0.9), top=(-0.9, 0.9), z=(0.55, 0.85), half=(0.04, 0.04), colour=wood)
        return Mesh((Part(tuple(legs)), Part(tuple(seat), layer=1), Part(tuple(back), layer=2)), (1.8, 0.5))
    stone: Colour = (150, 146, 140)
    tub = frustum(bottom=(-0.55, 0.55), top=(-0.62, 0.62), z=(0.0, 0.55), half=(0.55, 0.62), colour=stone)
    soil = inset(tub[4], across=(0.08, 0.92), up=(0.08, 0.92), colour=(70, 58, 46))
    leaves: list[Face] = []
    for _ in range(14):
        x, y, size = rng.uniform(-0.42, 0.42), rng.uniform(-0.42, 0.42), rng.uniform(0.12, 0.26)
        green: Colour = (60 + rng.uniform(0, 40), 100 + rng.uniform(0, 36), 52.0)
        bush = frustum(
            bottom=(x - size, x + size),
            top=(x - size / 2, x + size / 2),
            z=(0.52, 0.6 + 2 * size),
            half=(size, size / 2),
            colour=green,
        )
        leaves += [Face(item.points + np.array([0.0, y, 0.0]), green, 0.8) for item in bush]
    return Mesh((Part((*tub, soil)), Part(tuple(leaves), layer=1)), (1.25, 1.25))
