"""Decoding, pre-processing and detection together, against the slower of decoding alone and the engine alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.gpu_decode import alone, measured
from benchmarks.gpu_models.case import BenchmarkCase, EngineAlone
from benchmarks.gpu_models.figures import Goals, in_turn, print_table

from sightline import Pipeline
from sightline.graph import Message, MessageKind
from sightline.media import Batch, Stream
from sightline.runtime.stats.report import Report
from sightline_plugins.engines.batch_sizes import BatchRange
from sightline_plugins.nms.cuda import DETECTION
from sightline_plugins.preprocess.cuda import JOB

GOAL = 0.9
_MOST_IMAGES = 32
_WARM_BATCHES = 8
_WARM_SECONDS = 300.0
_ALIGNED_BYTES = 256
_MOST_BYTES_UP = 4 * JOB.itemsize
"""What may go up for a frame: where it lies and what is made of it, in a batch that is not full."""


class Meter:
    """A probe that counts frames from the time on when so many came, and some of all streams."""

    def __init__(self, *, warm_frames: int, streams: int) -> None:
        self.is_warm = threading.Event()
        self._left = warm_frames
        self._streams = streams
        self._seen = set[Stream]()
        self._frames = 0
        self._begun = self._ended = 0.0

    def __call__(self, batch: Batch) -> None:
        now = perf_counter()
        if self.is_warm.is_set():
            self._frames += len(batch.frames)
            self._ended = now
            return
        self._left -= len(batch.frames)
        self._seen.update(frame.stream for frame in batch.frames)
        if self._left <= 0 and len(self._seen) == self._streams:
            self._begun = self._ended = now
            self.is_warm.set()

    def hear(self, message: Message) -> None:
        """Let nobody wait for a run that is over."""
        if message.kind is MessageKind.STOPPED:
            self.is_warm.set()

    @property
    def fps(self) -> float:
        """Frames a second."""
        return self._frames / max(self._ended - self._begun, 1e-9)


@dataclass(slots=True)
class Whole:
    """A pipeline of `streams` times the same clip and the step, run for so long again and again.

    `report` is that of its last run, `clip` is read from its beginning when it ends.
    """

    case: BenchmarkCase
    clip: Path
    streams: int
    seconds: float
    report: Report | None = field(default=None, init=False)

    @property
    def images(self) -> int:
        """How many images a batch has."""
        return min(self.streams, _MOST_IMAGES)

    def fps(self) -> float:
        """Frames a second of all streams, when everything has warmed up. Ends the program when it ran elsewhere."""
        meter = Meter(warm_frames=_WARM_BATCHES * self.images, streams=self.streams)
        pipeline = Pipeline(
            sources={f"s{number}": {"uri": str(self.clip), "loop": True} for number in range(self.streams)},
            steps=[self.case.element],
            batch={"size": self.images},
            gpu=self.case.gpu,
        )
        pipeline.probe("detect-1", meter)
        pipeline.on_message(meter.hear)
        pipeline.start()
        if meter.is_warm.wait(_WARM_SECONDS):
            threading.Event().wait(self.seconds)
        pipeline.stop()
        self.report = pipeline.wait()
        check_place(self.report, self.case)
        return meter.fps


def check_place(report: Report, case: BenchmarkCase) -> None:
    """End the program where a stream was not decoded, or the model not computed, on the GPU."""
    for stream in report.streams:
        if stream.decoder != "nvdec":
            raise SystemExit(f"{stream.stream.name}: decoded by the CPU: {stream.decoder_reason}")
    place = report.totals["detect-1"]["engine_runs_on"]
    if place != str(case.gpu):
        raise SystemExit(f"the model is not computed on the GPU: {place}")


def measure(
    case: BenchmarkCase, clip: Path, long: Path, *, streams: int, rounds: int, seconds: float, goals: Goals
) -> None:
    """Print the table for so many streams; `long` is the clip again and again in one file."""
    gpu = case.gpu
    stream = gpu.stream("engine alone")
    whole = Whole(case, long, streams, seconds)
    engine = case.open(stream=stream, batches=BatchRange.around(whole.images))
    bare = EngineAlone(case, engine, rows=case.rows_for(engine, images=whole.images), stream=stream)
    works: dict[str, Callable[[], float]] = {
        "decoding": lambda: measured(alone(gpu, clip), streams=streams, seconds=seconds).fps,
        "engine": lambda: bare.images_per_second(seconds),
        "together": whole.fps,
    }
    found = in_turn(works, rounds=rounds)
    engine.close()
    ratio = found["together"].over(found["decoding"].lower(found["engine"]))
    met = goals.at_least(GOAL, ratio.median, what=f"{streams} streams against the slower part")
    how = f"batches of {bare.rows}{', a graph' if bare.is_graph else ''}"
    print_table(
        ("streams", "decoding alone, fps", f"engine alone ({how}), fps", "together, fps", "ratio", "goal"),
        [(streams, *(found[name].text() for name in works), ratio.text(3), met)],
    )
    assert whole.report is not None
    _print_copies(whole.report, case, streams=streams, goals=goals)


def _print_copies(report: Report, case: BenchmarkCase, *, streams: int, goals: Goals) -> None:
    """What crossed between host and GPU for each frame of the last run, and how it was computed."""
    copied, frames = report.transfers, max(report.frames, 1)
    assert copied is not None
    up, down = copied.host_to_device_bytes / frames, copied.device_to_host_bytes / frames
    room = most_bytes_down(case)
    print_table(
        ("streams", "bytes down for a frame", "goal", "copies down", "bytes up for a frame", "goal", "copies up"),
        [
            (
                streams,
                f"{down:.0f}",
                goals.at_most(room, down, what=f"{streams} streams: bytes down for a frame"),
                f"{copied.device_to_host_copies / frames:.3f}",
                f"{up:.0f}",
                goals.at_most(_MOST_BYTES_UP, up, what=f"{streams} streams: bytes up for a frame"),
                f"{copied.host_to_device_copies / frames:.3f}",
            )
        ],
    )
    told: dict[str, Any] = dict(report.totals["detect-1"])
    names = ("engine", "library", "heads_run_on", "graphs", "no_graphs")
    print("; ".join(f"{name}: {told[name]}" for name in names if name in told), flush=True)


def most_bytes_down(case: BenchmarkCase) -> int:
    """What may come down for a frame: room for the boxes that stay, twice, because batches are not always full."""
    return 2 * (case.max_detections * DETECTION.itemsize + _ALIGNED_BYTES)
