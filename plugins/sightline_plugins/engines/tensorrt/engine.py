"""A plan of TensorRT, loaded and bound to memory: what computes batches on a GPU.

Every number of images that is bound has an execution context of its own, with shapes and addresses set once. They
share one stretch of scratch memory, because all of them run on one stream, one after another. The calls follow
the documentation of TensorRT 10 and 11 and of TensorRT-RTX 1.7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from sightline.devices.gpu.driver import Driver
from sightline.devices.gpu.gpu import Gpu
from sightline.errors import GpuError, ModelError
from sightline.media.device_array import DeviceArray, DeviceStream
from sightline_plugins.engines.device.checks import ALIGNMENT_BYTES, check_bound
from sightline_plugins.engines.libraries import About
from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.engines.tensorrt.loading import Loaded


class TensorRtEngine:
    """A `DeviceEngine` by TensorRT, or by TensorRT-RTX. One thread uses it, on one stream."""

    name = "tensorrt"

    def __init__(self, loaded: Loaded, *, gpu: Gpu, stream: DeviceStream, about: About, most_rows: int) -> None:
        """Raises ModelError for a model whose outputs differ in size from image to image, GpuError."""
        self.most_rows = most_rows
        self.report: Mapping[str, Any] = MappingProxyType(dict(about.report))
        self._label = about.label
        self._gpu = gpu
        self._stream = stream
        self._loaded: Loaded | None = loaded
        with gpu.guard(f"preparing {about.label}"):
            self.inputs, self.outputs = loaded.tensors(about, most_rows=most_rows)
        size = max(loaded.scratch_bytes, ALIGNMENT_BYTES)
        self._scratch: DeviceArray | None = gpu.empty((size,), np.uint8, stream=stream)
        self._contexts = list[Any]()

    def bind(self, inputs: Sequence[DeviceArray], outputs: Sequence[DeviceArray]) -> TensorRtExecution:
        """The model on this memory: dense arrays of `inputs` and `outputs`, all of the same number of rows.

        Takes a while: TensorRT-RTX compiles kernels for these sizes now. Raises ModelError for other shapes or types,
        or when the library refuses; GpuError.
        """
        loaded, scratch = self._open(), self._scratch
        assert scratch is not None
        rows = check_bound(self, inputs, outputs, label=self._label)
        named = list(zip((*self.inputs, *self.outputs), (*inputs, *outputs), strict=True))
        with self._gpu.guard(f"binding {self._label}") as driver, loaded.library.listening() as heard:
            context = loaded.new_context()
            done = context is not None and _set_up(context, named, scratch=scratch, input_count=len(inputs))
            if not done:
                _check_gpu(driver)
                raise ModelError(f"{self._label}: {loaded.library} cannot bind {rows} images: {heard.reason}")
        self._contexts.append(context)
        held = [array.on(self._stream) for array in (*inputs, *outputs, scratch)]
        return TensorRtExecution(self, context, held=held, rows=rows)

    def close(self) -> None:
        """Wait for what is queued and let go of the model. What it bound may not be queued any more.

        What TensorRT-RTX compiled for this GPU is kept for the next run.
        """
        if self._loaded is None:
            return
        loaded, self._loaded, self._scratch = self._loaded, None, None
        try:
            with self._gpu.guard(f"closing {self._label}") as driver:
                driver.synchronize(self._stream.handle)
                loaded.keep_kernels()
                self._contexts.clear()
                loaded.close()
        except GpuError:
            self._contexts.clear()
            loaded.close()

    def enqueue(self, context: Any, *, rows: int) -> None:
        """Queue one bound context; see `Execution.enqueue`."""
        loaded = self._open()
        with self._gpu.guard(f"computing {self._label}") as driver, loaded.library.listening() as heard:
            if not context.execute_async_v3(self._stream.handle):
                _check_gpu(driver)
                raise GpuError(f"{self._label}: {loaded.library} did not compute {rows} images: {heard.reason}")

    def why_not_capturable(self, context: Any) -> str | None:
        """See `Execution.not_capturable`."""
        loaded = self._open()
        if not hasattr(context, "is_stream_capturable"):
            return None
        with self._gpu.guard(f"asking about {self._label}"):
            is_capturable = bool(context.is_stream_capturable(self._stream.handle))
        return None if is_capturable else f"{loaded.library} says that its work cannot be captured"

    def _open(self) -> Loaded:
        if self._loaded is None:
            raise ModelError(f"{self._label}: the engine was closed")
        return self._loaded


class TensorRtExecution:
    """A model bound to memory, for one number of images: an `Execution`. It keeps that memory."""

    def __init__(self, engine: TensorRtEngine, context: Any, *, held: Sequence[DeviceArray], rows: int) -> None:
        self._engine = engine
        self._context = context
        self._held = held
        self._rows = rows

    @property
    def not_capturable(self) -> str | None:
        """Why a CUDA graph cannot hold it; None when it can. Ask after it ran once: sizes are new before."""
        return self._engine.why_not_capturable(self._context)

    def enqueue(self) -> None:
        """Queue it on the engine's stream, behind what makes its inputs. Raises GpuError, ModelError after `close`."""
        self._engine.enqueue(self._context, rows=self._rows)


def _set_up(
    context: Any, named: Sequence[tuple[TensorSpec, DeviceArray]], *, scratch: DeviceArray, input_count: int
) -> bool:
    """Shapes, addresses and scratch memory of a context; whether the library took them. Inputs come first."""
    is_set = all(context.set_input_shape(spec.name, array.shape) for spec, array in named[:input_count])
    is_set = is_set and all(context.set_tensor_address(spec.name, array.address) for spec, array in named)
    if is_set:
        context.set_device_memory(scratch.address, scratch.nbytes)
    return is_set


def _check_gpu(driver: Driver) -> None:
    """The library failed: raise DriverError when that is because the GPU works no more."""
    driver.free_memory_bytes()
