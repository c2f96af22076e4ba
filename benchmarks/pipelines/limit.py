"""The limit: each stage alone, at its best on all cores, summed. Nothing that does the job frame by frame is faster.

Decoding in a thread a core; pre-processing by Sightline, the network in as many requests as keep all cores busy, on the
graph that Sightline makes; boxes, tracks and lines by the expert's compiled parts, counted as if every core did them.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

import numpy as np
from benchmarks.pipelines.expert_parts import CORES, ExpertStream, Precision, Slot, compiled, rewritten, warm_up
from benchmarks.pipelines.job import Job

from sightline import Pipeline
from sightline.media import Surface
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.definition import Preprocessing

_FRAMES = 120
_ROUNDS = 12


def seconds_per_frame(job: Job, precision: Precision) -> dict[str, float]:
    """The seconds that a frame takes in each stage alone."""
    return {
        "decode": _decoding(job),
        "prepare": _preprocessing(job),
        "network": _network(job, precision),
        "boxes, tracks, lines": _records(job),
    }


def _decoding(job: Job) -> float:
    def decode() -> int:
        return sum(1 for _ in ExpertStream("limit", job=job).frames())

    return _by_all_cores(decode)


def _preprocessing(job: Job) -> float:
    surfaces = list(_surfaces(job))
    definition = Preprocessing((352, 352), fit="stretch", convert="network", color="bgr")

    def prepare() -> int:
        preprocessor = HostPreprocessor(definition)
        for surface in surfaces * _ROUNDS:
            preprocessor.recycle(preprocessor.prepare(surface))
        return len(surfaces) * _ROUNDS

    return _by_all_cores(prepare)


def _network(job: Job, precision: Precision) -> float:
    network = compiled(rewritten(job), precision)
    warm_up(network, job=job)
    free, underway = [Slot(network) for _ in range(2 * CORES)], deque[Slot]()
    started, count = time.perf_counter(), _FRAMES * _ROUNDS
    for _ in range(count):
        if not free:
            underway[0].request.wait()
            free.append(underway.popleft())
        underway.append(free.pop())
        underway[-1].request.start_async()
    for slot in underway:
        slot.request.wait()
    return (time.perf_counter() - started) / count


def _records(job: Job) -> float:
    slot = Slot(compiled(rewritten(job), "f32"))
    maps, preprocessor = [], HostPreprocessor(Preprocessing((352, 352), fit="stretch", convert="network", color="bgr"))
    for surface in _surfaces(job):
        slot.image[:] = preprocessor.prepare(surface).image
        slot.request.infer()
        maps.append(slot.cells.copy())
    stream = ExpertStream("limit", job=job)
    next(iter(stream.frames()))
    stream.finish(maps[0], 0)
    started = time.perf_counter()
    for cells in maps * _ROUNDS:
        stream.finish(cells, 0)
    stream.close()
    return (time.perf_counter() - started) / (len(maps) * _ROUNDS) / CORES


def _surfaces(job: Job) -> Iterable[Surface]:
    pipeline = Pipeline(sources={"clip": {"uri": str(job.clip)}}, steps=[])
    frames = (view.surface for view in pipeline)
    return islice(frames, _FRAMES)


def _by_all_cores(work: Callable[[], int]) -> float:
    """Seconds per frame of work that a thread a core does; it returns how many frames it did."""
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(work())) for _ in range(CORES)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.perf_counter() - started) / int(np.sum(counts))
