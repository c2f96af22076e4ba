"""How far a model's results in bfloat16 agree with those in float32, judged on frames of the pipeline's own sources.

There is no ground truth on a user's machine, so a difference from float32 counts as a loss. Objects are counted at the
element's minimum confidence: a precision that finds the same boxes with less confidence finds fewer objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.errors import ModelError
from sightline.graph import Site
from sightline.media.boxes import iou_matrix
from sightline_plugins.engines.opening import available_cores, open_engine
from sightline_plugins.engines.protocol import Engine
from sightline_plugins.heads.head import Candidates, ClassMap, Points, Scores, Text, Vector
from sightline_plugins.infer.detections import detection_rules
from sightline_plugins.infer.options import DetectionElement, ModelElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import DetectionRules
from sightline_plugins.infer.precision import Verdict, file_digest
from sightline_plugins.infer.precision_speeds import engine_version, remembered
from sightline_plugins.infer.requests import engine_inputs
from sightline_plugins.infer.selection import suppressed
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.definition import Prepared
from sightline_plugins.preprocess.placement import Region

FRAMES = 64
FEWEST_OBJECTS = 50
"""With fewer objects in both precisions together, the verdict stays open."""
FEWEST_IMAGES = 16
_OVERLAP = 0.5
_NEAR = 0.02
"""How far a keypoint may move, as a fraction of the spread of all keypoints."""
_CROPS: tuple[Region, ...] = (
    (0.0, 0.0, 0.5, 0.5),
    (0.5, 0.0, 1.0, 0.5),
    (0.25, 0.25, 0.75, 0.75),
    (0.25, 0.5, 0.75, 1.0),
)
"""What models that run on objects are judged on, in fractions of a frame."""


@dataclass(frozen=True, slots=True)
class BfloatJudge:
    """Judges bfloat16 for one element: once for each model, engine and machine, and what it found is kept.

    When frames of the sources show too little to judge by, that is kept for these sources, so that later starts do not
    wait for it again.
    """

    element: ModelElement
    plan: ModelPlan
    engine: str
    site: Site

    def __call__(self) -> Verdict:
        """Return the share of results that agree; without one, why there is none. Raises ModelError."""
        if self.plan.head is None or self.plan.stack is not None:
            return Verdict(None, "its results are not of a kind that can be compared")
        known = remembered(self._key())
        if known:
            return Verdict(known[0])
        examples = self.site.examples
        if examples is None:
            return Verdict(None, "there are no files among the sources to judge it on")
        undecided = {**self._key(), "sources": examples.names}
        if remembered(undecided):
            return Verdict(None, _TOO_LITTLE)
        share = self._share(list(islice(examples.frames(FRAMES), FRAMES)))
        remembered(undecided if share is None else self._key(), make=lambda: [1.0 if share is None else share])
        return Verdict(share, _TOO_LITTLE if share is None else "")

    def known(self) -> Verdict:
        """Return what is known from an earlier start, without judging."""
        known = remembered(self._key())
        return Verdict(known[0]) if known else Verdict(None, "it is judged on frames of the sources when it runs")

    @property
    def _rules(self) -> DetectionRules | None:
        return detection_rules(self.element, self.plan) if isinstance(self.element, DetectionElement) else None

    def _key(self) -> Mapping[str, Any]:
        assert not isinstance(self.element.model, str)
        return {
            "agreement": file_digest(self.element.model),
            "engine": self.engine,
            "version": engine_version(self.engine),
            "preprocessing": self.plan.preprocessing,
            "head": None if self.plan.head is None else self.plan.head.name,
            "confidence": None if self._rules is None else round(self._rules.confidence, 3),
        }

    def _share(self, frames: Sequence[Any]) -> float | None:
        form, cores = self.plan.preprocessing.image_form(), available_cores()
        with ExitStack() as stack:
            exact, rounded = (
                stack.enter_context(
                    closing(
                        open_engine(
                            self.element.model,
                            engine=self.engine,
                            image=form,
                            concurrency=cores,
                            bfloat16=candidate == "bf16",
                            warn=self.site.warn,
                        )
                    )
                )
                for candidate in ("fp32", "bf16")
            )
            images = list(self._images(frames))
            pairs = list(zip(self._results(exact, images), self._results(rounded, images), strict=True))
        return agreement(pairs)

    def _images(self, frames: Sequence[Any]) -> Iterator[Prepared]:
        """Yield the network's input for each frame, or for parts of it where the model runs on objects."""
        preprocessor, definition = HostPreprocessor(self.plan.preprocessing), self.plan.preprocessing
        regions = ((0.0, 0.0, 1.0, 1.0),) if self.element.selection(self.plan) is None else _CROPS
        for frame in frames:
            surface = frame.surface.to_host()
            for region in regions:
                yield preprocessor.prepare(surface, definition.place_fractions(region, surface))

    def _results(self, engine: Engine, images: Sequence[Prepared]) -> Iterator[object]:
        rules, plan = self._rules, self.plan
        confidence = 0.0 if rules is None else rules.confidence
        for image in images:
            size_wh = image.placement.size_wh
            outputs = engine.submit(engine_inputs(engine, plan.inputs, image.image, size_wh=size_wh)).result()
            found: object = plan.decode(outputs, size_wh=size_wh, confidence=confidence)
            if isinstance(found, Candidates) and rules is not None:
                found = suppressed(found.finite(), rules.nms, min_confidence=rules.confidence)
            yield found


_TOO_LITTLE = "the sources show too few objects to judge it by"


def agreement(pairs: Sequence[tuple[object, object]]) -> float | None:
    """Return the share (0..1) of results that agree; None when there are too few to say.

    Boxes agree one to one, with an overlap of at least a half and the same class: twice their number by the number of
    all boxes (the F1 score). Raises ModelError for results of a kind that cannot be compared.
    """
    if all(isinstance(one, Candidates) and isinstance(other, Candidates) for one, other in pairs):
        counted = [_boxes_alike(one, other) for one, other in pairs]  # type: ignore[arg-type]
        every = sum(boxes for _, boxes in counted)
        return 2 * sum(alike for alike, _ in counted) / every if every >= FEWEST_OBJECTS else None
    return float(np.mean([alike(*pair) for pair in pairs])) if len(pairs) >= FEWEST_IMAGES else None


def _boxes_alike(one: Candidates, other: Candidates) -> tuple[int, int]:
    """Return how many boxes of one image have a counterpart, and how many there are on both sides."""
    overlap = iou_matrix(one.xyxy, other.xyxy) * (one.class_id[:, None] == other.class_id)
    matched = 0
    while overlap.size and overlap.max() >= _OVERLAP:
        row, column = np.unravel_index(int(overlap.argmax()), overlap.shape)
        overlap[row], overlap[:, column] = 0, 0
        matched += 1
    return matched, len(one) + len(other)


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
