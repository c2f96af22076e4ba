"""Stands for ONNX Runtime's CUDA provider on the double of a GPU: its CPU provider computes, on the double's memory,
when the stream of the session gets there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import onnxruntime as ort

from sightline.devices.cuda.device import CudaDevice
from sightline_plugins.engines import onnxruntime_cuda
from sightline_plugins.engines.cuda_model import BatchModel
from sightline_plugins.engines.onnxruntime import FATAL_ONLY, ON_CPU, ON_CUDA, Provider
from tests.fakes import FakeCudaDriver
from tests.fakes.seams import Seam

_SESSIONS = Seam(onnxruntime_cuda, "_open_session")
_AVAILABLE = Seam(onnxruntime_cuda, "why_not")


@dataclass(slots=True)
class FakeOnnxRuntime:
    """The sessions that were opened on a double, with which options, and how many batches of how many images they were
    given.

    `on_cpu` are the types of operators that this provider lacks.
    """

    on_cpu: frozenset[str] = frozenset()
    batches: list[int] = field(default_factory=list)
    providers: list[Sequence[Provider]] = field(default_factory=list)


def fake_onnxruntime(
    gpu: CudaDevice, driver: FakeCudaDriver, *, on_cpu: frozenset[str] = frozenset()
) -> FakeOnnxRuntime:
    """Let ONNX Runtime compute on a double as if that were a GPU."""
    noted = FakeOnnxRuntime(on_cpu)

    def opened(
        where: CudaDevice, model: BatchModel, options: ort.SessionOptions, providers: Sequence[Provider]
    ) -> _Session:
        del where, options
        noted.providers.append(providers)
        provider = providers[0]
        assert not isinstance(provider, str)
        return _Session(model.content, options=provider[1], driver=driver, noted=noted)

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


@dataclass(frozen=True, slots=True)
class _Assigned:
    """See `OrtEpAssignedSubgraph`: one operator, and who computes it."""

    ep_name: str
    node: Any

    def get_nodes(self) -> list[Any]:
        return [self.node]


class _Session:
    """See `onnxruntime.InferenceSession`: the calls that are used with I/O binding."""

    def __init__(
        self, content: bytes, *, options: Mapping[str, str], driver: FakeCudaDriver, noted: FakeOnnxRuntime
    ) -> None:
        own = ort.SessionOptions()
        own.intra_op_num_threads = own.inter_op_num_threads = 1
        own.log_severity_level = FATAL_ONLY
        own.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        self._session = ort.InferenceSession(content, own, providers=[ON_CPU])
        self._stream_handle = int(options["user_compute_stream"])
        self._driver = driver
        self._noted = noted

    def get_providers(self) -> list[str]:
        return [ON_CUDA, ON_CPU]

    def get_provider_graph_assignment_info(self) -> list[_Assigned]:
        nodes = [node for part in self._session.get_provider_graph_assignment_info() for node in part.get_nodes()]
        return [_Assigned(ON_CPU if node.op_type in self._noted.on_cpu else ON_CUDA, node) for node in nodes]

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
