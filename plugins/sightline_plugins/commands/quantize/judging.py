"""Accuracy of a quantised model compared with its float32 original, in points of 100."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sightline.errors import ModelError
from sightline.media.boxes import clip
from sightline_plugins.commands.evaluate.annotations import Annotations
from sightline_plugins.commands.evaluate.scores import DetectionScores, score_detections
from sightline_plugins.commands.quantize.samples import Sample, alike, frame_number
from sightline_plugins.commands.verify.comparison import BoxSettings
from sightline_plugins.engines.protocol import Engine
from sightline_plugins.heads.head import Candidates
from sightline_plugins.infer.agreement import alike as results_alike
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.requests import engine_inputs
from sightline_plugins.infer.selection import suppressed
from sightline_plugins.replay.formats import UNLABELLED

_CERTAIN = 0.5
"""Boxes of the original with this confidence count, where the step's minimum confidence is lower."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Points of `measure` of the original and the quantised model on one engine.

    `details` are further figures 0..1 by name.
    """

    engine: str
    measure: str
    fp32_points: float
    int8_points: float
    details: Mapping[str, float]

    @property
    def lost_points(self) -> float:
        """Points that the quantised model lost."""
        return self.fp32_points - self.int8_points


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """The results of a model: a table of boxes, or else the result of the head for each image."""

    boxes: Annotations | None
    answers: tuple[object, ...]


def find_all(engine: Engine, plan: ModelPlan, samples: Sequence[Sample], *, settings: BoxSettings | None) -> Findings:
    """Return the results of a model for images. Raises ModelError."""
    answers = list[object]()
    confidence = 0.0 if settings is None else settings.confidence
    for start in range(0, len(samples), engine.concurrency):
        portion = samples[start : start + engine.concurrency]
        pending = [
            engine.submit(engine_inputs(engine, plan.inputs, sample.image, size_wh=sample.placement.size_wh))
            for sample in portion
        ]
        for sample, work in zip(portion, pending, strict=True):
            found: object = plan.decode(work.result(), size_wh=sample.placement.size_wh, confidence=confidence)
            answers.append(found.finite() if isinstance(found, Candidates) else found)
    if settings is None or not all(isinstance(found, Candidates) for found in answers):
        return Findings(None, tuple(answers))
    return Findings(_table(plan, samples, answers, settings=settings), ())


def judge(
    engine: str, fp32: Findings, int8: Findings, *, truth: Annotations | None, mean_confidence: float
) -> Judgement:
    """Compare both. Boxes are scored against ground truth, or else against the certain boxes of the original.

    Its uncertain boxes then count neither way: whether such a box is a little below or above a minimum confidence is
    chance, and no loss.
    """
    if fp32.boxes is None or int8.boxes is None:
        shares = [results_alike(own, other) for own, other in zip(int8.answers, fp32.answers, strict=True)]
        return Judgement(engine, "agreement", 100.0, 100.0 * float(np.mean(shares)), {})
    if truth is not None:
        pairs = [alike(table, truth) for table in (fp32.boxes, int8.boxes)]
        before, after = (score_detections(found, truth=known) for found, known in pairs)
        return Judgement(engine, "AP", 100 * before.ap, 100 * after.ap, _details(before, after))
    confidence = fp32.boxes.confidence
    high = max(mean_confidence, _CERTAIN)
    uncertain = confidence < (high if (confidence >= high).any() else mean_confidence)
    if uncertain.all():
        raise ModelError(
            f"the model finds nothing with a confidence of {mean_confidence:g} in these images: nothing can be said "
            "of what it loses; give --frames that show what it is made for"
        )
    known = sorted({*fp32.boxes.label.tolist(), *int8.boxes.label.tolist()})
    expected = _pooled(replace(fp32.boxes, ignored=uncertain), known)
    after = score_detections(_pooled(int8.boxes, known), truth=expected)
    return Judgement(engine, "AP50 against fp32", 100.0, 100 * after.ap50, {"int8_ap": after.ap})


def _pooled(table: Annotations, labels: Sequence[str]) -> Annotations:
    """Return all classes as one, in which each class has images of its own, so that boxes of two classes never match.

    Each box counts the same; a mean over classes would give much weight to a class with a single box.
    """
    numbers = np.searchsorted(labels, table.label)
    label = np.full(len(table), UNLABELLED, np.str_)
    return replace(table, frame=table.frame * len(labels) + numbers, label=label)


def _details(before: DetectionScores, after: DetectionScores) -> dict[str, float]:
    figures = {"fp32_ap50": before.ap50, "int8_ap50": after.ap50}
    for label, value in before.by_label.items():
        figures |= {f"fp32_ap {label}": value, f"int8_ap {label}": after.by_label[label]}
    return figures


def _table(
    plan: ModelPlan, samples: Sequence[Sample], answers: Sequence[object], *, settings: BoxSettings
) -> Annotations:
    rows = []
    for sample, found in zip(samples, answers, strict=True):
        assert isinstance(found, Candidates)
        kept = suppressed(found, settings.nms, min_confidence=settings.confidence)
        boxes = clip(sample.placement.boxes_in_image(kept.xyxy), size_wh=sample.size_wh)
        rows.append((frame_number(sample), boxes, kept.confidence, kept.class_id))
    return Annotations.from_boxes(rows, labels=plan.labels)
