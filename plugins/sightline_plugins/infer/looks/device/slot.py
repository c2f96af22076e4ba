"""One set of buffers: a batch is gathered there, computed, read by heads, and brought down to pinned memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.graphs import Graph
from sightline.devices.gpu.memory import PinnedBuffer
from sightline.devices.gpu.streams import GpuStream
from sightline.errors import GpuError, GpuFailed
from sightline.media.device_memory import DeviceEvent
from sightline_plugins.infer.engines.device.protocol import DeviceEngine
from sightline_plugins.infer.engines.requests import Work
from sightline_plugins.infer.looks.device.inputs import InputBuffers
from sightline_plugins.infer.looks.device.postprocessing import Outcome, PostprocessingStep, Postprocessor
from sightline_plugins.kernels.preprocess import Jobs
from sightline_plugins.pixels.preprocess import Part

WARM_UPS = 2
"""Launches before one is captured: libraries load and choose at the first, and flush what changed at the second."""


class Slot:
    """Memory for one batch under way, and a forward pass for each number of pictures. One thread starts batches."""

    def __init__(
        self, engine: DeviceEngine, *, inputs: InputBuffers, postprocessor: Postprocessor, gpu: Gpu, stream: GpuStream
    ) -> None:
        self._engine = engine
        self._inputs = inputs
        self._outputs = postprocessor.new_buffers()
        self._gpu = gpu
        self._stream = stream
        self._pinned = gpu.pinned.lease(self._outputs.results_bytes)
        self._passes: dict[int, ForwardPass] = {}
        self._work: Work[list[Outcome]] | None = None

    @property
    def passes(self) -> Sequence[ForwardPass]:
        """Those for all numbers of pictures that came."""
        return tuple(self._passes.values())

    def start(self, parts: Sequence[Part], *, rows: int) -> Work[list[Outcome]]:
        """Compute these parts as a batch of `rows` pictures; waits first for the batch that is still there."""
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
        postprocessing: PostprocessingStep,
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
    event: DeviceEvent, pinned: PinnedBuffer, postprocessing: PostprocessingStep, count: int
) -> list[Outcome]:
    """Wait for a batch, and take what came of it out of the pinned memory."""
    event.wait()
    return postprocessing.read(pinned.array((postprocessing.results.nbytes,)), count=count)
