"""Crops of tracks of random scenes, with what is true of each: kind, colours, bag, coat, heading, light.

Scenes show how tracks look in place; posed objects before pieces of those scenes show every kind in every colour from
every side, cheaply. Each scene is a file of its own, so that an interrupted run goes on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from tools.train.worlds import random_scene
from tools.world.arrays import Floats, Image, RgbImage
from tools.world.camera import Camera
from tools.world.light import random_light
from tools.world.mesh import Pose, paint
from tools.world.people import CLOTHES, paint_cyclist, paint_person, random_person
from tools.world.render import Renderer, blend
from tools.world.scene import Actor, Cyclist
from tools.world.shadows import pose_of
from tools.world.sprite import Sprite
from tools.world.traffic import random_vehicle
from tools.world.vehicles import PAINTS, Vehicle, build

FIRST_SEARCH_SEED = 160_000
CROP_PX = 64
FRAMES_PER_SCENE = 8
LEAST_SIDE_PX = 14.0
LEAST_VISIBLE = 0.6
MARGIN = 0.08
"""How much around a box is in its crop, as a share of its width and height: that of the step `search_index`."""
CHILD_METRES = 1.5

CLOTHES_NAMES = (
    "black",
    "black",
    "blue",
    "red",
    "white",
    "green",
    "yellow",
    "grey",
    "blue",
    "purple",
    "white",
    "orange",
)
"""What a passer-by would call each colour of `CLOTHES`: beige and white are one name, as are navy and black."""
HEADINGS = ("away", "towards", "left", "right")


@dataclass(frozen=True, slots=True)
class Described:
    """What is true of a crop. `colour` is that of the paint, the top or the bicycle; `top` that of the rider."""

    kind: str
    colour: str
    heading: str
    light: str
    top: str = ""
    coat: bool = False
    bag: bool = False
    child: bool = False
    standing: bool = False


@dataclass(frozen=True, slots=True)
class Crops:
    """Crops (N, 64, 64, 3), RGB, and what is true of each."""

    images: npt.NDArray[np.uint8]
    described: tuple[Described, ...]


def heading_of(pose: Pose, camera: Camera) -> str:
    """Where something heads as the camera sees it: away, towards, left or right."""
    view = np.array([pose.x - camera.position[0], pose.y - camera.position[1]])
    view /= max(float(np.linalg.norm(view)), 1e-6)
    ahead = np.array([np.cos(pose.heading), np.sin(pose.heading)])
    along, across = float(ahead @ view), float(ahead[0] * view[1] - ahead[1] * view[0])
    if abs(along) >= abs(across):
        return "away" if along > 0 else "towards"
    return "right" if across > 0 else "left"


def colour_of(clothes: tuple[float, ...]) -> str:
    """The name of the colour of `CLOTHES` that is nearest."""
    distances = np.abs(np.array(CLOTHES, float) - np.array(clothes)).sum(axis=1)
    return CLOTHES_NAMES[int(distances.argmin())]


def describe(look: object, *, heading: str, light: str, standing: bool = False) -> Described:
    """What is true of somebody or something that looks like that."""
    if isinstance(look, Vehicle):
        return Described(look.kind, look.paint, heading, light, standing=standing)
    if isinstance(look, Cyclist):
        return Described("bicycle", colour_of(look.frame), heading, light, top=colour_of(look.rider.top))
    return Described(
        "person",
        colour_of(look.top),  # type: ignore[attr-defined]
        heading,
        light,
        coat=look.coat,  # type: ignore[attr-defined]
        bag=look.bag is not None,  # type: ignore[attr-defined]
        child=look.height < CHILD_METRES,  # type: ignore[attr-defined]
        standing=standing,
    )


def describe_actor(actor: Actor, *, frame: int, camera: Camera, light: str) -> Described:
    """What is true of an actor in a frame."""
    step = frame - actor.first_frame
    later = min(step + 2, len(actor.x) - 1)
    moved = float(np.hypot(actor.x[later] - actor.x[step], actor.y[later] - actor.y[step]))
    standing = later > step and moved < 0.03
    return describe(actor.look, heading=heading_of(pose_of(actor, frame=frame), camera), light=light, standing=standing)


def cut(image: RgbImage, *, xyxy: Floats) -> RgbImage:
    """The box of an image and its margin (clipped to it), stretched to 64x64 by the mean of areas."""
    height, width = image.shape[:2]
    around = np.tile((xyxy[2:] - xyxy[:2]) * MARGIN, 2) * np.array([-1, -1, 1, 1])
    x0, y0, x1, y1 = np.clip(xyxy + around, 0, [width, height, width, height])
    x0, y0, x1, y1 = int(np.floor(x0)), int(np.floor(y0)), int(np.ceil(x1)), int(np.ceil(y1))
    part = image[y0 : max(y1, y0 + 1), x0 : max(x1, x0 + 1)]
    larger = part.shape[0] < CROP_PX or part.shape[1] < CROP_PX
    crop = cv2.resize(part, (CROP_PX, CROP_PX), interpolation=cv2.INTER_LINEAR if larger else cv2.INTER_AREA)
    return np.asarray(crop, dtype=np.uint8)


def render(*, folder: Path, scenes: int, posed: int, processes: int, first_seed: int = FIRST_SEARCH_SEED) -> None:
    """Render the scenes that the folder does not hold yet, with `posed` posed objects for each."""
    folder.mkdir(parents=True, exist_ok=True)
    seeds = [seed for seed in range(first_seed, first_seed + scenes) if not (folder / f"{seed}.npz").exists()]
    with ProcessPoolExecutor(processes) as pool:
        for number, count in enumerate(pool.map(partial(_render_one, folder, posed), seeds), start=1):
            if number % 10 == 0:
                print(f"{number} of {len(seeds)} scenes, {count} crops in the last one", flush=True)


def load(folder: Path) -> Crops:
    """All crops of a folder."""
    images, described = [], []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as stored:
            images.append(stored["images"])
            described += [Described(**row) for row in json.loads(str(stored["described"]))]
    return Crops(np.concatenate(images), tuple(described))


def with_mirrored(crops: Crops) -> Crops:
    """The crops, and each of them mirrored: what heads left then heads right."""
    turned = {"left": "right", "right": "left"}
    mirrored = [replace(what, heading=turned.get(what.heading, what.heading)) for what in crops.described]
    return Crops(np.concatenate((crops.images, crops.images[:, :, ::-1])), (*crops.described, *mirrored))


def _render_one(folder: Path, posed: int, seed: int) -> int:
    cv2.setNumThreads(1)
    scene = random_scene(seed)
    renderer = Renderer(scene)
    rng = np.random.default_rng([seed, 61])
    images: list[RgbImage] = []
    described: list[Described] = []
    frames: list[RgbImage] = []
    for index in np.linspace(0, scene.frames - 1, FRAMES_PER_SCENE).astype(int):
        image, truth = renderer.frame(int(index))
        frames.append(image)
        actors = {actor.track_id: actor for actor in scene.actors}
        for row, track in enumerate(truth.track_id.astype(int)):
            sides = truth.xyxy[row, 2:] - truth.xyxy[row, :2]
            if truth.visibility[row] >= LEAST_VISIBLE and sides.min() >= LEAST_SIDE_PX:
                box = truth.xyxy[row] + rng.normal(0, 0.04, 4) * np.tile(sides, 2)
                images.append(_coded(cut(image, xyxy=box), rng))
                actor = actors[track]
                described.append(describe_actor(actor, frame=int(index), camera=scene.camera, light=scene.light.name))
    for crop, what in _posed(frames, light=scene.light.name, count=posed, rng=rng):
        images.append(crop)
        described.append(what)
    part = folder / f"{seed}.part.npz"
    np.savez(part, images=np.stack(images), described=json.dumps([asdict(one) for one in described]))
    part.rename(folder / f"{seed}.npz")
    return len(images)


def _coded(crop: RgbImage, rng: np.random.Generator) -> RgbImage:
    coded = cv2.imencode(".jpg", crop, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(40, 95))])[1]
    return np.asarray(cv2.imdecode(coded, cv2.IMREAD_COLOR), dtype=np.uint8)


def _posed(
    backgrounds: list[RgbImage], *, light: str, count: int, rng: np.random.Generator
) -> Iterator[tuple[RgbImage, Described]]:
    """Single objects before the frames of a scene, in its light, from all sides."""
    made = 0
    while made < count:
        background = backgrounds[rng.integers(len(backgrounds))]
        size_wh = (background.shape[1], background.shape[0])
        camera = Camera.looking_at(
            (0, rng.uniform(10, 24), 0),
            position=(rng.uniform(-9, 9), 0.0, rng.uniform(3.5, 11)),
            field_of_view_degrees=rng.uniform(46, 72),
            size_wh=size_wh,
        )
        pose = Pose(rng.uniform(-7, 7), rng.uniform(7, 40), rng.uniform(-np.pi, np.pi))
        look, sprite = _painted(pose, camera, light=light, rng=rng)
        if sprite is None:
            continue
        box = np.clip(np.array(sprite.xyxy, float), 0, [*size_wh, *size_wh])
        sides, whole = box[2:] - box[:2], np.subtract(sprite.xyxy[2:], sprite.xyxy[:2])
        if sides.min() < LEAST_SIDE_PX or sides.prod() < LEAST_VISIBLE * whole.prod():
            continue
        canvas, corner = _around(background, box)
        canvas *= rng.uniform(0.8, 1.1)
        blend(canvas, sprite.shifted(dx=-int(corner[0]), dy=-int(corner[1])))
        canvas += rng.normal(0, rng.uniform(0.5, 6), canvas.shape).astype(np.float32)
        box = box - np.tile(corner, 2) + rng.normal(0, 0.04, 4) * np.tile(sides, 2)
        yield (
            _coded(cut(np.clip(canvas, 0, 255).astype(np.uint8), xyxy=box), rng),
            describe(look, heading=heading_of(pose, camera), light=light),
        )
        made += 1


def _around(background: RgbImage, box: Floats) -> tuple[Image, Floats]:
    """A copy of the part of a background that the crop of a box can show, and its corner (2,) in pixels."""
    reach = (box[2:] - box[:2]) * 0.4 + 4
    limit = np.array([background.shape[1], background.shape[0]])
    x0, y0 = np.clip(np.floor(box[:2] - reach), 0, limit - 1).astype(int)
    x1, y1 = np.clip(np.ceil(box[2:] + reach), 1, limit).astype(int)
    return background[y0:y1, x0:x1].astype(np.float32), np.array([x0, y0], float)


def _painted(pose: Pose, camera: Camera, *, light: str, rng: np.random.Generator) -> tuple[object, Sprite | None]:
    lit, stride = random_light(rng, name=light), rng.uniform(0, 2 * np.pi)
    kind = rng.uniform()
    if kind < 0.45:
        vehicle = random_vehicle(rng, kinds={"car": 0.34, "van": 0.22, "truck": 0.22, "bus": 0.22})
        vehicle = Vehicle(vehicle.kind, str(rng.choice(list(PAINTS))), vehicle.seed)
        return vehicle, paint(build(vehicle), pose=pose, camera=camera, light=lit)
    person = random_person(rng)
    if kind < 0.72:
        return person, paint_person(person, pose=pose, stride=stride, moving=1.0, camera=camera, light=lit)
    cyclist = Cyclist(person, CLOTHES[rng.integers(len(CLOTHES))])
    return cyclist, paint_cyclist(person, frame=cyclist.frame, pose=pose, stride=stride, camera=camera, light=lit)
