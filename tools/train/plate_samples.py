"""Vehicles and number plates cut out of rendered gate scenes, with what they show."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from tools.train.worlds import FIRST_TRAINING_SEED, random_gate
from tools.world.arrays import Floats, RgbImage
from tools.world.plates import Plate
from tools.world.render import Renderer, Truth
from tools.world.vehicles import KINDS

FIRST_SEED = FIRST_TRAINING_SEED + 70_000
VEHICLE_PX = 128
TEXT_WH = (128, 32)
TEXT_MARGIN = 0.08
"""What is seen beyond a plate's box, on each side, as a share of its width and height."""

LEAST_VEHICLE_PX = 64.0
LEAST_VISIBLE = 0.5
LEAST_PLATE_PX = 22.0
LEAST_TEXT_PX = 42.0
FRAMES_PER_SCENE = 44


@dataclass(frozen=True, slots=True)
class VehicleCrops:
    """Vehicles (N, 128, 128, 3), stretched to that size, and the boxes of plates on them, pixels of the crop.

    `own` (N, 4) is the plate to be found, NaN where there is none; `ignored` (N, 2, 4) are plates that count neither as
    right nor as wrong, NaN where there are fewer.
    """

    images: npt.NDArray[np.uint8]
    own: Floats
    ignored: Floats


@dataclass(frozen=True, slots=True)
class TextCrops:
    """Plates (N, 32, 128), grey, and what they say."""

    images: npt.NDArray[np.uint8]
    texts: tuple[str, ...]


