"""Made views of a camera: a textured ground on which blocks move, and detections that know them exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes
from sightline_plugins.infer.adaptive.allowance import Allowance
from sightline_plugins.infer.adaptive.budget import Budget
from sightline_plugins.infer.adaptive.pace import Reason, StreamPace

SIZE_WH = (320, 192)
FRAME_NS = 40_000_000
Image = npt.NDArray[np.uint8]
Place = Callable[[int], list[tuple[float, float]]]
"""Returns the left top corners of the blocks on a frame."""
BLOCK = 32


def ground(width: int = SIZE_WH[0], *, seed: int = 1) -> Image:
    """A textured image of that width: smoothed noise."""
    rough = np.random.default_rng(seed).uniform(40, 140, (SIZE_WH[1] // 4, width // 4))
    return np.kron(rough, np.ones((4, 4))).astype(np.uint8)


def no_blocks(frame: int) -> list[tuple[float, float]]:
    del frame
    return []


def frames(count: int, places: Place = no_blocks, *, seed: int = 1) -> Iterator[tuple[Image, Boxes]]:
    """Images of a camera that stands, and the boxes of the blocks."""
    for frame in range(count):
        image = ground(seed=seed)
        corners = np.array(places(frame), np.float32).reshape(-1, 2)
        for left, top in corners.astype(int):
            image[top : top + BLOCK, left : left + BLOCK] = 220
        yield image, np.concatenate([corners, corners + BLOCK], axis=1)


def panned(count: int, *, pixels: float) -> Iterator[tuple[Image, Boxes]]:
    """Images of a camera that pans by so many pixels a frame."""
    wide = ground(SIZE_WH[0] + int(pixels * count) + 4)
    for frame in range(count):
        left = int(frame * pixels)
        yield wide[:, left : left + SIZE_WH[0]], np.empty((0, 4), np.float32)


def paced(
    view: Iterator[tuple[Image, Boxes]], budget: Budget | None = None, *, pace: StreamPace | None = None
) -> list[Reason | None]:
    """Return why the detector runs on each frame, None where it does not."""
    if pace is None:
        budget = budget or Budget()
        pace = StreamPace(budget, Allowance(budget))
    reasons = []
    for frame, (image, xyxy) in enumerate(view):
        reason = pace.decide_by_image(image, pts_ns=frame * FRAME_NS) or pace.decide_by_tracks()
        if reason is not None:
            run = pace.run(reason)
            if run.image is not None:
                pace.learn(run, xyxy, np.full(len(xyxy), 0.9, np.float32), np.zeros(len(xyxy), np.int64))
        reasons.append(reason)
    return reasons
