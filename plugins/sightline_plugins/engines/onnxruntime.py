"""ONNX Runtime: sessions of one thread on the CPU, called by as many workers as images are computed at once.

On an NVIDIA GPU (`device: cuda:N`) its CUDA provider computes, behind the TensorRT provider where that library is
installed. A session never moves to the CPU as a whole, and operators that the CPU computes are reported.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import onnx
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as native

from sightline.errors import DeviceUnavailable, ModelError
from sightline_plugins.engines.libraries import About
from sightline_plugins.engines.protocol import Array, Engine, TensorSpec
from sightline_plugins.engines.requests import PooledEngine, numpy_type

FATAL_ONLY = 4
ON_CPU = "CPUExecutionProvider"
ON_CUDA = "CUDAExecutionProvider"
ON_TENSORRT = "TensorrtExecutionProvider"
_PLACEMENT = "session.record_ep_graph_assignment_info"
_SIGNATURE = re.compile(r"^/\S+:\d+ .*?\) (?=[A-Z])")
_CUDA_FAILURE = re.compile(r"CUDA failure \d+: [^;]*?(?= ;|$)")
FAILURES = (
    native.EPFail,
    native.Fail,
    native.InvalidArgument,
    native.InvalidGraph,
    native.InvalidProtobuf,
    native.NotImplemented,
    native.RuntimeException,
)
FOR_CUDA = "pip install 'onnxruntime-gpu[cuda,cudnn]' instead of onnxruntime"
"""What to do where there is no CUDA provider, or one that lacks libraries."""
Provider: TypeAlias = str | tuple[str, dict[str, Any]]


class OnnxRuntime:
    """The library, for `concurrency` images at once on `device`: `cpu`, or `cuda:N` where the provider is there.

    Raises DeviceUnavailable where it is not. Nothing spins while there is no work.
    """

    name = "onnxruntime"

    def __init__(self, *, concurrency: int, device: str = "cpu") -> None:
        self._concurrency = concurrency
        self._device = device
        self._providers = providers_for(device)

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `Library.settings`."""
        return MappingProxyType({"version": ort.__version__, "device": self._device, "providers": self._providers})

    def compile(self, content: bytes, *, label: str) -> ort.InferenceSession:
        """See `Library.compile`."""
        return self._session(content, label=label, level=ort.GraphOptimizationLevel.ORT_ENABLE_ALL)

    def dump(self, compiled: ort.InferenceSession, content: bytes) -> bytes:
        """The optimised graph; for a GPU the graph as it is, because its provider takes parts of it for itself."""
        del compiled
        if self._device != "cpu":
            return content
        with tempfile.TemporaryDirectory(prefix="sightline-") as folder:
            path = Path(folder) / "optimised.onnx"
            self._session(content, label="model", level=ort.GraphOptimizationLevel.ORT_ENABLE_ALL, write_to=path)
            return path.read_bytes()

    def load(self, dumped: bytes, *, label: str) -> ort.InferenceSession:
        """See `Library.load`."""
        levels = ort.GraphOptimizationLevel
        level = levels.ORT_DISABLE_ALL if self._device == "cpu" else levels.ORT_ENABLE_ALL
        return self._session(dumped, label=label, level=level)

    def open(self, compiled: ort.InferenceSession, *, about: About) -> Engine:
        """See `Library.open`."""
        if self._device != "cpu":
            about = replace(about, report=MappingProxyType({**about.report, **placement_of(compiled).report()}))
        inputs = tuple(_spec(port, about.label) for port in compiled.get_inputs())
        outputs = tuple(_spec(port, about.label) for port in compiled.get_outputs())
        return PooledEngine(
            self.name,
            run=partial(_run, compiled, about.inputs, about.label),
            release=_nothing,
            inputs=inputs,
            outputs=outputs,
            about=about,
            concurrency=self._concurrency,
        )

    def compute(self, model: onnx.ModelProto, feeds: Sequence[Mapping[str, Array]]) -> list[list[Array]]:
        """See `Library.compute`."""
        session = self.compile(model.SerializeToString(), label="model")
        try:
            return [session.run(None, dict(one)) for one in feeds]
        except FAILURES as error:
            raise ModelError(f"ONNX Runtime failed: {reason_of(error)}") from error

    def _session(
        self, content: bytes, *, label: str, level: ort.GraphOptimizationLevel, write_to: Path | None = None
    ) -> ort.InferenceSession:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = FATAL_ONLY
        options.graph_optimization_level = level
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if write_to is not None:
            options.optimized_model_filepath = str(write_to)
        return new_session(content, options, self._providers, label=label, device=self._device)


def providers_for(device: str) -> list[Provider]:
    """ONNX Runtime's providers for a device, the preferred one first. Raises DeviceUnavailable."""
    kind, _, number = device.partition(":")
    if kind in ("cpu", "auto"):
        return [ON_CPU]
    available = ort.get_available_providers()
    if kind != "cuda" or ON_CUDA not in available:
        raise DeviceUnavailable(
            f"ONNX Runtime has no provider for {device!r} here, only {', '.join(available)}: "
            f"{FOR_CUDA}, or use device: cpu"
        )
    load_cuda_libraries()
    index = int(number or 0)
    installed = ON_TENSORRT in available and importlib.util.find_spec("tensorrt") is not None
    preferred: list[Provider] = [(ON_TENSORRT, {"device_id": str(index)})] if installed else []
    return [*preferred, cuda_provider(index), ON_CPU]


