"""From an ONNX file to a running engine: read, checked, rewritten, compiled or taken from the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import onnx

from sightline.devices import Device
from sightline_plugins.engines.cache import Entry, ModelCache, models_folder
from sightline_plugins.engines.fixed_batch import one_by_one
from sightline_plugins.engines.kinds import ONNXRUNTIME, check_engine, choose
from sightline_plugins.engines.libraries import About, Library
from sightline_plugins.engines.model_file import content_digest, read_model
from sightline_plugins.engines.protocol import Engine, say_nothing
from sightline_plugins.engines.rewriting import prepare
from sightline_plugins.preprocess.definition import ImageForm


@dataclass(frozen=True, slots=True)
class _Ready:
    """A compiled model, what is to be known of it, and what it was compiled from; nothing when it came from the cache.

    `notes`: `rows`, how many images it takes a call, and what the report and later starts have to know.
    """

    compiled: Any
    notes: Mapping[str, Any]
    content: bytes = b""


def open_engine(
    model: str | Path | bytes,
    *,
    engine: str = "auto",
    device: str = "cpu",
    image: ImageForm | None = None,
    concurrency: int | None = None,
    optimize: bool = True,
    bfloat16: bool = False,
    warn: Callable[[str], None] = say_nothing,
) -> Engine:
    """Open a model, from the cache of compiled models when it is there.

    `model` is a path, or the bytes of an ONNX file; or `grpc://HOST:PORT/NAME` or `http://HOST:PORT/NAME`, a model that
    Triton serves. `engine` is a name from `ENGINES`; `auto` takes Triton for served models, else the preferred engine
    that is installed. `image` is the form of the images that are submitted (None: as the model was exported).
    `concurrency` is how many images are computed at once (default: the cores of this process). `optimize=False` leaves
    the graph as it is, apart from `image`. `bfloat16` computes in bfloat16 on the CPU where the engine
    can (OpenVINO), else in float32. Open batch sizes become 1; so does a fixed one when `image` is given and the
    graph allows it, else images share calls. `warn` gets problems that do not prevent the opening.

    Raises ModelError for a missing, damaged or unsupported model, ConfigurationError for an engine that is unknown or
    not installed, and DeviceUnavailable for a device that the engine cannot use.
    """
    cores = concurrency or available_cores()
    address = check_engine(engine, model)
    if address is not None:
        from sightline_plugins.engines.triton import open_served

        return open_served(address, image=image, concurrency=cores)
    library = _library(engine, device, cores, bfloat16=bfloat16)
    try:
        return open_file(model, library=library, image=image, optimize=optimize, warn=warn, may_differ=engine != "auto")
    except _Differs as difference:
        warn(f"{difference}; it runs on ONNX Runtime instead")
    library = _library(ONNXRUNTIME.name, device, cores)
    return open_file(model, library=library, image=image, optimize=optimize, warn=warn, may_differ=True)


@dataclass(frozen=True, slots=True)
class EnginePreview:
    """The engine that would open a model, found out without opening it.

    `runs_on` is the device. `is_compiled` is None where nothing is compiled here, or nothing is kept. `reason` says why
    it is not the preferred engine; empty where it is.
    """

    name: str
    runs_on: str
    is_compiled: bool | None
    reason: str = ""


def preview_engine(
    model: str | Path | bytes,
    *,
    engine: str = "auto",
    device: str = "cpu",
    image: ImageForm | None = None,
    bfloat16: bool = False,
) -> EnginePreview:
    """Return the engine that `open_engine` would open, and whether it has compiled the model before.

    Raises ModelError, ConfigurationError and DeviceUnavailable as `open_engine` does.
    """
    if check_engine(engine, model) is not None:
        return EnginePreview("triton", "its server", None)
    parsed, _ = read_model(model)
    library, reason = _library(engine, device, available_cores(), bfloat16=bfloat16), ""
    kept = _kept(parsed, library, image)
    if kept is not None and kept.notes["differs"] is not None and engine == "auto":
        reason = f"OpenVINO computes it differently: {kept.notes['differs']}"
        library = _library(ONNXRUNTIME.name, device, available_cores())
        kept = _kept(parsed, library, image)
    return EnginePreview(library.name, device, None if models_folder() is None else kept is not None, reason)


def _kept(parsed: onnx.ModelProto, library: Library[Any], image: ImageForm | None) -> Entry | None:
    cache = ModelCache(models_folder(), warn=say_nothing)
    return cache.find(_key(parsed, library, image=image, optimize=True))


class _Differs(Exception):
    """A library computes a model in another way than ONNX Runtime."""


def open_file(
    model: str | Path | bytes,
    *,
    library: Library[Any],
    image: ImageForm | None,
    optimize: bool = True,
    warn: Callable[[str], None] = say_nothing,
    may_differ: bool = True,
) -> Engine:
    """Open a file with a library: read it, prepare it, compile it or take it from the cache. See `open_engine`."""
    parsed, label = read_model(model)
    about = About.of(parsed, label=label)
    key = _key(parsed, library, image=image, optimize=optimize)

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


def _key(
    parsed: onnx.ModelProto, library: Library[Any], *, image: ImageForm | None, optimize: bool
) -> Mapping[str, Any]:
    """Return what a compiled model depends on."""
    return {
        "model": content_digest(parsed),
        "engine": library.name,
        "settings": dict(library.settings),
        "image": image,
        "optimize": optimize,
    }


def available_cores() -> int:
    """Cores that this process may use."""
    return Device().cores


def _library(engine: str, device: str, concurrency: int, *, bfloat16: bool = False) -> Library[Any]:
    kind = choose(engine, device=device)
    make = kind.bfloat16 or kind.library if bfloat16 and not device.startswith("cuda") else kind.library
    assert make is not None
    return make(concurrency, device if device.startswith("cuda") else "cpu")
