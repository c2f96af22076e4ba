"""Which engine opens a model: the kinds that are installed, and the choice among them.

Importing this module imports none of their libraries.

A package registers an `EngineKind` under the entry-point group `sightline.engines`; `engine: NAME` then takes it. The
engines of Sightline itself are registered in the same way.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator

from sightline.devices.cuda.libcuda import extra_for_driver
from sightline.errors import ConfigurationError, DeviceUnavailable, MissingExtra
from sightline.graph.registry import Extensions
from sightline.graph.wording import suggest
from sightline_plugins.engines.address import Address, address_of

if TYPE_CHECKING:
    from sightline_plugins.engines.libraries import Library

MakeLibrary = Callable[[int, str], "Library[Any]"]
"""Takes how many images are computed at once, and the device (`cpu`, `cuda:N`); imports what it needs. Raises
DeviceUnavailable for a device that the library cannot use."""


@dataclass(frozen=True, slots=True)
class EngineKind:
    """A kind of engine.

    `name` is its entry point and what `engine:` names. `module` must be importable, and `install` is what to install
    when it is not. `library` makes the library that computes ONNX files on arrays of the host; None for engines that
    work in another way (`tensorrt`, `triton`). `auto` takes the kind with the highest `priority` above 0 that is
    installed. `on_cuda_memory` kinds also compute in the memory of a GPU. `bfloat16` makes the library that computes in
    bfloat16 on the CPU; None for kinds that cannot.
    """

    name: str
    module: str
    install: str
    library: MakeLibrary | None = None
    priority: int = 0
    on_cuda_memory: bool = False
    bfloat16: MakeLibrary | None = None

    @property
    def is_installed(self) -> bool:
        """Whether its library can be imported."""
        return importlib.util.find_spec(self.module) is not None


ENGINES: Mapping[str, EngineKind] = Extensions(
    "sightline.engines", accepts=lambda found: isinstance(found, EngineKind), kind="engine"
)
"""All installed kinds, by name."""


def by_priority(kinds: Mapping[str, EngineKind] = ENGINES) -> list[EngineKind]:
    """Return the kinds that `auto` may take, the preferred one first."""
    return sorted((kind for kind in kinds.values() if kind.priority > 0), key=lambda kind: (-kind.priority, kind.name))


def _openvino(concurrency: int, device: str) -> Library[Any]:
    if device.startswith("cuda"):
        raise DeviceUnavailable(f"engine openvino runs on the device 'cpu', not on {device!r}: use onnxruntime")
    from sightline_plugins.engines.openvino import OpenVino

    return OpenVino(concurrency=concurrency)


def _openvino_bfloat16(concurrency: int, device: str) -> Library[Any]:
    del device
    from sightline_plugins.engines.openvino import OpenVino

    return OpenVino(concurrency=concurrency, bfloat16=True)


def _onnxruntime(concurrency: int, device: str) -> Library[Any]:
    from sightline_plugins.engines.onnxruntime import OnnxRuntime

    return OnnxRuntime(concurrency=concurrency, device=device)


OPENVINO = EngineKind(
    "openvino",
    module="openvino",
    install="openvino",
    library=_openvino,
    priority=20,
    bfloat16=_openvino_bfloat16,
)
ONNXRUNTIME = EngineKind(
    "onnxruntime",
    module="onnxruntime",
    install="onnxruntime",
    library=_onnxruntime,
    priority=10,
    on_cuda_memory=True,
)
TENSORRT = EngineKind("tensorrt", module="tensorrt", install="sightline[tensorrt]", priority=30, on_cuda_memory=True)
TRITON = EngineKind("triton", module="tritonclient", install="sightline[triton]")


def known_engine(name: str) -> str:
    """Return the name of an installed kind, or `auto`. Raises ValueError for another one."""
    if name != "auto" and name not in ENGINES:
        near = suggest(name, ENGINES) or ";"
        raise ValueError(f"there is no engine {name!r}{near} choose one of {', '.join(('auto', *ENGINES))}")
    return name


EngineName = Annotated[str, AfterValidator(known_engine)]
"""`auto`, or the name of an installed kind of engine."""


def check_engine(engine: str, model: str | Path | bytes) -> Address | None:
    """Return the address of a served model, None for a file.

    Raises ConfigurationError when the engine is unknown, not installed, or does not open such a model.
    """
    try:
        known_engine(engine)
        address = address_of(model)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    if address is None and engine == TENSORRT.name:
        from sightline_plugins.engines.tensorrt_library import is_installed

        if not is_installed():
            raise MissingExtra("tensorrt", extra=extra_for_driver("tensorrt"), purpose="engine tensorrt")
    elif address is None:
        choose(engine)
    elif engine not in ("auto", TRITON.name):
        raise ConfigurationError(f"engine {engine} computes here, but the model is served: leave engine out")
    elif not TRITON.is_installed:
        raise MissingExtra("tritonclient", extra="triton", purpose=f"the model {address}")
    return address


def choose(engine: str, *, device: str = "cpu") -> EngineKind:
    """Return the kind that computes a file on arrays of the host: the named one, or for `auto` the preferred one.

    Raises ConfigurationError with what to install or to write, and DeviceUnavailable for a device that none knows.
    """
    on_gpu = device.startswith("cuda")
    if not on_gpu and device not in ("cpu", "auto"):
        raise DeviceUnavailable(f"there is no device {device!r} for models: cpu, cuda:N")
    if engine == TRITON.name:
        raise ConfigurationError("engine triton needs a served model: model: grpc://HOST:PORT/NAME")
    if engine == TENSORRT.name:
        raise DeviceUnavailable("engine tensorrt computes on an NVIDIA GPU: use device: cuda, or engine: auto")
    wanted = by_priority() if engine == "auto" else [ENGINES[engine]]
    wanted = [
        kind for kind in wanted if kind.library is not None and (kind.on_cuda_memory or engine != "auto" or not on_gpu)
    ]
    if not wanted:
        raise ConfigurationError(f"engine {engine} computes no file on {device}: use auto")
    for kind in wanted:
        if kind.is_installed:
            return kind
    needed = " or ".join(kind.name for kind in wanted)
    raise ConfigurationError(f"running a model needs {needed}, which is not installed: pip install {wanted[0].install}")


def on_cuda_memory(engine: str) -> list[str]:
    """Return the names of the engines to try for a model in the memory of a GPU, in this order."""
    return [kind.name for kind in by_priority() if kind.on_cuda_memory and engine in ("auto", kind.name)]
