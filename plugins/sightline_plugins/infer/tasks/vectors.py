"""Embeddings as answers: the appearance of the objects that a model looked at, or of the picture itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Objects, Origin
from sightline_plugins.infer.heads.findings import Array, Vector
from sightline_plugins.infer.model.plan import ModelPlan
from sightline_plugins.infer.subjects.memory import Slot
from sightline_plugins.infer.subjects.subject import Subject, region_of
from sightline_plugins.infer.tasks.task import Answered, Task

LABEL = "picture"


@dataclass(frozen=True, slots=True, eq=False)
class Appearance:
    """A sum of unit vectors, float64 (D,), one for each look at the same thing."""

    total: npt.NDArray[np.float64]

    def unit(self) -> npt.NDArray[np.float32]:
        """Its direction: a vector of length 1. Of looks that cancel out nothing is left but the vector of zeros."""
        length = float(np.linalg.norm(self.total))
        return (self.total / length if length else self.total).astype(np.float32)


class VectorTask(Task[Appearance]):
    """Embeds what it sees. Over a track's life the mean of all its unit vectors counts, made a unit vector again."""

    def __init__(self, plan: ModelPlan, *, element_id: str, vote: bool) -> None:
        self._plan = plan
        self._vote = vote
        self._origin = Origin(element_id, (LABEL,))

    def read(self, outputs: Sequence[Array], subject: Subject, batch: Batch) -> Appearance | None:
        """See `Task.read`. A vector of zeros has no direction and is no answer."""
        del batch
        plan = self._plan
        assert plan.head is not None
        found: Vector = plan.head.decode(outputs, plan.reading(size_wh=subject.placement.size_wh))
        values = found.values.astype(np.float64)
        length = float(np.linalg.norm(values))
        return Appearance(values / length) if np.isfinite(length) and length > 0 else None

    def learn(self, slot: Slot[Appearance], answer: Appearance, subject: Subject, batch: Batch) -> Appearance:
        """The mean of all looks at the track."""
        if slot.known is not None and self._vote:
            answer = Appearance(slot.known.total + answer.total)
        return super().learn(slot, answer, subject, batch)

    def attach(self, batch: Batch, answered: Sequence[Answered[Appearance]]) -> Batch:
        """The batch with a column `embedding`, or with an object more for each picture."""
        told = [(subject, answer.unit()) for subject, answer in answered if answer is not None]
        objects = batch.objects
        rows = [subject.object for subject, _ in told if subject.object >= 0]
        if rows:
            vectors = np.stack([unit for subject, unit in told if subject.object >= 0])
            objects = objects.with_values("embedding", rows=rows, values=vectors)
        pictures = [(subject, unit) for subject, unit in told if subject.object < 0]
        if pictures:
            objects = Objects.concat([objects, self._objects(pictures, batch)])
        return batch if objects is batch.objects else batch.with_objects(objects)

    def _objects(self, seen: Sequence[tuple[Subject, npt.NDArray[np.float32]]], batch: Batch) -> Objects:
        return Objects.from_columns(
            frame=[subject.row for subject, _ in seen],
            xyxy=[region_of(subject, batch.frames[subject.row].size_wh) for subject, _ in seen],
            confidence=np.ones(len(seen)),
            class_id=np.zeros(len(seen)),
            source=self._origin,
            extra={"embedding": np.stack([unit for _, unit in seen])},
        )
