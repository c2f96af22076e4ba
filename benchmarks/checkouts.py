"""Compare the speed of this checkout with another one, in turn, on the same clip and model.

    git worktree add ../before COMMIT && make -C ../before install
    python -m benchmarks.checkouts ../before [--streams 1,4,8] [--rounds 5]

Each run decodes, detects (FastestDet), tracks and writes JSON lines; the clip is the shared car clip, once per stream.
Rates are those of the run report, without start-up. The table gives the median rate of each checkout and the median of
the rounds' ratios, for frames per second and for CPU time; both checkouts run once before the first round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("SIGHTLINE_SHARED_DATA", ROOT.parent / "shared" / "data"))


@dataclass(frozen=True, slots=True)
class Rate:
    """What one run took: frames per second, and CPU milliseconds per frame."""

    fps: float
    cpu_ms: float


def pipeline(streams: int) -> dict[str, object]:
    """Return the configuration that both checkouts run."""
    model, clip = DATA / "models" / "FastestDet.onnx", DATA / "videos" / "car-detection.mp4"
    detect = {"model": str(model), "labels": str(DATA / "models" / "coco80.names"), "confidence": 0.4}
    return {
        "device": "cpu",
        "sources": {f"s{number}": str(clip) for number in range(streams)},
        "pipeline": [{"detect": detect}, "track", {"jsonl": {"path": "{stream}.jsonl"}}],
    }


def run(checkout: Path, *, streams: int, folder: Path) -> Rate:
    """Run the pipeline once with the environment of a checkout. Raises CalledProcessError when it fails."""
    config, report = folder / "run.yaml", folder / "report.json"
    config.write_text(json.dumps(pipeline(streams)))
    program = checkout / ".venv" / "bin" / "sightline"
    command = [str(program), "run", str(config), "-q", "--report", str(report)]
    subprocess.run(command, cwd=folder, check=True)
    measured = json.loads(report.read_text())
    return Rate(measured["fps"], 1000 * measured["cpu_seconds"] / measured["frames"])


def compare(other: Path, *, streams: int, rounds: int) -> str:
    """Return the table's row for a number of streams."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for checkout in (other, ROOT):
            run(checkout, streams=streams, folder=folder)
        pairs = [
            (run(other, streams=streams, folder=folder), run(ROOT, streams=streams, folder=folder))
            for _ in range(rounds)
        ]
    before, now = (statistics.median(pair[side].fps for pair in pairs) for side in (0, 1))
    speed = statistics.median(after.fps / one.fps for one, after in pairs)
    cpu = statistics.median(after.cpu_ms / one.cpu_ms for one, after in pairs)
    return f"| {streams} | {before:.0f} | {now:.0f} | {speed:.3f} | {cpu:.3f} |"


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkouts", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("other", type=Path, help="another checkout, installed in its own .venv")
    parser.add_argument("--streams", default="1,4,8", help="numbers of streams")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    print(
        "| streams | other, frames/s | this, frames/s | this / other | CPU time, this / other |\n|---|---|---|---|---|"
    )
    for streams in map(int, asked.streams.split(",")):
        print(compare(asked.other.resolve(), streams=streams, rounds=asked.rounds), flush=True)


if __name__ == "__main__":
    main()
