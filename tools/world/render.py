"""Renders the frames of a scene with their exact truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tools.world.arrays import Floats, Image, RgbImage
from tools.world.backdrop import Backdrop, paint_backdrop
from tools.world.effects import finish, shake
from tools.world.mesh import Mesh, paint
from tools.world.order import painting_order
from tools.world.people import paint_cyclist, paint_person
from tools.world.plates import Plate, facing, seen
from tools.world.scene import LABELS, MARGIN_PX, Actor, Cyclist, Scene
from tools.world.shadows import darken, headlights, pose_of
from tools.world.sprite import Sprite
from tools.world.vehicles import Vehicle, build


@dataclass(frozen=True, slots=True)
class Truth:
    """What is in an image: rows of track id, class id, box (xyxy, pixels) and visibility (0 to 1).

    Boxes are those of the whole silhouette, hidden parts included, clipped to the image. Visibility is the
    share of the silhouette that is inside the image and not hidden; of the silhouette, what lies more than
    half an image outside does not count. `plates` are the number plates that face the camera, where there are any.
    """

    track_id: Floats
    class_id: Floats
    xyxy: Floats
    visibility: Floats
    plates: tuple[Plate, ...] = ()


class Renderer:
    """Renders any frame of a scene, in any order; the same frame always comes out the same."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._backdrop: Backdrop = paint_backdrop(scene)
        self._meshes: dict[int, Mesh] = {
            actor.track_id: build(actor.look) for actor in scene.actors if isinstance(actor.look, Vehicle)
        }

    def frame(self, index: int) -> tuple[RgbImage, Truth]:
        """The image (height, width, RGB) and the truth of frame `index`, counted from 0."""
        scene = self.scene
        present = [actor for actor in scene.actors if actor.is_there(index)]
        base = self._backdrop.lit(scene, seconds=index / scene.fps)
        darken(base, scene=scene, present=present, meshes=self._meshes, frame=index)
        if scene.light.lamps:
            headlights(base, scene=scene, present=present, meshes=self._meshes, frame=index)
        painted = [self._sprite(actor, frame=index) for actor in present]
        shown = [sprite for sprite in painted if sprite is not None and _near_image(sprite, scene=scene)]
        sprites = [*self._backdrop.sprites, *shown]
        order = painting_order([sprite.footprint for sprite in sprites], camera=scene.camera)
        for number in order:
            blend(base, sprites[number])
        shift = shake(scene, frame=index)
        image = finish(base, scene=scene, frame=index, shift=shift)
        truth = self._truth([sprites[number] for number in order], shift=shift, present=present, frame=index)
        return image, truth

    def _plate(self, actor: Actor, *, frame: int) -> tuple[str, Floats] | None:
        """The text and the corners of the plate that faces the camera."""
        if not isinstance(actor.look, Vehicle) or not actor.look.plate:
            return None
        pose = pose_of(actor, frame=frame)
        return facing(self._meshes[actor.track_id], pose=pose, camera=self.scene.camera)

    def _sprite(self, actor: Actor, *, frame: int) -> Sprite | None:
        scene, step, pose = self.scene, frame - actor.first_frame, pose_of(actor, frame=frame)
        camera, light, look = scene.camera, scene.light, actor.look
        stride = float(actor.stride[step])
        if isinstance(look, Vehicle):
            return paint(self._meshes[actor.track_id], pose=pose, camera=camera, light=light, track_id=actor.track_id)
        if isinstance(look, Cyclist):
            return paint_cyclist(
                look.rider,
                frame=look.frame,
                pose=pose,
                stride=stride,
                camera=camera,
                light=light,
                track_id=actor.track_id,
            )
        moving = float(actor.moving[step])
        return paint_person(
            look, pose=pose, stride=stride, moving=moving, camera=camera, light=light, track_id=actor.track_id
        )

    def _truth(self, sprites: list[Sprite], *, shift: Floats, present: list[Actor], frame: int) -> Truth:
        """The truth of sprites in painting order: the last hides those before it."""
        width, height = self.scene.size_wh
        actors = {actor.track_id: actor for actor in present}
        plates: list[Plate] = []
        hidden = np.zeros((height, width), np.float32)
        rows: list[tuple[float, ...]] = []
        origin = MARGIN_PX - np.round(shift).astype(int)
        for sprite in reversed(sprites):
            moved = sprite.shifted(dx=-int(origin[0]), dy=-int(origin[1]))
            window = _overlap(moved, size_wh=(width, height))
            if window is None:
                continue
            rows_cols, part = window
            coverage = moved.coverage[part]
            open_share = 1 - hidden[rows_cols]
            if sprite.track_id >= 0:
                visibility = float((coverage * open_share).sum() / max(float(moved.coverage.sum()), 1e-6))
                actor = actors[sprite.track_id]
                found = self._plate(actor, frame=frame)
                plate = None if found is None else seen(found, sprite, shift=shift - MARGIN_PX, hidden=hidden)
                plates += [] if plate is None else [plate]
                box = np.array(sprite.xyxy) - MARGIN_PX + np.tile(shift, 2)
                box = np.clip(box, 0, [width, height, width, height])
                if box[2] - box[0] >= 1 and box[3] - box[1] >= 1:
                    rows.append((sprite.track_id, LABELS.index(actor.label), *box, visibility))
            hidden[rows_cols] += coverage * open_share
        table = np.array(sorted(rows), dtype=np.float64).reshape(-1, 7)
        plates.sort(key=lambda plate: plate.track_id)
        return Truth(table[:, 0], table[:, 1], table[:, 2:6], table[:, 6], tuple(plates))


def blend(base: Image, sprite: Sprite) -> None:
    """Paint the sprite over the image."""
    window = _overlap(sprite, size_wh=(base.shape[1], base.shape[0]))
    if window is not None:
        rows_cols, part = window
        base[rows_cols] *= 1 - sprite.coverage[part][..., None]
        base[rows_cols] += sprite.rgb[part]


def _overlap(sprite: Sprite, *, size_wh: tuple[int, int]) -> tuple[tuple[slice, slice], tuple[slice, slice]] | None:
    """Where image and sprite overlap: the slices of the image and those of the sprite."""
    rows, columns = sprite.coverage.shape
    x0, y0 = max(sprite.left, 0), max(sprite.top, 0)
    x1, y1 = min(sprite.left + columns, size_wh[0]), min(sprite.top + rows, size_wh[1])
    if x1 <= x0 or y1 <= y0:
        return None
    part = (slice(y0 - sprite.top, y1 - sprite.top), slice(x0 - sprite.left, x1 - sprite.left))
    return (slice(y0, y1), slice(x0, x1)), part


def _near_image(sprite: Sprite, *, scene: Scene) -> bool:
    return _overlap(sprite, size_wh=scene.camera.size_wh) is not None
