"""Class maps (semantic segmentation): at frame resolution, one object with a mask for each class that is present."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Mask, Origin
from sightline_plugins.heads.head import Array, Candidates, ClassMap
from sightline_plugins.infer.detections import NOTHING, Detections, ObjectPostprocessor, joined
from sightline_plugins.infer.masks import Floats, Window, map_part, pixels_in, sampled, united
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import all_finite, target_box, target_region
from sightline_plugins.infer.targets import InferenceTarget
from sightline_plugins.opencv import cv2
from sightline_plugins.preprocess.placement import Region

Numbers: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]

_REST = -1
"""The class of the pixels that a map of a single class does not cover."""


@dataclass(frozen=True, slots=True)
class ClassMapRules:
    """Which classes become objects: those in `wanted` (None: all) but the `background`, with at least `confidence`.

    They have to cover at least `min_area` of the frame (0..1).
    """

    background: int | None = 0
    wanted: frozenset[int] | None = None
    confidence: float = 0.0
    min_area: float = 0.0


class ClassMapPostprocessor(ObjectPostprocessor):
    """Makes an object of each class. Only classes that win somewhere on the network's map are resized to the frame.

    There the highest score wins, as if all had been resized; the result differs where a third class lies between two
    that win. The box of an object is the bounds of its pixels, its confidence the mean over the map of the softmax of
    its scores where it wins (1 for maps that hold classes only). Regions of a frame are merged per class.
    """

    def __init__(self, plan: ModelPlan, rules: ClassMapRules, *, element_id: str) -> None:
        super().__init__(Origin(element_id, plan.labels))
        self._plan = plan
        self._rules = rules

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> Detections | None:
        found: ClassMap = self._plan.decode(outputs, size_wh=target.placement.size_wh)
        if not all_finite([found.scores]):
            return None
        areas = self._areas(found, target, batch.frames[target.row].size_wh)
        return Detections(areas, target_box(target, batch))

    def merged(
        self, tables: Sequence[Candidates], *, regions: Sequence[Region], size_wh: tuple[int, int]
    ) -> Candidates:
        """Return one object for each class; confidences are weighted by area."""
        del regions, size_wh
        table = joined(tables)
        if table.shapes is None:
            return table
        areas = []
        for class_id in np.unique(table.class_id).tolist():
            rows = np.flatnonzero(table.class_id == class_id)
            masks = table.shapes[rows].tolist()
            confidence = np.average(table.confidence[rows], weights=[mask.area for mask in masks])
            areas.append((united(masks), float(confidence), class_id))
        return _as_candidates(areas)

    def _areas(self, found: ClassMap, target: InferenceTarget, size_wh: tuple[int, int]) -> Candidates:
        placement, rules = target.placement, self._rules
        map_hw = found.scores.shape[1], found.scores.shape[2]
        window = pixels_in(target_region(target, size_wh).tolist())
        part = map_part(map_hw, placement, window)
        scores, class_id, background = self._competing(found, part)
        winners, highest = _highest(scores, count=len(scores))
        counts = np.bincount(winners.ravel(), minlength=len(scores))
        present = np.flatnonzero(counts).tolist()
        wanted = set(class_id.tolist() if rules.wanted is None else rules.wanted) - {background}
        chosen = [row for row in present if class_id[row] in wanted]
        if not chosen:
            return NOTHING
        certainty = highest if found.probabilities else _softmax_of_highest(scores, highest)
        sums = np.bincount(winners.ravel(), weights=certainty.ravel(), minlength=len(scores))
        confidence = np.clip(sums / np.maximum(counts, 1), 0, 1)
        maps = (sampled(scores[row], placement, window, part=part, map_hw=map_hw) for row in present)
        places, _ = _highest(maps, count=len(present))
        areas = [
            (_mask_of(places == present.index(row), window), float(confidence[row]), int(class_id[row]))
            for row in chosen
            if confidence[row] >= rules.confidence
        ]
        min_pixels = max(rules.min_area * size_wh[0] * size_wh[1], 1)
        return _as_candidates([area for area in areas if area[0].area >= min_pixels])

    def _competing(self, found: ClassMap, part: Window) -> tuple[Floats, npt.NDArray[np.int32], int | None]:
        """Return the scores of a part of the map, the class of each row, and the class that is no object.

        A map of a single class becomes one of two; its class is the second where there are two labels, else the first.
        """
        scores = _planes(found.scores[:, part[1] : part[3], part[0] : part[2]])
        if found.class_id is not None:
            return scores, found.class_id, self._rules.background
        if len(scores) > 1:
            return scores, np.arange(len(scores), dtype=np.int32), self._rules.background
        rest = np.float32(1) - scores if found.probabilities else np.zeros_like(scores)
        class_id = 1 if len(self._plan.labels) == 2 else 0
        return np.concatenate([rest, scores]), np.array([_REST, class_id], np.int32), _REST


def _planes(scores: Floats) -> Floats:
    """Return scores (C, h, w) with each class in one piece of memory; those in memory order (h, w, C) are turned."""
    if scores.flags.c_contiguous or not scores.transpose(1, 2, 0).flags.c_contiguous:
        return np.ascontiguousarray(scores)
    count, rows, columns = scores.shape
    turned: Floats = cv2.transpose(scores.transpose(1, 2, 0).reshape(rows * columns, count))
    return turned.reshape(scores.shape)


def _softmax_of_highest(scores: Floats, highest: Floats) -> Floats:
    """Return the softmax (h, w) of the highest of the scores (C, h, w), one map at a time to stay in the cache."""
    total, difference = np.zeros_like(highest), np.empty_like(highest)
    for values in scores:
        np.subtract(values, highest, out=difference)
        cv2.exp(difference, dst=difference)
        total += difference
    softmax: Floats = np.reciprocal(total, out=total)
    return softmax


def _highest(maps: Iterable[Floats], *, count: int) -> tuple[Numbers, Floats]:
    """Return for each place the number of the highest of `count` maps (of equal ones the first), and its value.

    Numbers rise from map to map, so that the maximum of them is the last map that was higher than all before it: a
    masked copy, which NumPy does one element at a time, is not needed.
    """
    maps = iter(maps)
    best = next(maps).copy()
    number: Numbers = np.zeros(best.shape, np.min_scalar_type(count - 1))
    better, candidate = np.empty(best.shape, np.bool_), np.empty_like(number)
    for place, values in enumerate(maps, 1):
        np.greater(values, best, out=better)
        np.multiply(better.view(np.uint8), number.dtype.type(place), out=candidate)
        np.maximum(number, candidate, out=number)
        np.maximum(best, values, out=best)
    return number, best


def _mask_of(covered: npt.NDArray[np.bool_], window: Window) -> Mask:
    left, top, width, height = cv2.boundingRect(covered.view(np.uint8))
    return Mask(window[0] + left, window[1] + top, covered[top : top + height, left : left + width].copy())


def _as_candidates(areas: Sequence[tuple[Mask, float, int]]) -> Candidates:
    if not areas:
        return NOTHING
    masks = np.empty(len(areas), np.object_)
    masks[:] = [mask for mask, _, _ in areas]
    boxes = [
        (mask.left, mask.top, mask.left + mask.bits.shape[1], mask.top + mask.bits.shape[0]) for mask, _, _ in areas
    ]
    return Candidates(
        np.array(boxes, np.float32),
        np.array([confidence for _, confidence, _ in areas], np.float32),
        np.array([class_id for _, _, class_id in areas], np.int32),
        shapes=masks,
    )
