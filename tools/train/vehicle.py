"""The small classifier of vehicles: a 64x64 crop to its colour and its kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import openvino
import torch
from torch import Tensor, nn

from tools.train.export import write_onnx
from tools.train.samples import Sample
from tools.train.worlds import FIRST_EVALUATION_SEED, FIRST_TRAINING_SEED, random_scene
from tools.world.arrays import Floats, RgbImage
from tools.world.camera import Camera
from tools.world.light import random_light
from tools.world.mesh import Pose, paint
from tools.world.render import Renderer, blend
from tools.world.traffic import random_vehicle
from tools.world.vehicles import KINDS, PAINTS, Vehicle, build

CROP_PX = 64
COLOURS = tuple(PAINTS)
LEAST_SIDE_PX = 24.0
LEAST_VISIBLE = 0.7


@dataclass(frozen=True, slots=True)
class Crops:
    """Crops (N, 64, 64, 3) with the index of their colour and of their kind."""

    images: npt.NDArray[np.uint8]
    colour: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int64]


class Classifier(nn.Module):
    """Four convolutions, the mean, two linear heads; gives probabilities once it is exported."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in ((3, 24), (24, 32), (32, 64), (64, 64)):
            layers += [nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers)
        self.colour = nn.Linear(64, len(COLOURS))
        self.kind = nn.Linear(64 * 4, len(KINDS))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Crops (N, 3, 64, 64), 0 to 1, to logits of colour and kind."""
        features = self.body(images)
        quarters = nn.functional.avg_pool2d(features, 2).flatten(1)
        return self.colour(features.mean(dim=(2, 3))), self.kind(quarters)


class _Probable(nn.Module):
    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        colour, kind = self.classifier(images)
        return colour.softmax(dim=1), kind.softmax(dim=1)


def cut(image: RgbImage, *, xyxy: Floats) -> RgbImage:
    """The box of an image (clipped to it), stretched to 64x64."""
    height, width = image.shape[:2]
    x0, y0 = (int(max(0, np.floor(value))) for value in xyxy[:2])
    x1, y1 = int(min(width, np.ceil(xyxy[2]))), int(min(height, np.ceil(xyxy[3])))
    crop = cv2.resize(
        image[y0 : max(y1, y0 + 1), x0 : max(x1, x0 + 1)], (CROP_PX, CROP_PX), interpolation=cv2.INTER_LINEAR
    )
    return np.asarray(crop, dtype=np.uint8)


def posed_crops(backgrounds: list[Sample], *, count: int, seed: int) -> Crops:
    """Single vehicles before pieces of rendered images, from all sides and in all lights."""
    rng = np.random.default_rng([seed, 51])
    images: list[RgbImage] = []
    looks: list[tuple[int, int]] = []
    pool = [backgrounds[index].image for index in rng.integers(len(backgrounds), size=60)]
    while len(images) < count:
        vehicle = random_vehicle(rng)
        crop = _posed(vehicle, pool[rng.integers(len(pool))], rng=rng)
        if crop is not None:
            images.append(crop)
            looks.append((COLOURS.index(vehicle.paint), KINDS.index(vehicle.kind)))
    table = np.array(looks, dtype=np.int64)
    return Crops(np.stack(images), table[:, 0], table[:, 1])


def _posed(vehicle: Vehicle, background: RgbImage, *, rng: np.random.Generator) -> RgbImage | None:
    light = random_light(rng, name=str(rng.choice(["day", "overcast", "dusk"])))
    size_wh = (background.shape[1], background.shape[0])
    position = (rng.uniform(-9, 9), 0.0, rng.uniform(5, 11))
    camera = Camera.looking_at(
        (0, rng.uniform(14, 24), 0), position=position, field_of_view_degrees=rng.uniform(46, 72), size_wh=size_wh
    )
    pose = Pose(rng.uniform(-6, 6), rng.uniform(9, 45), np.pi / 2 * rng.choice([-1, 1]) + rng.normal(0, 0.12))
    sprite = paint(build(vehicle), pose=pose, camera=camera, light=light)
    if sprite is None:
        return None
    box = np.clip(np.array(sprite.xyxy), 0, [*size_wh, *size_wh])
    sides = box[2:] - box[:2]
    whole = np.array(sprite.xyxy[2:]) - np.array(sprite.xyxy[:2])
    if sides.min() < LEAST_SIDE_PX * 0.8 or sides.prod() < 0.6 * whole.prod():
        return None
    canvas = background.astype(np.float32) * rng.uniform(0.8, 1.1)
    blend(canvas, sprite)
    canvas += rng.normal(0, rng.uniform(0.5, 6), canvas.shape).astype(np.float32)
    noisy = np.clip(canvas, 0, 255).astype(np.uint8)
    jitter = rng.normal(0, 0.05, 4) * np.tile(sides, 2)
    crop = cut(noisy, xyxy=box + jitter)
    coded = cv2.imencode(".jpg", crop, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(40, 95))])[1]
    return np.asarray(cv2.imdecode(coded, cv2.IMREAD_COLOR), dtype=np.uint8)


def scene_crops(*, first_seed: int, scenes: int) -> Crops:
    """Vehicles as they appear in random scenes, well visible and large enough."""
    images: list[RgbImage] = []
    looks: list[tuple[int, int]] = []
    for seed in range(first_seed, first_seed + scenes):
        scene = random_scene(seed)
        if scene.entrance is not None:
            continue
        renderer = Renderer(scene)
        for index in np.linspace(0, scene.frames - 1, 4):
            image, truth = renderer.frame(int(index))
            by_track = {actor.track_id: actor.look for actor in scene.actors}
            sides = (truth.xyxy[:, 2:] - truth.xyxy[:, :2]).min(axis=1, initial=np.inf)
            for row in np.flatnonzero((truth.visibility >= LEAST_VISIBLE) & (sides >= LEAST_SIDE_PX)):
                look = by_track[int(truth.track_id[row])]
                if isinstance(look, Vehicle):
                    images.append(cut(image, xyxy=truth.xyxy[row]))
                    looks.append((COLOURS.index(look.paint), KINDS.index(look.kind)))
    table = np.array(looks, dtype=np.int64).reshape(-1, 2)
    return Crops(np.stack(images), table[:, 0], table[:, 1])


def fit_classifier(
    backgrounds: list[Sample], *, model: Path, crops: int = 7000, scenes: int = 30, epochs: int = 16, seed: int = 3
) -> None:
    """Train on posed vehicles and on those of some training scenes; writes the ONNX file."""
    torch.manual_seed(seed)
    posed = posed_crops(backgrounds, count=crops, seed=seed)
    placed = scene_crops(first_seed=FIRST_TRAINING_SEED + 50_000, scenes=scenes)
    together = Crops(
        *(np.concatenate([getattr(posed, name), getattr(placed, name)]) for name in ("images", "colour", "kind"))
    )
    network = Classifier()
    steps = epochs * (len(together.colour) // 64)
    optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=4e-3, total_steps=steps)
    network.train()
    for images, colour, kind in _batches(together, epochs=epochs, rng=np.random.default_rng([seed, 52])):
        colour_logits, kind_logits = network(images)
        loss = nn.functional.cross_entropy(colour_logits, colour, label_smoothing=0.02)
        loss = loss + nn.functional.cross_entropy(kind_logits, kind, label_smoothing=0.02)
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward([loss])
        optimiser.step()
        schedule.step()
    export_classifier(network, model=model)


def _batches(crops: Crops, *, epochs: int, rng: np.random.Generator) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    for _ in range(epochs):
        order = rng.permutation(len(crops.colour))
        for start in range(0, len(order) - 63, 64):
            rows = order[start : start + 64]
            images = torch.from_numpy(crops.images[rows]).permute(0, 3, 1, 2).float() / 255
            images = images * torch.from_numpy(rng.uniform(0.85, 1.15, (64, 1, 1, 1))).float()
            if rng.uniform() < 0.5:
                images = images.flip(3)
            yield images.clamp(0, 1), torch.from_numpy(crops.colour[rows]), torch.from_numpy(crops.kind[rows])


def export_classifier(network: Classifier, *, model: Path) -> None:
    """Write the classifier: input `images`, outputs `colour` and `kind` (probabilities), dynamic batch."""
    metadata = {
        "description": "Sightline vehicle classifier",
        "author": "Sightline",
        "license": "Apache-2.0",
        "task": "classify",
        "colour": repr(list(COLOURS)),
        "kind": repr(list(KINDS)),
    }
    example = torch.zeros(2, 3, CROP_PX, CROP_PX)
    write_onnx(_Probable(network).eval(), model=model, example=example, outputs=("colour", "kind"), metadata=metadata)


def accuracy(model: Path, *, scenes: int) -> tuple[float, float, int]:
    """The share of right colours and of right kinds on vehicles of evaluation scenes, and how many they were."""
    crops = scene_crops(first_seed=FIRST_EVALUATION_SEED + 50_000, scenes=scenes)
    network = openvino.Core().compile_model(str(model), "CPU", {"INFERENCE_NUM_THREADS": 1})
    images = crops.images.transpose(0, 3, 1, 2).astype(np.float32) / 255
    answers = network(images)
    colour, kind = (np.asarray(answers[name]).argmax(axis=1) for name in ("colour", "kind"))
    return float((colour == crops.colour).mean()), float((kind == crops.kind).mean()), len(crops.kind)
