"""What `describe` takes from a pipeline: frames with and without it, in turn, with servers that behave well and badly.

    python -m benchmarks.describing [--clip sample_videos/street.mp4] [--frames 300] [--rounds 5]

Each round runs detection, tracking and a rule of two zones once without `describe` and once for each kind of server,
which is another process. Standard output gets one line of JSON for each kind: the median over the rounds of the CPU
time of this process beside that without (`cpu`), the same of the elapsed time (`elapsed`, noisy where other programs
run), the spread of the rounds without it (`cpu_spread`), and what was counted. One run with
`describe` comes before, so that what a process takes once (1.5 s, most of it imports) is not among them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

from tests.integration.describe import chat_server

from sightline import Pipeline

KINDS = {
    "answers": chat_server.says("A car enters."),
    "stalls": chat_server.stalls,
    "is busy": chat_server.fails(429, Retry_After="1"),
    "breaks off": chat_server.breaks_off,
    "is broken": chat_server.is_broken,
    "10 MB": chat_server.is_large,
    "markup": chat_server.says("<script>alert(1)</script>" * 50),
}
REPOSITORY = Path(__file__).resolve().parent.parent
HALVES = {
    "left": {"polygon": [[0, 0], [0.5, 0], [0.5, 1], [0, 1]]},
    "right": {"polygon": [[0.5, 0], [1, 0], [1, 1], [0.5, 1]]},
}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="What `describe` takes from a pipeline.")
    parser.add_argument("--clip", type=Path, default=REPOSITORY / "sample_videos" / "street.mp4")
    parser.add_argument("--model", type=Path, default=REPOSITORY / "models" / "street.onnx")
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    import openai  # noqa: F401  once, before anything is measured

    without: list[tuple[float, float]] = []
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    counted: dict[str, Any] = {}
    run(given, None)
    with serving("answers") as url:  # what the first request of a process takes is not measured
        run(given, url)
    for _round in range(given.rounds):
        cpu, elapsed, _ = run(given, None)
        without.append((cpu, elapsed))
        for kind in KINDS:
            with serving(kind) as url:
                cpu, elapsed, counted[kind] = run(given, url)
            found[kind].append((cpu, elapsed))
    for kind, times in found.items():
        figures = {
            "server": kind,
            "cpu": round(median(one[0] / base[0] for one, base in zip(times, without, strict=True)), 4),
            "elapsed": round(median(one[1] / base[1] for one, base in zip(times, without, strict=True)), 4),
            "cpu_spread": round(max(one[0] for one in without) / min(one[0] for one in without), 4),
            "frames": given.frames,
            **counted[kind],
        }
        sys.stdout.write(json.dumps(figures) + "\n")
        sys.stdout.flush()


def run(given: argparse.Namespace, url: str | None) -> tuple[float, float, Any]:
    """Run the clip; return CPU and elapsed seconds, and what `describe` counted."""
    with tempfile.TemporaryDirectory() as folder:
        steps: list[Any] = [{"detect": {"model": str(given.model)}}, "track", {"zones": HALVES}]
        if url is not None:
            steps.append({"describe": {"url": url, "model": "m", "path": "d.db", "finish": 0}})
        pipeline = Pipeline(sources={"gate": given.clip}, steps=steps, outputs=folder)
        cpu, elapsed = cpu_seconds(), time.perf_counter()
        report = pipeline.run(frames=given.frames)
        times = cpu_seconds() - cpu, time.perf_counter() - elapsed
    return times[0], times[1], report.totals.get("describe-1")


def cpu_seconds() -> float:
    """The CPU time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@contextmanager
def serving(kind: str) -> Iterator[str]:
    """A server of a kind in a process of its own; gives its address."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(kind, there))
    process.start()
    try:
        yield here.recv()
    finally:
        here.send("end")
        process.join()


def serve(kind: str, connection: Connection) -> None:
    """Serve until the other side says something."""
    with chat_server.running(KINDS[kind]) as server:
        connection.send(server.url)
        connection.recv()


if __name__ == "__main__":
    main()
