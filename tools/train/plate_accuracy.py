"""Measures the two models of number plates on coded images of gates that nothing was learned from."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import av
import cv2
import numpy as np
import openvino

from tools.train.plate_samples import TEXT_WH, VEHICLE_PX, cut, in_crop, jittered, vehicle_rows, with_margin
from tools.train.precision import overlaps
from tools.train.worlds import FIRST_EVALUATION_SEED, random_gate
from tools.world.arrays import Floats, RgbImage
from tools.world.lettering import ALPHABET
from tools.world.plates import Plate
from tools.world.render import Renderer, Truth
from tools.world.writer import write_video

FIRST_SEED = FIRST_EVALUATION_SEED + 70_000
QUALITY_CRF = 26


@dataclass(slots=True)
class PlateScore:
    """Readable plates: how many, how many found (IoU >= 0.5), read without a mistake where the truth has them and
    where they were found; and, of the tracks with readable plates, the votes for each text.
    """

    readable: int = 0
    found: int = 0
    overlap: float = 0.0
    read: int = 0
    chained: int = 0
    votes: dict[tuple[int, str], Counter[str]] = field(default_factory=dict)

    @property
    def tracks(self) -> tuple[int, int]:
        """How many tracks got the right text, and how many there are."""
        right = [votes.most_common(1)[:1] for votes in self.votes.values()]
        texts = [text for _, text in self.votes]
        return sum(bool(best) and best[0][0] == text for best, text in zip(right, texts, strict=True)), len(texts)


class PlateModels:
    """The exported models as plain code, independent of the framework."""

    def __init__(self, *, plate: Path, reader: Path) -> None:
        core = openvino.Core()
        single = {"INFERENCE_NUM_THREADS": 1}
        self._plate = core.compile_model(str(plate), "CPU", single)
        self._reader = core.compile_model(str(reader), "CPU", single)

    def find(self, image: RgbImage, *, vehicle: Floats) -> tuple[Floats, float]:
        """The likeliest plate on a vehicle, its box in pixels of the image, and its score."""
        crop = cut(image, xyxy=vehicle, size_wh=(VEHICLE_PX, VEHICLE_PX))
        images = np.ascontiguousarray(crop.transpose(2, 0, 1)[None], np.float32) / 255
        answer = np.asarray(self._plate(images)[0])[0].astype(np.float64)
        x, y, width, height, score = answer[:, answer[4].argmax()]
        box = np.array([x - width / 2, y - height / 2, x + width / 2, y + height / 2])
        scale = np.tile((vehicle[2:] - vehicle[:2]) / VEHICLE_PX, 2)
        return box * scale + np.tile(vehicle[:2], 2), float(score)

    def read(self, grey: RgbImage, *, plate: Floats) -> str:
        """What stands on a plate."""
        crop = cut(grey, xyxy=with_margin(plate), size_wh=TEXT_WH)
        best = np.asarray(self._reader(crop[None, None].astype(np.float32) / 255)[0])[0].argmax(axis=1)
        kept = best[(best > 0) & (best != np.concatenate([[-1], best[:-1]]))]
        return "".join(ALPHABET[number - 1] for number in kept)


def measure(models: PlateModels, *, scenes: int, frames: int = 60) -> PlateScore:
    """The score over some scenes of the evaluation seeds."""
    score = PlateScore()
    for seed in range(FIRST_SEED, FIRST_SEED + scenes):
        rng = np.random.default_rng([seed, 35])
        for image, truth in _coded(seed, frames=frames):
            grey = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
            plates = {plate.track_id: plate for plate in truth.plates if plate.is_readable}
            for row in vehicle_rows(truth):
                plate = plates.get(int(truth.track_id[row]))
                vehicle = jittered(truth.xyxy[row], rng=rng, share=0.02)
                if plate is not None and _is_inside(plate, vehicle):
                    _judge(score, models, image, grey, plate=plate, vehicle=vehicle, seed=seed)
    return score


def _judge(
    score: PlateScore, models: PlateModels, image: RgbImage, grey: RgbImage, *, plate: Plate, vehicle: Floats, seed: int
) -> None:
    box, _ = models.find(image, vehicle=vehicle)
    overlap = float(overlaps(box[None], plate.xyxy[None])[0][0, 0])
    text = models.read(grey, plate=box)
    score.readable += 1
    score.found += overlap >= 0.5
    score.overlap += overlap
    score.read += models.read(grey, plate=plate.xyxy) == plate.text
    score.chained += text == plate.text
    score.votes.setdefault((seed * 1000 + plate.track_id, plate.text), Counter())[text] += 1


def _is_inside(plate: Plate, vehicle: Floats) -> bool:
    inside = in_crop(plate.xyxy, crop=vehicle, size_wh=(VEHICLE_PX, VEHICLE_PX))
    return bool((inside >= 0).all() and (inside <= VEHICLE_PX).all())


def _coded(seed: int, *, frames: int) -> Iterator[tuple[RgbImage, Truth]]:
    """Frames of a scene after H.264, with their truth."""
    scene = random_gate(seed, fps=8, frames=frames)
    renderer = Renderer(scene)
    rendered = [renderer.frame(index) for index in range(frames)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gate.mp4"
        images = (image for image, _ in rendered)
        write_video(images, path=path, size_wh=scene.size_wh, fps=scene.fps, crf=QUALITY_CRF, preset="fast")
        with av.open(str(path)) as container:
            decoded = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    for image, (_, truth) in zip(decoded, rendered, strict=True):
        yield np.asarray(image, dtype=np.uint8), truth
