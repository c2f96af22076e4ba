"""Objects as annotations of COCO, and their categories."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sightline.media import Batch, Objects, Origin, Skeleton
from sightline_plugins.sinks.details import corners, keypoints, masks, polygon_areas
from sightline_plugins.sinks.numbers import BOX_STEPS, CONFIDENCE_STEPS, rounded

Annotation = dict[str, Any]
_VISIBLE = 2


class Categories:
    """Numbers of labels: the detector's class id, or the next free number when that is taken."""

    def __init__(self) -> None:
        self._labels: dict[int, str] = {}
        self._numbers: dict[tuple[Origin, int], int] = {}
        self._skeletons: dict[int, Skeleton] = {}

    def number(self, origin: Origin, class_id: int) -> int:
        """The number of a class."""
        known = self._numbers.get((origin, class_id))
        if known is None:
            known = self._numbers[origin, class_id] = self._place(origin.label(class_id), class_id)
        return known

    def note_skeleton(self, number: int, skeleton: Skeleton) -> None:
        """Say what the keypoints of a category are."""
        self._skeletons.setdefault(number, skeleton)

    def listed(self) -> list[dict[str, object]]:
        """The categories as a dataset holds them; keypoints count from 1 there."""
        return [
            {"id": number, "name": label} | _points_of(self._skeletons.get(number))
            for number, label in sorted(self._labels.items())
        ]

    def _place(self, label: str, class_id: int) -> int:
        same = next((number for number, other in self._labels.items() if other == label), None)
        if same is not None:
            return same
        number = class_id if class_id not in self._labels else max(self._labels) + 1
        self._labels[number] = label
        return number


def annotations_of(batch: Batch, *, categories: Categories, scored: bool) -> list[Annotation]:
    """An annotation of each object, without its ids; `scored` ones are results, the others belong into a dataset."""
    objects = batch.objects
    ltwh = objects.xyxy.astype(np.float64)
    ltwh[:, 2:] -= ltwh[:, :2]
    numbers = [categories.number(objects.origins[origin], class_id) for origin, class_id in _classes(objects)]
    boxes = rounded(ltwh, steps=BOX_STEPS)
    scores = rounded(objects.confidence, steps=CONFIDENCE_STEPS)
    areas = rounded(ltwh[:, 2] * ltwh[:, 3], steps=BOX_STEPS)
    found: list[Annotation] = [
        {"category_id": number, "bbox": box}
        | ({} if scored else {"area": area, "iscrowd": 0})
        | {"score": score}
        | ({"track_id": track_id} if track_id >= 0 else {})
        for number, box, area, score, track_id in zip(
            numbers, boxes, areas, scores, objects.track_id.tolist(), strict=True
        )
    ]
    _add_shapes(found, batch, scored=scored)
    if "keypoints" in objects.extra:
        _add_keypoints(found, objects, categories=categories, scored=scored)
    return found


def _add_shapes(found: list[Annotation], batch: Batch, *, scored: bool) -> None:
    objects = batch.objects
    if "corners" in objects.extra:
        areas = rounded(polygon_areas(objects.extra["corners"]), steps=BOX_STEPS)
        for annotation, own, area in zip(found, corners(objects), areas, strict=True):
            if own is not None:
                annotation |= {"segmentation": [[place for point in own for place in point]]}
                annotation |= {} if scored else {"area": area}
    if "mask" in objects.extra:
        for annotation, written, mask in zip(found, masks(batch), objects.extra["mask"].tolist(), strict=True):
            if mask is not None:
                annotation |= {"segmentation": written} | ({} if scored else {"area": mask.area})


def _add_keypoints(found: list[Annotation], objects: Objects, *, categories: Categories, scored: bool) -> None:
    skeletons = objects.extra.get("skeleton", np.full(len(objects), None))
    for annotation, points, skeleton in zip(found, keypoints(objects), skeletons.tolist(), strict=True):
        if points is None:
            continue
        triples = [_triple(*point, scored=scored) for point in points]
        annotation["keypoints"] = [number for triple in triples for number in triple]
        if not scored:
            annotation["num_keypoints"] = sum(triple[2] > 0 for triple in triples)
        if skeleton is not None:
            categories.note_skeleton(annotation["category_id"], skeleton)


def _triple(x: float, y: float, confidence: float, *, scored: bool) -> tuple[float, float, float]:
    if not confidence > 0:
        return 0, 0, 0
    return x, y, confidence if scored else _VISIBLE


def _points_of(skeleton: Skeleton | None) -> dict[str, object]:
    if skeleton is None:
        return {}
    return {"keypoints": skeleton.points, "skeleton": [[first + 1, last + 1] for first, last in skeleton.edges]}


def _classes(objects: Objects) -> Iterator[tuple[int, int]]:
    return zip(objects.origin.tolist(), objects.class_id.tolist(), strict=True)
