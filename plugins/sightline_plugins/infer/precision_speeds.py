"""Measure how fast a model runs at each precision, on the CPU and on a GPU."""

from __future__ import annotations

import importlib.metadata
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.streams import GpuStream
from sightline.errors import ModelError
from sightline.media.device_array import DeviceArray
from sightline_plugins.engines.opening import Installed, available_cores, choose
from sightline_plugins.engines.protocol import CudaEngine, EngineName, Execution, TensorSpec, open_engine
from sightline_plugins.infer.precision import Candidate, file_digest, interleaved_seconds, measured_once
from sightline_plugins.pixels.image_form import ImageForm

_MEASURED_SECONDS = 0.4
_EIGHT_BIT = frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"})
"""Instructions that add products of bytes without overflow."""


class CpuSpeeds:
    """A `Speeds` of the engine that computes a step on the CPU, fed with images in `form`."""

    supports_half = False

    def __init__(self, engine: EngineName, *, form: ImageForm | None, warn: Callable[[str], None]) -> None:
        self._asked = engine
        self._form = form
        self._warn = warn

    @property
    def _engine(self) -> Installed:
        return choose(self._asked)

    @property
    def place(self) -> str:
        """The engine, and where."""
        return f"{self._engine} on the CPU"

    @property
    def obstacle(self) -> str | None:
        """See `Speeds.obstacle`."""
        return None if multiplies_bytes() else "this processor has no instructions for sums of bytes (VNNI)"

    def seconds(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        """See `Speeds.seconds`; what was measured before is not measured again."""
        key = {
            "measured": [(one.precision, file_digest(one.model)) for one in candidates],
            "engine": self._engine,
            "version": _version(self._engine),
            "cores": available_cores(),
            "image": self._form,
        }
        return measured_once(key, count=len(candidates), measure=lambda: self._measured(candidates))

    def _measured(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        with ExitStack() as stack:
            engines = [
                open_engine(candidate.model, engine=self._engine, image=self._form, warn=self._warn)
                for candidate in candidates
            ]
            for engine in engines:
                stack.callback(engine.close)
            return interleaved_seconds(engines, budget_seconds=_MEASURED_SECONDS)


def _version(engine: str) -> str:
    """The version of an engine's package, which has another name where it was built for GPUs."""
    for package in (engine, f"{engine}-gpu"):
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(package)
    return ""


@lru_cache(maxsize=1)
def multiplies_bytes() -> bool:
    """Whether this processor adds products of bytes without overflow; true where it does not say what it can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return True
    flags = {flag for line in lines if line.startswith(("flags", "Features")) for flag in line.split()}
    return not flags or not flags.isdisjoint(_EIGHT_BIT)


_IMAGES = 8
_BATCHES = 10
_ROUNDS = 5
OpenCandidate = Callable[[Candidate, GpuStream], CudaEngine]


class GpuSpeeds:
    """A `Speeds` of an engine on a GPU; `library` is its name and version, `open_candidate` makes it."""

    supports_half = True
    obstacle = None

    def __init__(self, gpu: Gpu, *, library: str, size_wh: tuple[int, int], open_candidate: OpenCandidate) -> None:
        self._gpu = gpu
        self._library = library
        self._size_wh = size_wh
        self._open = open_candidate

    @property
    def place(self) -> str:
        """The library, and where."""
        return f"{self._library} on {self._gpu}"

    def seconds(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        """See `Speeds.seconds`; compiles all of them, unless they were measured before."""
        key = {
            "measured": [(one.precision, file_digest(one.model)) for one in candidates],
            "engine": self._library,
            "gpu": (self._gpu.name, self._gpu.compute_capability),
            "size_wh": self._size_wh,
        }
        return measured_once(
            key, count=len(candidates), measure=lambda: self._measured(candidates), for_processor=False
        )

    def _measured(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        """The median time for an image of each, in batches of eight, over rounds in turn."""
        stream = self._gpu.stream("measuring")
        with ExitStack() as stack:
            engines = [self._open(candidate, stream) for candidate in candidates]
            for engine in engines:
                stack.callback(engine.close)
            bound = [self._bound(engine, stream) for engine in engines]
            times: list[list[float]] = [[] for _ in engines]
            for number in range(1 + _ROUNDS):
                for (execution, rows), noted in zip(bound, times, strict=True):
                    seconds = _round(execution, stream) / rows
                    if number > 0:
                        noted.append(seconds)
        return [statistics.median(noted) for noted in times]

    def _bound(self, engine: CudaEngine, stream: GpuStream) -> tuple[Execution, int]:
        """The engine on memory of its own, and for how many images."""
        rows = engine.inputs[0].shape[0] or min(_IMAGES, engine.most_rows)
        inputs = [self._zeros(spec, rows, stream) for spec in engine.inputs]
        outputs = [self._zeros(spec, rows, stream) for spec in engine.outputs]
        return engine.bind(inputs, outputs), rows

    def _zeros(self, spec: TensorSpec, rows: int, stream: GpuStream) -> DeviceArray:
        sizes = tuple(size for size in spec.shape[1:] if size is not None)
        if len(sizes) != len(spec.shape) - 1:
            raise ModelError(f"{spec} leaves sizes open")
        return self._gpu.fill(self._gpu.empty((rows, *sizes), spec.dtype, stream=stream), 0, stream=stream)


def _round(execution: Execution, stream: GpuStream) -> float:
    """The time of a batch."""
    begun = time.perf_counter()
    for _ in range(_BATCHES):
        execution.enqueue()
    stream.synchronize()
    return (time.perf_counter() - begun) / _BATCHES
