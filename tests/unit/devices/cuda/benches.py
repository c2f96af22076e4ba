"""A stream with memory on which graphs are captured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.graphs import Graph
from sightline.devices.cuda.streams import CudaStream
from sightline.media.device_array import DeviceArray
from tests.unit.devices.cuda.programs import ADD


@dataclass
class Bench:
    """Ten bytes, all 1 at first, that are ready on the stream `work`, and ten that are ready on another."""

    gpu: CudaDevice
    stream: CudaStream
    array: DeviceArray
    elsewhere: DeviceArray

    def add(self, amount: int) -> None:
        self.gpu.kernels(ADD)["add"](self.array, 10, amount, grid=1, block=32, stream=self.stream)

    def capture(self, queue: Callable[[], object] = lambda: None, *, name: str = "add") -> Graph:
        """A graph that adds 4, and of what `queue` queues."""

        def both() -> None:
            self.add(4)
            queue()

        return self.gpu.capture(self.stream, both, name=name, keep=self.array)

    @property
    def content(self) -> set[int]:
        values: list[int] = self.array.written(self.stream.record()).to_host().tolist()
        return set(values)


def make_bench(gpu: CudaDevice) -> Bench:
    stream, other = gpu.stream("work"), gpu.stream("other")
    arrays = [gpu.fill(gpu.empty((10,), np.uint8, stream=one), 1, stream=one) for one in (stream, other)]
    bench = Bench(gpu, stream, *arrays)
    bench.add(0)
    return bench
