"""Runs a model on pictures twice, as the pipeline does and as a notebook would, and compares stage by stage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sightline.errors import ModelError
from sightline.media.boxes import clip
from sightline_plugins.evaluate.table import Annotations
from sightline_plugins.infer.engines.protocol import open_engine
from sightline_plugins.infer.heads.findings import Array, Candidates
from sightline_plugins.infer.model.plan import ModelPlan
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.nms import NmsOptions, suppress
from sightline_plugins.pixels.preprocess import HostPreprocessor
from sightline_plugins.verify.pictures import Pair
from sightline_plugins.verify.plain import PlainModel, PlainPlacement, plain_nms
from sightline_plugins.verify.stages import Found, Stages, difference_of_findings, difference_of_outputs, unmatched


@dataclass(frozen=True, slots=True)
class BoxSettings:
    """What of a step's options the boxes depend on."""

    nms: NmsOptions
    confidence: float


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The stages of a run, and the boxes of both ways, by number of picture."""

    stages: Stages
    ours: Annotations | None = None
    plain: Annotations | None = None


def compare(
    element: ModelElement, plan: ModelPlan, pictures: Iterable[Pair], *, boxes: BoxSettings | None
) -> Comparison:
    """Compare both ways on pictures. `boxes` is for models that find boxes. Raises ModelError."""
    if isinstance(element.model, str):
        raise ModelError(f"model {element.model!r}: is served elsewhere; verify needs the file")
    plain = PlainModel(element.model, plan)
    engine = open_engine(element.model, engine=element.engine, image=plan.preprocessing.image_form())
    preprocessor = HostPreprocessor(plan.preprocessing)
    half = any(output.dtype == np.float16 for output in plan.outputs)
    ways = _Ways(plan, Stages(half), boxes)
    try:
        for pair in pictures:
            surface = pair.surface
            prepared = preprocessor.prepare(surface)
            picture = prepared.picture
            extras = plan.inputs.extras
            inputs: list[Array] = [picture]
            for place, kind in sorted(extras.items()):
                size_wh = prepared.placement.size_wh
                values = {"size_wh": size_wh, "size_hw": size_wh[::-1], "scale": (1, 1)}[kind]
                inputs.insert(place, np.array([values], engine.inputs[place].dtype))
            outputs = engine.submit(inputs).result()
            levels, placement = plain.levels(pair.rgb)
            ways.stages.note("input", float(np.abs(picture[0] - levels).mean()))
            expected = plain.run(picture[0].astype(np.float64))
            ways.stages.note("outputs", difference_of_outputs(outputs, expected))
            own = ways.read(outputs, prepared.placement.size_wh)
            other = ways.read(plain.run(levels), prepared.placement.size_wh)
            same = ways.read(expected, prepared.placement.size_wh)
            ways.stages.note("decoded", difference_of_findings(own, same))
            if isinstance(own, Candidates) and isinstance(other, Candidates) and boxes is not None:
                placed = prepared.placement.boxes_in_picture
                ways.boxes(own, other, placed(own.xyxy), placement, surface.size_wh)
            else:
                ways.stages.note("answers", difference_of_findings(own, other))
    finally:
        engine.close()
    return ways.comparison()


class _Ways:
    """Notes departures, and gathers the boxes of both ways."""

    def __init__(self, plan: ModelPlan, stages: Stages, boxes: BoxSettings | None) -> None:
        self.stages = stages
        self._plan = plan
        self._settings = boxes
        self._ours: list[Found] = []
        self._plain: list[Found] = []

    def read(self, outputs: tuple[Array, ...], size_wh: tuple[int, int]) -> object:
        assert self._plan.head is not None
        confidence = self._settings.confidence if self._settings is not None else 0.0
        found: object = self._plan.head.decode(outputs, self._plan.reading(size_wh=size_wh, confidence=confidence))
        return found.finite() if isinstance(found, Candidates) else found

    def boxes(
        self, own: Candidates, other: Candidates, placed: Array, placement: PlainPlacement, size_wh: tuple[int, int]
    ) -> None:
        """Suppression on the same candidates, placing of the same boxes, and both ways from end to end."""
        assert self._settings is not None
        nms = self._settings.nms
        kept = suppress(own.xyxy, own.confidence, own.class_id, options=nms).tolist()
        expected = plain_nms(own.xyxy, own.confidence, own.class_id, options=nms)
        self.stages.note("suppressed", len(set(kept) ^ set(expected)) / max(len(expected), 1))
        ours = clip(placed, size_wh=size_wh)
        far = np.abs(ours - placement.boxes(own.xyxy, size_wh=size_wh))
        self.stages.note("placed", float(far.max(initial=0)))
        stays = plain_nms(other.xyxy, other.confidence, other.class_id, options=nms)
        plain = placement.boxes(other.xyxy, size_wh=size_wh)
        self._ours.append((ours[kept], own.confidence[kept], own.class_id[kept]))
        self._plain.append((plain[stays], other.confidence[stays], other.class_id[stays]))
        self.stages.note("answers", unmatched(self._ours[-1], self._plain[-1]))

    def comparison(self) -> Comparison:
        if self._settings is None:
            return Comparison(self.stages)
        return Comparison(self.stages, self._table(self._ours), self._table(self._plain))

    def _table(self, found: list[Found]) -> Annotations:
        labels = self._plan.labels
        classes = np.concatenate([one[2] for one in found]) if found else np.empty(0, np.int32)
        return Annotations.from_rows(
            frame=np.repeat(np.arange(len(found)), [len(one[1]) for one in found]),
            xyxy=np.concatenate([one[0] for one in found]) if found else np.empty((0, 4)),
            confidence=np.concatenate([one[1] for one in found]) if found else np.empty(0),
            label=[labels[number] if 0 <= number < len(labels) else str(number) for number in classes.tolist()],
            identity=np.full(len(classes), -1),
        )
