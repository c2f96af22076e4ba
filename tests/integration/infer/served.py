"""Servers for models: the KServe protocol, version 2, over real sockets, computing with ONNX Runtime; and Triton.

Triton is used where it is found: `tritonserver` on the PATH, or the package `nvidia-pytriton`, which holds one.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

NAMES = {"tensor(float)": "FP32", "tensor(float16)": "FP16", "tensor(int64)": "INT64", "tensor(uint8)": "UINT8"}
TYPES = {"FP32": "float32", "FP16": "float16", "INT64": "int64", "UINT8": "uint8"}
LENGTH = "Inference-Header-Content-Length"
Arrays = dict[str, npt.NDArray[Any]]


class Served:
    """A model by its name. `answers` replaces computed results."""

    def __init__(self, path: Path, *, name: str = "tiny") -> None:
        self.name = name
        self.session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self.answers: Arrays = {}
        self.calls = 0

    def metadata(self) -> dict[str, Any]:
        def tensors(ports: Any) -> list[dict[str, Any]]:
            return [
                {
                    "name": port.name,
                    "datatype": NAMES[port.type],
                    "shape": [size if isinstance(size, int) else -1 for size in port.shape],
                }
                for port in ports
            ]

        ins, outs = tensors(self.session.get_inputs()), tensors(self.session.get_outputs())
        return {"name": self.name, "versions": ["1"], "platform": "onnx", "inputs": ins, "outputs": outs}

    def compute(self, given: Arrays) -> Arrays:
        self.calls += 1
        names = [port.name for port in self.session.get_outputs()]
        return dict(zip(names, self.session.run(None, given), strict=True)) | self.answers


@contextmanager
def over_http(served: Served) -> Iterator[str]:
    """Serves over HTTP with the binary extension; the address of the server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Says nothing."""

        def do_GET(self) -> None:
            if self.path.rstrip("/").endswith(f"/models/{served.name}"):
                self._answer(json.dumps(served.metadata()).encode())
            else:
                self._answer(json.dumps({"error": f"there is no model {self.path}"}).encode(), code=404)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            head = int(self.headers[LENGTH])
            found = served.compute(_unpacked(json.loads(body[:head])["inputs"], body[head:]))
            described = [_described(name, array) for name, array in found.items()]
            text = json.dumps({"model_name": served.name, "outputs": described}).encode()
            packed = b"".join(array.tobytes() for array in found.values())
            self._answer(text + packed, headers={LENGTH: str(len(text))})

        def _answer(self, content: bytes, *, code: int = 200, headers: Mapping[str, str] | None = None) -> None:
            self.send_response(code)
            for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _unpacked(tensors: list[dict[str, Any]], data: bytes) -> Arrays:
    found: Arrays = {}
    for tensor in tensors:
        size = tensor["parameters"]["binary_data_size"]
        found[tensor["name"]] = np.frombuffer(data[:size], TYPES[tensor["datatype"]]).reshape(tensor["shape"])
        data = data[size:]
    return found


def _described(name: str, array: npt.NDArray[Any]) -> dict[str, Any]:
    kind = next(kind for kind, dtype in TYPES.items() if array.dtype == dtype)
    size = {"binary_data_size": array.nbytes}
    return {"name": name, "datatype": kind, "shape": list(array.shape), "parameters": size}


@contextmanager
def over_grpc(served: Served) -> Iterator[str]:
    """Serves over gRPC; the address of the server."""
    import grpc  # type: ignore[import-untyped]
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    class Service(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
        def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
            if request.name != served.name:
                context.abort(grpc.StatusCode.NOT_FOUND, f"there is no model {request.name}")
            said = served.metadata()
            return service_pb2.ModelMetadataResponse(**said)

        def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
            contents = zip(request.inputs, request.raw_input_contents, strict=True)
            given = {
                tensor.name: np.frombuffer(raw, TYPES[tensor.datatype]).reshape(tensor.shape)
                for tensor, raw in contents
            }
            answer = service_pb2.ModelInferResponse(model_name=served.name)
            for name, array in served.compute(given).items():
                described = _described(name, array)
                answer.outputs.add(name=name, datatype=described["datatype"], shape=array.shape)
                answer.raw_output_contents.append(array.tobytes())
            return answer

    server = grpc.server(ThreadPoolExecutor(4))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def find_triton() -> tuple[list[str], Path] | None:
    """How Triton is called, and the stub of its Python backend; None where it is not installed."""
    own = shutil.which("tritonserver")
    if own is not None:
        return [own], Path(own).parent.parent / "backends"
    package = importlib.util.find_spec("pytriton")
    if package is None or package.origin is None:
        return None
    folder = Path(package.origin).parent / "tritonserver"
    return [str(folder / "bin" / "tritonserver")], folder


# Its own conversion expects NumPy 1; DLPack hands the same memory over to any.
MODEL = """
import sys
sys.path.insert(0, {packages!r})
import numpy
import onnxruntime
import triton_python_backend_utils as triton

