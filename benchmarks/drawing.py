"""What `draw` and `privacy` cost a frame.

    python -m benchmarks.drawing [--rounds 300]

A shared image of 1280x720 in I420 with noise in it, so that each frame is copied first, as behind a decoder. Each way
takes its turn in every round; figures are medians in milliseconds, on one thread.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping

import cv2
import numpy as np

from sightline.devices import Device
from sightline.graph import Element, Site
from sightline.media import Batch, Frame, Objects, Origin, PixelFormat, Skeleton, Stream, Surface
from sightline.media.shapes import FACE_5, PERSON_17, Mask
from sightline_plugins import Draw, Privacy

SIZE_WH = (1280, 720)
FACES = 4


def image() -> Surface:
    """A shared image of noise."""
    random = np.random.default_rng(0)
    surface = Surface.allocate(PixelFormat.I420, size_wh=SIZE_WH)
    for plane in surface.planes:
        plane[:] = random.integers(0, 256, plane.shape)
    return surface.shared()


def faces() -> Objects:
    """Four faces of 80 x 100."""
    left = np.arange(FACES) * 300 + 60
    return found(np.stack([left, left * 0 + 200, left + 80, left * 0 + 300], axis=1))


def people() -> Objects:
    """Four people of 120 x 360."""
    left = np.arange(FACES) * 300 + 60
    return found(np.stack([left, left * 0 + 200, left + 120, left * 0 + 560], axis=1))


def found(xyxy: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Objects:
    """Objects with these boxes, each with a track."""
    count = len(xyxy)
    return Objects.from_columns(
        frame=np.zeros(count),
        xyxy=xyxy,
        confidence=np.full(count, 0.9),
        class_id=np.zeros(count),
        track_id=np.arange(count),
        source=Origin("detect-1", ("face",)),
    )


def with_masks(objects: Objects) -> Objects:
    """The same objects, each with the ellipse in its box as its mask."""
    masks = np.empty(len(objects), np.object_)
    for row, (left, top, right, bottom) in enumerate(objects.xyxy.astype(int).tolist()):
        y, x = np.indices((bottom - top, right - left))
        bits = ((2 * x + 1) / (right - left) - 1) ** 2 + ((2 * y + 1) / (bottom - top) - 1) ** 2 <= 1
        masks[row] = Mask(left, top, bits)
    return objects.with_columns(mask=masks)


def with_keypoints(objects: Objects, *, skeleton: Skeleton) -> Objects:
    """The same objects with keypoints: a walk with steps of a sixth of the box, about as long as bones are."""
    steps = np.random.default_rng(1).uniform(-1 / 6, 1 / 6, (len(objects), len(skeleton.points), 2))
    corner, sides = objects.xyxy[:, None, :2], objects.xyxy[:, None, 2:] - objects.xyxy[:, None, :2]
    places = corner + sides * np.clip(0.5 + np.cumsum(steps, axis=1), 0, 1)
    points = np.concatenate([places, np.ones_like(places[..., :1])], axis=2).astype(np.float32)
    return objects.with_columns(keypoints=points, skeleton=np.full(len(objects), skeleton, np.object_))


def ways() -> Mapping[str, Callable[[], object]]:
    """What is measured, by name."""
    hide = {"on": "face", "detector": "detect-1"}
    privacy = {
        f"privacy, {method}, {shape}": (Privacy.model_validate({**hide, "method": method, "shape": shape}), faces())
        for shape in ("box", "ellipse", "mask")
        for method in ("blur", "pixelate", "fill")
    }
    color = np.array(["red", "blue", "white", "black"])
    steps: dict[str, tuple[Element, Objects]] = {
        **{name: (element, with_masks(objects)) for name, (element, objects) in privacy.items()},
        "privacy, whole image": (Privacy.model_validate({**hide, "detector": "detect-2"}), faces()),
        "draw, boxes and labels": (Draw(), people()),
        "draw, also attributes": (Draw(), people().with_columns(color=color)),
        "draw, also masks": (Draw(), with_masks(people())),
        "draw, also skeletons": (Draw(), with_keypoints(people(), skeleton=PERSON_17)),
        "draw, also landmarks": (Draw(), with_keypoints(people(), skeleton=FACE_5)),
    }
    surface = image()
    made: dict[str, Callable[[], object]] = {"copy alone": surface.writable}
    for name, (element, objects) in steps.items():
        operator = element.build(Site(device=Device()))
        batch = Batch((Frame(Stream("cam"), 0, 0, surface),), objects).with_search("detect-1", {0})
        made[name] = lambda operator=operator, batch=batch: operator.process(batch)  # type: ignore[misc]
    return made


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    rounds = parser.parse_args().rounds
    cv2.setNumThreads(1)
    contestants = ways()
    measured: dict[str, list[float]] = {name: [] for name in contestants}
    for way in contestants.values():
        way()
    for _ in range(rounds):
        for name, way in contestants.items():
            start = time.perf_counter()
            way()
            measured[name].append(time.perf_counter() - start)
    print(f"{SIZE_WH[0]}x{SIZE_WH[1]}, {FACES} objects, {rounds} rounds, medians in milliseconds")
    for name, seconds in measured.items():
        print(f"| {name} | {1e3 * statistics.median(seconds):.2f} |")


if __name__ == "__main__":
    main()
