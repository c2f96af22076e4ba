"""What `describe` takes from a pipeline: CPU time per frame with and without it, in turn, with good and bad servers.

    python -m benchmarks.describing [--clip sample_videos/street.mp4] [--frames 600] [--rounds 5] [--kinds answers ...]

Each round runs detection, tracking and a rule of two zones in this process, for each kind of server once without
`describe` and once with it, in changing order; the server is another process. There are as many questions for the
frames as the default limits allow in the long run on one stream of 25 frames a second (10 requests and images for 20
events in 1,500 frames), and the run is as fast as the processor allows.

Standard output gets one line of JSON for each kind. `share` is the CPU time of the step and of the thread that asks
beside all the other CPU time of the same run: what `describe` does, and the measure that shows a hundredth.
`ratio` is the CPU time of a run beside that of its neighbour without the step, which also has what threads do to
each other, but in which other programs on the machine are larger than that. `frame_rate` is by the clock: frames a
second beside those of the neighbour, on a machine that should do nothing else, or at the rate of a camera
(`--realtime`). All are medians over the rounds, with
the standard error of the median (from the median deviation), and `equal_runs` and `equal_rates` are the same of two
runs without the step. One run with `describe` comes before, so that what a process takes once (1.5 s, most of it
imports) is not among them; a new client for each run is.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
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
FRAMES_A_MINUTE = 1500
REQUESTS_A_MINUTE = 10
_SAMPLE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of a run by the clock and of CPU: of the process, of the step, and of the thread that asks; and what the
    step counted.
    """

    clock: float
    cpu: float
    step: float
    asking: float
    counted: Any

    @property
    def share(self) -> float:
        """What `describe` took beside all else."""
        own = self.step + self.asking
        return own / (self.cpu - own)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="What `describe` takes from a pipeline.")
    parser.add_argument("--clip", type=Path, default=REPOSITORY / "sample_videos" / "street.mp4")
    parser.add_argument("--model", type=Path, default=REPOSITORY / "models" / "street.onnx")
    parser.add_argument("--frames", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--realtime", action="store_true", help="at the rate of the clip, as a camera")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    given = parser.parse_args()
    import openai  # noqa: F401  once, before anything is measured

    with serving("answers") as url:  # what the first request of a process takes is not measured
        run(given, url)
    alone: list[Measured] = []
    pairs: dict[str, list[tuple[Measured, Measured]]] = {kind: [] for kind in given.kinds}
    for number in range(given.rounds):
        for place, kind in enumerate(given.kinds):
            with serving(kind) as url:
                order = (url, None) if (number + place) % 2 else (None, url)
                first, second = (run(given, one) for one in order)
            both = (second, first) if order[0] else (first, second)
            pairs[kind].append(both)
            alone.append(both[0])
    equal = [second.cpu / first.cpu for first, second in pairwise(alone)]
    equal_rates = [first.clock / second.clock for first, second in pairwise(alone)]
    for kind, measured in pairs.items():
        figures = {
            "server": kind,
            "share": middle([one.share for _, one in measured]),
            "ratio": middle([one.cpu / base.cpu for base, one in measured]),
            "equal_runs": middle(equal),
            "frame_rate": middle([base.clock / one.clock for base, one in measured]),
            "equal_rates": middle(equal_rates),
            "fps": round(given.frames / median(base.clock for base, _ in measured), 1),
            "cpu_ms_per_frame": round(1000 * median(base.cpu for base, _ in measured) / given.frames, 2),
            "step_ms": round(1000 * median(one.step for _, one in measured), 1),
            "asking_ms": round(1000 * median(one.asking for _, one in measured), 1),
            "frames": given.frames,
            "rounds": given.rounds,
            **measured[-1][1].counted,
        }
        sys.stdout.write(json.dumps(figures) + "\n")
        sys.stdout.flush()


def middle(values: Sequence[float]) -> tuple[float, float] | None:
    """The median and its standard error; None where there are no values."""
    if not values:
        return None
    found = median(values)
    deviation = 1.4826 * median(abs(one - found) for one in values)
    return round(found, 4), round(1.2533 * deviation / len(values) ** 0.5, 4)


def run(given: argparse.Namespace, url: str | None) -> Measured:
    """Run the clip, with `describe` where there is a server."""
    requests = max(1, round(REQUESTS_A_MINUTE * given.frames / FRAMES_A_MINUTE))
    limits = {"per_minute": requests, "queue": requests}
    with tempfile.TemporaryDirectory() as folder:
        steps: list[Any] = [{"detect": {"model": str(given.model)}}, "track", {"zones": HALVES}]
        if url is not None:
            steps.append({"describe": {"url": url, "model": "m", "path": "d.db", "finish": 0, **limits}})
        source = {"uri": str(given.clip), "realtime": given.realtime}
        pipeline = Pipeline(sources={"gate": source}, steps=steps, outputs=folder)
        before = cpu_seconds()
        with asking_clock() as asking:
            report = pipeline.run(frames=given.frames).to_json()
        cpu = cpu_seconds() - before
    step = 0.0 if url is None else report["elements"]["describe-1"]["cpu_seconds"]
    return Measured(report["wall_seconds"], cpu, step, asking[0], report["totals"].get("describe-1"))


@contextmanager
def asking_clock() -> Iterator[list[float]]:
    """Read the CPU time of the thread that asks while it is there; the list holds the last value, in seconds."""
    seconds, is_over = [0.0], threading.Event()

    def sample() -> None:
        while not is_over.wait(_SAMPLE_SECONDS):
            for thread in threading.enumerate():
                if thread.name == "sightline-describe" and thread.ident is not None:
                    seconds[0] = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield seconds
    finally:
        is_over.set()
        sampler.join()


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
