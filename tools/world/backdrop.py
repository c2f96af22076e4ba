"""The still part of a scene: ground, sky, houses, the entrance, and the scenery as sprites."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from tools.world.arrays import Floats, Image
from tools.world.buildings import doorway, entrance_front, paint_houses, sky, warp_front
from tools.world.camera import Camera
from tools.world.ground import Road, paint_plaza, paint_street
from tools.world.scene import Scene
from tools.world.scenery import lamp_head, paint_thing, shadow_outline
from tools.world.shadows import fill_hull, thrown
from tools.world.sprite import Footprint, Sprite
from tools.world.texture import TILE, noise_tile

HAZE_METRES = 420.0


@dataclass(frozen=True, slots=True)
class Backdrop:
    """The still image and the still sprites, which hide what walks behind them."""

    image: Image
    ground_share: Image
    sprites: tuple[Sprite, ...]

    def lit(self, scene: Scene, *, seconds: float) -> Image:
        """A copy of the image under the clouds of that moment."""
        if not scene.effects.clouds or scene.light.name != "day":
            return self.image.copy()
        clouds = cv2.resize(noise_tile(seed=scene.seed % 89, cells=4), (TILE * 4, TILE * 4))
        drift = int(seconds * 22) % (TILE * 3)
        rows, columns = self.image.shape[:2]
        wide = cv2.resize(clouds[: TILE * 2, drift : drift + TILE], (columns, rows))
        shade: Image = 1 - scene.effects.clouds * np.clip(wide, -0.3, 1) * self.ground_share
        return self.image * shade[..., None]


def paint_backdrop(scene: Scene) -> Backdrop:
    """Paint everything that does not move."""
    camera, light = scene.camera, scene.light
    ground = (
        paint_street(scene.ground, camera=camera)
        if isinstance(scene.ground, Road)
        else paint_plaza(scene.ground, camera=camera)
    )
    x, y, _ = camera.ground_under_pixels(oversampling=2)
    level = np.ones((*x.shape, 1), np.float32) * light.on_ground().astype(np.float32)
    if light.lamps:
        level = level + _lamp_pools(scene, x=x, y=y)[..., None] * np.array([0.62, 0.52, 0.36], np.float32)
    ground = ground * level
    above = ~np.isfinite(y) | (y < 0)
    haze = np.nan_to_num(1 - np.exp(-np.maximum(y, 0) / HAZE_METRES), posinf=1.0).astype(np.float32)[..., None]
    ground += (np.array(light.sky_low, np.float32) - ground) * haze * 0.8
    canvas: Image = np.where(above[..., None], sky(camera, light=light, oversampling=2), ground).astype(np.float32)
    paint_houses(scene.houses, canvas=canvas, camera=camera, light=light)
    fronts: list[Sprite] = []
    if scene.entrance is not None:
        doorway(scene.entrance, canvas=canvas, camera=camera, light=light)
        fronts = _entrance(scene, canvas=canvas)
    size = camera.size_wh
    image: Image = cv2.resize(canvas, size, interpolation=cv2.INTER_AREA)
    share: Image = cv2.resize((~above).astype(np.float32), size, interpolation=cv2.INTER_AREA)
    _scenery_shadows(scene, image=image)
    painted = [paint_thing(thing, camera=camera, light=light) for thing in scene.things]
    return Backdrop(image, share, (*fronts, *[sprite for sprite in painted if sprite is not None]))


def _lamp_pools(scene: Scene, *, x: Floats, y: Floats) -> Image:
    pools = np.zeros(x.shape, np.float32)
    places = [lamp_head(thing)[:2] for thing in scene.things if thing.kind == "lamp"]
    if scene.entrance is not None:
        places += [(scene.entrance.door_x + offset, scene.entrance.y - 1.5) for offset in (-6.0, 0.0, 6.0)]
    for lamp_x, lamp_y in places:
        far = (x - lamp_x) ** 2 + (np.nan_to_num(y, posinf=1e4) - lamp_y) ** 2
        pools += np.nan_to_num(np.exp(-far / (2 * 3.6**2))).astype(np.float32)
    return np.minimum(pools, 1.2)


def _entrance(scene: Scene, *, canvas: Image) -> list[Sprite]:
    """Paint the front around the doorway; gives the piece that hides who is behind it."""
    entrance, camera = scene.entrance, scene.camera
    if entrance is None:
        return []
    front, cover = entrance_front(entrance, light=scene.light)
    x0, x1 = entrance.door_x - entrance.width / 2, entrance.door_x + entrance.width / 2
    corners = np.array(
        [[x0, entrance.y, entrance.height], [x1, entrance.y, entrance.height], [x1, entrance.y, 0], [x0, entrance.y, 0]]
    )
    layers = np.concatenate([front, cover[..., None] * 255], axis=2)
    warped = warp_front(layers, corners=corners, camera=camera, oversampling=2)
    if warped is None:
        return []
    opaque: Image = (warped[1] * warped[0][..., 3] / 255).astype(np.float32)
    rgb = warped[0][..., :3]
    canvas += (rgb - canvas) * opaque[..., None]
    return [_cutout(rgb, opaque, camera=camera, footprint=Footprint(x0, entrance.y - 0.02, x1, entrance.y + 0.02))]


def _cutout(rgb: Image, opaque: Image, *, camera: Camera, footprint: Footprint) -> Sprite:
    size = camera.size_wh
    coverage: Image = cv2.resize(opaque, size, interpolation=cv2.INTER_AREA)
    premultiplied: Image = cv2.resize(rgb * opaque[..., None], size, interpolation=cv2.INTER_AREA)
    return Sprite(0, 0, premultiplied, coverage, footprint, (0.0, 0.0, float(size[0]), float(size[1])))


def _scenery_shadows(scene: Scene, *, image: Image) -> None:
    mask = np.zeros(image.shape[:2], np.uint8)
    front = scene.entrance.y if scene.entrance else np.inf
    turn = np.linspace(0, 2 * np.pi, 10, endpoint=False)
    circle = np.stack([np.cos(turn), np.sin(turn), np.zeros(10)], axis=1)
    for thing in scene.things:
        points, radius = shadow_outline(thing)
        fallen = thrown(np.array(points), light=scene.light)
        for point in fallen:
            ring = point + circle * radius
            ring[:, 1] = np.minimum(ring[:, 1], front)
            fill_hull(mask, ring, camera=scene.camera)
    soft = cv2.GaussianBlur(mask, (0, 0), 1.6).astype(np.float32) / 255
    image *= 1 - scene.light.shadow * 0.85 * soft[..., None]
