"""Raw outputs as trained models give them: a scene with some objects, each found by several neighbouring boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
OBJECTS = 20
"""Objects in a scene."""
_NEIGHBOURS = 8
"""Boxes that find the same object."""
_NOISE = 0.02
"""Highest score of a box that finds nothing."""


def _random() -> np.random.Generator:
    return np.random.default_rng(0)


def _objects(random: np.random.Generator, side: int) -> tuple[Array, Array]:
    """Centre, width and height (N, 4) of the boxes that find objects, and the number of the object of each (N,)."""
    number = np.repeat(np.arange(OBJECTS), _NEIGHBOURS)
    middle = random.uniform(0.15, 0.85, (OBJECTS, 2)) * side
    size = random.uniform(0.06, 0.25, (OBJECTS, 2)) * side
    boxes = np.concatenate([middle, size], axis=1)[number]
    return boxes + random.normal(0, 2, boxes.shape), number


def table(*, side: int, boxes: int, classes: int, extra: int) -> Array:
    """A table (1, 4 + classes + extra, boxes) of the YOLO family: centre, size, class scores, more values."""
    random = _random()
    made = random.uniform(0, _NOISE, (4 + classes + extra, boxes)).astype(np.float32)
    found, number = _objects(random, side)
    places = random.choice(boxes, len(found), replace=False)
    made[:4, places] = found.T
    made[4 + number % classes, places] = random.uniform(0.4, 0.95, len(found))
    if extra:
        made[4 + classes :, places] = random.normal(0, 1, (extra, len(found)))
    return made[None]


def poses(*, side: int = 640, boxes: int = 8400, points: int = 17) -> list[Array]:
    """Boxes of one class with keypoints."""
    made = table(side=side, boxes=boxes, classes=1, extra=3 * points)
    made[0, 5:] = np.abs(made[0, 5:]) * np.tile([side / 4, side / 4, 0.3], points)[:, None]
    return [made]


def instances(*, side: int = 640, boxes: int = 8400, classes: int = 80, masks: int = 32) -> list[Array]:
    """Boxes with coefficients of masks, and the prototypes of these."""
    prototypes = _random().normal(0, 1, (1, masks, side // 4, side // 4)).astype(np.float32)
    return [table(side=side, boxes=boxes, classes=classes, extra=masks), prototypes]


def class_map(*, rows: int, columns: int, classes: int, present: int = 6, last: bool = False) -> list[Array]:
    """Logits (1, classes, rows, columns), `last`: (1, rows, columns, classes); rectangles of some classes on others."""
    random = _random()
    made = random.normal(0, 0.5, (classes, rows, columns)).astype(np.float32)
    made[0] += 6
    for class_id in range(1, present):
        top, left = random.integers(0, rows // 2), random.integers(0, columns // 2)
        made[class_id, top : top + rows // 3, left : left + columns // 3] += 12
    return [np.ascontiguousarray(made.transpose(1, 2, 0))[None] if last else made[None]]


def priors(*, boxes: int, classes: int, logits: bool) -> list[Array]:
    """Offsets (1, boxes, 4) from default boxes and scores (1, boxes, classes), raw or after the logistic function."""
    random = _random()
    offsets = random.normal(0, 0.5, (boxes, 4)).astype(np.float32)
    scores = random.uniform(1e-4, _NOISE, (boxes, classes)).astype(np.float32)
    found = OBJECTS * _NEIGHBOURS
    first = random.integers(0, boxes - _NEIGHBOURS, OBJECTS)
    places = (first[:, None] + np.arange(_NEIGHBOURS)).ravel()
    scores[places, np.repeat(np.arange(OBJECTS), _NEIGHBOURS) % (classes - 1) + 1] = random.uniform(0.4, 0.95, found)
    if logits:
        scores = np.log(scores / (1 - scores))
    return [offsets[None], scores[None]]


def faces(*, boxes: int) -> list[Array]:
    """Offsets, scores of background and face after softmax, and landmarks from square priors."""
    random = _random()
    offsets, scores = priors(boxes=boxes, classes=2, logits=False)
    scores[..., 0] = 1 - scores[..., 1]
    return [offsets, scores, random.normal(0, 0.5, (1, boxes, 10)).astype(np.float32)]


def face_cells(*, sizes: tuple[int, ...]) -> list[Array]:
    """YuNet's twelve outputs: class scores, objectness, boxes and landmarks of the cells of each level."""
    random = _random()
    scores = [random.uniform(0, _NOISE, (1, size, 1)).astype(np.float32) for size in (*sizes, *sizes)]
    for level in (0, len(sizes)):
        scores[level][0, :: sizes[0] // OBJECTS] = 0.9
    boxes, marks = ([random.normal(0, 0.5, (1, size, width)).astype(np.float32) for size in sizes] for width in (4, 10))
    return [*scores, *boxes, *marks]
