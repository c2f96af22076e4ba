"""Memory for each stream: ours beside the expert's loop, with 1 to 64 streams, and what it is made of.

    python -m benchmarks.stream_memory [--data ../shared/data] [--streams 1,8,32,64] [--rounds 3] [--frames 1200]
    python -m benchmarks.stream_memory --growth 100000 --streams 8

Each run is a process of its own that reads one clip on all streams at once, as fast as it can: 640x360 and the same
clip enlarged to 1920x1080. Both detect, track and write JSON lines with FastestDet; with YOLOX-nano the expert's loop
only decodes, resizes and infers. The resident set is sampled from outside, 20 times a second, from the first frame on.
Its steady value is the median of the second half of the run, its peak the kernel's. What a stream adds is the
difference to the run with one stream, divided by the streams that are more. Surfaces are the most that were alive at
once in our process; their bytes are the part of the queues and of what is under way. `--growth` runs ours alone for so
many frames of all streams together, with the clip over and over, and prints the resident set along the way.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from av.video.frame import VideoFrame

from benchmarks.arguments import numbers, size_wh
from benchmarks.gpu_models.clips import enlarged
from benchmarks.graph_passes import DATA, processor
from sightline import Pipeline
from sightline.media import Surface
from sightline_plugins.commands.soak.samples import slope
from sightline_plugins.decode.orientation import Orientation
from sightline_plugins.decode.surfaces import FrameSurfaces

WAYS = ("ours", "expert")
MODELS = ("FastestDet.onnx", "yolox_nano.onnx")
SIZES = ("640x360", "1920x1080")
_BEGIN = "begin"
_SAMPLE_SECONDS = 0.05
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass(frozen=True, slots=True)
class Task:
    """What a process has to do: `frames` of the clip on each of `streams` streams."""

    way: str
    clip: str
    model: str
    labels: str
    out: str
    streams: int
    frames: int


@dataclass(frozen=True, slots=True)
class Usage:
    """Megabytes of a process, steady and at most, the largest number of surfaces alive (0: not counted), and frames a
    second.
    """

    steady: float
    peak: float
    surfaces: int
    fps: float


def ours(task: Task) -> dict[str, float]:
    """Run the pipeline; the first run loads the model."""
    out = Path(task.out)

    def pipeline(streams: int) -> Pipeline:
        return Pipeline(
            sources={f"stream{number}": {"uri": task.clip, "loop": True} for number in range(streams)},
            steps=[
                {"detect": {"model": task.model, "labels": task.labels, "confidence": 0.4}},
                "track",
                {"jsonl": str(out / "{stream}.jsonl")},
            ],
            outputs=out,
        )

    pipeline(1).run(frames=2)
    print(_BEGIN, flush=True)
    alive = Alive()
    report = pipeline(task.streams).run(frames=task.frames).to_json()
    return {"surfaces": alive.most, "fps": report["frames"] / report["wall_seconds"]}


class Alive:
    """Counts the decoded surfaces that are alive, from now on, by the first plane of each."""

    def __init__(self) -> None:
        self.most = 0
        self._planes: dict[int, weakref.ref[Any]] = {}
        self._numbers = itertools.count()
        self._make = FrameSurfaces.surface
        alive = self

        def surface(self: FrameSurfaces, frame: VideoFrame, *, orientation: Orientation | None = None) -> Surface:
            made = alive._make(self, frame, orientation=orientation)
            alive._add(made)
            return made

        FrameSurfaces.surface = surface  # type: ignore[method-assign]

    def _add(self, surface: Surface) -> None:
        number = next(self._numbers)
        self._planes[number] = weakref.ref(surface.planes[0], lambda _: self._planes.pop(number, None))
        self.most = max(self.most, len(self._planes))


def expert(task: Task) -> dict[str, float]:
    """Run the expert's loop: frames of all streams in turn, one more request than cores."""
    import cv2
    import numpy as np
    import openvino as ov

    from benchmarks.pipelines.expert_parts import COLUMNS, CORES, ExpertStream, compiled, simplified, warm_up
    from benchmarks.pipelines.job import Job

    cv2.setNumThreads(1)
    clip, model, labels, out = (Path(one) for one in (task.clip, task.model, task.labels, task.out))
    job = Job(clip, model, labels, out, streams=task.streams, passes=1)
    network = compiled(simplified(job), "f32")
    _, height, width, _ = network.inputs[0].shape
    has_head = model.name == MODELS[0]
    small = np.zeros((height * 3 // 2, width), np.uint8)
    flat = small.reshape(-1)[height * width :]
    chroma = flat.reshape(2, height // 2, width // 2)

    class Slot:
        def __init__(self) -> None:
            self.image = np.zeros((1, height, width, 3), np.uint8)
            self.output = np.zeros(tuple(network.outputs[0].shape), np.float32)
            self.request = network.create_infer_request()
            self.request.set_input_tensor(ov.Tensor(self.image, shared_memory=True))
            self.request.set_output_tensor(ov.Tensor(self.output, shared_memory=True))
            self.stream: ExpertStream | None = None
            self.pts = 0

        def collect(self) -> None:
            self.request.wait()
            if has_head and self.stream is not None:
                self.stream.finish(self.output.reshape(-1, COLUMNS * COLUMNS), self.pts)

    free, underway = [Slot() for _ in range(CORES + 1)], deque[Slot]()
    if has_head:
        warm_up(network, job=job)
    print(_BEGIN, flush=True)
    began, done = time.perf_counter(), 0
    streams = [ExpertStream(name, job=job) for name in job.names]
    turns: deque[tuple[ExpertStream, Iterator[Any]]] = deque(
        (stream, islice(stream.frames(), task.frames)) for stream in streams
    )
    while turns:
        stream, frames = turns.popleft()
        frame = next(frames, None)
        if frame is None:
            continue
        turns.append((stream, frames))
        if free:
            slot = free.pop()
        else:
            slot = underway.popleft()
            slot.collect()
        for plane, part in zip(frame.planes, (small[:height], *chroma), strict=True):
            rows = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]
            cv2.resize(rows, part.shape[::-1], dst=part, interpolation=cv2.INTER_LINEAR)
        cv2.cvtColor(small, cv2.COLOR_YUV2BGR_I420, dst=slot.image[0])
        slot.stream, slot.pts = stream, frame.pts or 0
        slot.request.start_async()
        underway.append(slot)
        done += 1
    for slot in underway:
        slot.collect()
    for stream in streams:
        stream.close()
    return {"surfaces": 0, "fps": done / (time.perf_counter() - began)}


def sampled(task: Task) -> tuple[list[float], dict[str, float]]:
    """Run a task in a process of its own; return the megabytes of its resident set along the way, and its figures."""
    command = [sys.executable, "-m", "benchmarks.stream_memory", "--child", json.dumps(asdict(task))]
    samples: list[float] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        begun = process.stdout.readline().strip()
        if begun != _BEGIN:
            raise SystemExit(f"{task.way} did not begin: {begun}")
        lines: list[str] = []
        reader = threading.Thread(target=lambda: lines.extend(process.stdout or ()))
        reader.start()
        statm = Path(f"/proc/{process.pid}/statm")
        while reader.is_alive():
            reader.join(_SAMPLE_SECONDS)
            if resident := int(statm.read_text().split()[1]):
                samples.append(resident * _PAGE_MB)
        if not lines:
            raise SystemExit(f"{task.way} failed with {task.streams} streams")
        return samples, json.loads(lines[-1])


def measured(task: Task) -> Usage:
    """Run a task in a process of its own, and sample its memory from outside."""
    samples, found = sampled(task)
    return Usage(statistics.median(samples[len(samples) // 2 :]), found["peak"], int(found["surfaces"]), found["fps"])


def child(task: Task) -> None:
    """Do a task, and print what came of it."""
    found = {"ours": ours, "expert": expert}[task.way](task)
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(json.dumps({**found, "peak": peak * 1024 / 1e6}), flush=True)


def growth(asked: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Run ours for many frames, and compare thirds of the run after its first tenth; the slope is Theil and Sen's."""
    clip, models = asked.data / "videos" / "street-cars-640x360.mp4", asked.data / "models"
    head = ("model", "streams", "frames", "MB, 10 to 40 %", "40 to 70 %", "70 to 100 %", "MB per 100,000 frames", "fps")
    yield f"| {' | '.join(head)} |"
    yield "|---|" + "---:|" * (len(head) - 1)
    for model in asked.models:
        for streams in asked.streams:
            paths = str(clip), str(models / model), str(models / "coco80.names"), str(folder)
            task = Task("ours", *paths, streams, asked.growth // streams)
            samples, found = sampled(task)
            parts = [
                statistics.median(samples[len(samples) * first // 100 : len(samples) * last // 100])
                for first, last in ((10, 40), (40, 70), (70, 100))
            ]
            late = samples[len(samples) // 10 :: max(len(samples) // 500, 1)]
            grown = slope(range(len(late)), late) * len(late) / 0.9 / (task.frames * streams) * 100_000
            figures = " | ".join(f"{one:.1f}" for one in (*parts, grown, found["fps"]))
            yield f"| {model.partition('.')[0]} | {streams} | {task.frames * streams} | {figures} |"


HEADER = (
    *("model", "size", "streams", "ours, MB", "expert, MB", "ours, peak", "expert, peak"),
    *("ours, MB a stream", "expert, MB a stream", "surfaces a stream", "their MB", "fps, ours / expert"),
)


def table(asked: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Measure everything; the lines of the table."""
    yield f"| {' | '.join(HEADER)} |"
    yield "|---|---|" + "---:|" * (len(HEADER) - 2)
    clip = asked.data / "videos" / "street-cars-640x360.mp4"
    for size in asked.sizes:
        used = clip if size == SIZES[0] else enlarged(clip, folder, size_wh=size_wh(size))
        width, height = size_wh(size)
        for model in asked.models:
            alone: dict[str, Usage] = {}
            for streams in asked.streams:
                frames = max(asked.frames // streams, 12)
                rounds: dict[str, list[Usage]] = {way: [] for way in WAYS}
                for _ in range(asked.rounds):
                    for way in WAYS:
                        out = Path(tempfile.mkdtemp(dir=folder))
                        paths = str(used), str(asked.data / "models" / model), str(asked.data / "models/coco80.names")
                        rounds[way].append(measured(Task(way, *paths, str(out), streams, frames)))
                usage = {way: _median(found) for way, found in rounds.items()}
                ratio = statistics.median(a.fps / b.fps for a, b in zip(rounds["ours"], rounds["expert"], strict=True))
                alone = alone or usage
                added = [(usage[way].steady - alone[way].steady) / max(streams - 1, 1) for way in WAYS]
                each = usage["ours"].surfaces / streams
                cells = [
                    *(model.partition(".")[0], size, str(streams)),
                    *(f"{usage[way].steady:.0f}" for way in WAYS),
                    *(f"{usage[way].peak:.0f}" for way in WAYS),
                    *(f"{one:.1f}" if streams > 1 else "" for one in added),
                    *(f"{each:.1f}", f"{each * width * height * 1.5 / 1e6:.1f}", f"{ratio:.2f}"),
                ]
                yield f"| {' | '.join(cells)} |"


def _median(found: list[Usage]) -> Usage:
    middle = (statistics.median(getattr(one, name) for one in found) for name in ("steady", "peak", "surfaces", "fps"))
    steady, peak, surfaces, fps = middle
    return Usage(steady, peak, int(surfaces), fps)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.stream_memory", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--streams", type=numbers, default=(1, 8, 32, 64))
    parser.add_argument("--frames", type=int, default=1200, help="frames of all streams together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--growth", type=int, metavar="FRAMES", help="run ours for so many frames; does memory grow?")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child is not None:
        child(Task(**json.loads(asked.child)))
        return
    print(f"{datetime.now(UTC):%Y-%m-%d}, {processor()}, {asked.frames} frames, {asked.rounds} rounds\n")
    with tempfile.TemporaryDirectory() as folder:
        for line in growth(asked, Path(folder)) if asked.growth else table(asked, Path(folder)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
