"""Show how a model came to its result: what it got, and what it gave before anything was suppressed or left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.graph.inspection import Explanation, Point, RawBox, Score
from sightline.media import Batch, Origin, Surface
from sightline_plugins.heads.head import Array, Candidates
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import DetectionRules, Postprocessor, SuppressedBoxes, all_finite
from sightline_plugins.infer.selection import in_frame, visible
from sightline_plugins.infer.targets import InferenceTarget
from sightline_plugins.infer.track_memory import TrackEntry
from sightline_plugins.nms.cpu import by_confidence, suppress_by_method
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.placement import Placement

_LEAST_CONFIDENCE = 0.05
"""Boxes are shown from here on, or from the element's own limit where that is lower."""
_MOST_BOXES = 400
_MOST_SCORES = 5


class TargetWork:
    """A `ModelWork`: what was done for one target; `outputs` are copies of its outputs, None before."""

    def __init__(
        self, plan: ModelPlan, postprocessor: Postprocessor[Any], target: InferenceTarget, batch: Batch
    ) -> None:
        self._plan = plan
        self._postprocessor = postprocessor
        self._placement = target.placement
        self._size_wh = batch.frames[target.row].size_wh
        self._object_row = target.object - int((batch.objects.frame < target.row).sum()) if target.object >= 0 else -1
        self.outputs: tuple[Array, ...] | None = None
        self.note = ""

    @property
    def object_row(self) -> int:
        return self._object_row

    @property
    def corners(self) -> tuple[Point, Point, Point, Point]:
        placement = self._placement
        if placement.turned is None:
            left, top, right, bottom = placement.region_xyxy
            return (left, top), (right, top), (right, bottom), (left, bottom)
        width, height = placement.size_wh
        found = placement.points_in_image(np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float32))
        one, two, three, four = ((float(x), float(y)) for x, y in found)
        return one, two, three, four

    def explain(self) -> Explanation:
        outputs = self.outputs
        if outputs is None or not all_finite(outputs):
            return Explanation()
        return self._postprocessor.explain(outputs, self._placement, size_wh=self._size_wh)

    def input_of(self, surface: Surface) -> npt.NDArray[np.uint8]:
        preprocessing = self._plan.preprocessing
        image = HostPreprocessor(preprocessing).prepare(surface, self._placement).image[0]
        if preprocessing.color == "gray":
            return np.repeat(image.reshape(*image.shape[:2], 1), 3, axis=2)
        return np.ascontiguousarray(image if preprocessing.color == "rgb" else image[..., ::-1])


class WatchedPostprocessor(Postprocessor[Any]):
    """Reads as another one does, and copies the outputs that it gets for a `TargetWork`."""

    def __init__(self, postprocessor: Postprocessor[Any], work: TargetWork) -> None:
        self._postprocessor = postprocessor
        self._work = work

    @property
    def detection_rules(self) -> DetectionRules | None:
        return self._postprocessor.detection_rules

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> Any:
        self._work.outputs = tuple(np.array(output) for output in outputs)
        return self._postprocessor.read(outputs, target, batch)

    def read_boxes(self, boxes: SuppressedBoxes, target: InferenceTarget, batch: Batch) -> Any:
        self._work.note = f"a GPU has suppressed the {boxes.found} boxes above the threshold; only the rest was copied"
        return self._postprocessor.read_boxes(boxes, target, batch)

    def is_empty(self, result: Any) -> bool:
        return self._postprocessor.is_empty(result)

    def remember(self, entry: TrackEntry[Any], result: Any, target: InferenceTarget, batch: Batch) -> Any:
        return self._postprocessor.remember(entry, result, target, batch)


def explain_boxes(
    plan: ModelPlan, rules: DetectionRules, outputs: Sequence[Array], placement: Placement, *, size_wh: tuple[int, int]
) -> Explanation:
    """Return the boxes in the outputs, in pixels of a frame of `size_wh`, and what became of each."""
    least = min(_LEAST_CONFIDENCE, rules.confidence)
    raw: Candidates = plan.decode(outputs, size_wh=placement.size_wh, confidence=least)
    raw = raw.finite()
    raw = raw.select(by_confidence(raw.confidence)[:_MOST_BOXES])
    numbers = np.clip(raw.class_id, -1, len(rules.limits) - 1)
    is_above = raw.confidence >= rules.limits[numbers]
    placed = in_frame(raw, placement, size_wh=size_wh)
    may_stay = visible(placed) if rules.wanted is None else visible(placed) & rules.wanted[numbers]
    if rules.sizes is not None:
        may_stay &= rules.sizes.fit(placed)
    survivors = _survivors(raw, rules, np.ones(len(raw), np.bool_))
    kept = _survivors(raw, rules, is_above) & may_stay
    label = Origin("", plan.labels).label
    labels = [label(number) for number in raw.class_id.tolist()]
    rows = zip(placed.xyxy.tolist(), labels, raw.confidence.tolist(), survivors & may_stay, kept, strict=True)
    boxes = tuple(
        RawBox((left, top, right, bottom), label, confidence, bool(survives), bool(is_kept))
        for (left, top, right, bottom), label, confidence, survives, is_kept in rows
    )
    return Explanation(boxes=boxes, threshold=float(rules.confidence))


def _survivors(raw: Candidates, rules: DetectionRules, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which candidates stay when only the chosen ones compete."""
    rows = np.flatnonzero(chosen)
    part = raw.select(rows)
    kept = suppress_by_method(
        part.xyxy, part.confidence, part.class_id, options=rules.nms, corners=part.corners, least=rules.confidence
    )
    stays = np.zeros(len(raw), np.bool_)
    stays[rows[kept.rows]] = True
    return stays


def explain_scores(values: Mapping[str, tuple[npt.NDArray[np.float32], Callable[[int], str]]]) -> Explanation:
    """Return the likeliest classes of each output, by its name; each comes with what names its classes."""
    scores = []
    for output, (likely, label) in values.items():
        order = np.argsort(-likely, kind="stable")[:_MOST_SCORES].tolist()
        scores += [Score(output, label(number), float(likely[number])) for number in order]
    return Explanation(scores=tuple(scores))
