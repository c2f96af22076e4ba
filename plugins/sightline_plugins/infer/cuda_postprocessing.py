"""Postprocessing on the GPU: decoded and suppressed boxes, or the raw outputs, in memory that is allocated once.

A `CudaPostprocessor` describes which arrays it needs per batch size and what is launched; `OutputBuffers` holds them in
two blocks of memory, of which only one is copied to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.streams import CudaStream
from sightline.errors import ModelError
from sightline.media import Batch
from sightline.media.device_array import DeviceArray
from sightline_plugins.engines.protocol import Array, TensorSpec
from sightline_plugins.heads import cuda as cuda_heads
from sightline_plugins.heads.cuda import Decoding, plan_decoding
from sightline_plugins.heads.head import Candidates
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import DetectionRules, Postprocessor, SuppressedBoxes
from sightline_plugins.infer.requests import InferenceResult, read_outputs
from sightline_plugins.infer.targets import InferenceTarget
from sightline_plugins.nms import cuda as cuda_nms
from sightline_plugins.nms.cuda import COUNTS, DETECTION, INT, KEPT_COUNTS, DetectionBuffers, Kept
from sightline_plugins.nms.options import MAX_CANDIDATES

ArrayForm: TypeAlias = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and element type of an array."""
HostResult: TypeAlias = tuple[Array, ...] | SuppressedBoxes
"""The result of one target in host memory: the model's outputs, or boxes."""
_ALIGNED_BYTES = 256


class CudaPostprocessor(Protocol):
    """The GPU work after a model, on one stream. `rows` is the number of images in a batch."""

    def scratch_forms(self, rows: int) -> list[ArrayForm]:
        """Return the arrays that stay on the GPU."""

    def result_forms(self, rows: int) -> list[ArrayForm]:
        """Return the arrays that are copied to the host."""

    def bind(
        self, scratch: Sequence[DeviceArray], results: Sequence[DeviceArray]
    ) -> tuple[Sequence[DeviceArray], Callable[[], None]]:
        """Return which of these arrays the model writes its outputs to, and what queues the rest of the work."""

    def read(self, results: Sequence[npt.NDArray[Any]], row: int) -> HostResult:
        """Return the result of one image, in memory of its own."""


class OutputBuffers:
    """One set of buffers for the outputs and results of batches of up to `max_rows` images."""

    def __init__(self, postprocessor: CudaPostprocessor, *, max_rows: int, gpu: CudaDevice, stream: CudaStream) -> None:
        self._postprocessor = postprocessor
        scratch = postprocessor.scratch_forms(max_rows)
        self._scratch = _new_block(gpu, scratch, stream=stream) if scratch else None
        self._results = _new_block(gpu, postprocessor.result_forms(max_rows), stream=stream)

    @property
    def results_bytes(self) -> int:
        """Maximum size of the results."""
        return self._results.nbytes

    def bind(self, rows: int) -> BoundPostprocessing:
        """Return the postprocessing of batches of `rows` images."""
        forms = self._postprocessor.result_forms(rows)
        results = _arrays_in(self._results, forms)
        scratch = () if self._scratch is None else _arrays_in(self._scratch, self._postprocessor.scratch_forms(rows))
        outputs, queue = self._postprocessor.bind(scratch, results)
        end = results[-1].base_address + results[-1].nbytes - self._results.base_address
        return BoundPostprocessing(self._postprocessor, outputs, self._results.rows(0, end), queue, forms)


