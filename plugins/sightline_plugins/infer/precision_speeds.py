"""Measure how fast a model runs at each precision, on the CPU and on a GPU, once per file, engine and machine."""

from __future__ import annotations

import importlib.metadata
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from sightline.cache import kept
from sightline.devices.processor import NATIVE, processor_flags
from sightline.errors import CudaError, CudaFailed, ModelError
from sightline_plugins.engines.cache import key_digest
from sightline_plugins.engines.kinds import choose
from sightline_plugins.engines.opening import available_cores, open_engine
from sightline_plugins.engines.protocol import (
    Array,
    CudaEngine,
    Engine,
    Pending,
    TensorSpec,
    never,
)
from sightline_plugins.infer.precision import Candidate, file_digest
from sightline_plugins.preprocess.definition import ImageForm

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice
    from sightline.devices.cuda.streams import CudaStream
    from sightline.media.device_array import DeviceArray

_MEASURED_SECONDS = 0.4
_OPEN_SIZE = 320
"""Height and width of random images, for models that leave them open."""
_CPU_ROUNDS = 5
_MAX_ROUND = 64


class CpuSpeeds:
    """A `Speeds` of an engine on the CPU, which takes images in `form`."""

    supports_half = False

    def __init__(self, engine: str, *, form: ImageForm | None, warn: Callable[[str], None]) -> None:
        self._asked = engine
        self._form = form
        self._warn = warn

    @property
    def engine(self) -> str:
        """The name of the engine that is measured."""
        return choose(self._asked).name

    @property
    def place(self) -> str:
        return f"{self.engine} on the CPU"

    @property
    def computes(self) -> Mapping[str, Any]:
        return {"engine": self.engine, "version": engine_version(self.engine)}

    @property
    def no_bfloat16(self) -> str | None:
        if choose(self._asked).bfloat16 is None:
            return f"{self.place} does not compute bf16"
        if processor_flags().isdisjoint(NATIVE["bf16"]):
            return "this processor has no instructions for bf16 (avx512_bf16, amx_bf16, or bf16 of ARM)"
        return None

    @property
    def obstacle(self) -> str | None:
        return None if multiplies_bytes() else "this processor has no instructions for sums of bytes (VNNI)"

    def seconds(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        """See `Speeds.seconds`; measured once."""
        key = {**self.computes, "cores": available_cores(), "image": self._form}
        return measured_once(candidates, key, measure=self._measured)

    def _measured(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        with ExitStack() as stack:
            engines = []
            for candidate in candidates:
                engine = open_engine(
                    candidate.model,
                    engine=self.engine,
                    image=self._form,
                    bfloat16=candidate.precision == "bf16",
                    warn=self._warn,
                )
                engines.append(stack.enter_context(closing(engine)))
            return interleaved_seconds(engines, budget_seconds=_MEASURED_SECONDS, clock=time.process_time)


def engine_version(engine: str) -> str:
    """Return the version of an engine's package, whose name differs where it was built for GPUs."""
    for package in (engine, f"{engine}-gpu"):
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(package)
    return ""


def multiplies_bytes() -> bool:
    """Return whether this processor adds products of bytes without overflow; True where its flags are unknown."""
    flags = processor_flags()
    return not flags or not flags.isdisjoint(NATIVE["int8"])


_BATCHES = 10
_ROUNDS = 5
_WARM_UPS = 2
OpenCandidate = Callable[[Candidate, "CudaStream"], CudaEngine]


class GpuSpeeds:
    """A `Speeds` of an engine on a GPU, in batches of `images`, which become CUDA graphs where the engine allows it.

    `library` is its name and version, `open_candidate` opens it. `is_stopped` says that nobody waits for it any more.
    """

    supports_half = True
    no_bfloat16 = "bf16 is for CPUs: use fp16 on a GPU"
    obstacle = None

    def __init__(
        self,
        gpu: CudaDevice,
        *,
        library: str,
        size_wh: tuple[int, int],
        images: int,
        open_candidate: OpenCandidate,
        is_stopped: Callable[[], bool] = never,
    ) -> None:
        self._gpu = gpu
        self._library = library
        self._size_wh = size_wh
        self._images = images
        self._open = open_candidate
        self._is_stopped = is_stopped

    @property
    def place(self) -> str:
        return f"{self._library} on {self._gpu}"

    @property
    def computes(self) -> Mapping[str, Any]:
        return {"engine": self._library, "gpu": (self._gpu.name, self._gpu.compute_capability)}

    def seconds(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        """See `Speeds.seconds`; measured once."""
        key = {**self.computes, "size_wh": self._size_wh, "images": self._images}
        return measured_once(candidates, key, measure=self._measured, for_processor=False, is_stopped=self._is_stopped)

    def _measured(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        """Return the median time per image of each, over alternating rounds."""
        stream = self._gpu.stream("measuring")
        with ExitStack() as stack:
            engines = [stack.enter_context(closing(self._open(candidate, stream))) for candidate in candidates]
            batches = [self._batch(engine, stream) for engine in engines]
            rounds = [[_timed(queue, stream) / rows for queue, rows in batches] for _ in range(_ROUNDS)]
            batches.clear()
        return [statistics.median(times) for times in zip(*rounds, strict=True)]

    def _batch(self, engine: CudaEngine, stream: CudaStream) -> tuple[Callable[[], None], int]:
        """Bind an engine to its own memory; return what queues a batch, as pipelines do, and for how many images."""
        rows = engine.inputs[0].shape[0] or min(self._images, engine.most_rows)
        inputs = [self._zeros(spec, rows, stream) for spec in engine.inputs]
        outputs = [self._zeros(spec, rows, stream) for spec in engine.outputs]
        execution = engine.bind(inputs, outputs)
        for _ in range(_WARM_UPS):
            execution.enqueue()
            stream.synchronize()
        if execution.not_capturable is None:
            try:
                return self._gpu.capture(stream, execution.enqueue, name="measuring", keep=execution).launch, rows
            except CudaFailed:
                raise
            except CudaError:  # pipelines go without a graph, too
                pass
        return execution.enqueue, rows

    def _zeros(self, spec: TensorSpec, rows: int, stream: CudaStream) -> DeviceArray:
        sizes = tuple(size for size in spec.shape[1:] if size is not None)
        if len(sizes) != len(spec.shape) - 1:
            raise ModelError(f"{spec} leaves sizes open")
        return self._gpu.fill(self._gpu.empty((rows, *sizes), spec.dtype, stream=stream), 0, stream=stream)


def _timed(queue: Callable[[], None], stream: CudaStream) -> float:
    """Return the seconds per batch, one queued behind the other."""
    start = time.perf_counter()
    for _ in range(_BATCHES):
        queue()
    stream.synchronize()
    return (time.perf_counter() - start) / _BATCHES


_REFUSED = -1.0
"""Is kept instead of a time where a candidate cannot run."""


def measured_once(
    candidates: Sequence[Candidate],
    key: Mapping[str, Any],
    *,
    measure: Callable[[Sequence[Candidate]], Sequence[float]],
    for_processor: bool = True,
    is_stopped: Callable[[], bool] = never,
) -> Sequence[float]:
    """Return the times of candidates under a key, from the cache, or else measured now and cached.

    Times `for_processor` are valid for the processor model of this machine only. That one cannot run is cached, too,
    unless it `is_stopped`: converting a model in vain takes seconds. Raises ModelError where one cannot run.
    """
    refusals = list[ModelError]()

    def times() -> Sequence[float]:
        try:
            return measure(candidates)
        except ModelError as error:
            if is_stopped():
                raise
            refusals.append(error)
            return [_REFUSED] * len(candidates)

    known = remembered(
        {"measured": [(candidate.precision, file_digest(candidate.model)) for candidate in candidates], **key},
        make=times,
        is_valid=lambda known: len(known) == len(candidates) and all(one > 0 or one == _REFUSED for one in known),
        for_processor=for_processor,
    )
    if refusals:
        raise refusals[0]
    if _REFUSED in known:
        raise ModelError("it could not run at an earlier start")
    return known


def remembered(
    key: Mapping[str, Any],
    *,
    make: Callable[[], Sequence[float]] = list,
    is_valid: Callable[[Sequence[float]], bool] = bool,
    for_processor: bool = True,
) -> Sequence[float]:
    """Return the numbers that are kept under a key, or else those that `make` returns, which are kept unless there are
    none. Errors of the cache are ignored.
    """

    def read(content: bytes) -> Sequence[float] | None:
        with suppress(msgspec.DecodeError):
            known = msgspec.json.decode(content, type=list[float])
            if is_valid(known):
                return known
        return None

    return kept(
        f"precision/{key_digest(key, for_processor=for_processor)}.json",
        read=read,
        make=make,
        write=lambda made: msgspec.json.encode(list(made)) if made else None,
    )


def interleaved_seconds(
    engines: Sequence[Engine],
    *,
    budget_seconds: float,
    rounds: int = _CPU_ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Return the median seconds per image of each busy engine, over rounds in turn of about `budget_seconds` in all.

    With `time.process_time` as the clock, what other processes do to the machine meanwhile hardly counts.
    """
    inputs = [_random_inputs(engine) for engine in engines]
    share = budget_seconds / (rounds * len(engines))
    timed = []
    for engine, arrays in zip(engines, inputs, strict=True):
        seconds = _timed_images(engine, arrays, images=engine.concurrency + 1, clock=clock)
        timed.append((engine, arrays, max(engine.concurrency, min(_MAX_ROUND, int(share / seconds)))))
    times = [
        [_timed_images(engine, arrays, images=count, clock=clock) for engine, arrays, count in timed]
        for _ in range(rounds)
    ]
    return [statistics.median(of_engine) for of_engine in zip(*times, strict=True)]


def _timed_images(engine: Engine, arrays: Sequence[Array], *, images: int, clock: Callable[[], float]) -> float:
    """Return seconds per image, with always two more submitted than run at once."""
    start = clock()
    pending: deque[Pending] = deque()
    for _ in range(images):
        if len(pending) >= engine.concurrency + 2:
            pending.popleft().result()
        pending.append(engine.submit(arrays))
    for request in pending:
        request.result()
    return (clock() - start) / images


def _random_inputs(engine: Engine) -> list[Array]:
    random = np.random.default_rng(0)
    shapes = [
        tuple(size or (_OPEN_SIZE if place else 1) for place, size in enumerate(spec.shape)) for spec in engine.inputs
    ]
    return [
        random.integers(0, 256, shape).astype(spec.dtype)
        if spec.dtype.kind in "iu"
        else random.random(shape, np.float32).astype(spec.dtype)
        for spec, shape in zip(engine.inputs, shapes, strict=True)
    ]
