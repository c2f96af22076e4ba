"""Run a model on images in the pipeline's way and in the reference's way, and compare both stage by stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sightline.errors import ModelError
from sightline.media.boxes import clip, iou_matrix
from sightline_plugins.commands.evaluate.annotations import Annotations
from sightline_plugins.commands.verify.images import ImagePair
from sightline_plugins.commands.verify.reference import ReferenceModel, ReferencePlacement, reference_nms
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.heads.head import Array, Candidates, ClassMap, Points, Scores, Text, Vector
from sightline_plugins.infer.agreement import cosine
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.requests import engine_inputs
from sightline_plugins.nms.cpu import suppress
from sightline_plugins.nms.options import NmsOptions
from sightline_plugins.preprocess.cpu import HostPreprocessor

Values = npt.NDArray[Any]
StageName = Literal["input", "outputs", "decoded", "suppressed", "placed", "answers"]

MEANING = {
    "input": "pre-processed input, mean difference in levels (0..255)",
    "outputs": "raw outputs on the same input, difference relative to the largest value",
    "decoded": "what the head reads from them: fraction that differs",
    "suppressed": "boxes kept of the same candidates: fraction that differs",
    "placed": "boxes in pixels of the image: largest difference in pixels",
    "answers": "from the image to the result, all stages together: fraction that differs",
}
LIMITS: dict[StageName, float] = {
    "input": 2.0,
    "outputs": 1e-3,
    "decoded": 0.01,
    "suppressed": 0.0,
    "placed": 0.05,
    "answers": 0.02,
}
HALF_LIMIT = 2e-2
"""Limit of raw outputs of files that compute in 16 bits."""


@dataclass(slots=True)
class Stage:
    """One stage: its difference on each image, and the limit of their maximum (of whole results: their mean)."""

    name: StageName
    limit: float
    differences: list[float] = field(default_factory=list)

    @property
    def difference(self) -> float:
        """Maximum over all images; of whole results, the mean."""
        if not self.differences:
            return 0.0
        return float(np.mean(self.differences)) if self.name == "answers" else max(self.differences)

    @property
    def is_within(self) -> bool:
        """Whether the difference is within the limit."""
        return self.difference <= self.limit


@dataclass(slots=True)
class Stages:
    """All stages of a run, in the order in which images pass them."""

    half: bool = False
    by_name: dict[StageName, Stage] = field(default_factory=dict)

    def note(self, name: StageName, difference: float) -> None:
        """Add one image's difference."""
        limit = HALF_LIMIT if name == "outputs" and self.half else LIMITS[name]
        self.by_name.setdefault(name, Stage(name, limit)).differences.append(difference)

    def __iter__(self) -> Iterator[Stage]:
        return iter([self.by_name[name] for name in LIMITS if name in self.by_name])

    @property
    def first_difference(self) -> Stage | None:
        """The first stage beyond its limit, None when there is none."""
        return next((stage for stage in self if not stage.is_within), None)


def difference_of_outputs(ours: Sequence[Values], plain: Sequence[Values]) -> float:
    """Return the largest difference between outputs, relative to the largest value of each; 1 where shapes differ.

    Models that sort their results may order equal ones differently, so values are also compared sorted.
    """
    worst = 0.0
    for own, other in zip(ours, plain, strict=True):
        if own.shape != other.shape:
            return 1.0
        if own.size:
            worst = max(worst, min(_difference(own, other), _difference(np.sort(own, None), np.sort(other, None))))
    return worst


def _difference(own: Values, other: Values) -> float:
    expected = np.asarray(other, np.float64)
    return float(np.abs(np.asarray(own, np.float64) - expected).max() / max(np.abs(expected).max(), 1.0))


def difference_of_results(ours: object, plain: object) -> float:
    """Return the fraction of the reference's results that differ in the pipeline."""
    if isinstance(ours, Candidates) and isinstance(plain, Candidates):
        return unmatched((ours.xyxy, ours.confidence, ours.class_id), (plain.xyxy, plain.confidence, plain.class_id))
    if isinstance(ours, Scores) and isinstance(plain, Scores):
        pairs = zip(ours.values, plain.values, strict=True)
        return float(np.mean([_is_other_choice(own, other) for own, other in pairs]))
    if isinstance(ours, Vector) and isinstance(plain, Vector):
        return float(cosine(ours.values, plain.values) < 0.999)
    if isinstance(ours, Points) and isinstance(plain, Points):
        spread = np.ptp(plain.values[:, :2], axis=0).max() + 1e-6
        return float(np.mean(np.abs(ours.values[:, :2] - plain.values[:, :2]).max(axis=1) > 0.02 * spread))
    if isinstance(ours, ClassMap) and isinstance(plain, ClassMap):
        return float(np.mean(ours.scores.argmax(axis=0) != plain.scores.argmax(axis=0)))
    if isinstance(ours, Text) and isinstance(plain, Text):
        return float(ours.text != plain.text)
    raise TypeError(f"results of two kinds: {type(ours).__name__} and {type(plain).__name__}")


def _is_other_choice(own: Values, other: Values) -> bool:
    return bool(own.argmax() != other.argmax() or np.abs(own - other).max() > 0.02)


