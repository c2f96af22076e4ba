"""ONNX Runtime on a GPU: its CUDA provider reads and writes our memory (I/O binding), on our stream.

Its work is not put into a CUDA graph of ours: it takes memory and may wait while it queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import onnxruntime as ort

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
    ON_CUDA,
    load_cuda_libraries,
    reason_of,
)
from sightline_plugins.engines.protocol import Execution

_WITHOUT_WAITING = "disable_synchronize_execution_providers"
_QUEUES_BY_ITSELF = "ONNX Runtime takes memory and waits while it queues"


def why_not(gpu: CudaDevice) -> str | None:
    """Why ONNX Runtime cannot compute on that GPU; None when it can."""
    if ON_CUDA in ort.get_available_providers():
        return None
    return f"ONNX Runtime has no CUDA provider for {gpu}: {FOR_CUDA}"


class OnnxRuntimeCuda:
    """A model by ONNX Runtime on a GPU: a `CudaEngine`."""

    name = "onnxruntime"

    @staticmethod
    def library() -> str:
        """Name and version."""
        return f"ONNX Runtime {ort.__version__}"

    def __init__(
        self, model: BatchModel, *, gpu: CudaDevice, stream: CudaStream, batches: BatchRange = ANY_BATCH
    ) -> None:
        """Open it. `batches` bounds how many images are computed at once, where the model takes any number.

        Raises DeviceUnavailable where the provider does not start, ModelError for a model that it refuses.
        """
        reason = why_not(gpu)
        if reason is not None:
            raise DeviceUnavailable(reason)
        self.inputs = model.inputs
        self.outputs = model.outputs
        self.most_rows = model.rows or batches.most
        batch = f"1 to {self.most_rows}" if model.rows is None else f"fixed {model.rows}"
        self.report = MappingProxyType({"engine": f"{self.name}, CUDA", "model": "compiled", "batch": batch})
        self._label = model.label
        self._gpu = gpu
        try:
            with gpu.guard(f"opening {model.label}"):
                self._session = _open_session(gpu, model.content, stream)
        except FAILURES as error:
            raise ModelError(f"{model.label}: ONNX Runtime cannot use it: {reason_of(error)}") from error
        if ON_CUDA not in self._session.get_providers():
            raise DeviceUnavailable(
                f"ONNX Runtime's CUDA provider does not start: libraries of CUDA or cuDNN are missing: {FOR_CUDA}"
            )
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


def _open_session(gpu: CudaDevice, content: bytes, stream: CudaStream) -> Any:
    load_cuda_libraries()
    options = ort.SessionOptions()
    options.log_severity_level = FATAL_ONLY
    ours = {"device_id": str(gpu.index), "user_compute_stream": str(stream.handle), "use_tf32": "0"}
    return ort.InferenceSession(content, options, providers=[(ON_CUDA, ours), "CPUExecutionProvider"])
