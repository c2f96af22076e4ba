"""A fake TensorRT runtime: engines, execution contexts, caches."""

from __future__ import annotations

import ctypes
import json
import weakref
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort

from tests.fakes import CudaMisuse
from tests.fakes import tensorrt_names as names

if TYPE_CHECKING:
    from tests.fakes.tensorrt import FakeTensorRt

_SCRATCH_BYTES = 1024
Sizes = tuple[int, ...]


class Runtime:
    """Loads plans."""

    def __init__(self, double: FakeTensorRt) -> None:
        self._double = double

    def deserialize_cuda_engine(self, packed: bytes) -> Engine | None:
        """The plan in the GPU's memory; None when the logger was told why not."""
        self._double.check_context("deserialize")
        plan = names.read_plan(packed)
        reason = self._reason(plan)
        if plan is None or reason:
            self._double.complain(names.complaint(reason, kind="Serialization"))
            return None
        return Engine(self._double, plan)

    def _reason(self, plan: names.Plan | None) -> str:
        double = self._double
        if plan is None:
            return "Serialization assertion header.magicTag == kEXPECTED_MAGIC_TAG failed."
        if (plan.library, plan.version) != (double.title, double.__version__):
            made = f"expecting library version {double.__version__} got {plan.version}"
            return f"The engine plan file is not compatible with this version of TensorRT, {made}, please rebuild."
        if plan.target != double.here:
            return f"The engine is for {plan.target}, and this GPU is {double.here}."
        return ""


class RtxRuntime(Runtime):
    """Loads plans, and says what is wrong with them."""

    def get_engine_validity(self, packed: bytes) -> tuple[str, int]:
        """Whether it can be loaded, and the reasons in bits."""
        plan = names.read_plan(packed)
        bits = names.EngineInvalidityDiagnostics
        if plan is None:
            return "INVALID", bits.MALFORMED_ENGINE
        if plan.version != self._double.__version__:
            return "INVALID", bits.VERSION_MISMATCH
        return ("VALID", 0) if plan.target == self._double.here else ("INVALID", bits.UNSUPPORTED_CC)


class RuntimeCache:
    """Kernels that were compiled for a GPU, by what they compute."""

    def __init__(self, double: FakeTensorRt) -> None:
        self._double = double
        self._kernels = set[str]()

    def compile(self, what: str) -> None:
        """Compile kernels that are not there."""
        if what not in self._kernels:
            self._kernels.add(what)
            self._double.note(f"compile {what}")

    def serialize(self) -> bytes:
        """All of them, for this GPU."""
        return json.dumps([self._double.here, sorted(self._kernels)]).encode()

    def deserialize(self, content: bytes) -> bool:
        """Take what was compiled before; False where that was for another GPU."""
        self._double.check_context("deserialize kernels")
        try:
            here, kernels = json.loads(content)
        except ValueError:
            return False
        if here == self._double.here:
            self._kernels.update(kernels)
        return bool(here == self._double.here)


class RuntimeConfig:
    """How contexts are made."""

    def __init__(self, double: FakeTensorRt) -> None:
        self._double = double
        self.kernels = RuntimeCache(double)
        self.strategy = names.ExecutionContextAllocationStrategy.STATIC
        self.dynamic_shapes_kernel_specialization_strategy = names.DynamicShapesKernelSpecializationStrategy.LAZY

    def set_execution_context_allocation_strategy(self, strategy: names.ExecutionContextAllocationStrategy) -> None:
        """Whose the scratch memory is."""
        self.strategy = strategy

    def create_runtime_cache(self) -> RuntimeCache:
        """Kernels, none yet."""
        return RuntimeCache(self._double)

    def set_runtime_cache(self, kernels: RuntimeCache) -> bool:
        """Let contexts share kernels."""
        self.kernels = kernels
        return True


