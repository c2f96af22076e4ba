"""Postprocessing on the GPU: heads and suppression behind the model, or the raw outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.kernels import DeviceKernels
from sightline.devices.gpu.streams import GpuStream
from sightline.errors import ModelError
from sightline.media import Batch
from sightline.media.device_array import DeviceArray
from sightline_plugins.engines.protocol import Array, TensorSpec
from sightline_plugins.heads.cuda_plans import plan_decoding
from sightline_plugins.heads.head import Candidates
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import DetectionRules, Postprocessor, SuppressedBoxes
from sightline_plugins.infer.requests import InferenceResult, read_outputs
from sightline_plugins.infer.targets import InferenceTarget
from sightline_plugins.kernels import heads, nms
from sightline_plugins.kernels.detections import COUNTS, DETECTION, INT, Finds
from sightline_plugins.kernels.heads import Decoding
from sightline_plugins.kernels.nms import KEPT_COUNTS, Kept
from sightline_plugins.nms.options import MAX_CANDIDATES

Part: TypeAlias = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and element type of an array."""
_ALIGNED_BYTES = 256


def size_of(parts: Sequence[Part]) -> int:
    """How many bytes the arrays take."""
    return sum(_room(part) for part in parts)


def new_block(gpu: Gpu, parts: Sequence[Part], *, stream: GpuStream) -> DeviceArray:
    """New memory of a GPU that holds these arrays: uint8 (bytes,)."""
    return gpu.empty((max(size_of(parts), 1),), np.uint8, stream=stream)


def arrays_in(block: DeviceArray, parts: Sequence[Part]) -> tuple[DeviceArray, ...]:
    """The arrays in memory of a GPU, from its beginning."""
    places = zip(_offsets(parts), parts, strict=True)
    return tuple(DeviceArray(block.base_address + offset, *part, block.owner) for offset, part in places)


def up_to_end(block: DeviceArray, arrays: Sequence[DeviceArray]) -> DeviceArray:
    """The beginning of a block, up to the end of the last of these arrays in it."""
    return block.rows(0, arrays[-1].base_address + arrays[-1].nbytes - block.base_address)