def render(*, folder: Path, scenes: int, processes: int) -> None:
    """Render the scenes of the training seeds that the folder does not hold yet."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [number for number in range(scenes) if not (folder / f"{number:05d}.npz").exists()]
    with ProcessPoolExecutor(processes) as pool:
        for number, count in enumerate(pool.map(partial(_render_one, folder), missing), start=1):
            print(f"{number} of {len(missing)} scenes, {count} vehicles in the last one", flush=True)


def load(folder: Path) -> tuple[VehicleCrops, TextCrops]:
    """All crops of a folder, in the order of their seeds."""
    stored = [np.load(path) for path in sorted(folder.glob("[0-9]" * 5 + ".npz"))]

    def column(name: str) -> npt.NDArray[np.generic]:
        return np.concatenate([table[name] for table in stored])

    vehicles = VehicleCrops(
        np.asarray(column("vehicles"), np.uint8), np.asarray(column("own"), float), np.asarray(column("ignored"), float)
    )
    return vehicles, TextCrops(np.asarray(column("plates"), np.uint8), tuple(map(str, column("texts"))))


def _render_one(folder: Path, number: int) -> int:
    cv2.setNumThreads(1)
    seed = FIRST_SEED + number
    scene = random_gate(seed)
    renderer = Renderer(scene)
    rng = np.random.default_rng([seed, 34])
    vehicles: list[tuple[RgbImage, Floats, Floats]] = []
    plates: list[tuple[RgbImage, str]] = []
    for index in np.linspace(0, scene.frames - 1, FRAMES_PER_SCENE).astype(int):
        image, truth = renderer.frame(int(index))
        quality = [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(45, 95))]
        coded = np.asarray(cv2.imdecode(cv2.imencode(".jpg", image, quality)[1], cv2.IMREAD_COLOR), np.uint8)
        vehicles += vehicle_crops(coded, truth, rng=rng)
        plates += plate_crops(coded, truth, rng=rng)
    part = folder / f"{number:05d}.part.npz"
    np.savez(
        part,
        vehicles=np.array([crop for crop, _, _ in vehicles], np.uint8).reshape(-1, VEHICLE_PX, VEHICLE_PX, 3),
        own=np.array([own for _, own, _ in vehicles]).reshape(-1, 4),
        ignored=np.array([others for _, _, others in vehicles]).reshape(-1, 2, 4),
        plates=np.array([crop for crop, _ in plates], np.uint8).reshape(-1, *TEXT_WH[::-1]),
        texts=np.array([text for _, text in plates], "U8"),
    )
    part.rename(folder / f"{number:05d}.npz")
    return len(vehicles)


def vehicle_crops(
    image: RgbImage, truth: Truth, *, rng: np.random.Generator
) -> Iterator[tuple[RgbImage, Floats, Floats]]:
    """The vehicles of an image as a detector might cut them out, the plate of each, and those not to be judged."""
    for row in vehicle_rows(truth):
        box = jittered(truth.xyxy[row], rng=rng, share=0.03)
        own, ignored = np.full(4, np.nan), np.full((2, 4), np.nan)
        others = []
        for plate in truth.plates:
            inside = in_crop(plate.xyxy, crop=box, size_wh=(VEHICLE_PX, VEHICLE_PX))
            clipped = np.clip(inside, 0, VEHICLE_PX)
            if not (clipped[2:] > clipped[:2]).all():
                continue
            if plate.track_id == truth.track_id[row] and is_wanted(plate) and np.array_equal(inside, clipped):
                own = inside
            else:
                others.append(clipped)
        ignored[: len(others)] = np.array(others).reshape(-1, 4)[:2]
        yield cut(image, xyxy=box, size_wh=(VEHICLE_PX, VEHICLE_PX)), own, ignored


def plate_crops(image: RgbImage, truth: Truth, *, rng: np.random.Generator) -> Iterator[tuple[RgbImage, str]]:
    """The plates of an image, grey, as a detector might cut them out."""
    grey = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
    for plate in truth.plates:
        if is_wanted(plate) and plate.xyxy[2] - plate.xyxy[0] >= LEAST_TEXT_PX:
            box = jittered(with_margin(plate.xyxy), rng=rng, share=0.035)
            yield cut(grey, xyxy=box, size_wh=TEXT_WH), plate.text


def vehicle_rows(truth: Truth) -> npt.NDArray[np.intp]:
    """The rows of the vehicles that are large and open enough."""
    sides = (truth.xyxy[:, 2:] - truth.xyxy[:, :2]).min(axis=1, initial=np.inf)
    # LABELS holds the kinds of vehicles last.
    known = truth.class_id >= 6 - len(KINDS)
    return np.flatnonzero(known & (sides >= LEAST_VEHICLE_PX) & (truth.visibility >= LEAST_VISIBLE))


def is_wanted(plate: Plate) -> bool:
    """Whether a plate has to be found."""
    return plate.visibility >= 0.9 and bool(plate.xyxy[2] - plate.xyxy[0] >= LEAST_PLATE_PX)


def with_margin(xyxy: Floats) -> Floats:
    """A plate's box with what is seen around it."""
    beyond = np.tile(xyxy[2:] - xyxy[:2], 2) * TEXT_MARGIN
    grown: Floats = xyxy + beyond * (-1, -1, 1, 1)
    return grown


def jittered(xyxy: Floats, *, rng: np.random.Generator, share: float) -> Floats:
    """A box as a detector might give it: each side a `share` of the width or height off (standard deviation)."""
    moved: Floats = xyxy + rng.normal(0, share, 4) * np.tile(xyxy[2:] - xyxy[:2], 2)
    return moved


def in_crop(xyxy: Floats, *, crop: Floats, size_wh: tuple[int, int]) -> Floats:
    """A box of the image in pixels of a crop that was stretched to a size."""
    scale = np.array(size_wh) / (crop[2:] - crop[:2])
    inside: Floats = (xyxy - np.tile(crop[:2], 2)) * np.tile(scale, 2)
    return inside


def cut(image: RgbImage, *, xyxy: Floats, size_wh: tuple[int, int]) -> RgbImage:
    """The box of an image, stretched to a size; beyond the image its edge is repeated."""
    across, down = (xyxy[2:] - xyxy[:2]) / size_wh
    move = np.array([[across, 0, xyxy[0] + across / 2 - 0.5], [0, down, xyxy[1] + down / 2 - 0.5]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpAffine(image, move, size_wh, flags=flags, borderMode=cv2.BORDER_REPLICATE), np.uint8)
