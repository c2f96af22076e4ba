"""The CUDA predictor: images, model, heads and suppression stay on the GPU; only results are copied to the host.

Batches alternate between two sets of buffers, so that one is prepared while the other is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.graphs import Graph
from sightline.devices.cuda.memory import PinnedBuffer
from sightline.devices.cuda.streams import CudaStream
from sightline.errors import CudaError, CudaFailed
from sightline.media import Batch
from sightline.media.device_array import DeviceArray, DeviceEvent
from sightline_plugins.engines.batch_sizes import rounded_down, rounded_up
from sightline_plugins.engines.protocol import CudaEngine, TensorSpec
from sightline_plugins.engines.requests import Work
from sightline_plugins.infer.cuda_postprocessing import (
    BoundPostprocessing,
    CudaPostprocessor,
    HostResult,
    OutputBuffers,
    cuda_postprocessor,
    output_bytes,
    read_host_result,
)
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor
from sightline_plugins.infer.requests import InferenceRequest, InferenceResult, RequestInput
from sightline_plugins.infer.targets import InferenceTarget
from sightline_plugins.preprocess.cuda import InputKernel, Jobs, TensorForm
from sightline_plugins.preprocess.definition import Part

WARM_UPS = 2
"""Launches before a capture: libraries load and choose at the first, and flush what changed at the second."""
_BUFFER_SETS = 2
_SPARE_BYTES = 1 << 16
_MAX_OUTPUT_BYTES = 1 << 27
"""Outputs of one batch: models with outputs as large as frames must not fill the memory."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class CudaPredictor:
    """A `Predictor` whose images, model, heads and suppression stay on the GPU, with one copy back per batch.

    Batches are rounded up to the next of `BATCH_SIZES`, up to what the engine takes; each size becomes a CUDA graph
    after some launches, where the engine allows it. Heads without kernels read the copied outputs on the host.
    `details` is added to the report.
    """

    def __init__(
        self,
        plan: ModelPlan,
        *,
        engine: CudaEngine,
        postprocessor: Postprocessor[Any],
        gpu: CudaDevice,
        stream: CudaStream,
        details: Mapping[str, str] = _NOTHING,
    ) -> None:
        self.device = str(gpu)
        self._engine = engine
        self._is_fixed = engine.inputs[plan.inputs.image].shape[0] is not None
        self._max_rows = engine.most_rows if self._is_fixed else _rows_that_fit(engine)
        self.max_pending = 2 * _BUFFER_SETS * self._max_rows
        following, self._heads_run_on = cuda_postprocessor(
            plan, postprocessor, outputs=engine.outputs, gpu=gpu, stream=stream
        )
        self._buffers = [
            BufferSet(plan, engine=engine, postprocessor=following, max_rows=self._max_rows, gpu=gpu, stream=stream)
            for _ in range(_BUFFER_SETS)
        ]
        self._turn = 0
        self._details = details
        self._last_report: Mapping[str, Any] = _NOTHING

    @property
    def report(self) -> Mapping[str, Any]:
        """What computes, where boxes are decoded, which batch sizes are CUDA graphs, and why others are not."""
        if not self._buffers:
            return self._last_report
        passes = [forward for buffers in self._buffers for forward in buffers.passes]
        report: dict[str, Any] = {
            **self._engine.report,
            "engine_runs_on": self.device,
            "heads_run_on": self._heads_run_on,
            **self._details,
        }
        if captured := sorted({forward.rows for forward in passes if forward.is_graph}):
            report["graphs"] = captured
        if reasons := sorted({forward.no_graph_reason for forward in passes if forward.no_graph_reason is not None}):
            report["no_graphs"] = "; ".join(reasons)
        return report

    def submit(self, inputs: Sequence[RequestInput]) -> Iterator[InferenceRequest | None]:
        parts = [(surface, target.placement) for surface, target in inputs]
        for first in range(0, len(parts), self._max_rows):
            portion = parts[first : first + self._max_rows]
            self._turn = (self._turn + 1) % _BUFFER_SETS
            rows = self._max_rows if self._is_fixed else rounded_up(len(portion), limit=self._max_rows)
            work = self._buffers[self._turn].start(portion, rows=rows)
            yield from (CudaRequest(work, row) for row in range(len(portion)))

    def close(self) -> None:
        """See `Predictor.close`. Memory is released now, whoever holds this object."""
        for buffers in self._buffers:
            buffers.finish()
        self._last_report = self.report
        self._buffers.clear()
        self._engine.close()


