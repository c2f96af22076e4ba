"""The CUDA predictor: frames, model, heads and suppression stay on the GPU; only results are copied to the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.graphs import Graph
from sightline.devices.gpu.memory import PinnedBuffer
from sightline.devices.gpu.streams import GpuStream
from sightline.errors import GpuError, GpuFailed, ModelError
from sightline.media import Batch
from sightline.media.device_array import DeviceArray
from sightline.media.device_memory import DeviceEvent
from sightline_plugins.engines.device.protocol import DeviceEngine
from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.engines.requests import Work
from sightline_plugins.infer.cuda_postprocessing import (
    CudaDetectionPostprocessor,
    CudaPostprocessing,
    CudaPostprocessor,
    CudaRawPostprocessor,
    HostResult,
    output_parts,
    plan_cuda_decoding,
    size_of,
)
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor
from sightline_plugins.infer.requests import InferenceRequest, InferenceResult, RequestInput
from sightline_plugins.infer.targets import InferenceTarget
from sightline_plugins.kernels.preprocess import SOURCE, Jobs, pack, preprocess
from sightline_plugins.kernels.surfaces import SurfaceView
from sightline_plugins.kernels.tensor_form import TensorForm
from sightline_plugins.pixels.preprocess import Part

_SPARE_BYTES = 1 << 16


class InputBuffers:
    """The inputs of a model in one set of buffers, for `most_rows` images, and what fills them.

    Inputs besides the image (its size) are the same for every image, and are written once.
    """

    def __init__(
        self, plan: ModelPlan, *, inputs: Sequence[TensorSpec], most_rows: int, gpu: Gpu, stream: GpuStream
    ) -> None:
        size_wh = plan.preprocessing.size_wh
        assert size_wh is not None
        place = plan.inputs.image
        self._definition = plan.preprocessing
        self._form = TensorForm("nhwc" if plan.inputs.channels_last else "nchw", inputs[place].dtype)
        self._gpu = gpu
        self._stream = stream
        self._kernels = gpu.kernels(SOURCE)
        shape = self._form.shape(most_rows, channels=self._definition.channels, size_wh=size_wh)
        self._image = gpu.empty(shape, self._form.dtype, stream=stream)
        arrays = {place: self._image}
        for number, values in plan.inputs.extra_values(size_wh).items():
            rows = np.tile(np.array(values, inputs[number].dtype), (most_rows, 1))
            array = gpu.empty(rows.shape, rows.dtype, stream=stream)
            [arrays[number]] = gpu.upload_into([rows], [array], stream=stream)
        self.arrays = [arrays[number] for number in range(len(inputs))]
        """All inputs of the model, for the most images."""
        self._content = self._new_content(0)

    def take(self, parts: Sequence[Part], *, rows: int) -> tuple[Jobs, bool]:
        """Bring to the GPU what says how these parts become `rows` images; whether that moved to other memory.

        The stream waits for the surfaces, which may go when `queue` has returned.
        """
        surfaces = {id(surface): surface for surface, _ in parts}
        views = {}
        for key, surface in surfaces.items():
            there = surface.to_device(self._gpu, stream=self._stream)
            views[key] = SurfaceView.of(there, there.arrays_on(self._stream))
        jobs = pack([(views[id(surface)], placement) for surface, placement in parts], self._definition, rows=rows)
        is_moved = jobs.content.size > self._content.shape[0]
        if is_moved:
            self._content = self._new_content(jobs.content.size)
        self._gpu.upload_into([jobs.content], [self._content_of(jobs)], stream=self._stream)
        return jobs, is_moved

    def queue(self, jobs: Jobs) -> None:
        """Queue the kernel; its arguments are the same for every number of images."""
        preprocess(
            self._kernels,
            jobs,
            content=self._content_of(jobs),
            out=self._image,
            definition=self._definition,
            form=self._form,
            stream=self._stream,
        )

    def _content_of(self, jobs: Jobs) -> DeviceArray:
        return self._content.rows(0, jobs.content.size)

    def _new_content(self, size_bytes: int) -> DeviceArray:
        return self._gpu.empty((2 * size_bytes + _SPARE_BYTES,), np.uint8, stream=self._stream)


WARM_UPS = 2
"""Launches before one is captured: libraries load and choose at the first, and flush what changed at the second."""


class BufferSet:
    """Memory for one batch under way, and a forward pass for each number of images. One thread starts batches."""

    def __init__(
        self,
        engine: DeviceEngine,
        *,
        inputs: InputBuffers,
        postprocessor: CudaPostprocessor,
        gpu: Gpu,
        stream: GpuStream,
    ) -> None:
        self._engine = engine
        self._inputs = inputs
        self._outputs = postprocessor.new_buffers()
        self._gpu = gpu
        self._stream = stream
        self._pinned = gpu.pinned.lease(self._outputs.results_bytes)
        self._passes: dict[int, ForwardPass] = {}
        self._work: Work[list[HostResult]] | None = None

    @property
    def passes(self) -> Sequence[ForwardPass]:
        """Those for all numbers of images that came."""
        return tuple(self._passes.values())

    def start(self, parts: Sequence[Part], *, rows: int) -> Work[list[HostResult]]:
        """Compute these parts as a batch of `rows` images; waits first for the batch that is still there."""
        self.finish()
        jobs, is_moved = self._inputs.take(parts, rows=rows)
        if is_moved:
            self._passes.clear()
        forward = self._passes.get(rows) or self._new_pass(rows)
        forward.run(jobs)
        self._work = Work(partial(_collected, self._stream.record(), self._pinned, forward.postprocessing, len(parts)))
        return self._work

    def finish(self) -> None:
        """Wait for the batch that is there, and keep what came of it outside of the buffers."""
        if self._work is not None:
            self._work.finish()
            self._work = None

    def _new_pass(self, rows: int) -> ForwardPass:
        made = ForwardPass(
            self._engine,
            self._inputs,
            self._outputs.step(rows),
            rows=rows,
            pinned=self._pinned,
            gpu=self._gpu,
            stream=self._stream,
        )
        self._passes[rows] = made
        return made


class ForwardPass:
    """All that the GPU does for a batch of one size: gathering, model, heads, one copy; a graph after some launches.

    `plainly` says why it is queued piece by piece; None when it is a graph, or becomes one.
    """

    def __init__(
        self,
        engine: DeviceEngine,
        inputs: InputBuffers,
        postprocessing: CudaPostprocessing,
        *,
        rows: int,
        pinned: PinnedBuffer,
        gpu: Gpu,
        stream: GpuStream,
    ) -> None:
        self.postprocessing = postprocessing
        self.rows = rows
        self._execution = engine.bind([array.rows(0, rows) for array in inputs.arrays], postprocessing.outputs)
        self.plainly: str | None = None
        self._inputs = inputs
        self._pinned = pinned
        self._gpu = gpu
        self._stream = stream
        self._graph: Graph | None = None
        self._runs = 0

    @property
    def is_graph(self) -> bool:
        """Whether it is one launch."""
        return self._graph is not None

    def run(self, jobs: Jobs) -> None:
        """Queue it."""
        if self._graph is None and self.plainly is None and self._runs == WARM_UPS:
            self._capture(jobs)
        if self._graph is not None:
            self._graph.launch()
            return
        self._runs += 1
        self._queue(jobs)

    def _queue(self, jobs: Jobs) -> None:
        self._inputs.queue(jobs)
        self._execution.enqueue()
        self.postprocessing.queue()
        self._gpu.copy_to_pinned(self.postprocessing.results, self._pinned, stream=self._stream)

    def _capture(self, jobs: Jobs) -> None:
        name = f"batch of {self.rows}"
        self.plainly = self._execution.not_capturable
        if self.plainly is not None:
            return
        try:
            self._graph = self._gpu.capture(self._stream, partial(self._queue, jobs), name=name, keep=self._execution)
        except GpuFailed:
            raise
        except GpuError as error:
            self.plainly = str(error)


def _collected(
    event: DeviceEvent, pinned: PinnedBuffer, postprocessing: CudaPostprocessing, count: int
) -> list[HostResult]:
    """Wait for a batch, and take what came of it out of the pinned memory."""
    event.wait()
    return postprocessing.read(pinned.array((postprocessing.results.nbytes,)), count=count)


_NOTHING: Mapping[str, str] = MappingProxyType({})
_SLOTS = 2
_MOST_OUTPUT_BYTES = 1 << 27
"""Of a batch, so that models whose outputs are as large as images do not fill the memory."""


class CudaPredictor:
    """A `Predictor` whose images, model, heads and suppression stay on the GPU; results come down in one copy a
    batch.

    Images go in batches of 1, 2, 4, 8 ... up to what the engine takes; each size is a CUDA graph after some launches,
    where the engine allows it. Heads without kernels read on the host what comes down of the outputs. `told` is
    more for the report.
    """

    def __init__(
        self,
        plan: ModelPlan,
        *,
        engine: DeviceEngine,
        postprocessor: Postprocessor[Any],
        gpu: Gpu,
        stream: GpuStream,
        told: Mapping[str, str] = _NOTHING,
    ) -> None:
        self.device = str(gpu)
        self._engine = engine
        self._is_fixed = engine.inputs[plan.inputs.image].shape[0] is not None
        self._most_rows = engine.most_rows if self._is_fixed else _rows_that_fit(engine)
        self.max_pending = 2 * _SLOTS * self._most_rows
        cuda_postprocessor, self._heads = _postprocessor(
            plan, engine=engine, postprocessor=postprocessor, most_rows=self._most_rows, gpu=gpu, stream=stream
        )
        self._slots = [
            BufferSet(
                engine,
                inputs=InputBuffers(plan, inputs=engine.inputs, most_rows=self._most_rows, gpu=gpu, stream=stream),
                postprocessor=cuda_postprocessor,
                gpu=gpu,
                stream=stream,
            )
            for _ in range(_SLOTS)
        ]
        self._turn = 0
        self._told = told
        self._last_report: Mapping[str, Any] = _NOTHING

    @property
    def report(self) -> Mapping[str, Any]:
        """What computes, where boxes are decoded, which batches are graphs, and why others are not."""
        if not self._slots:
            return self._last_report
        passes = [one for slot in self._slots for one in slot.passes]
        told: dict[str, Any] = {
            **self._engine.report,
            "engine_runs_on": self.device,
            "heads_run_on": self._heads,
            **self._told,
        }
        if captured := sorted({one.rows for one in passes if one.is_graph}):
            told["graphs"] = captured
        if reasons := sorted({one.plainly for one in passes if one.plainly is not None}):
            told["no_graphs"] = "; ".join(reasons)
        return told

    def submit(self, inputs: Sequence[RequestInput]) -> Iterator[InferenceRequest | None]:
        """See `Predictor.submit`."""
        parts = [(surface, target.placement) for surface, target in inputs]
        most = self._most_rows
        for first in range(0, len(parts), most):
            portion = parts[first : first + most]
            self._turn = (self._turn + 1) % _SLOTS
            work = self._slots[self._turn].start(portion, rows=self._rows_for(len(portion)))
            yield from (CudaRequest(work, row) for row in range(len(portion)))

    def close(self) -> None:
        """See `Predictor.close`. Memory goes back now, whoever holds this object."""
        for slot in self._slots:
            slot.finish()
        self._last_report = self.report
        self._slots.clear()
        self._engine.close()

    def _rows_for(self, count: int) -> int:
        return self._most_rows if self._is_fixed else min(1 << (count - 1).bit_length(), self._most_rows)


class CudaRequest:
    """A `Look` at one image of a batch."""

    __slots__ = ("_row", "_work")

    def __init__(self, work: Work[list[HostResult]], row: int) -> None:
        self._work = work
        self._row = row

    def wait(self) -> None:
        """See `Look.wait`."""
        self._work.result()

    def read(self, postprocessor: Postprocessor[Any], target: InferenceTarget, batch: Batch) -> InferenceResult:
        """See `Look.read`."""
        return self._work.result()[self._row].read(postprocessor, target, batch)


def _rows_that_fit(engine: DeviceEngine) -> int:
    """The largest power of two of images, as far as the engine takes them, whose outputs are not too large."""
    size = size_of(output_parts(engine.outputs, 1))
    fitting = max(min(_MOST_OUTPUT_BYTES // size, engine.most_rows), 1)
    return 1 << (fitting.bit_length() - 1)


def _postprocessor(
    plan: ModelPlan,
    *,
    engine: DeviceEngine,
    postprocessor: Postprocessor[Any],
    most_rows: int,
    gpu: Gpu,
    stream: GpuStream,
) -> tuple[CudaPostprocessor, str]:
    """What follows the model, and where its heads run, for the report."""
    outputs = engine.outputs
    reason = "the step reads the model's outputs"
    if postprocessor.detection_rules is not None:
        try:
            decoding = plan_cuda_decoding(plan, postprocessor.detection_rules, outputs=outputs)
        except ModelError as error:
            reason = str(error)
        else:
            rules = postprocessor.detection_rules
            boxes = CudaDetectionPostprocessor(
                gpu, stream=stream, decoding=decoding, rules=rules, outputs=outputs, most_rows=most_rows
            )
            return boxes, str(gpu)
    wanted = [output.dtype for output in plan.outputs]
    raw = CudaRawPostprocessor(gpu, stream=stream, outputs=outputs, wanted=wanted, most_rows=most_rows)
    return raw, f"cpu ({reason})"
