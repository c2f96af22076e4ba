"""Measures candidates on a GPU, once for each pair of files, engine and GPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.streams import GpuStream
from sightline.errors import ModelError
from sightline.media.device_array import DeviceArray
from sightline_plugins.engines.device.protocol import DeviceEngine, Execution
from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.infer.precision.choice import Candidate
from sightline_plugins.infer.precision.quantized_file import file_digest
from sightline_plugins.infer.precision.verdicts import measured_once

_IMAGES = 8
_BATCHES = 10
_ROUNDS = 5
OpenCandidate = Callable[[Candidate, GpuStream], DeviceEngine]


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

    def _bound(self, engine: DeviceEngine, stream: GpuStream) -> tuple[Execution, int]:
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
