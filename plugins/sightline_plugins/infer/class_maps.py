"""Semantic segmentation results: one object with a mask for each class that is present."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Mask, Origin
from sightline_plugins.heads.head import Array, Candidates, ClassMap
from sightline_plugins.infer.detections import NOTHING, Detections, ObjectPostprocessor, all_finite, joined
from sightline_plugins.infer.masks import Floats, Window, map_part, pixels_in, sampled, united
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.targets import InferenceTarget, region_of
from sightline_plugins.pixels.placement import Region

_REST = -1
"""The class of what a map of one class does not cover."""


@dataclass(frozen=True, slots=True)
class ClassMapRules:
    """Which classes become objects: those in `wanted` (None: all) but the `background`, where the model is sure enough
    (`confidence`, 0..1) and they cover at least `min_area` of the image (0..1).
    """

    background: int | None = 0
    wanted: frozenset[int] | None = None
    confidence: float = 0.0
    min_area: float = 0.0


class ClassMapPostprocessor(ObjectPostprocessor):
    """Finds areas. Only classes that win somewhere on the network's map are brought to the image's size; there the
    highest score wins, as if all had been: it differs where a third class lies between two that win.

    The box of an object is the bounds of its pixels, its confidence the mean over the map of the softmax of its scores
    where it wins (1 for maps that hold classes only). What several regions of an image show of a class is one object.
    """

    def __init__(self, plan: ModelPlan, rules: ClassMapRules, *, element_id: str) -> None:
        super().__init__(Origin(element_id, plan.labels))
        self._plan = plan
        self._rules = rules

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> Detections | None:
        """See `Task.read`."""
        plan = self._plan
        assert plan.head is not None
        found: ClassMap = plan.head.decode(outputs, plan.reading(size_wh=target.placement.size_wh))
        if not all_finite([found.scores]):
            return None
        size_wh = batch.frames[target.row].size_wh
        on = batch.objects.xyxy[target.object] if target.object >= 0 else None
        return Detections(self._areas(found, target, size_wh), on)

    def merged(
        self, tables: Sequence[Candidates], *, regions: Sequence[Region], size_wh: tuple[int, int]
    ) -> Candidates:
        """One object for each class; confidences are weighted by area."""
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
        window = pixels_in(region_of(target, size_wh).tolist())
        part = map_part(map_hw, placement, window)
        scores, class_id, background = self._competing(found, part)
        winners, highest = _highest(scores)
        counts = np.bincount(winners.ravel(), minlength=len(scores))
        present = np.flatnonzero(counts).tolist()
        told = [row for row in present if self._is_told(int(class_id[row]), background=background)]
        if not told:
            return NOTHING
        sure = highest if found.probabilities else _shares(scores, highest)
        sums = np.bincount(winners.ravel(), weights=sure.ravel(), minlength=len(scores))
        confidence = np.clip(sums / np.maximum(counts, 1), 0, 1)
        maps = (sampled(scores[row], placement, window, part=part, map_hw=map_hw) for row in present)
        places, _ = _highest(maps)
        areas = [
            (_mask_of(places == present.index(row), window), float(confidence[row]), int(class_id[row]))
            for row in told
            if confidence[row] >= rules.confidence
        ]
        least = max(rules.min_area * size_wh[0] * size_wh[1], 1)
        return _as_candidates([area for area in areas if area[0].area >= least])

    def _competing(self, found: ClassMap, part: Window) -> tuple[Floats, npt.NDArray[np.int32], int | None]:
        """The scores of a part of the map, the class of each row, and the class that is no object.

        A map of one class is made one of two; its class is the second where there are two labels, else the only one.
        """
        scores = np.ascontiguousarray(found.scores[:, part[1] : part[3], part[0] : part[2]])
        if found.class_id is not None:
            return scores, found.class_id, self._rules.background
        if len(scores) > 1:
            return scores, np.arange(len(scores), dtype=np.int32), self._rules.background
        rest = np.float32(1) - scores if found.probabilities else np.zeros_like(scores)
        class_id = 1 if len(self._plan.labels) == 2 else 0
        return np.concatenate([rest, scores]), np.array([_REST, class_id], np.int32), _REST

    def _is_told(self, class_id: int, *, background: int | None) -> bool:
        wanted = self._rules.wanted
        return class_id != background and (wanted is None or class_id in wanted)


def _shares(scores: Floats, highest: Floats) -> Floats:
    """The softmax of the highest of the scores (C, h, w) at each place; a map at a time, which stays in the cache."""
    total, one = np.zeros_like(highest), np.empty_like(highest)
    for values in scores:
        np.subtract(values, highest, out=one)
        total += np.exp(one, out=one)
    shares: Floats = np.reciprocal(total, out=total)
    return shares


def _highest(maps: Iterable[Floats]) -> tuple[npt.NDArray[np.uint16], Floats]:
    """For each place, which of the maps is highest (of equal ones the first), and how high."""
    maps = iter(maps)
    best = next(maps).copy()
    number = np.zeros(best.shape, np.uint16)
    better = np.empty(best.shape, np.bool_)
    for place, values in enumerate(maps, 1):
        np.greater(values, best, out=better)
        np.copyto(number, place, where=better)
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
