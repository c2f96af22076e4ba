"""What cameras see: the sample clips, small as `camera_health` looks at them, and what happens to cameras."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.config import source_from
from sightline.graph.tracker import Luma
from sightline.media.frame import NANOSECONDS
from sightline.testing import run_source
from sightline_plugins import CameraHealth
from sightline_plugins.camera_health.operator import fine_size
from sightline_plugins.camera_health.watch import CameraWatch
from sightline_plugins.opencv import cv2

Alter = Callable[[Luma, float], npt.NDArray[Any]]
"""Makes another image of one and the second in which it is taken."""
Told = list[tuple[float, str, str]]
"""When what began or ended."""
SAMPLES = Path(__file__).parents[3] / "sample_videos"
HERTZ = 2


@cache
def clip(name: str) -> list[Luma]:
    """Two images a second of a sample clip, once forth and once back, so that it can be repeated without a cut."""
    source = source_from({"uri": str(SAMPLES / f"{name}.mp4"), "max_fps": HERTZ})
    frames = run_source(source)
    size_wh = fine_size(frames[0].size_wh)
    images = [cv2.resize(one.surface.planes[0], size_wh, interpolation=cv2.INTER_AREA) for one in frames]
    return [np.asarray(image, np.uint8) for image in [*images, *images[-2:0:-1]]]


def scene(name: str, seconds: float, *, hertz: float = HERTZ) -> Iterator[tuple[float, Luma]]:
    """Images of a clip and their times."""
    for number, image in enumerate(islice(cycle(clip(name)), round(seconds * hertz))):
        yield number / hertz, image


def altered(
    images: Iterator[tuple[float, Luma]], alter: Alter, *, start: float, end: float
) -> Iterator[tuple[float, Luma]]:
    """Images of which those from `start` to `end` are others."""
    for seconds, image in images:
        if start <= seconds < end:
            yield seconds, np.clip(alter(image, seconds), 0, 255).astype(np.uint8)
        else:
            yield seconds, image


def told(images: Iterator[tuple[float, Luma]], watch: CameraWatch | None = None, **options: object) -> Told:
    """What a watch says of images."""
    watch = CameraWatch(CameraHealth.model_validate(options)) if watch is None else watch
    return [
        (seconds, change.check, change.reason or ("began" if change.began else "ended"))
        for seconds, image in images
        for change in watch.update(image, now_ns=round(seconds * NANOSECONDS))
    ]


def _random(seconds: float) -> np.random.Generator:
    return np.random.default_rng(round(seconds * 1000))


def noisy(image: npt.NDArray[Any], seconds: float, sigma: float) -> npt.NDArray[Any]:
    """The noise of a sensor, other in each image."""
    return image + _random(seconds).normal(0, sigma, image.shape)


def _dimmed(image: Luma, factor: float) -> npt.NDArray[Any]:
    return 16 + (image.astype(np.float64) - 16) * factor


def _moved(image: Luma, x: float, y: float = 0, *, degrees: float = 0, zoom: float = 1) -> Luma:
    height, width = image.shape
    affine = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, zoom)
    affine[:, 2] += (x * width, y * height)
    return np.asarray(cv2.warpAffine(image, affine, (width, height), borderMode=cv2.BORDER_REFLECT), np.uint8)


def _hand(image: Luma, seconds: float) -> npt.NDArray[Any]:
    """Something soft and near, lit from one side."""
    across = np.arange(image.shape[1]) / image.shape[1]
    return noisy(np.broadcast_to(60 + 50 * across, image.shape), seconds, 3)


def _headlights(image: Luma, seconds: float) -> npt.NDArray[Any]:
    height, width = image.shape
    down, across = np.mgrid[:height, :width]
    middle = width * (0.2 + 0.6 * (seconds % 10) / 10)
    glow = np.exp(-((across - middle) ** 2 + (down - height * 0.6) ** 2) / (2 * (width / 18) ** 2))
    lit: npt.NDArray[Any] = _dimmed(image, 0.35) + 220 * glow
    return lit


def _lorry(image: Luma, seconds: float) -> npt.NDArray[Any]:
    """It fills the image for eight seconds of every thirty."""
    return np.full_like(image, 120) if seconds % 30 < 8 else image


def _compressed(image: Luma, seconds: float) -> npt.NDArray[Any]:
    del seconds
    _, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 15])
    return np.asarray(cv2.imdecode(data, cv2.IMREAD_GRAYSCALE), np.uint8)


def _shaken(image: Luma, seconds: float) -> Luma:
    x, y = _random(seconds).uniform(-0.018, 0.018, 2)
    return _moved(image, x, y)


FAULTS: Mapping[str, tuple[str, Alter]] = {
    "cap": ("covered", lambda image, seconds: noisy(np.full(image.shape, 17), seconds, 2)),
    "hand": ("covered", _hand),
    "paint": ("covered", lambda image, _: np.where(np.arange(image.shape[1]) < 0.75 * image.shape[1], 180, image)),
    "turned by a tenth": ("turned", lambda image, _: _moved(image, 0.1)),
    "turned a little": ("turned", lambda image, _: _moved(image, 0.04, 0.02)),
    "turned away": ("turned", lambda image, _: _moved(image, 0.5, 0.1)),
    "tilted": ("turned", lambda image, _: _moved(image, 0, degrees=12)),
    "zoomed": ("turned", lambda image, _: _moved(image, 0, zoom=1.4)),
    "out of focus": ("defocused", lambda image, _: cv2.GaussianBlur(image, (0, 0), 2)),
    "far out of focus": ("defocused", lambda image, _: cv2.GaussianBlur(image, (0, 0), 8)),
}
"""What a camera must report, and as what."""
HARMLESS: Mapping[str, Alter] = {
    "nothing": lambda image, _: image,
    "dusk": lambda image, seconds: noisy(_dimmed(image, 0.3), seconds, 2),
    "sun": lambda image, _: image * 1.4,
    "another exposure": lambda image, _: 255 * (image / 255) ** 1.8,
    "haze": lambda image, _: image * 0.5 + 90,
    "headlights": _headlights,
    "noise": lambda image, seconds: noisy(image, seconds, 6),
    "a low bit rate": _compressed,
    "wind": _shaken,
    "lorries": _lorry,
}
"""What it must bear."""