class Engine:
    """A loaded plan."""

    def __init__(self, double: FakeTensorRt, plan: names.Plan) -> None:
        self.double = double
        self.profile = plan.profile
        self.model = onnx.load_from_string(plan.content)
        options = _quiet()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = ort.InferenceSession(plan.content, options, providers=["CPUExecutionProvider"])
        self._content = plan.content
        self.inputs = {port.name: port for port in self.session.get_inputs()}
        self.outputs = {port.name: port for port in self.session.get_outputs()}
        self.scratch_used_on: dict[int, int] = {}

    @property
    def device_memory_size_v2(self) -> int:
        """How much scratch memory a context needs."""
        rows = max((most[0] for _, _, most in self.profile.values()), default=1)
        return _SCRATCH_BYTES * rows

    def create_runtime_config(self) -> RuntimeConfig:
        """How contexts are made, for TensorRT-RTX."""
        return RuntimeConfig(self.double)

    def create_execution_context(self, how: names.ExecutionContextAllocationStrategy | RuntimeConfig) -> Context:
        """A context."""
        self.double.check_context("create context")
        strategy = how.strategy if isinstance(how, RuntimeConfig) else how
        assert strategy is names.ExecutionContextAllocationStrategy.USER_MANAGED, "scratch memory is ours"
        kernels = how.kernels if isinstance(how, RuntimeConfig) else None
        if kernels is not None:
            kernels.compile("context")
        return self.double.context_class(self, kernels)

    def get_tensor_mode(self, name: str) -> names.TensorIOMode:
        """What a tensor is."""
        mode = names.TensorIOMode
        return mode.INPUT if name in self.inputs else mode.OUTPUT if name in self.outputs else mode.NONE

    def get_tensor_location(self, name: str) -> names.TensorLocation:
        """Where a tensor must lie."""
        return names.TensorLocation["HOST" if name in self.double.faults.on_host else "DEVICE"]

    def get_tensor_shape(self, name: str) -> Sizes:
        """Its sizes, -1 where they are open."""
        port = self.inputs.get(name) or self.outputs[name]
        return tuple(size if isinstance(size, int) else -1 for size in port.shape)

    def get_tensor_dtype(self, name: str) -> names.DataType:
        """Its element type."""
        port = self.inputs.get(name) or self.outputs[name]
        return names.DataType(_element_type(port))

    def shapes_for(self, inputs: Mapping[str, Sizes]) -> dict[str, Sizes]:
        """The sizes of the outputs for inputs of these sizes."""
        found = self._inferred(inputs)
        if all(-1 not in sizes for sizes in found.values()):
            return found
        return dict(_computed(self._content, tuple(inputs.items())))

    def _inferred(self, inputs: Mapping[str, Sizes]) -> dict[str, Sizes]:
        """What can be told without computing, -1 for the rest."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        del model.graph.value_info[:]
        for entry in model.graph.input:
            for size, wanted in zip(entry.type.tensor_type.shape.dim, inputs[entry.name], strict=True):
                size.dim_value = wanted
        for entry in model.graph.output:
            entry.type.tensor_type.ClearField("shape")
        outputs = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output
        return {
            entry.name: tuple(size.dim_value or -1 for size in entry.type.tensor_type.shape.dim) or (-1,)
            for entry in outputs
        }


def _quiet() -> ort.SessionOptions:
    """One thread, and no word."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return options


def _element_type(port: ort.NodeArg) -> str:
    kind = str(port.type).removeprefix("tensor(").removesuffix(")")
    return {"float": "float32"}.get(kind, kind)


@lru_cache(maxsize=64)
def _computed(content: bytes, inputs: tuple[tuple[str, Sizes], ...]) -> Mapping[str, Sizes]:
    """The sizes of the outputs for inputs of these sizes, -1 where they depend on what is in them."""
    session = ort.InferenceSession(content, _quiet(), providers=["CPUExecutionProvider"])
    types = {port.name: _element_type(port) for port in session.get_inputs()}
    found: list[dict[str, Sizes]] = []
    for level in (0, 1):
        feeds = {name: np.full(shape, level, types[name]) for name, shape in inputs}
        arrays = session.run(None, feeds)
        found.append({port.name: array.shape for port, array in zip(session.get_outputs(), arrays, strict=True)})
    dark, bright = found
    return {name: _same(sizes, bright[name]) for name, sizes in dark.items()}


def _same(one: Sizes, other: Sizes) -> Sizes:
    """The sizes that are the same in both, -1 for the rest."""
    return tuple(size if size == same else -1 for size, same in zip(one, other, strict=True))


_ALIGNMENT_BYTES = 256


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
                raise CudaMisuse(f"{port.name} came out as {result.shape}, {shapes[port.name]} was promised")
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

    def _misuse(self, text: str) -> CudaMisuse:
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
            raise CudaMisuse("a context was let go of before it had computed")
        context.compute(*self._bound)


def _view(address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    held = memoryview((ctypes.c_uint8 * (prod(shape) * dtype.itemsize)).from_address(address))
    return np.ndarray(tuple(shape), dtype, held)
