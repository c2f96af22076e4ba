"""ONNX Runtime on a GPU: its CUDA provider reads and writes our memory (I/O binding), on our stream.

Its work is not put into a CUDA graph of ours: it takes memory and may wait while it queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import onnxruntime as ort

from sightline.devices.cuda.compatibility import onnxruntime_clash, onnxruntime_too_new
from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.streams import CudaStream
from sightline.errors import DeviceUnavailable, ModelError
from sightline.media.device_array import DeviceArray
from sightline_plugins.engines.batch_sizes import ANY_BATCH, BatchRange
from sightline_plugins.engines.cuda_model import BatchModel, check_bound
from sightline_plugins.engines.onnxruntime import (
    FAILURES,
    FATAL_ONLY,
    FOR_CUDA,
    ON_CPU,
    ON_CUDA,
    Provider,
    cuda_provider,
    load_cuda_libraries,
    new_session,
    placement_of,
    reason_of,
)
from sightline_plugins.engines.protocol import Execution

_WITHOUT_WAITING = "disable_synchronize_execution_providers"
_OTHER_CONTEXT = (
    "ONNX Runtime works in the primary context of {gpu}, and the program's pycuda in another one: use "
    "pycuda.driver.Device(N).retain_primary_context() and push() instead of pycuda.autoinit, or engine: tensorrt"
)
_QUEUES_BY_ITSELF = "ONNX Runtime takes memory and waits while it queues"


def why_not(gpu: CudaDevice) -> str | None:
    """Why ONNX Runtime cannot compute on that GPU; None when it can."""
    if ON_CUDA in ort.get_available_providers():
        return onnxruntime_too_new() or (_OTHER_CONTEXT.format(gpu=gpu) if gpu.foreign_context else None)
    return f"ONNX Runtime has no CUDA provider for {gpu}: {onnxruntime_clash() or FOR_CUDA}"


class OnnxRuntimeCuda:
    """A model by ONNX Runtime on a GPU: a `CudaEngine`."""

    name = "onnxruntime"

    @staticmethod
    def library() -> str:
        """Name and version."""
        return f"ONNX Runtime {ort.__version__}"

    def __init__(
        self,
        model: BatchModel,
        *,
        gpu: CudaDevice,
        stream: CudaStream,
        batches: BatchRange = ANY_BATCH,
        memory_limit_bytes: int | None = None,
    ) -> None:
        """Open it. `batches` bounds how many images are computed at once, where the model takes any number.

        `memory_limit_bytes` bounds the memory of its arena (None: the GPU's memory). Raises DeviceUnavailable where the
        provider does not start, ModelError for a model that it refuses, or of which it computes nothing on the GPU.
        """
        reason = why_not(gpu)
        if reason is not None:
            raise DeviceUnavailable(reason)
        self.inputs = model.inputs
        self.outputs = model.outputs
        self.most_rows = model.rows or batches.most
        self._label = model.label
        self._gpu = gpu
        options = ort.SessionOptions()
        options.log_severity_level = FATAL_ONLY
        provider = cuda_provider(gpu.index, stream=stream.handle, memory_limit_bytes=memory_limit_bytes)
        self._session = _open_session(gpu, model, options, [provider, ON_CPU])
        placement = placement_of(self._session)
        if placement.total and placement.total == sum(placement.on_cpu.values()):
            raise ModelError(f"{model.label}: ONNX Runtime computes all of its operators on the CPU: {placement}")
        batch = f"1 to {self.most_rows}" if model.rows is None else f"fixed {model.rows}"
        own = {"engine": f"{self.name}, CUDA", "library": self.library(), "model": "compiled", "batch": batch}
        self.report = MappingProxyType({**own, **placement.report()})
        self._is_closed = False

    def bind(self, inputs: Sequence[DeviceArray], outputs: Sequence[DeviceArray]) -> Execution:
        """See `CudaEngine.bind`."""
        check_bound(self, inputs, outputs, label=self._label)
        binding = self._session.io_binding()
        where = "cuda", self._gpu.index
        for spec, array in zip(self.inputs, inputs, strict=True):
            binding.bind_input(spec.name, *where, array.dtype.type, list(array.shape), array.address)
        for spec, array in zip(self.outputs, outputs, strict=True):
            binding.bind_output(spec.name, *where, array.dtype.type, list(array.shape), array.address)
        return _Bound(self._session, binding, self._gpu, self._label, keep=(*inputs, *outputs))

    def close(self) -> None:
        """See `CudaEngine.close`."""
        if not self._is_closed:
            self._is_closed = True
            del self._session


class _Bound:
    """See `Execution`."""

    not_capturable = _QUEUES_BY_ITSELF

    def __init__(self, session: Any, binding: Any, gpu: CudaDevice, label: str, *, keep: Sequence[DeviceArray]) -> None:
        self._session = session
        self._binding = binding
        self._gpu = gpu
        self._label = label
        self._keep = keep
        self._options = ort.RunOptions()
        self._options.add_run_config_entry(_WITHOUT_WAITING, "1")

    def enqueue(self) -> None:
        """See `Execution.enqueue`."""
        try:
            with self._gpu.guard(f"computing {self._label}"):
                self._session.run_with_iobinding(self._binding, self._options)
        except FAILURES as error:
            raise ModelError(f"{self._label}: ONNX Runtime failed: {reason_of(error)}") from error


def _open_session(
    gpu: CudaDevice, model: BatchModel, options: ort.SessionOptions, providers: Sequence[Provider]
) -> Any:
    load_cuda_libraries()
    with gpu.guard(f"opening {model.label}"):
        return new_session(model.content, options, providers, label=model.label, device=str(gpu))
