"""Made sequences: people and cars that move through a scene, and what a detector would give of them.

Eight kinds of scenes (a street from the side, a fixed camera at seven frames a second, a walk with the camera, a crowd,
a camera in the hand, a drive, a road) and three detectors. Objects of known size walk on a ground plane, turn, stop, go
in groups, hide each other and leave. A detector sees the less of them the more they are hidden and the smaller they
are; its confidence has a memory, its boxes tremble, it misses objects for some frames in a row, and it sees things
that are not there, some of them always at the same place. Defaults of `adaptive` were chosen on these and on the public
sequences together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt
from benchmarks.tracking.sequences import Boxes, Sequence

from sightline.media.boxes import iou_matrix

Values = npt.NDArray[np.float64]
Camera = Literal["still", "walk", "shake", "drive"]


@dataclass(frozen=True, slots=True)
class Scene:
    """One kind of scene; lengths in pixels, speeds in heights of the object a second."""

    fps: int
    seconds: int
    size_wh: tuple[int, int]
    count: int
    heights: tuple[int, int]
    speeds: tuple[float, float]
    camera: Camera = "still"
    cars: bool = False


@dataclass(frozen=True, slots=True)
class Detector:
    """How good a detector is: its highest confidence, the share of objects in full view that it finds, false alarms."""

    highest: float
    recall: float
    false_alarms: float


SCENES: Mapping[str, Scene] = MappingProxyType(
    {
        "side": Scene(25, 8, (640, 480), 14, (150, 260), (0.25, 0.6)),
        "street": Scene(25, 10, (640, 480), 18, (60, 180), (0.2, 0.55)),
        "square": Scene(7, 40, (768, 576), 30, (50, 110), (0.3, 0.7)),
        "stroll": Scene(14, 20, (640, 480), 26, (40, 300), (0.2, 0.6), "walk"),
        "crowd": Scene(30, 8, (1920, 1080), 50, (120, 420), (0.2, 0.5)),
        "hand": Scene(30, 12, (1280, 720), 30, (100, 380), (0.2, 0.5), "shake"),
        "drive": Scene(10, 15, (1242, 375), 30, (20, 200), (0.0, 1.5), "drive", cars=True),
        "road": Scene(15, 20, (1280, 720), 40, (30, 160), (0.5, 3.0), cars=True),
    }
)
DETECTORS: Mapping[str, Detector] = MappingProxyType(
    {
        "strong": Detector(0.95, 0.985, 0.02),
        "fair": Detector(0.8, 0.9, 0.06),
        "weak": Detector(0.55, 0.85, 0.08),
    }
)
LEAST_INSIDE, LEAST_VISIBLE = 0.3, 0.1
"""Shares of an object that must be in the image, and not covered, for the truth to hold it."""
SUPPRESSED = 0.6
"""Overlap above which the detector's own suppression leaves one of two boxes."""


def made(kind: str, detector: str, *, seed: int = 0) -> Sequence:
    """Return a sequence of a kind of scene, seen by a detector."""
    scene, seen_by = SCENES[kind], DETECTORS[detector]
    random = np.random.default_rng([*map(ord, kind), seed])
    objects, sight = _Objects(scene, random), _Sight(scene, seen_by, random)
    truth: list[Values] = []
    seen: list[Values] = []
    for frame in range(1, scene.fps * scene.seconds + 1):
        for replaced in objects.move():
            sight.forget(replaced)
        boxes, feet = objects.boxes(frame / scene.fps)
        visible = _visible(boxes, feet)
        inside = _clipped(boxes, scene.size_wh)
        there = _areas(inside) > LEAST_INSIDE * _areas(boxes)
        known = there & (visible > LEAST_VISIBLE)
        truth.append(_rows(frame, objects.identity[known], inside[known], np.ones(int(known.sum()))))
        xyxy, confidence = sight.look(boxes, visible, there=there, shift=objects.shift)
        seen.append(_rows(frame, np.full(len(xyxy), -1), xyxy, confidence))
    name = f"{kind}, {detector}"
    return Sequence(name, scene.fps, scene.fps * scene.seconds, _columns(seen), _columns(truth))