@dataclass(frozen=True, slots=True, eq=False)
class BoundPostprocessing:
    """Postprocessing of one batch size, in one set of buffers.

    The model writes to `outputs`; `queue` queues the work that turns them into the results, uint8 (bytes,).
    """

    postprocessor: CudaPostprocessor
    outputs: Sequence[DeviceArray]
    results: DeviceArray
    queue: Callable[[], None]
    forms: Sequence[ArrayForm]

    def read(self, content: npt.NDArray[np.uint8], *, count: int) -> list[HostResult]:
        """Return the results of the first `count` images from a copy of `results`, independent of that copy."""
        views = [
            content[offset : offset + prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
            for offset, (shape, dtype) in zip(_offsets(self.forms), self.forms, strict=True)
        ]
        return [self.postprocessor.read(views, row) for row in range(count)]


class CudaRawPostprocessor:
    """A `CudaPostprocessor` that copies all outputs, for postprocessors that read these on the host.

    `outputs` are those of the engine, `dtypes` the element types that heads expect.
    """

    def __init__(self, *, outputs: Sequence[TensorSpec], dtypes: Sequence[np.dtype[Any]]) -> None:
        self._outputs = outputs
        self._dtypes = dtypes

    def scratch_forms(self, rows: int) -> list[ArrayForm]:
        del rows
        return []

    def result_forms(self, rows: int) -> list[ArrayForm]:
        return _output_forms(self._outputs, rows)

    def bind(
        self, scratch: Sequence[DeviceArray], results: Sequence[DeviceArray]
    ) -> tuple[Sequence[DeviceArray], Callable[[], None]]:
        """See `CudaPostprocessor.bind`: the outputs are the results."""
        del scratch
        return results, lambda: None

    def read(self, results: Sequence[npt.NDArray[Any]], row: int) -> HostResult:
        pairs = zip(results, self._dtypes, strict=True)
        return tuple(output[row : row + 1].astype(dtype) for output, dtype in pairs)


class CudaDetectionPostprocessor:
    """A `CudaPostprocessor` that decodes and suppresses boxes, and copies those that remain."""

    def __init__(
        self,
        gpu: CudaDevice,
        *,
        stream: CudaStream,
        decoding: Decoding,
        rules: DetectionRules,
        outputs: Sequence[TensorSpec],
    ) -> None:
        self._stream = stream
        self._decoding = decoding
        self._nms_options = rules.nms
        self._outputs = outputs
        self._head_kernels = gpu.kernels(cuda_heads.SOURCE)
        self._nms_kernels = gpu.kernels(cuda_nms.SOURCE)
        [self._limits] = gpu.upload([rules.limits], stream=stream)

    def scratch_forms(self, rows: int) -> list[ArrayForm]:
        """See `CudaPostprocessor.scratch_forms`: outputs, candidates, their counts, candidates by confidence."""
        capacity = self._decoding.boxes
        return [
            *_output_forms(self._outputs, rows),
            ((rows, capacity), DETECTION),
            ((rows, COUNTS), INT),
            ((rows, min(capacity, MAX_CANDIDATES)), DETECTION),
        ]

    def result_forms(self, rows: int) -> list[ArrayForm]:
        """See `CudaPostprocessor.result_forms`: the counts of boxes, and the boxes that remain."""
        return [((rows, len(KEPT_COUNTS)), INT), ((rows, self._nms_options.max_detections), DETECTION)]

    def bind(
        self, scratch: Sequence[DeviceArray], results: Sequence[DeviceArray]
    ) -> tuple[Sequence[DeviceArray], Callable[[], None]]:
        *outputs, candidates, counts, ranked = scratch
        kept_counts, boxes = results
        finds = DetectionBuffers(candidates, counts, self._limits)
        kept = Kept(ranked, boxes, kept_counts)

        def queue() -> None:
            self._decoding.launch(self._head_kernels, outputs, finds=finds, stream=self._stream)
            cuda_nms.suppress(self._nms_kernels, finds, kept=kept, options=self._nms_options, stream=self._stream)

        return outputs, queue

    def read(self, results: Sequence[npt.NDArray[Any]], row: int) -> HostResult:
        counts, boxes = results
        kept, found, invalid = counts[row, :3].tolist()
        own = boxes[row, :kept]
        candidates = Candidates(own["xyxy"].copy(), own["confidence"].copy(), own["class_id"].astype(np.int32))
        return SuppressedBoxes(candidates, found, invalid)


def cuda_postprocessor(
    plan: ModelPlan,
    postprocessor: Postprocessor[Any],
    *,
    outputs: Sequence[TensorSpec],
    gpu: CudaDevice,
    stream: CudaStream,
) -> tuple[CudaPostprocessor, str]:
    """Return the work after the model on the GPU, and where its head runs, with the reason, for the report."""
    rules = postprocessor.detection_rules
    reason = "the step reads the model's outputs"
    if rules is not None:
        try:
            decoding = _plan_decoding(plan, rules, outputs=outputs)
        except ModelError as error:
            reason = str(error)
        else:
            return CudaDetectionPostprocessor(gpu, stream=stream, decoding=decoding, rules=rules, outputs=outputs), str(
                gpu
            )
    return CudaRawPostprocessor(outputs=outputs, dtypes=[output.dtype for output in plan.outputs]), f"cpu ({reason})"


def _plan_decoding(plan: ModelPlan, rules: DetectionRules, *, outputs: Sequence[TensorSpec]) -> Decoding:
    """Plan how boxes are decoded on the GPU. Raises ModelError, with the reason, where they cannot be."""
    assert plan.head is not None
    assert plan.preprocessing.size_wh is not None
    if rules.nms.method not in ("hard", "none"):
        raise ModelError(f"suppression by the method {rules.nms.method} has no kernel")
    context = plan.decode_context(size_wh=plan.preprocessing.size_wh, confidence=rules.confidence)
    shapes = [shape[1:] for shape, _ in _output_forms(outputs, 1)]
    return plan_decoding(plan.head.name, shapes=shapes, context=context)


def read_host_result(
    found: HostResult, postprocessor: Postprocessor[Any], target: InferenceTarget, batch: Batch
) -> InferenceResult:
    """Let a postprocessor read a result from the GPU. Boxes that are not finite mean outputs that are not."""
    if not isinstance(found, SuppressedBoxes):
        return read_outputs(postprocessor, found, target, batch)
    result, is_finite = postprocessor.read_boxes(found, target, batch), not found.invalid
    return InferenceResult(None if not is_finite and postprocessor.is_empty(result) else result, is_finite)


def output_bytes(outputs: Sequence[TensorSpec]) -> int:
    """Return how much memory the outputs for one image take."""
    return _total_bytes(_output_forms(outputs, 1))


def _output_forms(specs: Sequence[TensorSpec], rows: int) -> list[ArrayForm]:
    return [((rows, *(size for size in spec.shape[1:] if size is not None)), spec.dtype) for spec in specs]


def _new_block(gpu: CudaDevice, forms: Sequence[ArrayForm], *, stream: CudaStream) -> DeviceArray:
    """Return new GPU memory, uint8 (bytes,), that holds these arrays one after the other."""
    return gpu.empty((max(_total_bytes(forms), 1),), np.uint8, stream=stream)


def _arrays_in(block: DeviceArray, forms: Sequence[ArrayForm]) -> tuple[DeviceArray, ...]:
    places = zip(_offsets(forms), forms, strict=True)
    return tuple(DeviceArray(block.base_address + offset, *form, block.owner) for offset, form in places)


def _offsets(forms: Sequence[ArrayForm]) -> Iterator[int]:
    offset = 0
    for form in forms:
        yield offset
        offset += _aligned_bytes(form)


def _total_bytes(forms: Sequence[ArrayForm]) -> int:
    return sum(map(_aligned_bytes, forms))


def _aligned_bytes(form: ArrayForm) -> int:
    shape, dtype = form
    return -(-prod(shape) * dtype.itemsize // _ALIGNED_BYTES) * _ALIGNED_BYTES
