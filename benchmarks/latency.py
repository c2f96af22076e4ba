"""How old an image of a camera is when what was found in it is written, on two cores with four cameras.

    python -m benchmarks.latency [--seconds 60] [--rounds 5] [--write]

Four fake cameras in a process of their own (RTSP over TCP, 640x360, 25 fps, H.264 without B-frames) are read by a
pipeline of `detect`, `track` and `jsonl` with `models/street.onnx`; both processes share two cores. An image's age is
counted from the moment it leaves the camera, which the camera tells in its sender reports, to the moment `jsonl` has
written its record. `--seconds 1800` shows whether it grows over half an hour. Then a step follows that is ten times too
slow, and at last whole processes are started to see how long their first result takes. `--write` writes the page
docs/benchmarks/latency.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.frame import PictureType

from benchmarks.pipelines.document import machine
from sightline import Pipeline
from sightline.media import Batch, FrameView, TimeSource
from sightline.runtime.stats.report import Report
from sightline.testing import assert_accounted
from sightline_plugins import Callback
from sightline_plugins.commands.soak.samples import slope

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks" / "latency.md"
CLIP = ROOT / "sample_videos" / "street.mp4"
CAMERAS = ("a", "b", "c", "d")
FPS = 25
CORES = 2
WARM_UP_SECONDS = 5.0
SLOW_CONSUMER_SECONDS = 20.0
TOO_SLOW = 10
MINUTE = 60.0
STEPS: tuple[Mapping[str, object] | str, ...] = (
    {"detect": {"model": str(ROOT / "models" / "street.onnx")}},
    "track",
)
TITLE = """# Latency of cameras

{date}, {machine}; `python -m benchmarks.latency --seconds {seconds:.0f} --write`. {count} fake cameras (RTSP over TCP,
640x360, {fps} fps, H.264 without B-frames) in their own process, and a pipeline of `detect`
(`models/street.onnx`), `track` and `jsonl`, on {cores} cores together. Latency is from the moment a frame leaves the
camera (by its sender reports) to the moment its record is written. FFmpeg delivers a frame when the first packet of the
next one has arrived, so every figure includes one interval of the camera, {interval:.0f} ms.

{steady}

The slope of the 95th percentile is {slope:+.2f} ms per minute.
{frames}

The same for {slow_seconds:.0f} s with one more step that is {too_slow} times too slow: it takes {pause:.0f} ms per
frame, and {rate} frames per second arrive.

{slow}

