"""Random programs for a GPU, run beside a model that does the same at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import KernelSource
from sightline.devices.cuda.graphs import Graph
from sightline.devices.cuda.memory import CudaBuffer
from sightline.devices.cuda.streams import CudaStream
from sightline.errors import SurfaceReleased
from sightline.media.device_array import DeviceArray

ADD = KernelSource(
    "add.cu",
    'extern "C" __global__ void add(unsigned char *values, int count, int amount) {\n'
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < count) values[i] += amount;\n"
    "}\n",
    {},
)
_SHAPES = ((40,), (5, 8), (3, 300))


@dataclass
class _Thing:
    """An array and what must be in it."""

    array: DeviceArray
    value: int


@dataclass
class _Captured:
    """A graph that adds a number to an array, which may be released meanwhile."""

    graph: Graph
    thing: _Thing
    amount: int


class Program:
    """Interprets numbers as steps: arrays are made, copied, changed by kernels and graphs, let go of and looked at, on
    three streams.
    """

    def __init__(self, gpu: CudaDevice) -> None:
        self._gpu = gpu
        self._pool = gpu.pool("things", limit_count=9)
        self._add = gpu.kernels(ADD)["add"]
        self._streams = [gpu.stream(name) for name in "abc"]
        self._things: list[_Thing] = []
        self._captured: list[_Captured] = []
        self._steps: tuple[Callable[[Iterator[int]], None], ...] = (
            self._make,
            self._copy,
            self._launch,
            self._let_go,
            self._look,
            self._join,
            self._release,
            self._make,
            self._copy,
            self._capture,
            self._replay,
        )

    def run(self, numbers: Sequence[int]) -> None:
        """Do the steps, then look at everything. Raises AssertionError for other values than the model's."""
        left = iter(numbers)
        for number in left:
            self._steps[number % len(self._steps)](left)
        while self._things:
            self._look(iter((0,)))
            self._things.pop(0)
        self._captured.clear()

    def _stream(self, left: Iterator[int]) -> CudaStream:
        return self._streams[next(left, 0) % len(self._streams)]

    def _thing(self, left: Iterator[int]) -> _Thing | None:
        number = next(left, 0)
        return self._things[number % len(self._things)] if self._things else None

    def _new(self, shape: tuple[int, ...], stream: CudaStream) -> DeviceArray:
        if len(self._things) >= 6:
            self._things.pop(0)
        return self._gpu.empty(shape, np.uint8, stream=stream, pool=self._pool)

    def _make(self, left: Iterator[int]) -> None:
        stream, value = self._stream(left), next(left, 0) % 256
        array = self._new(_SHAPES[next(left, 0) % len(_SHAPES)], stream)
        self._things.append(_Thing(self._gpu.fill(array, value, stream=stream), value))

    def _copy(self, left: Iterator[int]) -> None:
        if (source := self._thing(left)) is not None:
            stream = self._stream(left)
            target = self._new(source.array.shape, stream)
            (copy,) = self._gpu.copy([source.array], [target], stream=stream)
            self._things.append(_Thing(copy, source.value))

    def _launch(self, left: Iterator[int]) -> None:
        if (thing := self._thing(left)) is not None:
            stream, amount = self._stream(left), next(left, 0) % 7
            (array,) = self._gpu.settle([thing.array], stream=stream)
            self._add(array, array.nbytes, amount, grid=30, block=32, stream=stream)
            thing.array = array.written(stream.record())
            thing.value = (thing.value + amount) % 256

    def _capture(self, left: Iterator[int]) -> None:
        if (thing := self._thing(left)) is not None:
            stream, amount = self._stream(left), next(left, 0) % 7
            (array,) = self._gpu.settle([thing.array], stream=stream)

            def queue() -> None:
                self._add(array, array.nbytes, amount, grid=30, block=32, stream=stream)
                self._let_go(left)

            graph = self._gpu.capture(stream, queue, name="add", keep=array)
            self._captured = [*self._captured[-1:], _Captured(graph, thing, amount)]

    def _replay(self, left: Iterator[int]) -> None:
        if self._captured:
            captured = self._captured[next(left, 0) % len(self._captured)]
            thing, stream = captured.thing, captured.graph.stream
            (array,) = self._gpu.settle([thing.array], stream=stream)
            captured.graph.launch()
            thing.array = array.written(stream.record())
            thing.value = (thing.value + captured.amount) % 256

    def _let_go(self, left: Iterator[int]) -> None:
        if (thing := self._thing(left)) is not None:
            self._things.remove(thing)

    def _release(self, left: Iterator[int]) -> None:
        if (thing := self._thing(left)) is not None:
            self._things.remove(thing)
            self._captured = [captured for captured in self._captured if captured.thing is not thing]
            assert isinstance(thing.array.owner, CudaBuffer)
            thing.array.owner.release()
            with pytest.raises(SurfaceReleased):
                thing.array.to_host()

    def _look(self, left: Iterator[int]) -> None:
        if (thing := self._thing(left)) is not None:
            found = np.unique(thing.array.to_host()).tolist()
            assert found == [thing.value], f"{found} instead of {thing.value}"

    def _join(self, left: Iterator[int]) -> None:
        first, second = self._stream(left), self._stream(left)
        first.wait(second.record())
