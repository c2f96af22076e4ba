"""The image of the first page, made from what the sample pipelines write: `python -m tools.docs.hero`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "images" / "demo.jpg"
TILE_WH = (640, 360)
QUALITY = 85


@dataclass(frozen=True, slots=True)
class Tile:
    """One frame, counted from 0, of a video that a pipeline of `configs/` writes below the root of its outputs.

    `left` is the fraction of the width that is cut off on the left; as much of the height is cut off at the bottom.
    """

    config: str
    video: str
    frame: int
    left: float = 0


TILES = (
    (Tile("demo", "out/demo/street.mp4", 425), Tile("demo", "out/demo/entrance.mp4", 300)),
    (Tile("vehicle-attributes", "out/attributes/dusk.mp4", 66), Tile("plates", "out/plates/gate.mp4", 283, left=0.2)),
)
"""Rows of the image."""


def image_of(tile: Tile) -> NDArray[np.uint8]:
    """Run a pipeline up to a frame and return that frame, (height, width, 3) uint8 BGR in the size of a tile.

    Raises CalledProcessError if the pipeline fails, and ValueError if its video has no such frame.
    """
    with tempfile.TemporaryDirectory() as outputs:
        pipeline = f"configs/{tile.config}.yaml"
        frames = ["--frames", str(tile.frame + 1), "--output-root", outputs]
        subprocess.run(
            [sys.executable, "-m", "sightline.cli.main", "run", pipeline, "-q", *frames], cwd=ROOT, check=True
        )
        video = cv2.VideoCapture(str(Path(outputs) / tile.video))
        video.set(cv2.CAP_PROP_POS_FRAMES, tile.frame)
        found, image = video.read()
    if not found:
        raise ValueError(f"{tile.video} has no frame {tile.frame}")
    height, width = image.shape[:2]
    image = image[: round(height * (1 - tile.left)), round(width * tile.left) :]
    return np.asarray(cv2.resize(image, TILE_WH, interpolation=cv2.INTER_AREA), np.uint8)


def main() -> None:
    """Write the image."""
    image = np.vstack([np.hstack([image_of(tile) for tile in row]) for row in TILES])
    cv2.imwrite(str(TARGET), image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    print(f"{TARGET.relative_to(ROOT)}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
