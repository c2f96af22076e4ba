"""Embedding results: a unit vector for each object or frame region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Objects, Origin
from sightline_plugins.heads.head import Array, Vector
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor, TargetResult
from sightline_plugins.infer.targets import InferenceTarget, region_of
from sightline_plugins.infer.track_memory import TrackEntry

LABEL = "image"


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingSum:
    """A sum of unit vectors, float64 (D,), one for each look at the same thing."""

    total: npt.NDArray[np.float64]

    def unit(self) -> npt.NDArray[np.float32]:
        """Its direction: a vector of length 1. Of looks that cancel out nothing is left but the vector of zeros."""
        length = float(np.linalg.norm(self.total))
        return (self.total / length if length else self.total).astype(np.float32)


class EmbeddingPostprocessor(Postprocessor[EmbeddingSum]):
    """Embeds what it sees. Over a track's life the mean of all its unit vectors counts, made a unit vector again."""

    def __init__(self, plan: ModelPlan, *, element_id: str, vote: bool) -> None:
        self._plan = plan
        self._vote = vote
        self._origin = Origin(element_id, (LABEL,))

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> EmbeddingSum | None:
        """See `Task.read`. A vector of zeros has no direction and is no answer."""
        del batch
        plan = self._plan
        assert plan.head is not None
        found: Vector = plan.head.decode(outputs, plan.reading(size_wh=target.placement.size_wh))
        values = found.values.astype(np.float64)
        length = float(np.linalg.norm(values))
        return EmbeddingSum(values / length) if np.isfinite(length) and length > 0 else None

    def learn(
        self, slot: TrackEntry[EmbeddingSum], answer: EmbeddingSum, target: InferenceTarget, batch: Batch
    ) -> EmbeddingSum:
        """The mean of all looks at the track."""
        if slot.known is not None and self._vote:
            answer = EmbeddingSum(slot.known.total + answer.total)
        return super().learn(slot, answer, target, batch)

    def attach(self, batch: Batch, answered: Sequence[TargetResult[EmbeddingSum]]) -> Batch:
        """The batch with a column `embedding`, or with an object more for each image."""
        told = [(target, answer.unit()) for target, answer in answered if answer is not None]
        objects = batch.objects
        rows = [target.object for target, _ in told if target.object >= 0]
        if rows:
            vectors = np.stack([unit for target, unit in told if target.object >= 0])
            objects = objects.with_values("embedding", rows=rows, values=vectors)
        images = [(target, unit) for target, unit in told if target.object < 0]
        if images:
            objects = Objects.concat([objects, self._objects(images, batch)])
        return batch if objects is batch.objects else batch.with_objects(objects)

    def _objects(self, seen: Sequence[tuple[InferenceTarget, npt.NDArray[np.float32]]], batch: Batch) -> Objects:
        return Objects.from_columns(
            frame=[target.row for target, _ in seen],
            xyxy=[region_of(target, batch.frames[target.row].size_wh) for target, _ in seen],
            confidence=np.ones(len(seen)),
            class_id=np.zeros(len(seen)),
            source=self._origin,
            extra={"embedding": np.stack([unit for _, unit in seen])},
        )
