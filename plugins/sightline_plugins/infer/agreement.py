"""How far a model's results in 16 bits agree with those in float32, judged on frames of the pipeline's own sources.

Both run where the pipeline runs: bfloat16 on the CPU, FP16 on the GPU. There is no ground truth on a user's machine, so
a difference from float32 counts as a loss. Objects are counted at the element's minimum confidence: a precision that
finds the same boxes with less confidence finds fewer objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.errors import ModelError
from sightline.graph import Site
from sightline.media import Batch, Frame
from sightline.media.boxes import iou_matrix
from sightline_plugins.engines.protocol import Array, Precision, never
from sightline_plugins.heads.head import Candidates, ClassMap, Points, Scores, Text, Vector
from sightline_plugins.infer.comparison import pairs_of
from sightline_plugins.infer.detections import detection_rules
from sightline_plugins.infer.options import DetectionElement, ModelElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import DetectionRules, Postprocessor
from sightline_plugins.infer.precision import Candidate, Verdict, file_digest
from sightline_plugins.infer.precision_speeds import remembered
from sightline_plugins.infer.requests import Predictor
from sightline_plugins.infer.selection import suppressed
from sightline_plugins.infer.targets import InferenceTarget
from sightline_plugins.preprocess.placement import Region

FRAMES = 64
FEWEST_OBJECTS = 50
"""With fewer objects in both precisions together, the verdict stays open."""
FEWEST_IMAGES = 16
_NEAR = 0.02
"""How far a keypoint may move, as a fraction of the spread of all keypoints."""
_CROPS: tuple[Region, ...] = (
    (0.0, 0.0, 0.5, 0.5),
    (0.5, 0.0, 1.0, 0.5),
    (0.25, 0.25, 0.75, 0.75),
    (0.25, 0.5, 0.75, 1.0),
)
"""What models that run on objects are judged on, in fractions of a frame."""


OpenJudged: TypeAlias = Callable[[Candidate, Postprocessor[object]], Predictor]
"""Opens a candidate where it would run, with what reads its outputs."""


@dataclass(frozen=True, slots=True)
class PrecisionJudge:
    """A `Judge` for one element: once for each model, precision, engine and machine, and what it found is kept.

    `computes` identifies the engine (`Speeds.computes`), and `open_judged` opens it. When frames of the sources show
    too little to judge by, that is kept for these sources, so that later starts do not wait for it again. `is_stopped`
    says that nobody waits for the verdict any more.
    """

    element: ModelElement
    plan: ModelPlan
    site: Site
    computes: Mapping[str, Any]
    open_judged: OpenJudged
    is_stopped: Callable[[], bool] = never

    def obstacle(self, precision: Precision) -> str | None:
        """See `Judge.obstacle`."""
        if self.plan.head is None or self.plan.stack is not None:
            return "its results are not of a kind that can be compared"
        if self.site.examples is None and not self._remembered(precision):
            return "there are no files among the sources to judge it on"
        return None

    def __call__(self, precision: Precision) -> Verdict:
        """See `Judge.__call__`."""
        known = self._remembered(precision)
        if known:
            return Verdict(known[0])
        examples = self.site.examples
        if examples is None:
            return Verdict(None, str(self.obstacle(precision)))
        key = self._key(precision)
        undecided = {**key, "sources": examples.names}
        if remembered(undecided, for_processor=self._is_of_processor):
            return Verdict(None, _TOO_LITTLE)
        share = self._share(precision, examples.frames(FRAMES))
        remembered(
            undecided if share is None else key,
            make=lambda: [1.0 if share is None else share],
            for_processor=self._is_of_processor,
        )
        return Verdict(share, _TOO_LITTLE if share is None else "")

    def known(self, precision: Precision) -> Verdict:
        """Return what is known from an earlier start, without judging."""
        known = self._remembered(precision)
        return Verdict(known[0]) if known else Verdict(None, "it is judged on frames of the sources when it runs")

    @property
    def _rules(self) -> DetectionRules | None:
        return detection_rules(self.element, self.plan) if isinstance(self.element, DetectionElement) else None

    @property
    def _is_of_processor(self) -> bool:
        """Whether a verdict is valid for the processor of this machine only: that of a GPU names the GPU."""
        return "gpu" not in self.computes

    def _remembered(self, precision: Precision) -> Sequence[float]:
        return remembered(self._key(precision), for_processor=self._is_of_processor)

    def _key(self, precision: Precision) -> Mapping[str, Any]:
        assert not isinstance(self.element.model, str)
        return {
            "agreement": file_digest(self.element.model),
            "precision": precision,
            **self.computes,
            "preprocessing": self.plan.preprocessing,
            "head": None if self.plan.head is None else self.plan.head.name,
            "confidence": None if self._rules is None else round(self._rules.confidence, 3),
        }

    def _share(self, precision: Precision, frames: Iterator[Frame]) -> float | None:
        """Return how far both agree on the first frames; None where these show too little."""
        decoder, model = _Decoder(self.plan, self._rules), self.element.model
        assert not isinstance(model, str)
        wanted: tuple[Precision, ...] = ("fp32", precision)
        with ExitStack() as stack:
            exact, rounded = (
                stack.enter_context(closing(self.open_judged(Candidate(one, model), decoder))) for one in wanted
            )
            results = (
                [self._results(predictor, frame, decoder) for predictor in (exact, rounded)]
                for frame in islice(frames, FRAMES)
            )
            return agreement(pair for found in results for pair in zip(*found, strict=True))

    def _results(self, predictor: Predictor, frame: Frame, decoder: _Decoder) -> list[object]:
        """Return what is found on a frame, or on parts of it where the model runs on objects."""
        if self.is_stopped():
            raise ModelError("it was stopped")
        regions = ((0.0, 0.0, 1.0, 1.0),) if self.element.selection(self.plan) is None else _CROPS
        definition, surface = self.plan.preprocessing, frame.surface
        inputs = [(surface, InferenceTarget(0, definition.place_fractions(region, surface))) for region in regions]
        batch, found = Batch((frame,)), []
        for request, (_, target) in zip(list(predictor.submit(inputs)), inputs, strict=True):
            assert request is not None, "stacks are not judged"
            request.wait()
            found.append(request.read(decoder, target, batch).result)
        return found


@dataclass(frozen=True, slots=True)
class KnownVerdicts:
    """A `Judge` that knows what another one found at an earlier start, and judges nothing."""

    judge: PrecisionJudge

    def obstacle(self, precision: Precision) -> str | None:
        """See `Judge.obstacle`: what is not known yet may still come."""
        del precision
        return None

    def __call__(self, precision: Precision) -> Verdict:
        """See `Judge.__call__`."""
        return self.judge.known(precision)


class _Decoder(Postprocessor[object]):
    """Reads outputs into what is compared: a head's results, and boxes as they become objects."""

    def __init__(self, plan: ModelPlan, rules: DetectionRules | None) -> None:
        self._plan = plan
        self._rules = rules

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> object:
        """See `Postprocessor.read`."""
        del batch
        rules = self._rules
        confidence = 0.0 if rules is None else rules.confidence
        found: object = self._plan.decode(outputs, size_wh=target.placement.size_wh, confidence=confidence)
        if isinstance(found, Candidates) and rules is not None:
            return suppressed(found.finite(), rules.nms, min_confidence=rules.confidence)
        return found


