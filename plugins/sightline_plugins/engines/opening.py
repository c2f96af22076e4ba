"""From an ONNX file to a running engine: read, checked, rewritten, compiled or taken from the cache."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from sightline.devices import Device
from sightline.errors import ConfigurationError, DeviceUnavailable, MissingExtra
from sightline_plugins.engines.address import Address, address_of
from sightline_plugins.engines.cache import Entry, ModelCache, models_folder
from sightline_plugins.engines.fixed_batch import one_by_one
from sightline_plugins.engines.libraries import About, Library
from sightline_plugins.engines.model_file import content_digest, read_model
from sightline_plugins.engines.protocol import Engine, EngineName
from sightline_plugins.engines.rewriting import prepare
from sightline_plugins.preprocess.cpu import ImageForm

Installed = Literal["openvino", "onnxruntime"]
PREFERENCE: tuple[Installed, ...] = ("openvino", "onnxruntime")


@dataclass(frozen=True, slots=True)
class _Ready:
    """A compiled model, what is to be known of it, and what it was compiled from; nothing when it came from the cache.

    `notes`: `rows`, how many images it takes a call, and what the report and later starts have to know.
    """

    compiled: Any
    notes: Mapping[str, Any]
    content: bytes = b""


def open_here(
    model: str | Path | bytes,
    *,
    engine: EngineName,
    device: str,
    image: ImageForm | None,
    concurrency: int | None,
    optimize: bool,
    warn: Callable[[str], None],
) -> Engine:
    """See `open_engine`."""
    cores = concurrency or available_cores()
    address = check_engine(engine, model)
    if address is not None:
        from sightline_plugins.engines.triton import open_served

        return open_served(address, image=image, concurrency=cores)
    library = _library(engine, device=device, concurrency=cores)
    try:
        return _open_file(
            model, library=library, image=image, optimize=optimize, warn=warn, may_differ=engine != "auto"
        )
    except _Differs as difference:
        warn(f"{difference}; it runs on ONNX Runtime instead")
    library = _library("onnxruntime", device=device, concurrency=cores)
    return _open_file(model, library=library, image=image, optimize=optimize, warn=warn, may_differ=True)


class _Differs(Exception):
    """A library computes a model in another way than ONNX Runtime."""


def _open_file(
    model: str | Path | bytes,
    *,
    library: Library[Any],
    image: ImageForm | None,
    optimize: bool,
    warn: Callable[[str], None],
    may_differ: bool,
) -> Engine:
    parsed, label = read_model(model)
    about = About.of(parsed, label=label)
    key = {
        "model": content_digest(parsed),
        "engine": library.name,
        "settings": dict(library.settings),
        "image": image,
        "optimize": optimize,
    }

    def make() -> _Ready:
        prepared = prepare(parsed, library=library, image=image, optimize=optimize, label=label)
        content = prepared.model.SerializeToString()
        notes = {"rows": prepared.rows, "batch": prepared.batch, "left_out": prepared.left_out}
        notes["differs"] = prepared.differs
        if prepared.left_out and prepared.differs is None:
            passes = " and ".join(prepared.left_out)
            warn(f"{label}: the rewriting {passes} would change its results, and is left out: please report the model")
        return _Ready(library.compile(content, label=label), notes, content)

    def load(entry: Entry) -> _Ready:
        return _Ready(library.load(entry.content, label=label), entry.notes)

    def dump(made: _Ready) -> Entry:
        return Entry(library.dump(made.compiled, made.content), made.notes)

    ready, cached = ModelCache(models_folder(), warn=warn).obtain(key, load=load, make=make, dump=dump)
    if ready.notes["differs"] is not None:
        text = f"{label}: OpenVINO computes it differently from ONNX Runtime: {ready.notes['differs']}"
        if not may_differ:
            raise _Differs(text)
        warn(f"{text}: use engine: onnxruntime")
    report = {"engine": library.name, "model": "cached" if cached else "compiled"}
    if ready.notes["batch"] is not None:
        report["batch"] = ready.notes["batch"]
    if ready.notes["left_out"]:
        report["without"] = ", ".join(ready.notes["left_out"])
    opened = library.open(ready.compiled, about=replace(about, report=MappingProxyType(report)))
    return one_by_one(opened, rows=ready.notes["rows"], label=label)


def check_engine(engine: EngineName, model: str | Path | bytes) -> Address | None:
    """The address of a served model, None for a file. Raises ConfigurationError where the engine suits not or lacks."""
    try:
        address = address_of(model)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    if address is None and engine == "tensorrt":
        from sightline_plugins.engines.tensorrt_library import is_installed

        if not is_installed():
            raise MissingExtra("tensorrt", extra="gpu", purpose="engine tensorrt")
    elif address is None:
        choose(engine)
    elif engine not in ("auto", "triton"):
        raise ConfigurationError(f"engine {engine} computes here, but the model is served: leave engine out")
    elif importlib.util.find_spec("tritonclient") is None:
        raise MissingExtra("tritonclient", extra="triton", purpose=f"the model {address}")
    return address


def choose(engine: EngineName) -> Installed:
    """The engine to use for a file; `ConfigurationError` names what to install or to write."""
    if engine == "triton":
        raise ConfigurationError("engine triton needs a served model: model: grpc://HOST:PORT/NAME")
    if engine not in get_args(EngineName):
        raise ConfigurationError(f"there is no engine {engine!r}; choose one of {', '.join(get_args(EngineName))}")
    if engine == "tensorrt":
        raise DeviceUnavailable("engine tensorrt computes on an NVIDIA GPU: use device: cuda, or engine: auto")
    wanted = PREFERENCE if engine == "auto" else (engine,)
    for name in wanted:
        if importlib.util.find_spec(name) is not None:
            return name
    needed = " or ".join(wanted)
    raise ConfigurationError(f"running a model needs {needed}, which is not installed: pip install {wanted[0]}")


def available_cores() -> int:
    """Cores that this process may use."""
    return Device().cores


def _library(engine: EngineName, *, device: str, concurrency: int) -> Library[Any]:
    """The library to compute with on a device. Raises ConfigurationError or DeviceUnavailable."""
    on_gpu = device.startswith("cuda")
    if not on_gpu and device not in ("cpu", "auto"):
        raise DeviceUnavailable(f"there is no device {device!r} for models: cpu, cuda:N")
    chosen = choose("onnxruntime" if on_gpu and engine == "auto" else engine)
    if chosen == "openvino":
        if on_gpu:
            raise DeviceUnavailable(f"engine openvino runs on the device 'cpu', not on {device!r}: use onnxruntime")
        from sightline_plugins.engines.openvino import OpenVino

        return OpenVino(concurrency=concurrency)
    from sightline_plugins.engines.onnxruntime import OnnxRuntime

    return OnnxRuntime(concurrency=concurrency, device=device if on_gpu else "cpu")
