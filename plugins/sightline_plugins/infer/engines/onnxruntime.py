"""ONNX Runtime on the CPU: sessions of one thread, called by as many workers as pictures are computed at once."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as native

from sightline.errors import ModelError
from sightline_plugins.infer.engines.protocol import Array, Pending, TensorSpec
from sightline_plugins.infer.engines.requests import QUEUED, Underway, Work, check_inputs, numpy_type

FATAL_ONLY = 4
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


class OnnxRuntimeEngine:
    """An ONNX Runtime session, called without the GIL by a pool of worker threads of its own.

    Each call computes in the thread that calls; nothing spins while there is no work.
    """

    name = "onnxruntime"

    def __init__(self, content: bytes, *, label: str, metadata: Mapping[str, str], concurrency: int) -> None:
        self._label = label
        self.metadata = metadata
        self.concurrency = concurrency
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = FATAL_ONLY
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except FAILURES as error:
            raise ModelError(f"{label}: ONNX Runtime can not use it: {_reason(error)}") from error
        self.inputs = tuple(self._spec(port) for port in self._session.get_inputs())
        self.outputs = tuple(self._spec(port) for port in self._session.get_outputs())
        self._names = [spec.name for spec in self.inputs]
        self._workers = ThreadPoolExecutor(concurrency, thread_name_prefix="onnxruntime")
        self._underway = Underway()
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, inputs: Sequence[Array]) -> Pending:
        """See `Engine.submit`."""
        check_inputs(inputs, self.inputs, label=self._label)
        with self._lock:
            if self._closed:
                raise ModelError(f"{self._label}: the engine is closed")
            while len(self._underway) >= self.concurrency + QUEUED:
                self._underway.finish_oldest()
            work = Work(self._workers.submit(self._run, tuple(inputs)).result)
            self._underway.add(work)
        return work

    def close(self) -> None:
        """See `Engine.close`."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._underway.finish_all()
            self._workers.shutdown(wait=True)
            del self._session

    def _run(self, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
        try:
            outputs = self._session.run(None, dict(zip(self._names, inputs, strict=True)))
        except FAILURES as error:
            raise ModelError(f"{self._label}: ONNX Runtime failed: {_reason(error)}") from error
        return tuple(outputs)

    def _spec(self, port: ort.NodeArg) -> TensorSpec:
        kind = port.type.removeprefix("tensor(").removesuffix(")")
        dtype = numpy_type(
            {"float": "float32", "double": "float64"}.get(kind, kind), tensor=port.name, label=self._label
        )
        shape = tuple(size if isinstance(size, int) else None for size in port.shape)
        return TensorSpec(name=port.name, shape=shape, dtype=dtype)


def _reason(error: Exception) -> str:
    """ONNX Runtime's message without its error code, source file and signature of the function that failed."""
    first = str(error).strip().splitlines()[0].split(" : ")[-1]
    return _SIGNATURE.sub("", first)
