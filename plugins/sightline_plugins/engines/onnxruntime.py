"""ONNX Runtime: sessions of one thread on the CPU, called by as many workers as images are computed at once.

On an NVIDIA GPU (`device: cuda:N`) its CUDA provider computes, behind the TensorRT provider where that library is
installed.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
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
_SIGNATURE = re.compile(r"^/\S+:\d+ .*?\) (?=[A-Z])")
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
        try:
            session = ort.InferenceSession(content, options, providers=self._providers)
        except FAILURES as error:
            raise ModelError(f"{label}: ONNX Runtime cannot use it: {reason_of(error)}") from error
        wanted = self._providers[0]
        first = wanted if isinstance(wanted, str) else wanted[0]
        if first not in session.get_providers():
            raise DeviceUnavailable(
                f"ONNX Runtime's {first} does not start on {self._device}: libraries are missing: {FOR_CUDA}"
            )
        return session


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
    options = {"device_id": int(number or 0)}
    installed = ON_TENSORRT in available and importlib.util.find_spec("tensorrt") is not None
    return [*([(ON_TENSORRT, options)] if installed else []), (ON_CUDA, options), ON_CPU]


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
    first = str(error).strip().splitlines()[0].split(" : ")[-1]
    return _SIGNATURE.sub("", first)
