"""The operator of `detect`: prepares pictures, hands them to the engine, and makes objects of what comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sightline.graph.operator import Operator, Pending
from sightline.media import Batch, Objects, Origin, Stream
from sightline.media.boxes import clip
from sightline_plugins.infer.detection_plan import DetectionPlan
from sightline_plugins.infer.engines.protocol import Array, Engine
from sightline_plugins.infer.engines.protocol import Pending as Work
from sightline_plugins.infer.heads.head import Candidates
from sightline_plugins.infer.nms import NmsOptions, suppress
from sightline_plugins.infer.preprocess import Fractions, Prepared, Preprocessor

_MERGING_IOU = 0.45
"""Overlap above which finds of two regions are one, with models that need no suppression themselves."""

RegionsOf = Callable[[str], Sequence[Fractions]]


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """A picture under way: the row of its frame in the batch, what was prepared, and the engine's work."""

    row: int
    prepared: Prepared
    work: Work


class Detector(Operator):
    """Runs a model on frames. `process` prepares and submits; the `Pending` collects, perhaps in another thread.

    `every` counts the frames of each stream; `regions_of` gives the regions of a stream by its name.
    `invalid_boxes` counts boxes that were not finite numbers and were left out.
    """

    def __init__(
        self,
        plan: DetectionPlan,
        *,
        engine: Engine,
        element_id: str,
        every: int,
        regions_of: RegionsOf,
        warn: Callable[[str], None],
    ) -> None:
        self.invalid_boxes = 0
        self._plan = plan
        self._engine = engine
        self._origin = Origin(element_id, plan.labels)
        self._merging = replace(plan.nms, iou=min(plan.nms.iou, _MERGING_IOU))
        self._limited = bool((plan.limits > np.float32(plan.confidence)).any())
        self._every = every
        self._regions_of = regions_of
        self._warn = warn
        self._preprocessor = Preprocessor(plan.preprocessing)
        self._seen: dict[Stream, int] = {}

    def process(self, batch: Batch) -> Batch | Pending:
        """Prepare and submit the frames that are due."""
        due = [self._is_due(frame.stream) for frame in batch.frames]
        before = batch.detected or (False,) * len(batch)
        detected = tuple(old or new for old, new in zip(before, due, strict=True))
        jobs = [
            self._start(batch, row, region)
            for row, wanted in enumerate(due)
            if wanted
            for region in self._regions_of(batch.frames[row].stream.name)
        ]
        return _Detection(self, replace(batch, detected=detected), jobs)

    def totals(self) -> Mapping[str, int]:
        """Boxes left out because they were not finite numbers, when there were any."""
        return {"invalid_boxes": self.invalid_boxes} if self.invalid_boxes else {}

    def end_stream(self, stream: Stream) -> None:
        """Forget how many frames the stream had."""
        self._seen.pop(stream, None)

    def close(self) -> None:
        """Free the model."""
        self._engine.close()

    def collect(self, jobs: Sequence[_Job], batch: Batch) -> Objects:
        """Wait for the pictures of a batch and make its objects."""
        rows: list[int] = []
        tables: list[Candidates] = []
        for job in jobs:
            found = self._found(job, batch.frames[job.row].size_wh)
            if rows and rows[-1] == job.row:
                tables[-1] = _suppressed(_joined(tables[-1], found), self._merging)
            else:
                rows.append(job.row)
                tables.append(found)
        counts = [len(table.confidence) for table in tables]
        if not sum(counts):
            return Objects.empty()
        every = _joined(*tables)
        return Objects.from_columns(
            frame=np.repeat(rows, counts),
            xyxy=every.xyxy,
            confidence=every.confidence,
            class_id=every.class_id,
            source=self._origin,
        )

    def _is_due(self, stream: Stream) -> bool:
        number = self._seen.get(stream, 0)
        self._seen[stream] = number + 1
        return number % self._every == 0

    def _start(self, batch: Batch, row: int, region: Fractions) -> _Job:
        prepared = self._preprocessor.prepare(batch.frames[row].surface, region=region)
        inputs: list[Array] = [prepared.picture]
        size = self._plan.inputs.size
        if size is not None:
            dtype = self._engine.inputs[size].dtype
            inputs.insert(size, np.array([self._plan.preprocessing.size_wh], dtype))
        return _Job(row, prepared, self._engine.submit(inputs))

    def _found(self, job: _Job, size_wh: tuple[int, int]) -> Candidates:
        """What stays of one picture, in pixels of the frame, clipped to it."""
        plan = self._plan
        outputs = job.work.result()
        self._preprocessor.recycle(job.prepared)
        raw = plan.head.decode(outputs, size_wh=plan.preprocessing.size_wh, confidence=plan.confidence)
        if not len(raw.confidence):
            return raw
        found = self._above_limits(self._finite(raw))
        found = _suppressed(found, plan.nms)
        xyxy = clip(job.prepared.placement.picture_from_network(found.xyxy), size_wh=size_wh)
        there: npt.NDArray[np.bool_] = np.all(xyxy[:, 2:] > xyxy[:, :2], axis=1)
        if plan.wanted is not None:
            there &= plan.wanted[np.clip(found.class_id, -1, len(plan.labels))]
        return replace(found, xyxy=xyxy).select(there)

    def _finite(self, raw: Candidates) -> Candidates:
        found = raw.finite()
        if found is not raw:
            if not self.invalid_boxes:
                self._warn("the model gave boxes that are not finite numbers; they are left out")
            self.invalid_boxes += len(raw.confidence) - len(found.confidence)
        return found

    def _above_limits(self, found: Candidates) -> Candidates:
        if not self._limited:
            return found
        limits = self._plan.limits
        return found.select(found.confidence >= limits[np.clip(found.class_id, -1, len(limits) - 1)])


class _Detection:
    """A batch whose pictures are with the engine."""

    __slots__ = ("_batch", "_detector", "_jobs")

    def __init__(self, detector: Detector, batch: Batch, jobs: Sequence[_Job]) -> None:
        self._detector = detector
        self._batch = batch
        self._jobs = jobs

    def result(self) -> Batch:
        """See `Pending.result`."""
        found = self._detector.collect(self._jobs, self._batch)
        return self._batch.with_objects(Objects.concat([self._batch.objects, found]))


def _suppressed(found: Candidates, options: NmsOptions) -> Candidates:
    return found.select(suppress(found.xyxy, found.confidence, found.class_id, options=options))


def _joined(*tables: Candidates) -> Candidates:
    return Candidates(
        np.concatenate([table.xyxy for table in tables]),
        np.concatenate([table.confidence for table in tables]),
        np.concatenate([table.class_id for table in tables]),
    )
