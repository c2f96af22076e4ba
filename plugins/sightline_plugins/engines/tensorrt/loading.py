"""From a plan to an engine of the library's, with what is to be known of its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sightline.errors import ModelError
from sightline_plugins.engines.libraries import About
from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.engines.tensorrt.kernels import KeptKernels
from sightline_plugins.engines.tensorrt.library import INSTEAD, TensorRt

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
        """Let go of it; contexts must be gone before. May be called again."""
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
    Without a GPU it is always refused; no GPU has loaded one yet.
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
