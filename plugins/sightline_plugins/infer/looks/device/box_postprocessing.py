"""Boxes that are decoded and suppressed on the GPU, so that only those that stay come down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.kernels import DeviceKernels
from sightline.devices.gpu.streams import GpuStream
from sightline.errors import ModelError
from sightline.media import Batch
from sightline.media.device_array import DeviceArray
from sightline_plugins.infer.engines.protocol import TensorSpec
from sightline_plugins.infer.heads.findings import Candidates
from sightline_plugins.infer.looks.device.blocks import Part, arrays_in, new_block, up_to_end, views_in
from sightline_plugins.infer.looks.device.head_plans import plan_decoding
from sightline_plugins.infer.looks.device.postprocessing import Outcome, OutputBuffers, PostprocessingStep, output_parts
from sightline_plugins.infer.looks.look import LookResult
from sightline_plugins.infer.model.plan import ModelPlan
from sightline_plugins.infer.subjects.subject import Subject
from sightline_plugins.infer.tasks.box_rules import BoxRules, Suppressed
from sightline_plugins.infer.tasks.task import Task
from sightline_plugins.kernels import heads, nms
from sightline_plugins.kernels.detections import COUNTS, DETECTION, INT, Finds
from sightline_plugins.kernels.heads import Decoding
from sightline_plugins.kernels.nms import KEPT_COUNTS, Kept
from sightline_plugins.nms.options import MAX_CANDIDATES


def plan_boxes_of(plan: ModelPlan, rules: BoxRules, *, outputs: Sequence[TensorSpec]) -> Decoding:
    """How the model's boxes are decoded on the GPU. Raises ModelError, with the reason, where they can not be."""
    assert plan.head is not None
    assert plan.preprocessing.size_wh is not None
    if rules.nms.method not in ("hard", "none"):
        raise ModelError(f"suppression by the method {rules.nms.method} has no kernel")
    reading = plan.reading(size_wh=plan.preprocessing.size_wh, confidence=rules.confidence)
    shapes = [shape[1:] for shape, _ in output_parts(outputs, 1)]
    return plan_decoding(plan.head.name, shapes=shapes, reading=reading)


class BoxPostprocessor:
    """Heads and suppression: a `Postprocessor`."""

    def __init__(
        self,
        gpu: Gpu,
        *,
        stream: GpuStream,
        decoding: Decoding,
        rules: BoxRules,
        outputs: Sequence[TensorSpec],
        most_rows: int,
    ) -> None:
        self.stream = stream
        self.decoding = decoding
        self.rules = rules
        self.outputs = outputs
        self.heads: DeviceKernels = gpu.kernels(heads.SOURCE)
        self.nms: DeviceKernels = gpu.kernels(nms.SOURCE)
        [self.limits] = gpu.upload([rules.limits], stream=stream)
        self._gpu = gpu
        self._most_rows = most_rows

    def new_buffers(self) -> OutputBuffers:
        """See `Postprocessor.new_buffers`."""
        parts = self.scratch_parts(self._most_rows), self.result_parts(self._most_rows)
        scratch, results = (new_block(self._gpu, own, stream=self.stream) for own in parts)
        return _BoxBuffers(self, scratch, results)

    def scratch_parts(self, rows: int) -> list[Part]:
        """What stays on the GPU: the outputs, candidates, their counts, and the candidates by confidence."""
        capacity = self.decoding.boxes
        return [
            *output_parts(self.outputs, rows),
            ((rows, capacity), DETECTION),
            ((rows, COUNTS), INT),
            ((rows, min(capacity, MAX_CANDIDATES)), DETECTION),
        ]

    def result_parts(self, rows: int) -> list[Part]:
        """What comes down: how many boxes there are and were, and those that stay."""
        return [((rows, len(KEPT_COUNTS)), INT), ((rows, self.rules.nms.max_detections), DETECTION)]


@dataclass(frozen=True, slots=True, eq=False)
class _BoxBuffers:
    owner: BoxPostprocessor
    scratch: DeviceArray
    results: DeviceArray

    @property
    def results_bytes(self) -> int:
        return self.results.nbytes

    def step(self, rows: int) -> PostprocessingStep:
        parts = self.owner.result_parts(rows)
        *outputs, detections, counts, ranked = arrays_in(self.scratch, self.owner.scratch_parts(rows))
        told, stays = arrays_in(self.results, parts)
        finds = Finds(detections, counts, self.owner.limits)
        return _BoxStep(self.owner, outputs, up_to_end(self.results, [stays]), finds, Kept(ranked, stays, told), parts)


@dataclass(frozen=True, slots=True, eq=False)
class _BoxStep:
    owner: BoxPostprocessor
    outputs: Sequence[DeviceArray]
    results: DeviceArray
    finds: Finds
    kept: Kept
    parts: Sequence[Part]

    def queue(self) -> None:
        owner = self.owner
        owner.decoding.launch(owner.heads, self.outputs, finds=self.finds, stream=owner.stream)
        nms.suppress(owner.nms, self.finds, kept=self.kept, options=owner.rules.nms, stream=owner.stream)

    def read(self, content: npt.NDArray[np.uint8], *, count: int) -> list[Outcome]:
        told, stays = views_in(content, self.parts)
        return [_outcome(stays[row], *map(int, told[row, :3])) for row in range(count)]


@dataclass(frozen=True, slots=True, eq=False)
class BoxOutcome:
    """What stays of the boxes of one picture."""

    boxes: Suppressed

    def read(self, task: Task[Any], subject: Subject, batch: Batch) -> LookResult:
        """See `Look.read`. Boxes that are no finite numbers are all that tells of such outputs."""
        answer, is_finite = task.read_boxes(self.boxes, subject, batch), not self.boxes.invalid
        return LookResult(None if not is_finite and task.is_empty(answer) else answer, is_finite)


def _outcome(rows: npt.NDArray[Any], stay: int, found: int, invalid: int) -> BoxOutcome:
    own = rows[:stay].copy()
    candidates = Candidates(
        np.ascontiguousarray(own["xyxy"]), np.ascontiguousarray(own["confidence"]), own["class_id"].astype(np.int32)
    )
    return BoxOutcome(Suppressed(candidates, found, invalid))
