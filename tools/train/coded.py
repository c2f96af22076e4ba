"""Frames of scenes as a camera's encoder leaves them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np

from tools.train.precision import Expected
from tools.train.worlds import random_scene
from tools.world.arrays import RgbImage
from tools.world.render import Renderer
from tools.world.writer import write_video

FRAMES_PER_SCENE = 6
QUALITY_CRF = 26


def coded_frames(seed: int) -> Iterator[tuple[RgbImage, Expected]]:
    """Some frames of a scene after H.264, with their truth."""
    scene = random_scene(seed)
    renderer = Renderer(scene)
    rendered = [renderer.frame(int(index)) for index in np.linspace(0, scene.frames - 1, FRAMES_PER_SCENE)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scene.mp4"
        write_video(
            (image for image, _ in rendered),
            path=path,
            size_wh=scene.size_wh,
            fps=scene.fps,
            crf=QUALITY_CRF,
            preset="fast",
        )
        with av.open(str(path)) as container:
            decoded = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    for image, (_, truth) in zip(decoded, rendered, strict=True):
        yield (
            np.asarray(image, dtype=np.uint8),
            Expected(truth.xyxy, truth.class_id.astype(np.int64), truth.visibility),
        )
