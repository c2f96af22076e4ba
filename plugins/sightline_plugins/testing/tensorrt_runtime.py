"""How the double of TensorRT loads plans, and what it says of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnxruntime as ort

from sightline_plugins.testing import tensorrt_names as names

if TYPE_CHECKING:
    from sightline_plugins.testing.tensorrt_context import Context
    from sightline_plugins.testing.tensorrt_double import TensorRtDouble

_SCRATCH_BYTES = 1024
Sizes = tuple[int, ...]


class Runtime:
    """Loads plans."""

    def __init__(self, double: TensorRtDouble) -> None:
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

    def __init__(self, double: TensorRtDouble) -> None:
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

    def __init__(self, double: TensorRtDouble) -> None:
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

    def __init__(self, double: TensorRtDouble, plan: names.Plan) -> None:
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
