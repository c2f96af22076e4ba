"""`embed`: compute a feature vector of what an object or frame looks like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.graph.element import Capability
from sightline.graph.site import Site
from sightline.media import Batch, Objects, Origin
from sightline_plugins.infer.options import AttributeElement
from sightline_plugins.infer.postprocessing import Postprocessor, TargetResult, region_objects, split_targets

if TYPE_CHECKING:
    from sightline_plugins.heads.head import Array, Vector
    from sightline_plugins.infer.plan import ModelPlan
    from sightline_plugins.infer.targets import InferenceTarget
    from sightline_plugins.infer.track_memory import TrackEntry

LABEL = "image"


class Embed(AttributeElement):
    """Compute an embedding of length 1 for objects or frames: similar appearance gives similar vectors.

    The vector is stored in the column `embedding`; the dot product of two vectors is their cosine similarity. Without
    `on`, the frame, or each of its `regions`, becomes an object labelled `image` with a vector.

    Trade-offs:

    - `reinfer_interval`: the model runs on a tracked object once per interval, and when the object is seen larger or
      with more confidence.
    - `vote`: the mean of all results for a track is steadier than one result; `false` follows a changing appearance.
    - `on: {align: face}` aligns faces by their landmarks, as face recognition models expect.

    ```yaml
    embed:
      model: models/osnet.onnx
      on: {label: person, min_size: [24, 48]}
    ```
    """

    name: ClassVar[str] = "embed"
    task: ClassVar[str] = "embed"
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS, Capability.EMBEDDINGS})

    def provided(self) -> frozenset[Capability]:
        """Return embeddings of objects with `on`, else objects that stand for frames."""
        return frozenset({Capability.OBJECTS if self.on is None else Capability.EMBEDDINGS})

    def frame_labels(self) -> frozenset[str] | None:
        """Return the label of every frame."""
        return frozenset({LABEL})

    def postprocessor(self, plan: ModelPlan, site: Site) -> Postprocessor[Any]:
        return EmbeddingPostprocessor(plan, element_id=site.element_id or self.name, vote=self.vote)


EmbeddingSum: TypeAlias = npt.NDArray[np.float64]
"""The sum (D,) of the unit vectors of all results."""


class EmbeddingPostprocessor(Postprocessor[EmbeddingSum]):
    """Embeds objects and frames. A track has the normalised mean of all its unit vectors."""

    def __init__(self, plan: ModelPlan, *, element_id: str, vote: bool) -> None:
        self._plan = plan
        self._vote = vote
        self._origin = Origin(element_id, (LABEL,))

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> EmbeddingSum | None:
        """See `Postprocessor.read`. A vector of zeros has no direction and is no result."""
        del batch
        found: Vector = self._plan.decode(outputs, size_wh=target.placement.size_wh)
        values = found.values.astype(np.float64)
        length = float(np.linalg.norm(values))
        return values / length if np.isfinite(length) and length > 0 else None

    def remember(
        self, entry: TrackEntry[EmbeddingSum], result: EmbeddingSum, target: InferenceTarget, batch: Batch
    ) -> EmbeddingSum:
        """Return the sum of all results for the track."""
        if entry.result is not None and self._vote:
            result = entry.result + result
        return super().remember(entry, result, target, batch)

    def attach(self, batch: Batch, results: Sequence[TargetResult[EmbeddingSum]]) -> Batch:
        """Return the batch with a column `embedding`, or with one more object per part of a frame."""
        known = [(target, _unit(result)) for target, result in results if result is not None]
        of_objects, of_frames = split_targets(known)
        objects = batch.objects
        if of_objects:
            vectors = np.stack([vector for _, vector in of_objects])
            objects = objects.with_values("embedding", rows=[row for row, _ in of_objects], values=vectors)
        if of_frames:
            found = region_objects([target for target, _ in of_frames], batch, origin=self._origin)
            found = found.with_columns(embedding=np.stack([vector for _, vector in of_frames]))
            objects = Objects.concat([objects, found])
        return batch if objects is batch.objects else batch.with_objects(objects)


def _unit(total: EmbeddingSum) -> npt.NDArray[np.float32]:
    """Return the direction of a sum as a vector of length 1; zeros where results cancel each other out."""
    length = float(np.linalg.norm(total))
    return (total / length if length else total).astype(np.float32)
