"""Many small cameras: CPU time a frame of 64 streams at 5 frames a second, beside 4 streams as fast as possible.

    python -m benchmarks.small_cameras [--data ../shared/data] [--streams 64] [--fps 5] [--rounds 3] [--seconds 20]

Both read the same clip, decode every frame of it, detect with FastestDet, track and write JSON lines. The many streams
come at their pace, each frame at its time; the few as fast as the machine can. They take turns, and each run is a
process of its own. CPU time is that of the whole process from the first frame on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import av

from benchmarks.graph_passes import DATA
from benchmarks.pipelines.document import machine
from sightline import Pipeline

FEW = 4
ALLOWED = 1.10


@dataclass(frozen=True, slots=True)
class Case:
    """One run: `streams` of a clip, `frames` of each."""

    name: str
    clip: str
    data: str
    streams: int
    frames: int
    realtime: bool


def paced(clip: Path, folder: Path, *, fps: float) -> Path:
    """The same packets with the timestamps of so many frames a second."""
    path = folder / "paced.mp4"
    with av.open(str(clip)) as source, av.open(str(path), "w") as target:
        video = source.streams.video[0]
        copy = target.add_stream_from_template(video)
        slower = Fraction(video.average_rate or 25) / Fraction(fps)
        for packet in source.demux(video):
            if packet.dts is None or packet.pts is None:
                continue
            packet.pts, packet.dts = round(packet.pts * slower), round(packet.dts * slower)
            packet.stream = copy
            target.mux(packet)
    return path


def run(case: Case) -> dict[str, float]:
    """Run a case; CPU milliseconds a frame, and frames a second."""
    models = Path(case.data) / "models"
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(
            sources={
                f"stream{number}": {"uri": case.clip, "realtime": case.realtime, "loop": True}
                for number in range(case.streams)
            },
            steps=[
                {"detect": {"model": str(models / "FastestDet.onnx"), "labels": str(models / "coco80.names")}},
                "track",
                {"jsonl": "{stream}.jsonl"},
            ],
            outputs=folder,
        )
        report = pipeline.run(frames=case.frames)
    return {"cpu_ms": 1000 * report.cpu_seconds / report.frames, "fps": report.fps, "frames": report.frames}


def measured(case: Case) -> dict[str, float]:
    """Run a case in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.small_cameras", "--child", json.dumps(asdict(case))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure, and print a table and the ratio."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.small_cameras", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--fps", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20, help="of each run with many streams")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child is not None:
        print(json.dumps(run(Case(**json.loads(asked.child)))))
        return
    frames = round(asked.seconds * asked.fps)
    with tempfile.TemporaryDirectory() as folder:
        clip = paced(asked.data / "videos" / "street-cars-640x360.mp4", Path(folder), fps=asked.fps)
        many = Case(
            f"{asked.streams} at {asked.fps:g} a second", str(clip), str(asked.data), asked.streams, frames, True
        )
        few = Case(f"{FEW} as fast as possible", str(clip), str(asked.data), FEW, frames * asked.streams // FEW, False)
        rounds = [(measured(many), measured(few)) for _ in range(asked.rounds)]
    print(f"{datetime.now(UTC):%Y-%m-%d}, {machine()}, {asked.rounds} rounds in turn\n")
    print("| streams | frames | frames a second | CPU ms a frame |\n|---|---:|---:|---:|")
    for case, index in ((many, 0), (few, 1)):
        middle = {key: statistics.median(one[index][key] for one in rounds) for key in ("frames", "fps", "cpu_ms")}
        print(f"| {case.name} | {middle['frames']:.0f} | {middle['fps']:.1f} | {middle['cpu_ms']:.2f} |")
    ratio = statistics.median(a["cpu_ms"] / b["cpu_ms"] for a, b in rounds)
    print(
        f"\nratio of CPU time a frame: {ratio:.2f} (at most {ALLOWED:.2f}: {'met' if ratio <= ALLOWED else 'missed'})"
    )


if __name__ == "__main__":
    main()
