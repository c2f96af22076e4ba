"""Made series: what a stream with passing objects shows, second by second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sightline.media import Objects, Origin
from sightline.media.frame import NANOSECONDS
from sightline_plugins import Drift
from sightline_plugins.drift.watch import Change, DriftWatch, ImageValues

QUICK = {"learn": "10m", "window": "100s", "interval": "1s"}
ORIGIN = Origin("detect-1", ("car", "person"))


@dataclass(frozen=True)
class Scene:
    """What is seen in a second: cars that stay for ten, and an image. `cars` is how many there are on average."""

    cars: float = 6.0
    confidence: float = 0.75
    side: float = 0.08
    image: ImageValues | None = None
    tracked: bool = True


def second(scene: Scene, number: int, seed: int) -> tuple[Objects, ImageValues]:
    """Return the objects of a second and what is measured of its image; a tenth of the cars is new."""
    first, last = number * scene.cars / 10, number * scene.cars / 10 + scene.cars
    tracks = np.arange(int(first), int(last))
    each = np.random.default_rng((seed, 7)).normal(size=(int(first) + 300, 2))[tracks]
    sides = scene.side * np.exp(0.3 * each[:, 0]) * 1000
    random = np.random.default_rng((seed, number))
    objects = Objects.from_columns(
        frame=np.zeros(len(tracks)),
        xyxy=np.stack([0 * sides, 0 * sides, sides, sides], 1),
        confidence=np.clip(scene.confidence + 0.1 * each[:, 1] + random.normal(0, 0.02, len(tracks)), 0, 1),
        class_id=np.zeros(len(tracks)),
        track_id=tracks if scene.tracked else None,
        source=ORIGIN,
    )
    usual: ImageValues = {"brightness": 110 + random.normal(0, 3), "contrast": 45.0, "sharpness": 0.3}
    return objects, {**usual, **(scene.image or {})}


def played(
    scenes: Callable[[int], Scene], seconds: int, *, watch: DriftWatch | None = None, seed: int = 1, start: int = 0
) -> Iterator[tuple[int, Change]]:
    """Yield what begins and ends, and in which second."""
    watch = watch_of() if watch is None else watch
    for number in range(start, start + seconds):
        now_ns = number * NANOSECONDS
        objects, image = second(scenes(number), number, seed)
        image = {name: value for name, value in image.items() if name in watch.options.quantities}
        if watch.is_due(now_ns):
            for change in watch.add(objects, (1000, 1000), image, now_ns=now_ns, at_ns=now_ns):
                yield number, change


def watch_of(**options: object) -> DriftWatch:
    """A watch with quick options."""
    return DriftWatch(Drift.model_validate({**QUICK, **options}))
