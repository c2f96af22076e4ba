"""The best loop that an expert writes by hand: one process, no framework."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import cv2
from benchmarks.pipelines.expert_parts import (
    CORES,
    ExpertStream,
    Precision,
    Shrinker,
    Slot,
    compiled,
    no_lap,
    rewritten,
    simplified,
    warm_up,
)
from benchmarks.pipelines.job import Job, Outcome, Window
from benchmarks.pipelines.laps import Laps


def run(job: Job) -> Outcome:
    """With the graph simplified by onnxsim."""
    return _run(job, simplified(job))


def run_bfloat16(job: Job) -> Outcome:
    """The same, with the precision that OpenVINO chooses where the processor computes bfloat16."""
    return _run(job, simplified(job), "bf16")


def run_stages(job: Job) -> Outcome:
    """As `run`, with the CPU time of each stage."""
    return _run(job, simplified(job), laps=Laps())


def run_bfloat16_stages(job: Job) -> Outcome:
    """As `run_bfloat16`, with the CPU time of each stage."""
    return _run(job, simplified(job), "bf16", laps=Laps())


def run_rewritten(job: Job) -> Outcome:
    """With the graph rewritten by this project."""
    return _run(job, rewritten(job))


def run_workers(job: Job) -> Outcome:
    """A thread for each core, each with its own streams from decoding to lines."""
    return _run_workers(job, simplified(job))


def _run(job: Job, content: bytes, precision: Precision = "f32", *, laps: Laps | None = None) -> Outcome:
    cv2.setNumThreads(1)
    network = compiled(content, precision)
    warm_up(network, job=job)
    free = [Slot(network) for _ in range(CORES + 1)]
    underway: deque[Slot] = deque()
    shrinker = Shrinker()
    lap = laps.add if laps else no_lap
    window = Window()
    streams = [ExpertStream(name, job=job) for name in job.names]
    turns = deque((stream, stream.frames()) for stream in streams)
    while turns:
        stream, frames = turns.popleft()
        frame = next(frames, None)
        lap("decode")
        if frame is None:
            continue
        turns.append((stream, frames))
        slot = free.pop() if free else _collect(underway.popleft(), lap)
        shrinker.fill(frame, slot.image)
        lap("prepare")
        slot.stream, slot.pts = stream, frame.pts or 0
        slot.request.start_async()
        lap("submit")
        underway.append(slot)
    while underway:
        _collect(underway.popleft(), lap)
    for stream in streams:
        stream.close()
    outcome = window.close()
    return laps.outcome(outcome) if laps else outcome


def _collect(slot: Slot, lap: Callable[[str], None]) -> Slot:
    slot.request.wait()
    lap("wait")
    assert slot.stream is not None
    slot.stream.finish(slot.cells, slot.pts, lap)
    return slot


def _run_workers(job: Job, content: bytes) -> Outcome:
    cv2.setNumThreads(1)
    network = compiled(content, "f32")
    warm_up(network, job=job)
    slots = [Slot(network) for _ in range(min(CORES, job.streams))]
    window = Window()
    streams = [ExpertStream(name, job=job) for name in job.names]

    def work(number: int) -> None:
        slot, shrinker = slots[number], Shrinker()
        turns = deque((stream, stream.frames()) for stream in streams[number :: len(slots)])
        while turns:
            stream, frames = turns.popleft()
            frame = next(frames, None)
            if frame is None:
                continue
            turns.append((stream, frames))
            shrinker.fill(frame, slot.image)
            slot.request.infer()
            stream.finish(slot.cells, frame.pts or 0)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(slots))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for stream in streams:
        stream.close()
    return window.close()