Boxes = tuple[Values, Values, Values]
"""Boxes (N, 4), confidences (N,), classes (N,)."""


def unmatched(ours: Boxes, plain: Boxes, *, iou: float = 0.95, confidence: float = 0.02) -> float:
    """Return the fraction of boxes of either side without one of the same class, IoU and confidence on the other."""
    count = len(ours[1]) + len(plain[1])
    if not count:
        return 0.0
    alike = iou_matrix(np.asarray(ours[0], np.float32), np.asarray(plain[0], np.float32)) >= iou
    alike &= np.abs(ours[1][:, None] - plain[1][None]) <= confidence
    alike &= ours[2][:, None] == plain[2][None]
    return float((~alike.any(axis=1)).sum() + (~alike.any(axis=0)).sum()) / count


@dataclass(frozen=True, slots=True)
class BoxSettings:
    """The options of a step that boxes depend on."""

    nms: NmsOptions
    confidence: float


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The stages of a run, and the boxes of both ways by number of the image."""

    stages: Stages
    ours: Annotations | None = None
    plain: Annotations | None = None


def compare(
    element: ModelElement, plan: ModelPlan, images: Iterable[ImagePair], *, boxes: BoxSettings | None
) -> Comparison:
    """Compare both ways on images; `boxes` are the settings of a model that finds boxes. Raises ModelError."""
    if isinstance(element.model, str):
        raise ModelError(f"model {element.model!r}: is served elsewhere; verify needs the file")
    plain = ReferenceModel(element.model, plan)
    engine = open_engine(element.model, engine=element.engine, image=plan.preprocessing.image_form())
    preprocessor = HostPreprocessor(plan.preprocessing)
    half = any(output.dtype == np.float16 for output in plan.outputs)
    recorder = _Recorder(plan, Stages(half), boxes)
    try:
        for pair in images:
            prepared = preprocessor.prepare(pair.surface)
            image, size_wh = prepared.image, prepared.placement.size_wh
            outputs = engine.submit(engine_inputs(engine, plan.inputs, image, size_wh=size_wh)).result()
            levels, placement = plain.levels(pair.rgb)
            recorder.stages.note("input", float(np.abs(image[0] - levels).mean()))
            expected = plain.run(image[0].astype(np.float64))
            recorder.stages.note("outputs", difference_of_outputs(outputs, expected))
            own, other = recorder.read(outputs, size_wh), recorder.read(plain.run(levels), size_wh)
            recorder.stages.note("decoded", difference_of_results(own, recorder.read(expected, size_wh)))
            if isinstance(own, Candidates) and isinstance(other, Candidates) and boxes is not None:
                placed = prepared.placement.boxes_in_image(own.xyxy)
                recorder.boxes(own, other, placed, placement, pair.surface.size_wh)
            else:
                recorder.stages.note("answers", difference_of_results(own, other))
    finally:
        engine.close()
    return recorder.comparison()


class _Recorder:
    """Collects the differences of each stage, and the boxes found in both ways."""

    def __init__(self, plan: ModelPlan, stages: Stages, boxes: BoxSettings | None) -> None:
        self.stages = stages
        self._plan = plan
        self._settings = boxes
        self._ours: list[Boxes] = []
        self._plain: list[Boxes] = []

    def read(self, outputs: tuple[Array, ...], size_wh: tuple[int, int]) -> object:
        assert self._plan.head is not None
        confidence = self._settings.confidence if self._settings is not None else 0.0
        found: object = self._plan.decode(outputs, size_wh=size_wh, confidence=confidence)
        return found.finite() if isinstance(found, Candidates) else found

    def boxes(
        self, own: Candidates, other: Candidates, placed: Array, placement: ReferencePlacement, size_wh: tuple[int, int]
    ) -> None:
        """Compare suppression of the same candidates, placing of the same boxes, and both ways from end to end."""
        assert self._settings is not None
        nms = self._settings.nms
        kept = suppress(own.xyxy, own.confidence, own.class_id, options=nms).tolist()
        expected = reference_nms(own.xyxy, own.confidence, own.class_id, options=nms)
        self.stages.note("suppressed", len(set(kept) ^ set(expected)) / max(len(expected), 1))
        ours = clip(placed, size_wh=size_wh)
        far = np.abs(ours - placement.boxes(own.xyxy, size_wh=size_wh))
        self.stages.note("placed", float(far.max(initial=0)))
        stays = reference_nms(other.xyxy, other.confidence, other.class_id, options=nms)
        plain = placement.boxes(other.xyxy, size_wh=size_wh)
        self._ours.append((ours[kept], own.confidence[kept], own.class_id[kept]))
        self._plain.append((plain[stays], other.confidence[stays], other.class_id[stays]))
        self.stages.note("answers", unmatched(self._ours[-1], self._plain[-1]))

    def comparison(self) -> Comparison:
        if self._settings is None:
            return Comparison(self.stages)
        return Comparison(self.stages, self._table(self._ours), self._table(self._plain))

    def _table(self, found: list[Boxes]) -> Annotations:
        rows = [(number, *boxes) for number, boxes in enumerate(found)]
        return Annotations.from_boxes(rows, labels=self._plan.labels)
