"""Stands for ONNX Runtime's CUDA provider on the double of a GPU: its CPU provider computes, on the double's memory,
when the stream of the session gets there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import onnxruntime as ort

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.streams import CudaStream
from sightline_plugins.engines import onnxruntime_cuda
from sightline_plugins.engines.onnxruntime import FATAL_ONLY, ON_CUDA
from tests.fakes import FakeCudaDriver
from tests.fakes.seams import Seam

_SESSIONS = Seam(onnxruntime_cuda, "_open_session")
_AVAILABLE = Seam(onnxruntime_cuda, "why_not")


@dataclass(slots=True)
class FakeOnnxRuntime:
    """The sessions that were opened on a double, and how many batches of how many images they were given."""

    batches: list[int] = field(default_factory=list)


def fake_onnxruntime(gpu: CudaDevice, driver: FakeCudaDriver) -> FakeOnnxRuntime:
    """Let ONNX Runtime compute on a double as if that were a GPU."""
    noted = FakeOnnxRuntime()

    def opened(where: CudaDevice, content: bytes, stream: CudaStream) -> _Session:
        del where
        return _Session(content, stream_handle=stream.handle, driver=driver, noted=noted)

    _SESSIONS.install(gpu, opened)
    _AVAILABLE.install(gpu, lambda gpu: None)
    return noted


@dataclass(frozen=True, slots=True)
class _Place:
    """A tensor that was bound: its memory, which the session does not keep."""

    name: str
    dtype: type[np.generic]
    shape: Sequence[int]
    address: int

    @property
    def size_bytes(self) -> int:
        return prod(self.shape) * np.dtype(self.dtype).itemsize


class _Binding:
    """See `onnxruntime.IOBinding`; it takes memory of a GPU only."""

    def __init__(self) -> None:
        self.inputs: list[_Place] = []
        self.outputs: list[_Place] = []

    def bind_input(
        self, name: str, device: str, number: int, dtype: type[np.generic], shape: Sequence[int], address: int
    ) -> None:
        self.inputs.append(self._place(name, device, number, dtype, shape, address))

    def bind_output(
        self, name: str, device: str, number: int, dtype: type[np.generic], shape: Sequence[int], address: int
    ) -> None:
        self.outputs.append(self._place(name, device, number, dtype, shape, address))

    def _place(
        self, name: str, device: str, number: int, dtype: type[np.generic], shape: Sequence[int], address: int
    ) -> _Place:
        assert (device, number) == ("cuda", 0)
        return _Place(name, dtype, tuple(shape), address)


class _Session:
    """See `onnxruntime.InferenceSession`: the calls that are used with I/O binding."""

    def __init__(self, content: bytes, *, stream_handle: int, driver: FakeCudaDriver, noted: FakeOnnxRuntime) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = FATAL_ONLY
        self._session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self._stream_handle = stream_handle
        self._driver = driver
        self._noted = noted

    def get_providers(self) -> list[str]:
        return [ON_CUDA, "CPUExecutionProvider"]

    def io_binding(self) -> _Binding:
        return _Binding()

    def run_with_iobinding(self, binding: _Binding, options: ort.RunOptions) -> None:
        del options
        inputs, outputs = tuple(binding.inputs), tuple(binding.outputs)
        uses = [(place.address, place.size_bytes) for place in (*inputs, *outputs)]
        self._noted.batches.append(inputs[0].shape[0])

        def compute() -> None:
            on_host: Any = self._session.io_binding()
            for place in inputs:
                on_host.bind_input(place.name, "cpu", 0, place.dtype, list(place.shape), place.address)
            for place in outputs:
                on_host.bind_output(place.name, "cpu", 0, place.dtype, list(place.shape), place.address)
            self._session.run_with_iobinding(on_host)

        self._driver.queue(self._stream_handle, compute, uses=uses, what="ONNX Runtime")
