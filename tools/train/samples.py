"""Labelled images of random scenes, rendered once and kept in a folder."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cv2
import numpy as np

from tools.train.worlds import FIRST_TRAINING_SEED, random_scene
from tools.world.arrays import Floats, RgbImage
from tools.world.render import Renderer

FRAMES_PER_SCENE = 10


@dataclass(frozen=True, slots=True)
class Sample:
    """An image (RGB) and its truth: rows of class id, x0, y0, x1, y1 (pixels), visibility."""

    image: RgbImage
    rows: Floats


def render(*, folder: Path, scenes: int, processes: int) -> None:
    """Render the scenes of the training seeds that the folder does not hold yet."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [number for number in range(scenes) if not (folder / f"{number:05d}.npz").exists()]
    with ProcessPoolExecutor(processes) as pool:
        for number, count in enumerate(pool.map(partial(_render_one, folder), missing), start=1):
            if number % 50 == 0:
                print(f"{number} of {len(missing)} scenes, {count} objects in the last one", flush=True)


def _render_one(folder: Path, number: int) -> int:
    cv2.setNumThreads(1)
    seed = FIRST_TRAINING_SEED + number
    scene = random_scene(seed)
    renderer = Renderer(scene)
    rng = np.random.default_rng([seed, 32])
    jpegs, rows = [], []
    for index in np.linspace(0, scene.frames - 1, FRAMES_PER_SCENE).astype(int):
        image, truth = renderer.frame(int(index))
        quality = int(rng.integers(35, 92))
        coded = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
        jpegs.append(coded)
        rows.append(np.concatenate([truth.class_id[:, None], truth.xyxy, truth.visibility[:, None]], axis=1))
    lengths = np.array([[len(jpeg), len(row)] for jpeg, row in zip(jpegs, rows, strict=True)])
    part = folder / f"{number:05d}.part.npz"
    np.savez(part, jpegs=np.concatenate(jpegs), rows=np.concatenate(rows), lengths=lengths)
    part.rename(folder / f"{number:05d}.npz")
    return sum(len(row) for row in rows)


def load(folder: Path, *, scenes: int | None = None) -> list[Sample]:
    """The samples of a folder, in the order of their seeds, decoded: about a megabyte each."""
    samples: list[Sample] = []
    for path in sorted(folder.glob("[0-9]" * 5 + ".npz"))[:scenes]:
        with np.load(path) as stored:
            jpegs, rows, lengths = stored["jpegs"], stored["rows"], stored["lengths"]
        ends = np.cumsum(lengths, axis=0)
        for (jpeg_end, row_end), (jpeg_size, row_count) in zip(ends, lengths, strict=True):
            decoded = cv2.imdecode(jpegs[jpeg_end - jpeg_size : jpeg_end], cv2.IMREAD_COLOR_RGB)
            samples.append(Sample(np.asarray(decoded, dtype=np.uint8), rows[row_end - row_count : row_end]))
    return samples