def views_in(content: npt.NDArray[np.uint8], parts: Sequence[Part]) -> list[npt.NDArray[Any]]:
    """The arrays in a copy of that memory, as views."""
    return [
        content[offset : offset + prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
        for offset, (shape, dtype) in zip(_offsets(parts), parts, strict=True)
    ]


def _offsets(parts: Sequence[Part]) -> Iterator[int]:
    offset = 0
    for part in parts:
        yield offset
        offset += _room(part)


def _room(part: Part) -> int:
    shape, dtype = part
    return -(-prod(shape) * dtype.itemsize // _ALIGNED_BYTES) * _ALIGNED_BYTES


class HostResult(Protocol):
    """What came back of one image, in memory of its own."""

    def read(self, postprocessor: Postprocessor[Any], target: InferenceTarget, batch: Batch) -> InferenceResult:
        """See `Look.read`."""
        ...


class CudaPostprocessing(Protocol):
    """Post-processing of one number of images, in one set of buffers."""

    @property
    def outputs(self) -> Sequence[DeviceArray]:
        """Where the model writes."""
        ...

    @property
    def results(self) -> DeviceArray:
        """What is to be copied to the host, uint8 (bytes,)."""
        ...

    def queue(self) -> None:
        """Queue what makes the results of the outputs."""
        ...

    def read(self, content: npt.NDArray[np.uint8], *, count: int) -> list[HostResult]:
        """What a copy of the results says of the first `count` images; nothing of it refers to the copy."""
        ...


class OutputBuffers(Protocol):
    """One set of buffers, which the model writes to, for any number of images up to the most."""

    @property
    def results_bytes(self) -> int:
        """How many bytes results have at most."""
        ...

    def step(self, rows: int) -> CudaPostprocessing:
        """What is done with so many images."""
        ...


class CudaPostprocessor(Protocol):
    """What follows a model, on one stream."""

    def new_buffers(self) -> OutputBuffers:
        """A set of buffers."""
        ...


def output_parts(specs: Sequence[TensorSpec], rows: int) -> list[Part]:
    """The outputs of a model for so many images."""
    sizes = [tuple(size for size in spec.shape[1:] if size is not None) for spec in specs]
    return [((rows, *own), spec.dtype) for own, spec in zip(sizes, specs, strict=True)]


class CudaRawPostprocessor:
    """All outputs come down, for tasks that read outputs: a `Postprocessor`.

    `outputs` are those of the engine, `wanted` the element types that heads expect, for `most_rows` images at most.
    """

    def __init__(
        self,
        gpu: Gpu,
        *,
        stream: GpuStream,
        outputs: Sequence[TensorSpec],
        wanted: Sequence[np.dtype[Any]],
        most_rows: int,
    ) -> None:
        self._gpu = gpu
        self._stream = stream
        self._outputs = outputs
        self._wanted = wanted
        self._most_rows = most_rows

    def new_buffers(self) -> OutputBuffers:
        """See `Postprocessor.new_buffers`."""
        block = new_block(self._gpu, output_parts(self._outputs, self._most_rows), stream=self._stream)
        return _RawBuffers(block, self._outputs, self._wanted)


@dataclass(frozen=True, slots=True, eq=False)
class _RawBuffers:
    block: DeviceArray
    specs: Sequence[TensorSpec]
    wanted: Sequence[np.dtype[Any]]

    @property
    def results_bytes(self) -> int:
        return self.block.nbytes

    def step(self, rows: int) -> CudaPostprocessing:
        parts = output_parts(self.specs, rows)
        outputs = arrays_in(self.block, parts)
        return _RawStep(outputs, up_to_end(self.block, outputs), parts, self.wanted)


@dataclass(frozen=True, slots=True, eq=False)
class _RawStep:
    outputs: Sequence[DeviceArray]
    results: DeviceArray
    parts: Sequence[Part]
    wanted: Sequence[np.dtype[Any]]

    def queue(self) -> None:
        """The outputs are the results."""

    def read(self, content: npt.NDArray[np.uint8], *, count: int) -> list[HostResult]:
        views = views_in(content, self.parts)
        return [
            RawResult(tuple(view[row : row + 1].astype(dtype) for view, dtype in zip(views, self.wanted, strict=True)))
            for row in range(count)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class RawResult:
    """The outputs of one image, as an engine of the host gives them."""

    outputs: tuple[Array, ...]

    def read(self, postprocessor: Postprocessor[Any], target: InferenceTarget, batch: Batch) -> InferenceResult:
        """See `Look.read`."""
        return read_outputs(postprocessor, self.outputs, target, batch)


def plan_cuda_decoding(plan: ModelPlan, rules: DetectionRules, *, outputs: Sequence[TensorSpec]) -> Decoding:
    """How the model's boxes are decoded on the GPU. Raises ModelError, with the reason, where they cannot be."""
    assert plan.head is not None
    assert plan.preprocessing.size_wh is not None
    if rules.nms.method not in ("hard", "none"):
        raise ModelError(f"suppression by the method {rules.nms.method} has no kernel")
    reading = plan.decode_context(size_wh=plan.preprocessing.size_wh, confidence=rules.confidence)
    shapes = [shape[1:] for shape, _ in output_parts(outputs, 1)]
    return plan_decoding(plan.head.name, shapes=shapes, context=reading)


class CudaDetectionPostprocessor:
    """Heads and suppression: a `Postprocessor`."""

    def __init__(
        self,
        gpu: Gpu,
        *,
        stream: GpuStream,
        decoding: Decoding,
        rules: DetectionRules,
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
    owner: CudaDetectionPostprocessor
    scratch: DeviceArray
    results: DeviceArray

    @property
    def results_bytes(self) -> int:
        return self.results.nbytes

    def step(self, rows: int) -> CudaPostprocessing:
        parts = self.owner.result_parts(rows)
        *outputs, detections, counts, ranked = arrays_in(self.scratch, self.owner.scratch_parts(rows))
        told, stays = arrays_in(self.results, parts)
        finds = Finds(detections, counts, self.owner.limits)
        return _BoxStep(self.owner, outputs, up_to_end(self.results, [stays]), finds, Kept(ranked, stays, told), parts)


@dataclass(frozen=True, slots=True, eq=False)
class _BoxStep:
    owner: CudaDetectionPostprocessor
    outputs: Sequence[DeviceArray]
    results: DeviceArray
    finds: Finds
    kept: Kept
    parts: Sequence[Part]

    def queue(self) -> None:
        owner = self.owner
        owner.decoding.launch(owner.heads, self.outputs, finds=self.finds, stream=owner.stream)
        nms.suppress(owner.nms, self.finds, kept=self.kept, options=owner.rules.nms, stream=owner.stream)

    def read(self, content: npt.NDArray[np.uint8], *, count: int) -> list[HostResult]:
        told, stays = views_in(content, self.parts)
        return [_outcome(stays[row], *map(int, told[row, :3])) for row in range(count)]


@dataclass(frozen=True, slots=True, eq=False)
class DetectionResult:
    """What stays of the boxes of one image."""

    boxes: SuppressedBoxes

    def read(self, postprocessor: Postprocessor[Any], target: InferenceTarget, batch: Batch) -> InferenceResult:
        """See `Look.read`. Boxes that are no finite numbers are all that tells of such outputs."""
        answer, is_finite = postprocessor.read_boxes(self.boxes, target, batch), not self.boxes.invalid
        return InferenceResult(None if not is_finite and postprocessor.is_empty(answer) else answer, is_finite)


def _outcome(rows: npt.NDArray[Any], stay: int, found: int, invalid: int) -> DetectionResult:
    own = rows[:stay].copy()
    candidates = Candidates(
        np.ascontiguousarray(own["xyxy"]), np.ascontiguousarray(own["confidence"]), own["class_id"].astype(np.int32)
    )
    return DetectionResult(SuppressedBoxes(candidates, found, invalid))
