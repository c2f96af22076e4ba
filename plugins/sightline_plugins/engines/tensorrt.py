"""TensorRT as an engine: load a plan, bind it to CUDA memory, run it.

Every number of images that is bound has an execution context of its own, with shapes and addresses set once. They
share one stretch of scratch memory, because all of them run on one stream, one after another. The calls follow
the documentation of TensorRT 10 and 11 and of TensorRT-RTX 1.7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import Driver
from sightline.errors import CudaError, ModelError
from sightline.media.device_array import DeviceArray, DeviceStream
from sightline_plugins.engines.cuda_model import ALIGNMENT_BYTES, check_bound
from sightline_plugins.engines.libraries import About
from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.engines.tensorrt_library import INSTEAD, KeptKernels, TensorRt

_TYPES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
}
Sizes = tuple[int, ...]


class Loaded:
    """A plan in a GPU's memory. Its GPU's context must be current for every call, `close` too."""

    def __init__(self, library: TensorRt, engine: Any, *, runtime: Any, kernels: KeptKernels | None) -> None:
        self.library = library
        self._engine = engine
        self._runtime = runtime
        self._kernels = kernels
        self._idle: list[Any] = []
        self._config: Any = None
        self._compiled: Any = None

    @property
    def scratch_bytes(self) -> int:
        """How much scratch memory a context needs, for any number of images."""
        return int(self._engine.device_memory_size_v2)

    def new_context(self) -> Any:
        """An execution context without scratch memory of its own; None when the library refuses.

        TensorRT-RTX compiles kernels for new sizes at once, and not while an older one computes: so the second run of
        a context is like all that follow, and can be captured.
        """
        if self._idle:
            return self._idle.pop()
        module = self.library.module
        managed = module.ExecutionContextAllocationStrategy.USER_MANAGED
        if not hasattr(module, "DynamicShapesKernelSpecializationStrategy"):
            return self._engine.create_execution_context(managed)
        if self._config is None:
            self._configure(managed, eager=module.DynamicShapesKernelSpecializationStrategy.EAGER)
        return self._engine.create_execution_context(self._config)

    def keep_kernels(self) -> None:
        """Keep what was compiled for this GPU for the next run; nothing where the library compiles nothing here."""
        if self._compiled is not None and self._kernels is not None:
            memory = self._compiled.serialize()
            if memory is not None:
                self._kernels.keep(bytes(memory))

    def tensors(self, about: About, *, most_rows: int) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
        """Inputs and outputs, in the order of the ONNX file; the first size is None where any number is taken.

        Raises ModelError for outputs that are not one row of a known size for each image.
        """
        shapes = {name: self._declared(name, about.label) for name in (*about.inputs, *about.outputs)}
        shapes |= self._rows(about, {name: shapes[name] for name in about.inputs}, most_rows=most_rows)
        specs = [
            TensorSpec(name, tuple(None if size < 0 else size for size in shape), self._type(name, about.label))
            for name, shape in shapes.items()
        ]
        return tuple(specs[: len(about.inputs)]), tuple(specs[len(about.inputs) :])

    def close(self) -> None:
        """Release it; its contexts must be gone before. A second call is harmless."""
        self._idle.clear()
        self._config = self._compiled = self._engine = self._runtime = None

    def _configure(self, managed: Any, *, eager: Any) -> None:
        """How contexts are made by TensorRT-RTX: with the kernels of all that were made before."""
        config = self._engine.create_runtime_config()
        config.set_execution_context_allocation_strategy(managed)
        config.dynamic_shapes_kernel_specialization_strategy = eager
        compiled = config.create_runtime_cache()
        known = None if self._kernels is None else self._kernels.read()
        if known is not None:
            compiled.deserialize(known)
        config.set_runtime_cache(compiled)
        self._config, self._compiled = config, compiled

    def _declared(self, name: str, label: str) -> Sizes:
        module, engine = self.library.module, self._engine
        if engine.get_tensor_mode(name) == module.TensorIOMode.NONE:
            raise ModelError(f"{label}: {self.library} left its tensor {name!r} out; {INSTEAD}")
        if engine.get_tensor_location(name).name != "DEVICE":
            raise ModelError(f"{label}: {self.library} wants its tensor {name!r} in host memory; {INSTEAD}")
        return tuple(engine.get_tensor_shape(name))

    def _rows(self, about: About, inputs: Mapping[str, Sizes], *, most_rows: int) -> dict[str, Sizes]:
        """The sizes of the outputs, by asking for one image and for the most; -1 for the number of images."""
        is_open = any(-1 in sizes for sizes in inputs.values())
        context = self._context_to_ask(about.label)
        least = self._sizes_for(context, inputs, about, rows=1 if is_open else most_rows)
        most = self._sizes_for(context, inputs, about, rows=most_rows)
        self._idle.append(context)
        for name in about.outputs:
            one, all_ = least[name], most[name]
            if (
                -1 in one
                or one[1:] != all_[1:]
                or (one[:1], all_[:1]) != ((1 if is_open else most_rows,), (most_rows,))
            ):
                raise ModelError(
                    f"{about.label}: its output {name!r} is not one row of a known size for each image, as is needed "
                    f"on a GPU; {INSTEAD}"
                )
        return {name: ((-1, *sizes[1:]) if is_open else sizes) for name, sizes in most.items()}

    def _context_to_ask(self, label: str) -> Any:
        with self.library.listening() as heard:
            context = self.new_context()
        if context is None:
            raise ModelError(f"{label}: {self.library} cannot make it ready: {heard.reason}; {INSTEAD}")
        return context

    def _sizes_for(self, context: Any, inputs: Mapping[str, Sizes], about: About, *, rows: int) -> dict[str, Sizes]:
        with self.library.listening() as heard:
            taken = all(
                context.set_input_shape(name, tuple(rows if size < 0 else size for size in sizes))
                for name, sizes in inputs.items()
            )
        if not taken:
            raise ModelError(f"{about.label}: {self.library} does not take {rows} images: {heard.reason}; {INSTEAD}")
        return {name: tuple(context.get_tensor_shape(name)) for name in about.outputs}

    def _type(self, name: str, label: str) -> np.dtype[Any]:
        kind = self._engine.get_tensor_dtype(name).name
        if kind not in _TYPES:
            raise ModelError(f"{label}: tensor {name!r} has element type {kind}, which is not supported; {INSTEAD}")
        return np.dtype(_TYPES[kind])


def load_plan(library: TensorRt, plan: bytes, *, label: str, kernels: KeptKernels | None = None) -> Loaded:
    """The plan in the memory of the GPU whose context is current. Raises ModelError when it is refused.

    `kernels` is where what the library compiles for it here is kept.
    Without a GPU it is always refused.
    """
    with library.listening() as heard:
        runtime = library.module.Runtime(library.messages.logger)
        engine = runtime.deserialize_cuda_engine(plan)
    if engine is None:
        diagnosis = _diagnosis(library, runtime, plan)
        raise ModelError(f"{label}: {library} cannot load its plan{diagnosis}: {heard.reason}; {INSTEAD}")
    return Loaded(library, engine, runtime=runtime, kernels=kernels)


def _diagnosis(library: TensorRt, runtime: Any, plan: bytes) -> str:
    """What TensorRT-RTX knows of a plan that it refuses, such as ` (UNSUPPORTED_CC)`."""
    if not hasattr(runtime, "get_engine_validity"):
        return ""
    with library.listening():
        _, bits = runtime.get_engine_validity(plan)
    known = library.module.EngineInvalidityDiagnostics.__members__
    names: Sequence[str] = [name for name, bit in known.items() if int(bits) & int(bit)]
    return f" ({', '.join(names)})" if names else ""


class TensorRtEngine:
    """A `CudaEngine` by TensorRT, or by TensorRT-RTX. One thread uses it, on one stream."""

    name = "tensorrt"

    def __init__(self, loaded: Loaded, *, gpu: CudaDevice, stream: DeviceStream, about: About, most_rows: int) -> None:
        """Raises ModelError for a model whose outputs differ in size from image to image, CudaError."""
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
        or when the library refuses; CudaError.
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
        """Wait for queued work and release the model. Its bindings may not be queued any more.

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
        except CudaError:
            self._contexts.clear()
            loaded.close()

    def enqueue(self, context: Any, *, rows: int) -> None:
        """Queue one bound context; see `Execution.enqueue`."""
        loaded = self._open()
        with self._gpu.guard(f"computing {self._label}") as driver, loaded.library.listening() as heard:
            if not context.execute_async_v3(self._stream.handle):
                _check_gpu(driver)
                raise CudaError(f"{self._label}: {loaded.library} did not compute {rows} images: {heard.reason}")

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
        """Queue it on the engine's stream, behind what makes its inputs. Raises CudaError, ModelError after `close`."""
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
