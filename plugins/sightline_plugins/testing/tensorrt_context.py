"""What computes in the double of TensorRT: ONNX Runtime, when the stream comes to it."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sightline.testing.gpu import GpuMisuse
from sightline_plugins.testing import tensorrt_names as names

if TYPE_CHECKING:
    from sightline_plugins.testing.tensorrt_runtime import Engine, RuntimeCache

_ALIGNMENT_BYTES = 256
Sizes = tuple[int, ...]


class Context:
    """Computes, with sizes and addresses that were set."""

    def __init__(self, engine: Engine, kernels: RuntimeCache | None) -> None:
        self._engine = weakref.ref(engine)
        self._kernels = kernels
        self._double = engine.double
        self._session = engine.session
        self._needed_bytes = engine.device_memory_size_v2
        self._shapes = {name: engine.get_tensor_shape(name) for name in engine.inputs}
        self._outputs = {name: engine.get_tensor_shape(name) for name in engine.outputs}
        self._types = {name: np.dtype(engine.get_tensor_dtype(name).value) for name in (*self._shapes, *self._outputs)}
        self._addresses = dict[str, int]()
        self._scratch: tuple[int, int] | None = None
        self._is_warm = False

    def set_input_shape(self, name: str, shape: Sequence[int]) -> bool:
        """Set the sizes of an input; False outside of what the plan is for."""
        engine = self._checked(f"set shape {name} {tuple(shape)}")
        least, _, most = engine.profile.get(name, (engine.get_tensor_shape(name),) * 3)
        if len(shape) != len(most) or not all(
            low <= n <= high for low, n, high in zip(least, shape, most, strict=True)
        ):
            text = f"Static dimension mismatch or outside of the profile: {name} {tuple(shape)}."
            self._double.complain(names.complaint(text, doing="IExecutionContext::setInputShape"))
            return False
        self._is_warm = self._is_warm and self._shapes[name] == tuple(shape)
        self._shapes[name] = tuple(shape)
        self._outputs = {}
        return True

    def get_tensor_shape(self, name: str) -> Sizes:
        """The sizes of a tensor, -1 where they are open."""
        return self._shapes.get(name) or self._output_shapes[name]

    def set_tensor_address(self, name: str, address: int) -> bool:
        """Say where a tensor lies."""
        self._checked(f"set address {name}")
        if address % _ALIGNMENT_BYTES:
            raise self._misuse(f"the address {address:#x} of {name} is no multiple of {_ALIGNMENT_BYTES}")
        self._addresses[name] = address
        return name in self._types

    def set_device_memory(self, address: int, size_bytes: int) -> None:
        """Give it scratch memory."""
        self._checked("set scratch")
        if size_bytes < self._needed_bytes or address % _ALIGNMENT_BYTES:
            raise self._misuse(f"{self._needed_bytes} bytes of scratch memory are needed, {size_bytes} given")
        self._scratch = address, size_bytes

    def execute_async_v3(self, stream: int) -> bool:
        """Queue it; False when the logger was told why not."""
        engine = self._checked("execute")
        lacking = [name for name in self._types if name not in self._addresses]
        if lacking or any(-1 in sizes for sizes in (*self._shapes.values(), *self._output_shapes.values())):
            text = f"Address is not set for {', '.join(lacking)}" if lacking else "Not all shapes are specified."
            self._double.complain(names.complaint(text, doing="IExecutionContext::enqueueV3"))
            return False
        if self._scratch is None:
            raise self._misuse("a context without scratch memory computes")
        if self._double.fails_now():
            text = names.complaint("cudaError 719", doing="IExecutionContext::enqueueV3", kind="Cuda Runtime")
            self._double.complain(text)
            return False
        self._double.check_scratch(engine.scratch_used_on, self._scratch[0], stream)
        if not self._is_warm:
            if not self._double.allocate_and_free():
                return False
            if self._kernels is not None:
                self._kernels.compile(f"kernels for {self._shapes}")
            self._is_warm = True
        return self._double.queue(stream, _Work(self), uses=[*self._spans().values(), self._scratch])

    def compute(self, addresses: Mapping[str, int], shapes: Mapping[str, Sizes]) -> None:
        """Compute now."""
        feeds = {
            name: _view(addresses[name], shapes[name], self._types[name]).copy() for name in self._session_inputs()
        }
        results = self._session.run(None, feeds)
        for port, result in zip(self._session.get_outputs(), results, strict=True):
            if result.shape != shapes[port.name]:
                raise GpuMisuse(f"{port.name} came out as {result.shape}, {shapes[port.name]} was promised")
            _view(addresses[port.name], result.shape, result.dtype)[...] = result

    @property
    def bound(self) -> tuple[dict[str, int], dict[str, Sizes]]:
        """Addresses and sizes, as they are now."""
        return dict(self._addresses), {**self._shapes, **self._output_shapes}

    @property
    def _output_shapes(self) -> dict[str, Sizes]:
        """The sizes of the outputs, told when somebody asks, because inputs get theirs one after another."""
        engine = self._engine()
        if not self._outputs and engine is not None:
            known = all(-1 not in sizes for sizes in self._shapes.values())
            declared = {name: engine.get_tensor_shape(name) for name in engine.outputs}
            self._outputs = engine.shapes_for(self._shapes) if known else declared
        return self._outputs

    def _session_inputs(self) -> list[str]:
        return [port.name for port in self._session.get_inputs()]

    def _spans(self) -> dict[str, tuple[int, int]]:
        addresses, shapes = self.bound
        return {name: (addresses[name], prod(shapes[name]) * self._types[name].itemsize) for name in self._types}

    def _checked(self, doing: str) -> Engine:
        self._double.check_context(doing)
        engine = self._engine()
        if engine is None:
            raise self._misuse("a context is used after its engine went")
        return engine

    def _misuse(self, text: str) -> GpuMisuse:
        return self._double.misuse(text)


class RtxContext(Context):
    """A context of TensorRT-RTX, which says whether it can be captured."""

    def is_stream_capturable(self, stream: int) -> bool:
        """Whether a stream that it computes on can be captured."""
        del stream
        self._checked("ask whether it can be captured")
        return not self._double.faults.is_uncapturable


class _Work:
    """One run, with addresses and sizes as they were when it was queued; it does not keep its context."""

    def __init__(self, context: Context) -> None:
        self._context = weakref.ref(context)
        self._bound = context.bound

    def __call__(self) -> None:
        context = self._context()
        if context is None:
            raise GpuMisuse("a context was let go of before it had computed")
        context.compute(*self._bound)


def _view(address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    held = memoryview((ctypes.c_uint8 * (prod(shape) * dtype.itemsize)).from_address(address))
    return np.ndarray(tuple(shape), dtype, held)