@dataclass(slots=True, eq=False)
class CudaRequest:
    """An `InferenceRequest` for one image of a batch."""

    work: Work[list[HostResult]]
    row: int

    def wait(self) -> None:
        self.work.result()

    def read(self, postprocessor: Postprocessor[Any], target: InferenceTarget, batch: Batch) -> InferenceResult:
        return read_host_result(self.work.result()[self.row], postprocessor, target, batch)


class BufferSet:
    """Memory for one batch under way, and a forward pass for each batch size. One thread starts batches."""

    def __init__(
        self,
        plan: ModelPlan,
        *,
        engine: CudaEngine,
        postprocessor: CudaPostprocessor,
        max_rows: int,
        gpu: CudaDevice,
        stream: CudaStream,
    ) -> None:
        self._engine = engine
        self._inputs = InputBuffers(plan, inputs=engine.inputs, max_rows=max_rows, gpu=gpu, stream=stream)
        self._outputs = OutputBuffers(postprocessor, max_rows=max_rows, gpu=gpu, stream=stream)
        self._gpu = gpu
        self._stream = stream
        self._pinned = gpu.pinned.lease(self._outputs.results_bytes)
        self._passes: dict[int, ForwardPass] = {}
        self._work: Work[list[HostResult]] | None = None

    @property
    def passes(self) -> Sequence[ForwardPass]:
        """The forward passes of all batch sizes that came."""
        return tuple(self._passes.values())

    def start(self, parts: Sequence[Part], *, rows: int) -> Work[list[HostResult]]:
        """Compute these parts as a batch of `rows` images, after the batch that is still there."""
        self.finish()
        with self._gpu.guard("starting a batch"):
            jobs, is_moved = self._inputs.upload(parts, rows=rows)
            if is_moved:
                self._passes.clear()
            forward = self._pass_of(rows)
            forward.run(jobs, stream=self._stream)
            event = self._stream.record()
            self._inputs.used_until(event)
        self._work = Work(partial(_collected, event, self._pinned, forward.postprocessing, len(parts)))
        return self._work

    def _pass_of(self, rows: int) -> ForwardPass:
        """Return the forward pass of a batch size, made when it comes first."""
        if rows not in self._passes:
            postprocessing = self._outputs.bind(rows)
            self._passes[rows] = ForwardPass(
                self._engine, self._inputs, postprocessing, rows=rows, pinned=self._pinned, gpu=self._gpu
            )
        return self._passes[rows]

    def finish(self) -> None:
        """Wait for the batch that is there, and copy its results out of the buffers."""
        if self._work is not None:
            self._work.finish()
            self._work = None