From `sightline run` to the first record of one camera, {starts} starts: {median:.2f} s median, {worst:.2f} s
worst.
"""


@dataclass(slots=True)
class Ages:
    """Collect the ages of frames in ms, each with its time of arrival (seconds, monotonic); a probe.

    Frames of cameras without a known time are left out and counted.
    """

    seen: list[tuple[float, float]] = field(default_factory=list)
    untold: int = 0

    def __call__(self, batch: Batch) -> None:
        """Look at the frames of a batch."""
        now, epoch_ns = time.monotonic(), time.time_ns()
        for frame in batch.frames:
            if frame.capture_ns is None or frame.time_source is not TimeSource.RTCP:
                self.untold += 1
            else:
                self.seen.append((now, (epoch_ns - frame.capture_ns) / 1e6))

    def by_minute(self) -> list[list[float]]:
        """Ages after warming up, minute by minute."""
        begin = self.seen[0][0] + WARM_UP_SECONDS
        minutes: dict[int, list[float]] = {}
        for at, age in self.seen:
            if at >= begin:
                minutes.setdefault(int((at - begin) // MINUTE), []).append(age)
        return [minutes[number] for number in sorted(minutes) if len(minutes[number]) >= FPS * len(CAMERAS)]


@contextmanager
def cameras(folder: Path) -> Iterator[list[str]]:
    """Four cameras in a process of their own; their addresses."""
    clip = as_camera_sends(CLIP, folder / "clip.mp4")
    command = [sys.executable, "-m", "sightline.cli.main", "camera", "--port", "0", "--transport", "tcp"]
    with subprocess.Popen(
        [*command, *(f"{name}={clip}" for name in CAMERAS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield [process.stdout.readline().strip() for _ in CAMERAS]
        finally:
            process.terminate()


def as_camera_sends(source: Path, target: Path) -> Path:
    """The clip encoded as cameras do: no B-frames, a key frame every second."""
    with av.open(source) as given, av.open(target, "w") as made:
        options = {"preset": "veryfast", "tune": "zerolatency", "g": str(FPS)}
        stream = made.add_stream("libx264", rate=FPS, options=options)
        video = given.streams.video[0]
        stream.width, stream.height, stream.pix_fmt = video.width, video.height, "yuv420p"
        for number, frame in enumerate(given.decode(video)):
            frame.pts, frame.time_base, frame.pict_type = number, Fraction(1, FPS), PictureType.NONE
            made.mux(stream.encode(frame))
        made.mux(stream.encode(None))
    return target


def run(urls: list[str], folder: Path, *, seconds: float, pause_seconds: float = 0.0) -> tuple[Ages, Report]:
    """Run for so long; `pause_seconds` is what a last step takes for each frame."""

    def dawdle(frame: FrameView) -> None:
        del frame
        time.sleep(pause_seconds)

    slow = [Callback(id="slow", function=dawdle)] if pause_seconds else []
    steps = [*STEPS, {"jsonl": {"path": str(folder / f"{pause_seconds:g}-{{stream}}.jsonl")}}, *slow]
    pipeline, ages = Pipeline(sources=dict(zip(CAMERAS, urls, strict=True)), steps=steps), Ages()
    pipeline.probe("slow" if pause_seconds else "jsonl-1", ages)
    pipeline.start()
    while not ages.seen:
        time.sleep(0.05)
    time.sleep(seconds + WARM_UP_SECONDS)
    pipeline.stop()
    report = pipeline.wait()
    assert_accounted(report, stopped=True)
    return ages, report


def first_result_seconds(url: str, folder: Path) -> float:
    """From the start of a process to its first record."""
    config, record = folder / "first.yaml", folder / "first.jsonl"
    steps = f"detect: {{model: {ROOT / 'models' / 'street.onnx'}}}"
    config.write_text(f"sources: {{a: '{url}'}}\npipeline: [{steps}, track, jsonl: {{path: '{record}'}}]\n")
    record.unlink(missing_ok=True)
    begun = time.monotonic()
    with subprocess.Popen([sys.executable, "-m", "sightline.cli.main", "run", str(config), "-q"]) as process:
        while not (record.exists() and record.stat().st_size):
            time.sleep(0.005)
        took = time.monotonic() - begun
        process.terminate()
    return took


def percentiles(ages: list[float]) -> str:
    """Middle, 95th percentile and worst, as cells."""
    return f"{np.median(ages):.1f} | {np.percentile(ages, 95):.1f} | {max(ages):.1f}"


def steady_table(minutes: list[list[float]]) -> str:
    """Ages minute by minute, and of all."""
    rows = ["| | frames | p50 ms | p95 ms | worst ms |", "|---|---|---|---|---|"]
    rows += [f"| minute {number} | {len(one)} | {percentiles(one)} |" for number, one in enumerate(minutes, 1)]
    every = [age for one in minutes for age in one]
    return "\n".join([*rows, f"| all | {len(every)} | {percentiles(every)} |"])


def frames_line(report: Report) -> str:
    """What became of the frames."""
    received = sum(stream.received for stream in report.streams)
    dropped = sum(stream.dropped.total() for stream in report.streams)
    cpu = report.cpu_seconds / report.wall_seconds
    return f"{received} frames received, {dropped} dropped, all counted; {cpu:.2f} cores used by the pipeline."


def slow_table(report: Report, ages: Ages) -> str:
    """What a slow consumer cost each stream."""
    rows = ["| stream | received | processed | dropped as overloaded | reconnects |", "|---|---|---|---|---|"]
    rows += [
        f"| {one.stream.name} | {one.received} | {one.finished} | {one.dropped['overloaded']} | {one.reconnects} |"
        for one in report.streams
    ]
    age = percentiles([age for at, age in ages.seen if at >= ages.seen[0][0] + WARM_UP_SECONDS])
    return "\n".join([*rows, "", f"Ages in ms after that step (p50, p95, worst): {age.replace(' |', ',')}."])


def page(*, seconds: float, rounds: int) -> str:
    """Measure everything; the page."""
    with tempfile.TemporaryDirectory(prefix="sightline-latency-") as name, cameras(folder := Path(name)) as urls:
        ages, report = run(urls, folder, seconds=seconds)
        pause_seconds = TOO_SLOW / (FPS * len(CAMERAS))
        slow_ages, slow_report = run(urls, folder, seconds=SLOW_CONSUMER_SECONDS, pause_seconds=pause_seconds)
        starts = [first_result_seconds(urls[0], folder) for _ in range(rounds)]
    minutes = ages.by_minute()
    return TITLE.format(
        date=f"{datetime.now(tz=UTC):%Y-%m-%d}",
        machine=machine(),
        seconds=seconds,
        count=len(CAMERAS),
        fps=FPS,
        cores=CORES,
        interval=1000 / FPS,
        steady=steady_table(minutes),
        slope=slope(range(len(minutes)), [float(np.percentile(one, 95)) for one in minutes]),
        frames=frames_line(report),
        too_slow=TOO_SLOW,
        pause=1000 * pause_seconds,
        rate=FPS * len(CAMERAS),
        slow_seconds=SLOW_CONSUMER_SECONDS,
        slow=slow_table(slow_report, slow_ages),
        starts=rounds,
        median=float(np.median(starts)),
        worst=max(starts),
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long; 1800 for half an hour")
    parser.add_argument("--rounds", type=int, default=5, help="starts of whole processes")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    asked = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    text = page(seconds=asked.seconds, rounds=asked.rounds)
    print(text)
    if asked.write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
