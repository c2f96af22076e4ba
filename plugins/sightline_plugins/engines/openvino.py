"""OpenVINO as an engine.

`import openvino` starts a thread that reports the import to an analytics service, so it is imported by
`sightline.libraries`, which prevents that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from io import BytesIO
from sys import getrefcount
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from sightline.errors import ModelError
from sightline.libraries import import_silently
from sightline_plugins.engines.libraries import About
from sightline_plugins.engines.protocol import Array, Engine, Pending, TensorSpec
from sightline_plugins.engines.requests import Arrays, Requests, numpy_type

if TYPE_CHECKING:
    import openvino as ov
else:
    ov = import_silently("openvino")


@cache
def core() -> ov.Core:
    """Return the one OpenVINO core of the process; it is never released.

    A core gives the thread that makes it a stack for signals, and frees that when it is destroyed, in whatever thread
    that happens. If it is another one (a pipeline is built in one thread and closed in another), the first is left with
    a stack that is gone, and the next Ctrl-C kills the process.
    """
    return ov.Core()


NOISE = (
    "Exception from",
    "Check '",
    "FrontEnd API",
    "Model wasn't fully",
    "Summary:",
    "To facilitate",
    "While validating",
)


class OpenVino:
    """The library, for `concurrency` images at once on the CPU.

    float32 is computed as float32 unless `bfloat16` is set (processors that have it would use it otherwise), and
    threads are not pinned to cores: two processes would be pinned to the same one.
    """

    name = "openvino"

    def __init__(self, *, concurrency: int, bfloat16: bool = False) -> None:
        self._concurrency = concurrency
        self._options: dict[str, Any] = {
            "NUM_STREAMS": concurrency,
            "INFERENCE_NUM_THREADS": concurrency,
            "ENABLE_CPU_PINNING": False,
            "INFERENCE_PRECISION_HINT": "bf16" if bfloat16 else "f32",
        }

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `Library.settings`."""
        return MappingProxyType({"version": ov.__version__, "device": "CPU", **self._options})

    def compile(self, content: bytes, *, label: str) -> ov.CompiledModel:
        """See `Library.compile`."""
        return self._compiled(content, self._options, label=label)

    def _compiled(self, content: bytes, options: Mapping[str, Any], *, label: str) -> ov.CompiledModel:
        try:
            return core().compile_model(core().read_model(content), "CPU", dict(options))
        except RuntimeError as error:
            raise ModelError(f"{label}: OpenVINO cannot use it: {_reason(error)}") from error

    def dump(self, compiled: ov.CompiledModel, content: bytes) -> bytes:
        """See `Library.dump`."""
        del content
        written = BytesIO()
        compiled.export_model(written)
        return written.getvalue()

    def load(self, dumped: bytes, *, label: str) -> ov.CompiledModel:
        """See `Library.load`."""
        try:
            return core().import_model(dumped, "CPU", self._options)
        except RuntimeError as error:
            raise ModelError(f"{label}: OpenVINO cannot load it: {_reason(error)}") from error

    def open(self, compiled: ov.CompiledModel, *, about: About) -> Engine:
        """See `Library.open`."""
        return OpenVinoEngine(compiled, about=about, concurrency=self._concurrency)

    def compute(self, model: onnx.ModelProto, feeds: Sequence[Mapping[str, Array]]) -> list[list[Array]]:
        """See `Library.compute`: in float32, whatever the engines compute in."""
        exact = {**self._options, "INFERENCE_PRECISION_HINT": "f32"}
        request = self._compiled(model.SerializeToString(), exact, label="model").create_infer_request()
        try:
            return [[np.array(value) for value in request.infer(dict(one)).values()] for one in feeds]
        except RuntimeError as error:
            raise ModelError(f"OpenVINO failed: {_reason(error)}") from error


_SPARE_SLOTS = 8
"""Requests beyond those under way, so that an image that comes again finds the one that it is bound to."""