class InputBuffers:
    """The inputs of a model in one set of buffers, for `max_rows` images, and the kernel that fills them.

    Inputs besides the image (its size) are the same for every image, and are written once.
    """

    def __init__(
        self, plan: ModelPlan, *, inputs: Sequence[TensorSpec], max_rows: int, gpu: CudaDevice, stream: CudaStream
    ) -> None:
        size_wh = plan.preprocessing.size_wh
        assert size_wh is not None
        place = plan.inputs.image
        form = TensorForm("nhwc" if plan.inputs.channels_last else "nchw", inputs[place].dtype)
        self._kernel = InputKernel(plan.preprocessing, form, gpu=gpu, stream=stream)
        self._gpu = gpu
        self._stream = stream
        self._image = self._kernel.empty(max_rows, size_wh=size_wh)
        arrays = {place: self._image}
        for number, values in plan.inputs.extra_values(size_wh).items():
            rows = np.tile(np.array(values, inputs[number].dtype), (max_rows, 1))
            array = gpu.empty(rows.shape, rows.dtype, stream=stream)
            [arrays[number]] = gpu.upload_into([rows], [array], stream=stream)
        self.arrays = [arrays[number] for number in range(len(inputs))]
        """All inputs of the model, for `max_rows` images."""
        self._jobs = self._new_jobs(0)

    def upload(self, parts: Sequence[Part], *, rows: int) -> tuple[Jobs, bool]:
        """Upload how these parts become `rows` images; return this, and whether it moved to other memory.

        The stream waits for the surfaces, which may be released when `queue` has returned; `used_until` follows then.
        """
        jobs = self._kernel.pack(parts, rows=rows)
        is_moved = jobs.content.size > self._jobs.shape[0]
        if is_moved:
            self._jobs = self._new_jobs(jobs.content.size)
        self._gpu.upload_into([jobs.content], [self._content_of(jobs)], stream=self._stream)
        return jobs, is_moved

    def queue(self, jobs: Jobs) -> None:
        """Queue the kernel; its arguments are the same for every number of images."""
        self._kernel.launch(jobs, content=self._content_of(jobs), out=self._image)

    def used_until(self, event: DeviceEvent) -> None:
        """The batch that was uploaded and queued last is behind that point."""
        self._kernel.used_until(event)

    def _content_of(self, jobs: Jobs) -> DeviceArray:
        return self._jobs.rows(0, jobs.content.size)

    def _new_jobs(self, size_bytes: int) -> DeviceArray:
        return self._gpu.empty((2 * size_bytes + _SPARE_BYTES,), np.uint8, stream=self._stream)


class ForwardPass:
    """All GPU work for a batch of one size: pre-processing, model, heads, one copy. A CUDA graph after some launches.

    `no_graph_reason` says why it is queued piece by piece; None when it is a graph, or becomes one.
    """

    def __init__(
        self,
        engine: CudaEngine,
        inputs: InputBuffers,
        postprocessing: BoundPostprocessing,
        *,
        rows: int,
        pinned: PinnedBuffer,
        gpu: CudaDevice,
    ) -> None:
        self.postprocessing = postprocessing
        self.rows = rows
        self.no_graph_reason: str | None = None
        self._execution = engine.bind([array.rows(0, rows) for array in inputs.arrays], postprocessing.outputs)
        self._inputs = inputs
        self._pinned = pinned
        self._gpu = gpu
        self._graph: Graph | None = None
        self._runs = 0

    @property
    def is_graph(self) -> bool:
        """Whether it is one launch."""
        return self._graph is not None

    def run(self, jobs: Jobs, *, stream: CudaStream) -> None:
        if self._graph is None and self.no_graph_reason is None and self._runs == WARM_UPS:
            self._capture(jobs, stream)
        if self._graph is not None:
            self._graph.launch()
            return
        self._runs += 1
        self._queue(jobs, stream)

    def _queue(self, jobs: Jobs, stream: CudaStream) -> None:
        self._inputs.queue(jobs)
        self._execution.enqueue()
        self.postprocessing.queue()
        self._gpu.copy_to_pinned(self.postprocessing.results, self._pinned, stream=stream)

    def _capture(self, jobs: Jobs, stream: CudaStream) -> None:
        self.no_graph_reason = self._execution.not_capturable
        if self.no_graph_reason is not None:
            return
        queue, name = partial(self._queue, jobs, stream), f"batch of {self.rows}"
        try:
            self._graph = self._gpu.capture(stream, queue, name=name, keep=self._execution)
        except CudaFailed:
            raise
        except CudaError as error:
            self.no_graph_reason = str(error)


def _collected(
    event: DeviceEvent, pinned: PinnedBuffer, postprocessing: BoundPostprocessing, count: int
) -> list[HostResult]:
    """Wait for a batch, and copy its results out of the pinned memory."""
    event.wait()
    return postprocessing.read(pinned.array((postprocessing.results.nbytes,)), count=count)


def _rows_that_fit(engine: CudaEngine) -> int:
    """Return the largest batch size that the engine takes and whose outputs are not too large."""
    return rounded_down(max(min(_MAX_OUTPUT_BYTES // output_bytes(engine.outputs), engine.most_rows), 1))
