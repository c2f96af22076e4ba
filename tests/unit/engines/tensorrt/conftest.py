"""A double of TensorRT-RTX on the double of a GPU, and memory for its batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.streams import GpuStream
from sightline.media.device_array import DeviceArray
from sightline_plugins.engines.protocol import CudaEngine
from sightline_plugins.testing.tensorrt_double import TensorRtDouble, tensorrt_double


@pytest.fixture
def double(gpu: Gpu) -> TensorRtDouble:
    """What stands in for TensorRT-RTX on the GPU."""
    return tensorrt_double(gpu)


@pytest.fixture
def stream(gpu: Gpu) -> GpuStream:
    return gpu.stream("models")


class Bench:
    """Memory for a batch of an engine's: filled by the host, computed, and looked at."""

    def __init__(self, engine: CudaEngine, *, gpu: Gpu, stream: GpuStream, rows: int) -> None:
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
