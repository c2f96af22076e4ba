"""Models served by Triton, over gRPC or HTTP (the KServe protocol, version 2), behind the contract of engines.

The server computes; pre-processing, layout and normalisation are done here, because its graph is out of reach. Calls
that take longer than `ANSWER_SECONDS` fail, and so does the pipeline, with the address in the message.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from tritonclient.utils import InferenceServerException, np_to_triton_dtype, triton_to_np_dtype

from sightline.errors import ModelError
from sightline_plugins.engines.address import Address
from sightline_plugins.engines.fixed_batch import HostForm, host_form, one_by_one
from sightline_plugins.engines.libraries import About
from sightline_plugins.engines.protocol import Array, Engine, TensorSpec
from sightline_plugins.engines.requests import PooledEngine
from sightline_plugins.preprocess.definition import ImageForm

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
_GONE = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "failed to connect", "timed out", "Deadline Exceeded")


class Client(Protocol):
    """What both clients can do."""

    def describe(self) -> Mapping[str, Any]:
        """The model's metadata as the protocol has it."""
        ...

    def infer(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> tuple[Array, ...]:
        """The outputs asked for."""
        ...

    def close(self) -> None:
        """Ends the connection."""
        ...


def describe(address: Address) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Inputs and outputs of a served model; open sizes are None. Raises ModelError."""
    client = _guarded(address, partial(_connect, address))
    try:
        said = _guarded(address, client.describe)
    finally:
        client.close()
    return tuple(_specs(address, said["inputs"])), tuple(_specs(address, said["outputs"]))


def open_served(address: Address, *, image: ImageForm | None, concurrency: int) -> Engine:
    """An engine that has the server compute, `concurrency` images at once. Raises ModelError."""
    label = f"model {str(address)!r}"
    served_inputs, outputs = describe(address)
    inputs = tuple(_at_one(spec) for spec in served_inputs)
    form = _form(image, inputs, label=label)
    if form is not None:
        inputs = tuple(form.taken if place == form.image else spec for place, spec in enumerate(inputs))
    rows = served_inputs[form.image if form is not None else 0].shape[0] or 1
    clients = _Clients(address)
    report = MappingProxyType({"engine": "triton", "server": address.server})
    about = About(label, tuple(s.name for s in inputs), tuple(s.name for s in outputs), report)

    def run(given: tuple[Array, ...]) -> tuple[Array, ...]:
        sent = given if form is None else form.apply(given)
        found = clients.infer(dict(zip(about.inputs, sent, strict=True)), about.outputs)
        _check(found, outputs, label=label)
        return found

    if rows > 1:
        inputs = tuple(replace(spec, shape=(rows, *spec.shape[1:])) for spec in inputs)
    else:
        outputs = tuple(_at_one(spec) for spec in outputs)
    opened = PooledEngine(
        "triton",
        run=run,
        release=clients.close,
        inputs=inputs,
        outputs=outputs,
        about=about,
        concurrency=concurrency,
    )
    return one_by_one(opened, rows=rows, label=label)


def _form(image: ImageForm | None, inputs: Sequence[TensorSpec], *, label: str) -> HostForm | None:
    """What is done to images before they are sent; None where they are handed over as the model takes them."""
    try:
        return None if image is None else host_form(image, inputs)
    except ModelError as error:
        raise ModelError(f"{label}: {error}") from error


class _Clients:
    """A connection for each thread that calls: those of HTTP belong to one."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._own = threading.local()
        self._all: list[Client] = []

    def infer(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> tuple[Array, ...]:
        client = getattr(self._own, "client", None)
        if client is None:
            client = self._own.client = _guarded(self._address, partial(_connect, self._address))
            self._all.append(client)
        answer: tuple[Array, ...] = _guarded(self._address, partial(client.infer, inputs, outputs))
        return answer

    def close(self) -> None:
        for client in self._all:
            client.close()


def _connect(address: Address) -> Client:
    return _Grpc(address) if address.protocol == "grpc" else _Http(address)


class _Grpc:
    def __init__(self, address: Address) -> None:
        from tritonclient import grpc

        self._address, self._library = address, grpc
        self._client = grpc.InferenceServerClient(address.server)

    def describe(self) -> Mapping[str, Any]:
        named = (self._address.name, self._address.version)
        said: Mapping[str, Any] = self._client.get_model_metadata(*named, as_json=True, client_timeout=CONNECT_SECONDS)
        return said

    def infer(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> tuple[Array, ...]:
        given = [_filled(self._library.InferInput, name, array) for name, array in inputs.items()]
        wanted = [self._library.InferRequestedOutput(name) for name in outputs]
        answer = self._client.infer(
            self._address.name, given, self._address.version, wanted, client_timeout=ANSWER_SECONDS
        )
        return tuple(answer.as_numpy(name) for name in outputs)

    def close(self) -> None:
        self._client.close()


class _Http:
    def __init__(self, address: Address) -> None:
        from tritonclient import http

        self._address, self._library = address, http
        self._client = http.InferenceServerClient(
            address.server, connection_timeout=CONNECT_SECONDS, network_timeout=ANSWER_SECONDS
        )

    def describe(self) -> Mapping[str, Any]:
        said: Mapping[str, Any] = self._client.get_model_metadata(self._address.name, self._address.version)
        return said

    def infer(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> tuple[Array, ...]:
        given = [_filled(self._library.InferInput, name, array) for name, array in inputs.items()]
        wanted = [self._library.InferRequestedOutput(name, binary_data=True) for name in outputs]
        answer = self._client.infer(self._address.name, given, self._address.version, wanted)
        return tuple(answer.as_numpy(name) for name in outputs)

    def close(self) -> None:
        self._client.close()


def _filled(kind: Any, name: str, array: Array) -> Any:
    made = kind(name, list(array.shape), np_to_triton_dtype(array.dtype))
    made.set_data_from_numpy(array)
    return made


def _guarded(address: Address, call: Callable[[], Any]) -> Any:
    """The call's answer; what can go wrong with a server, said once."""
    try:
        return call()
    except ImportError as error:
        raise ModelError(f"model {str(address)!r}: {error}: pip install 'sightline[triton]'") from error
    except InferenceServerException as error:
        said = f"{error.status() or ''} {error.message() or ''}".strip()
        if any(word in said for word in _GONE):
            raise ModelError(f"model {str(address)!r}: the server does not answer at {address.server}") from error
        raise ModelError(f"model {str(address)!r}: the server says: {error.message()}") from error
    except ValueError as error:
        raise ModelError(f"model {str(address)!r}: the server's answer cannot be read: {error}") from error
    except (OSError, EOFError) as error:
        raise ModelError(f"model {str(address)!r}: the server does not answer at {address.server}: {error}") from error


def _specs(address: Address, tensors: Sequence[Mapping[str, Any]]) -> list[TensorSpec]:
    specs = []
    for tensor in tensors:
        dtype = triton_to_np_dtype(tensor["datatype"])
        if dtype is None or np.dtype(dtype).kind == "O":
            raise ModelError(
                f"model {str(address)!r}: tensor {tensor['name']!r} holds no numbers: {tensor['datatype']}"
            )
        sizes = (int(size) for size in tensor.get("shape", ()))
        specs.append(TensorSpec(tensor["name"], tuple(n if n >= 0 else None for n in sizes), np.dtype(dtype)))
    return specs


def _at_one(spec: TensorSpec) -> TensorSpec:
    return replace(spec, shape=(1, *spec.shape[1:])) if spec.shape[:1] == (None,) else spec


def _check(found: Sequence[Array | None], specs: Sequence[TensorSpec], *, label: str) -> None:
    """Raises ModelError unless the server gave what it had said it would."""
    for array, spec in zip(found, specs, strict=True):
        if array is None:
            raise ModelError(f"{label}: the server gave no output {spec.name!r}")
        fits = len(array.shape) == len(spec.shape) and all(
            wanted in (None, size) for wanted, size in zip(spec.shape, array.shape, strict=True)
        )
        if not fits or array.dtype != spec.dtype:
            shape = ", ".join(map(str, array.shape))
            raise ModelError(f"{label}: output {spec} expected, the server gave {array.dtype.name} ({shape})")