class TritonPythonModel:
    def initialize(self, args):
        self.session = onnxruntime.InferenceSession({model!r}, providers=["CPUExecutionProvider"])

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        names = [port.name for port in self.session.get_inputs()]
        given = {{name: numpy.from_dlpack(triton.get_input_tensor_by_name(request, name)) for name in names}}
        outputs = zip([port.name for port in self.session.get_outputs()], self.session.run(None, given))
        return triton.InferenceResponse([triton.Tensor.from_dlpack(name, value) for name, value in outputs])
"""


@contextmanager
def by_triton(model: Path, folder: Path, *, ports: tuple[int, int]) -> Iterator[None]:
    """Triton itself, on ports for HTTP and gRPC, serving the model as `tiny` with its Python backend."""
    found = find_triton()
    assert found is not None
    command, home = found
    served = Served(model)
    place = folder / "repository" / served.name
    (place / "1").mkdir(parents=True)
    packages = str(Path(ort.__file__).parent.parent)
    (place / "1" / "model.py").write_text(MODEL.format(packages=packages, model=str(model)))
    said = served.metadata()
    parts = [f'name: "{served.name}"', 'backend: "python"', "max_batch_size: 0"]
    for key, tensors in (("input", said["inputs"]), ("output", said["outputs"])):
        parts += [
            f'{key} {{ name: "{one["name"]}" data_type: TYPE_{one["datatype"]} dims: {one["shape"]} }}'
            for one in tensors
        ]
    (place / "config.pbtxt").write_text("\n".join([*parts, "instance_group { kind: KIND_CPU }"]))
    backends = _with_stub(home, folder)
    options = ["--model-repository", str(folder / "repository"), "--backend-directory", str(backends)]
    options += ["--http-port", str(ports[0]), "--grpc-port", str(ports[1]), "--allow-metrics=false"]
    with (folder / "triton.log").open("wb") as log:
        libraries = {"LD_LIBRARY_PATH": str(home.resolve().parent.parent / "nvidia_pytriton.libs")}
        process = subprocess.Popen(
            [*command, *options], stdout=log, stderr=log, env={**os.environ, **libraries}, stdin=subprocess.DEVNULL
        )
    try:
        _wait(process, f"http://127.0.0.1:{ports[0]}/v2/health/ready", log=folder / "triton.log")
        yield
    finally:
        process.terminate()
        process.wait(300)


def _with_stub(home: Path, folder: Path) -> Path:
    """The folder of backends, with the stub of the Python backend for this Python, where the package keeps it apart."""
    stub = home / "python_backend_stubs" / f"{sys.version_info.major}.{sys.version_info.minor}"
    if not stub.is_dir():
        return home
    backends = folder / "backends"
    shutil.copytree(home / "backends", backends)
    shutil.copy(stub / "triton_python_backend_stub", backends / "python")
    return backends


def _wait(process: subprocess.Popen[bytes], url: str, *, log: Path) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise AssertionError(log.read_text()[-3000:])