class OpenVinoEngine:
    """A compiled OpenVINO model with a fixed set of requests.

    Inputs are read where they are; outputs of a fixed shape are written straight into arrays that nobody else holds.
    """

    name = "openvino"

    def __init__(self, compiled: ov.CompiledModel, *, about: About, concurrency: int) -> None:
        self._label = about.label
        self.report = about.report
        self.concurrency = concurrency
        self.inputs = self._specs(compiled.inputs, about.inputs)
        self.outputs = self._specs(compiled.outputs, about.outputs)
        self._compiled = compiled
        self._requests = Requests(self.inputs, concurrency=concurrency, label=about.label)
        self._free = [
            _Slot(compiled.create_infer_request(), self.outputs, label=about.label)
            for _ in range(self._requests.limit + _SPARE_SLOTS)
        ]

    def submit(self, inputs: Sequence[Array]) -> Pending:
        """See `Engine.submit`."""
        return self._requests.submit(inputs, start=self._start)

    def close(self) -> None:
        """See `Engine.close`."""
        if self._requests.close():
            self._free.clear()
            del self._compiled

    def _start(self, inputs: Arrays) -> Callable[[], Arrays]:
        slot = next((one for one in self._free if one.reads(inputs)), self._free[0])
        self._free.remove(slot)
        slot.start(inputs, free=self._free)
        return lambda: slot.finish(self._free)

    def _specs(self, ports: Sequence[ov.ConstOutput], names: Sequence[str]) -> tuple[TensorSpec, ...]:
        """The tensors by the names that the file gives them: OpenVINO knows some by several."""
        return tuple(self._spec(port, name) for port, name in zip(ports, names, strict=True))

    def _spec(self, port: ov.ConstOutput, name: str) -> TensorSpec:
        shape = tuple(None if size.is_dynamic else size.get_length() for size in port.get_partial_shape())
        kind = port.get_element_type()
        try:
            dtype = kind.to_dtype()
        except (KeyError, RuntimeError):
            dtype = kind.get_type_name()
        return TensorSpec(name=name, shape=shape, dtype=numpy_type(dtype, tensor=name, label=self._label))


class _Slot:
    """A request and the arrays that it reads and writes.

    Binding an array costs as much as starting, so they stay bound: images come back from the pool of the
    pre-processing, and an output that nobody refers to any more is written again.
    """

    __slots__ = ("_inputs", "_label", "_outputs", "_own_references", "_request", "_specs")

    def __init__(self, request: ov.InferRequest, outputs: tuple[TensorSpec, ...], *, label: str) -> None:
        self._request, self._specs, self._label = request, outputs, label
        self._inputs: tuple[Array, ...] = ()
        self._outputs: list[Array | None] = []
        self._own_references = 0

    def reads(self, inputs: tuple[Array, ...]) -> bool:
        """Whether the first input is bound."""
        return bool(self._inputs) and self._inputs[0] is inputs[0]

    def start(self, inputs: tuple[Array, ...], *, free: list[_Slot]) -> None:
        """Start the request; it is `free` again where that fails. Raises ModelError."""
        try:
            self._bind_inputs(inputs)
            self._bind_outputs()
            self._request.start_async()
        except RuntimeError as error:
            free.append(self)
            raise ModelError(f"{self._label}: OpenVINO cannot start: {_reason(error)}") from error

    def finish(self, free: list[_Slot]) -> tuple[Array, ...]:
        """Wait for the outputs; the slot is `free` then. Raises ModelError."""
        request = self._request
        try:
            request.wait()
            return tuple(
                request.get_output_tensor(index).data.copy() if array is None else array
                for index, array in enumerate(self._outputs)
            )
        except RuntimeError as error:
            raise ModelError(f"{self._label}: OpenVINO failed: {_reason(error)}") from error
        finally:
            free.append(self)

    def _bind_inputs(self, inputs: tuple[Array, ...]) -> None:
        bound, self._inputs = self._inputs, ()
        for index, array in enumerate(inputs):
            if not bound or bound[index] is not array:
                self._request.set_input_tensor(index, ov.Tensor(_writable_view(array), shared_memory=True))
        self._inputs = inputs

    def _bind_outputs(self) -> None:
        bound = self._outputs or [None] * len(self._specs)
        for index, spec in enumerate(self._specs):
            if bound[index] is None or getrefcount(bound[index]) > self._own_references:
                bound[index] = _empty(spec)
                if bound[index] is not None:
                    self._request.set_output_tensor(index, ov.Tensor(bound[index], shared_memory=True))
                    self._own_references = getrefcount(bound[index])
        self._outputs = bound


class _Memory:
    """Hands an array's memory on through NumPy's array interface."""

    def __init__(self, array: Array) -> None:
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}
        self._owner = array


def _writable_view(array: Array) -> Array:
    """The same memory, not marked read-only: OpenVINO takes no other, and only reads its inputs."""
    return array if array.flags.writeable else np.asarray(_Memory(array))


def _empty(spec: TensorSpec) -> Array | None:
    """An array for the output; None when its shape differs from call to call, or it holds nothing."""
    shape = [size for size in spec.shape if size]
    return np.empty(shape, spec.dtype) if len(shape) == len(spec.shape) else None


def _reason(error: RuntimeError) -> str:
    """OpenVINO's message without the lines that name its own source files."""
    lines = [line.strip().removeprefix("-- ") for line in str(error).splitlines()]
    return " ".join(line for line in lines if line and not line.startswith(NOISE)) or "no reason given"