class _Objects:
    """Where objects are: x in pixels, and depth from 0 (far) to 1 (near)."""

    def __init__(self, scene: Scene, random: np.random.Generator) -> None:
        self._scene, self._random = scene, random
        count, (width, _) = scene.count, scene.size_wh
        self.identity = np.arange(1, count + 1)
        self.shift = np.zeros(2)
        self._next = count + 1
        self._seconds = 0.0
        self._x, self._depth = random.uniform(0, width, count), random.beta(1.2, 1.6, count)
        to_side = np.where(random.random(count) < 0.5, 0, np.pi) + random.normal(0, 0.15, count)
        self._angle = np.where(random.random(count) < 0.7, to_side, random.uniform(0, 2 * np.pi, count))
        self._speed = random.uniform(*scene.speeds, count)
        self._pause = np.zeros(count)
        self._aspect = random.uniform(1.2, 2.4, count) if scene.cars else random.uniform(0.33, 0.45, count)
        self._own_size = random.uniform(0.9, 1.1, count)
        self._phase = random.uniform(0, 6, 2)
        for one in np.flatnonzero(random.random(count) < 0.3):
            other = int(random.integers(count))
            self._x[one] = self._x[other] + random.normal(0, 25)
            self._depth[one] = np.clip(self._depth[other] + random.normal(0, 0.02), 0, 1)
            self._angle[one], self._speed[one] = self._angle[other], self._speed[other] * random.normal(1, 0.03)

    def move(self) -> npt.NDArray[np.intp]:
        """Move everything to the next frame; return which rows are new objects, as the old ones have left."""
        scene, random, count = self._scene, self._random, self._scene.count
        steps = max(1, round(60 / scene.fps))
        elapsed = 1 / (scene.fps * steps)
        for _ in range(steps):
            self._seconds += elapsed
            turning = 0.025 if scene.cars else 0.25
            self._angle += random.normal(0, turning * np.sqrt(elapsed), count)
            stops = (random.random(count) < 0.05 * elapsed) & (self._pause <= 0)
            self._pause = np.where(stops, random.uniform(0.5, 3, count), self._pause - elapsed)
            way = np.where(self._pause > 0, 0, self._speed) * self._heights() * elapsed
            self._x += way * np.cos(self._angle)
            self._depth += way * np.sin(self._angle) / (0.67 * scene.size_wh[1]) * 0.5
            self._approach(elapsed)
        far = (self._x < -150) | (self._x > scene.size_wh[0] + 150) | (self._depth < -0.03) | (self._depth > 1.1)
        left: npt.NDArray[np.intp] = np.flatnonzero(far)
        for row in left:
            self._replace(int(row))
        return left

    def boxes(self, seconds: float) -> tuple[Values, Values]:
        """Return the boxes (N, 4) as the camera sees them, and how far down their feet are (N,)."""
        height = self._heights() * self._own_size
        swing = 0 if self._scene.cars else 0.12 * np.sin(2 * np.pi * 1.9 * seconds + self.identity)
        half = height * self._aspect * (1 + swing) / 2
        feet = self._scene.size_wh[1] * (0.35 + 0.67 * np.clip(self._depth, -0.1, 1.2))
        self.shift = self._camera_shift(seconds)
        boxes = np.stack([self._x - half, feet - height, self._x + half, feet], axis=1) + np.tile(self.shift, 2)
        return boxes, feet

    def _heights(self) -> Values:
        least, most = self._scene.heights
        heights: Values = least + (most - least) * self._depth
        return heights

    def _approach(self, elapsed: float) -> None:
        """Move the scene towards a camera that moves forward."""
        from_middle = self._x - self._scene.size_wh[0] / 2
        if self._scene.camera == "drive":
            pace = 0.5 + 0.5 * np.sin(3 * self._seconds / self._scene.seconds)
            self._depth += (0.10 + 0.25 * self._depth) * elapsed * pace
            self._x += from_middle * 0.35 * elapsed * self._depth
        elif self._scene.camera == "walk":
            self._depth += 0.05 * elapsed
            self._x += from_middle * 0.05 * elapsed

    def _replace(self, row: int) -> None:
        """Let a new object come: from a side, or from afar where the camera moves forward."""
        random, width = self._random, self._scene.size_wh[0]
        self.identity[row] = self._next
        self._next += 1
        if self._scene.camera in ("drive", "walk") and random.random() < 0.7:
            self._depth[row], self._x[row] = random.uniform(0, 0.3), random.uniform(0, width)
        else:
            from_left = random.random() < 0.5
            self._x[row], self._depth[row] = (-60 if from_left else width + 60), random.beta(1.2, 1.6)
            self._angle[row] = (0 if from_left else np.pi) + random.normal(0, 0.2)
        self._speed[row] = random.uniform(*self._scene.speeds)

    def _camera_shift(self, seconds: float) -> Values:
        turn = 2 * np.pi * seconds
        match self._scene.camera:
            case "walk":
                sway = 18 * np.sin(0.8 * turn + self._phase[0]) + 25 * np.sin(0.7 * seconds)
                return np.array([sway, 8 * np.sin(1.6 * turn + self._phase[1])])
            case "shake":
                sway = 10 * np.sin(2.1 * turn + self._phase[0]) + 60 * np.sin(0.5 * seconds)
                return np.array([sway, 8 * np.sin(2.9 * turn + self._phase[1])])
            case "drive":
                return np.array([25 * np.sin(0.4 * seconds), 3 * np.sin(1.5 * turn)])
            case _:
                return np.zeros(2)