_TOO_LITTLE = "the sources show too few objects to judge it by"


def agreement(pairs: Iterable[tuple[object, object]]) -> float | None:
    """Return the share (0..1) of results that agree; None when there are too few to say.

    Boxes agree one to one, with an overlap of at least a half and the same class: twice their number by the number of
    all boxes (the F1 score). Raises ModelError for results of a kind that cannot be compared.
    """
    agreeing, total, fewest = 0.0, 0, FEWEST_IMAGES
    for one, other in pairs:
        if isinstance(one, Candidates) and isinstance(other, Candidates):
            matched, boxes = _boxes_alike(one, other)
            agreeing, total, fewest = agreeing + 2 * matched, total + boxes, FEWEST_OBJECTS
        else:
            agreeing, total = agreeing + alike(one, other), total + 1
    return agreeing / total if total >= fewest else None


def _boxes_alike(one: Candidates, other: Candidates) -> tuple[int, int]:
    """Return how many boxes of one image have a counterpart, and how many there are on both sides."""
    overlap = iou_matrix(one.xyxy, other.xyxy) * (one.class_id[:, None] == other.class_id)
    return len(pairs_of(overlap)), len(one) + len(other)


def cosine(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """Return the cosine of the angle between two vectors."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return float(a @ b / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-12))


def alike(own: object, other: object) -> float:
    """Return how far two results for an image agree, 0..1. Raises ModelError for a kind that cannot be compared."""
    if isinstance(own, Scores) and isinstance(other, Scores):
        pairs = zip(own.values, other.values, strict=True)
        return float(np.mean([one.argmax() == two.argmax() for one, two in pairs]))
    if isinstance(own, Vector) and isinstance(other, Vector):
        return cosine(own.values, other.values)
    if isinstance(own, Text) and isinstance(other, Text):
        return float(own.text == other.text)
    if isinstance(own, ClassMap) and isinstance(other, ClassMap):
        return float(np.mean(own.scores.argmax(axis=0) == other.scores.argmax(axis=0)))
    if isinstance(own, Points) and isinstance(other, Points):
        spread = np.ptp(other.values[:, :2], axis=0).max() + 1e-6
        far = np.abs(own.values[:, :2] - other.values[:, :2]).max(axis=1)
        return float(np.mean(far <= _NEAR * spread))
    raise ModelError(f"what this model gives ({type(other).__name__}) cannot be judged")
