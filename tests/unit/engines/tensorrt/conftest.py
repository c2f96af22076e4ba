"""A fake TensorRT-RTX on a fake GPU, and memory for its batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.streams import CudaStream
from sightline.media.device_array import DeviceArray
from sightline_plugins.engines.protocol import CudaEngine
from tests.fakes.tensorrt import FakeTensorRt, fake_tensorrt


@pytest.fixture
def double(gpu: CudaDevice) -> FakeTensorRt:
    """What stands in for TensorRT-RTX on the GPU."""
    return fake_tensorrt(gpu)


@pytest.fixture
def stream(gpu: CudaDevice) -> CudaStream:
    return gpu.stream("models")


class Bench:
    """Memory for a batch of an engine's: filled by the host, computed, and looked at."""

    def __init__(self, engine: CudaEngine, *, gpu: CudaDevice, stream: CudaStream, rows: int) -> None:
        self.gpu, self.stream = gpu, stream
        self.inputs = [self._empty(spec.shape, spec.dtype, rows) for spec in engine.inputs]
        self.outputs = [self._empty(spec.shape, spec.dtype, rows) for spec in engine.outputs]

    def fill(self, values: Sequence[npt.NDArray[Any]]) -> None:
        """Copy arrays of the host into the inputs."""
        sources = self.gpu.upload(values, stream=self.stream)
        self.gpu.copy(sources, self.inputs, stream=self.stream)

    def results(self) -> list[npt.NDArray[Any]]:
        """The outputs, behind all that is queued."""
        event = self.stream.record()
        return [array.written(event).to_host() for array in self.outputs]

    def _empty(self, shape: tuple[int | None, ...], dtype: np.dtype[Any], rows: int) -> DeviceArray:
        sizes = tuple(rows if size is None else size for size in shape)
        return self.gpu.empty(sizes, dtype, stream=self.stream)