class _Sight:
    """A simulated detector."""

    def __init__(self, scene: Scene, detector: Detector, random: np.random.Generator) -> None:
        self._scene, self._detector, self._random = scene, detector, random
        count, (width, height) = scene.count, scene.size_wh
        self._mood = random.normal(0, 1, count)
        """What makes an object easy or hard to see, which changes slowly."""
        self._trembling = np.zeros((count, 4))
        self._box_noise = random.uniform(0.02, 0.05)
        self._missing = np.zeros(count)
        """Frames for which each object is still missed."""
        least, most = scene.heights
        places, sizes = random.uniform([0, 0.2 * height], [width, height], (3, 2)), random.uniform(least, most, 3) / 2
        self._false = list(zip(places, sizes, random.uniform(0.05, 0.5, 3), random.uniform(0.4, 0.75, 3), strict=True))
        """Things that look like objects: place, height, how often, and how sure."""

    def forget(self, row: int) -> None:
        """Treat this row as a new object."""
        self._mood[row], self._trembling[row] = self._random.normal(), 0

    def look(
        self, boxes: Values, visible: Values, *, there: npt.NDArray[np.bool_], shift: Values
    ) -> tuple[Values, Values]:
        """Return boxes (M, 4) and confidences (M,)."""
        random, scene, detector, count = self._random, self._scene, self._detector, len(boxes)
        kept = np.exp(-1 / (0.3 * scene.fps))
        self._mood = kept * self._mood + np.sqrt(1 - kept**2) * random.normal(size=count)
        self._trembling = 0.5 * self._trembling + np.sqrt(0.75) * self._box_noise * random.normal(size=(count, 4))
        height = boxes[:, 3] - boxes[:, 1]
        clarity = 6.4 * (visible - 0.45) + 0.9 * self._mood
        chance = detector.recall * _logistic((height - 28) / 8) * _logistic(1.6 * clarity + 1)
        confidence = np.clip(
            detector.highest * _logistic(1.1 * clarity + 1.2) + random.normal(0, 0.02, count), 0.05, 0.999
        )
        begins = random.random(count) < 0.15 / scene.fps
        self._missing = np.where(begins, random.integers(1, max(2, int(0.4 * scene.fps)), count), self._missing - 1)
        seen = there & (random.random(count) < chance) & (self._missing <= 0) & (visible > 0.15)
        found = _clipped(boxes + 0.7 * self._trembling * height[:, None], scene.size_wh)[seen]
        false_boxes, false_confidence = self._false_alarms(shift)
        xyxy, confidence = np.concatenate([found, false_boxes]), np.concatenate([confidence[seen], false_confidence])
        order = np.argsort(-confidence, kind="stable")
        return _suppressed(xyxy[order], confidence[order])

    def _false_alarms(self, shift: Values) -> tuple[Values, Values]:
        random, detector, (width, height) = self._random, self._detector, self._scene.size_wh
        aspect = 1.6 if self._scene.cars else 0.4
        rows = []
        for place, size, often, sure in self._false:
            if random.random() < often:
                tall = size * random.normal(1, 0.05)
                confidence = sure * detector.highest / 0.95 + random.normal(0, 0.06)
                rows.append((*(place + shift), tall, confidence))
        for _ in range(random.poisson(8 * detector.false_alarms)):
            x, y, tall = random.uniform(
                [0, 0.3 * height, self._scene.heights[0]], [width, height, self._scene.heights[1]]
            )
            rows.append((x, y, tall, random.beta(2, 3) * detector.highest))
        x, y, tall, confidence = np.array(rows).reshape(-1, 4).T
        half = tall * aspect / 2
        return np.stack([x - half, y - tall, x + half, y], axis=1), np.clip(confidence, 0.05, 0.95)


def _visible(boxes: Values, feet: Values) -> Values:
    """Return the share (N,) of each box that no object with feet further down covers."""
    near = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    far = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = np.prod(np.maximum(far - near, 0), axis=2) * (feet[None] > feet[:, None] + 1)
    visible: Values = 1 - np.minimum(1, shared.sum(axis=1) / _areas(boxes))
    return visible


def _suppressed(xyxy: Values, confidence: Values) -> tuple[Values, Values]:
    overlap = iou_matrix(xyxy.astype(np.float32), xyxy.astype(np.float32))
    kept: list[int] = []
    for row in range(len(xyxy)):
        if not (overlap[row, kept] > SUPPRESSED).any():
            kept.append(row)
    return xyxy[kept], confidence[kept]


def _logistic(values: Values) -> Values:
    logistic: Values = 1 / (1 + np.exp(-values))
    return logistic


def _clipped(boxes: Values, size_wh: tuple[int, int]) -> Values:
    clipped: Values = np.clip(boxes, 0, np.tile(size_wh, 2))
    return clipped


def _areas(boxes: Values) -> Values:
    areas: Values = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    return areas


def _rows(frame: int, identity: npt.NDArray[np.int64], xyxy: Values, confidence: Values) -> Values:
    return np.column_stack([np.full(len(xyxy), frame), identity, xyxy, confidence])


def _columns(frames: list[Values]) -> Boxes:
    rows = np.concatenate(frames)
    frame, identity = rows[:, :2].astype(np.int64).T
    return Boxes(frame, identity, rows[:, 2:6].astype(np.float32), rows[:, 6].astype(np.float32))
