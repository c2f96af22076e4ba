"""TensorRT, or TensorRT-RTX, or what stands in for it: the only module that knows their packages.

Both have the calls that this adapter uses: TensorRT 10 and 11, and TensorRT-RTX 1.2 and later. TensorRT compiles on the
GPU that will compute, and times its kernels there; TensorRT-RTX compiles anywhere for a compute capability that it is
told, and finishes on the GPU. Nothing of them is imported before somebody asks.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from importlib import import_module
from typing import Any

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.libcuda import driver_facts
from sightline.errors import DeviceUnavailable, MissingExtra
from sightline_plugins.engines.tensorrt.messages import Heard, Log, Messages

PACKAGES = {"tensorrt": "TensorRT", "tensorrt_rtx": "TensorRT-RTX"}
"""What is imported, the preferred one first, and what it is called."""
INSTEAD = "use engine: onnxruntime"
"""What to do where it does not do."""
_TARGET = re.compile(r"SM(\d+)(\d)")


class TensorRt:
    """The library with its one logger. From any thread."""

    def __init__(self, module: Any, *, title: str) -> None:
        self.module = module
        self.title = title
        """`TensorRT` or `TensorRT-RTX`."""
        self.messages = Messages(module)

    def __str__(self) -> str:
        return f"{self.title} {self.version}"

    @property
    def version(self) -> str:
        """Its version; plans of another one are of no use."""
        return str(self.module.__version__)

    @property
    def targets(self) -> Sequence[tuple[int, int]]:
        """The compute capabilities that it compiles for without their GPU; none where it compiles on the GPU itself."""
        names = getattr(getattr(self.module, "ComputeCapability", None), "__members__", {})
        found = (_TARGET.fullmatch(name) for name in names)
        return sorted((int(one[1]), int(one[2])) for one in found if one is not None)

    @property
    def compiles_ahead(self) -> bool:
        """Whether it compiles for a compute capability that it is told."""
        return bool(self.targets)

    @property
    def target_text(self) -> str:
        """They, for messages: `7.5, 8.6`."""
        return ", ".join("{}.{}".format(*target) for target in self.targets)

    def listening(self, log: Log | None = None) -> AbstractContextManager[Heard]:
        """What it says while the block runs."""
        return self.messages.listening(log)


def library_for(gpu: Gpu) -> TensorRt:
    """The library, or what stands in for it on that GPU. Raises MissingExtra without it, DeviceUnavailable where it
    does not load, or does not support the GPU.
    """
    library: TensorRt = gpu.stand_ins.get(TensorRt) or _with_driver()
    if library.compiles_ahead and gpu.compute_capability not in library.targets:
        found = "{} ({}) has {}.{}".format(gpu, gpu.name, *gpu.compute_capability)
        raise DeviceUnavailable(f"{library} supports compute capability {library.target_text}, {found}: {INSTEAD}")
    return library


def _with_driver() -> TensorRt:
    reason = driver_facts().reason
    if reason is not None:
        raise DeviceUnavailable(f"engine tensorrt cannot be used: {reason}")
    return installed()


def is_installed() -> bool:
    """Whether there is a package to import; whether it works is another matter."""
    return any(importlib.util.find_spec(package) is not None for package in PACKAGES)


@lru_cache(maxsize=1)
def installed() -> TensorRt:
    """TensorRT, else TensorRT-RTX. Raises MissingExtra without both, DeviceUnavailable where none loads."""
    reasons = list[str]()
    for package, title in PACKAGES.items():
        if importlib.util.find_spec(package) is None:
            continue
        try:
            return TensorRt(import_module(package), title=title)
        except (ImportError, OSError, RuntimeError) as error:
            reasons.append(f"{title} cannot be imported: {' '.join(str(error).split())}")
    if reasons:
        raise DeviceUnavailable(f"engine tensorrt cannot be used: {'; '.join(reasons)}; {INSTEAD}")
    raise MissingExtra("tensorrt", extra="gpu", purpose="engine tensorrt")
