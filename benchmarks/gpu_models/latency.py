"""How long one image takes from the GPU's memory to metadata on the host, against the engine alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter

import numpy as np
from benchmarks.gpu_models.case import BenchmarkCase, EngineAlone
from benchmarks.gpu_models.figures import Figure, Goals, print_table
from tests.reading import media, reader_of

from sightline.devices.cuda.device import CudaDevice
from sightline.graph import Operator, Pending
from sightline.media import Batch, Frame
from sightline.testing.run import site_for

GOAL = 1.5
_IMAGES = 8
_WARM_UPS = 20
_MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True)
class Delay:
    """Median and 95th percentile of how long something took, in microseconds, for each round."""

    median: Figure
    p95: Figure

    def text(self) -> str:
        """Both."""
        return f"{self.median.text()}, 95 % below {self.p95.text()}"


def images_of(clip: Path, *, gpu: CudaDevice, count: int) -> list[Frame]:
    """The first frames of a clip, in the GPU's memory."""
    with reader_of(media(clip), gpu) as reader:
        frames = list(islice(reader.frames(), count))
    for frame in frames:
        frame.surface.to_device(gpu, stream=gpu.main_stream).arrays_on(gpu.main_stream)
    gpu.main_stream.synchronize()
    return frames


def one_by_one(operator: Operator, frames: Sequence[Frame]) -> Generator[float]:
    """How long the step takes for one image, again and again: from its batch to the objects on it."""
    for frame in cycle(frames):
        begun = perf_counter()
        done = operator.process(Batch((frame,)))
        if isinstance(done, Pending):
            done.result()
        yield perf_counter() - begun


def delays(works: Sequence[Callable[[], float]], *, rounds: int, looks: int) -> list[Delay]:
    """How long each of them takes, `looks` times a round, in turn."""
    for work in works:
        for _ in range(_WARM_UPS):
            work()
    medians: list[list[float]] = [[] for _ in works]
    late: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for number, work in enumerate(works):
            taken = [_MICROSECONDS * work() for _ in range(looks)]
            medians[number].append(statistics.median(taken))
            late[number].append(float(np.percentile(taken, 95)))
    return [Delay(Figure(tuple(one)), Figure(tuple(other))) for one, other in zip(medians, late, strict=True)]


def measure(case: BenchmarkCase, clip: Path, *, rounds: int, looks: int, goals: Goals) -> None:
    """Print the table of one stream."""
    gpu = case.gpu
    stream = gpu.stream("engine alone")
    engine = case.open(stream=stream)
    rows = case.rows_for(engine, images=1)
    plain, graph = (EngineAlone(case, engine, rows=rows, stream=stream, as_graph=own) for own in (False, True))
    operator = case.element.build(site_for("detect-1", None, gpu=gpu))
    looking = one_by_one(operator, images_of(clip, gpu=gpu, count=_IMAGES))
    try:
        whole, queued, launched = delays(
            [lambda: next(looking), plain.seconds, graph.seconds], rounds=rounds, looks=looks
        )
    finally:
        looking.close()
        operator.close()
        engine.close()
    ratio = whole.median.over(queued.median.lower(launched.median))
    print_table(
        ("from the GPU's memory to metadata, µs", "engine alone, µs", "engine alone as a graph, µs", "ratio", "goal"),
        [
            (
                whole.text(),
                queued.text(),
                launched.text() if graph.is_graph else "cannot be",
                ratio.text(2),
                goals.at_most(GOAL, ratio.median, what="latency against the engine alone"),
            )
        ],
    )
