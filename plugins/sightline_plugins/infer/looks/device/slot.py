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
from sightline_plugins.infer.looks.device.ending import Ending, Outcome, Tail
from sightline_plugins.infer.looks.device.gather import Gather
from sightline_plugins.infer.pixels.preprocess import Part
from sightline_plugins.kernels.preprocess import Jobs

WARM_UPS = 2
"""Launches before one is captured: libraries load and choose at the first, and flush what changed at the second."""


class Slot:
    """Memory for one batch under way, and its steps by their number of pictures. One thread starts batches."""

    def __init__(self, engine: DeviceEngine, *, gather: Gather, ending: Ending, gpu: Gpu, stream: GpuStream) -> None:
        self._engine = engine
        self._gather = gather
        self._room = ending.open()
        self._gpu = gpu
        self._stream = stream
        self._pinned = gpu.pinned.lease(self._room.results_bytes)
        self._steps: dict[int, Step] = {}
        self._work: Work[list[Outcome]] | None = None

    @property
    def steps(self) -> Sequence[Step]:
        """The steps for all numbers of pictures that came."""
        return tuple(self._steps.values())

    def start(self, parts: Sequence[Part], *, rows: int) -> Work[list[Outcome]]:
        """Compute these parts as a batch of `rows` pictures; waits first for the batch that is still there."""
        self.finish()
        jobs, is_moved = self._gather.take(parts, rows=rows)
        if is_moved:
            self._steps.clear()
        step = self._steps.get(rows) or self._new_step(rows)
        step.run(jobs)
        self._work = Work(partial(_collected, self._stream.record(), self._pinned, step.tail, len(parts)))
        return self._work

    def finish(self) -> None:
        """Wait for the batch that is there, and keep what came of it outside of the buffers."""
        if self._work is not None:
            self._work.finish()
            self._work = None

    def _new_step(self, rows: int) -> Step:
        made = Step(
            self._engine,
            self._gather,
            self._room.tail(rows),
            rows=rows,
            pinned=self._pinned,
            gpu=self._gpu,
            stream=self._stream,
        )
        self._steps[rows] = made
        return made


class Step:
    """All that the GPU does for a batch of one size: gathering, model, heads, one copy; a graph after some launches.

    `plainly` says why it is queued piece by piece; None when it is a graph, or becomes one.
    """

    def __init__(
        self,
        engine: DeviceEngine,
        gather: Gather,
        tail: Tail,
        *,
        rows: int,
        pinned: PinnedBuffer,
        gpu: Gpu,
        stream: GpuStream,
    ) -> None:
        self.tail = tail
        self.rows = rows
        self._execution = engine.bind([array.rows(0, rows) for array in gather.inputs], tail.outputs)
        self.plainly: str | None = None
        self._gather = gather
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
        self._gather.queue(jobs)
        self._execution.enqueue()
        self.tail.queue()
        self._gpu.copy_to_pinned(self.tail.results, self._pinned, stream=self._stream)

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


def _collected(event: DeviceEvent, pinned: PinnedBuffer, tail: Tail, count: int) -> list[Outcome]:
    """Wait for a batch, and take what came of it out of the pinned memory."""
    event.wait()
    return tail.read(pinned.array((tail.results.nbytes,)), count=count)