def cuda_provider(index: int, *, stream: int | None = None, memory_limit_bytes: int | None = None) -> Provider:
    """ONNX Runtime's CUDA provider on a GPU, on a stream by its handle (None: one of its own).

    cuDNN chooses algorithms by its heuristic: the exhaustive search that is the default times all of them for every
    convolution at each new batch size. TF32 is off, because FP32 is promised. The arena grows by what is asked for, not
    to the next power of two; `memory_limit_bytes` bounds it (None: the GPU's memory).
    """
    options = {
        "device_id": str(index),
        "cudnn_conv_algo_search": "HEURISTIC",
        "use_tf32": "0",
        "arena_extend_strategy": "kSameAsRequested",
    }
    if stream is not None:
        options["user_compute_stream"] = str(stream)
    if memory_limit_bytes is not None:
        options["gpu_mem_limit"] = str(memory_limit_bytes)
    return ON_CUDA, options


def new_session(
    content: bytes, options: ort.SessionOptions, providers: Sequence[Provider], *, label: str, device: str
) -> ort.InferenceSession:
    """A session on the first of these providers, which records who computes which operator.

    Raises ModelError for a model that is refused, DeviceUnavailable where the provider does not start.
    """
    first = providers[0] if isinstance(providers[0], str) else providers[0][0]
    if first != ON_CPU:
        options.add_session_config_entry(_PLACEMENT, "1")
    try:  # with its fallback, it would print the error and move the whole model to the CPU
        session = ort.InferenceSession(content, options, providers=providers, enable_fallback=0)
    except FAILURES as error:
        raise ModelError(f"{label}: ONNX Runtime cannot use it: {reason_of(error)}") from error
    except (RuntimeError, ValueError) as error:
        raise DeviceUnavailable(f"ONNX Runtime's {first} does not start on {device}: {reason_of(error)}") from error
    if first not in session.get_providers():
        raise DeviceUnavailable(
            f"ONNX Runtime's {first} does not start on {device}: libraries of CUDA or cuDNN are missing: {FOR_CUDA}"
        )
    return session


@dataclass(frozen=True, slots=True)
class Placement:
    """Which operators of a session on a GPU the CPU computes: the number of each type, of `total` operators.

    `total` is 0 where ONNX Runtime does not tell: its versions before 1.24.
    """

    on_cpu: Mapping[str, int]
    total: int

    def __str__(self) -> str:
        if not self.total:
            return f"not known: ONNX Runtime {ort.__version__} does not report it, 1.24 and newer do"
        names = ", ".join(f"{count} {name}" for name, count in sorted(self.on_cpu.items()))
        return f"{names} (of {self.total})"

    def report(self) -> Mapping[str, str]:
        """Its part of an engine's report: nothing where the GPU computes all of them."""
        return {"operators_on_cpu": str(self)} if self.on_cpu or not self.total else {}


def placement_of(session: ort.InferenceSession) -> Placement:
    """Return who computes what in a session of `new_session`.

    ONNX Runtime leaves to the CPU what its CUDA provider lacks, and the arithmetic of shapes.
    """
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return Placement({}, 0)
    parts = session.get_provider_graph_assignment_info()
    on_cpu = Counter(node.op_type for part in parts if part.ep_name == ON_CPU for node in part.get_nodes())
    return Placement(on_cpu, sum(len(part.get_nodes()) for part in parts))


@lru_cache(maxsize=1)
def load_cuda_libraries() -> None:
    """Load those of CUDA and cuDNN that pip installed: the CUDA provider finds them in no other way."""
    with redirect_stdout(sys.stderr):  # it prints what it does not find
        ort.preload_dlls()


def _nothing() -> None:
    """The session goes with the engine."""


def _run(
    session: ort.InferenceSession, names: Sequence[str], label: str, inputs: tuple[Array, ...]
) -> tuple[Array, ...]:
    try:
        return tuple(session.run(None, dict(zip(names, inputs, strict=True))))
    except FAILURES as error:
        raise ModelError(f"{label}: ONNX Runtime failed: {reason_of(error)}") from error


def _spec(port: ort.NodeArg, label: str) -> TensorSpec:
    kind = port.type.removeprefix("tensor(").removesuffix(")")
    dtype = numpy_type({"float": "float32", "double": "float64"}.get(kind, kind), tensor=port.name, label=label)
    shape = tuple(size if isinstance(size, int) else None for size in port.shape)
    return TensorSpec(name=port.name, shape=shape, dtype=dtype)


def reason_of(error: Exception) -> str:
    """ONNX Runtime's message without its error code, source file and signature of the function that failed."""
    failed = _CUDA_FAILURE.search(str(error))
    if failed is not None:
        return failed[0]
    first = str(error).strip().splitlines()[0].split(" : ")[-1]
    return _SIGNATURE.sub("", first)
