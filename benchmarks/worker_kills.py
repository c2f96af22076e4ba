"""Kill workers of a pipeline in several processes at random: how long streams are away, and what others notice.

    python -m benchmarks.worker_kills [--kills 20] [--streams 6] [--processes 2] [--fps 25]

Streams come at the rate of a camera. The main process writes their results to one file, whose growth is noted. A worker
is killed (SIGKILL) at a random moment, again and again. A stream is away for the longest time between two of its
results in the two seconds after a kill, or longer while none comes. In the end no frame may be missing or doubled in
the records: a file goes on where it was. A worker that is killed within 10 s of its start is started later each time,
so a shorter `--pause` measures that. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.graph_passes import processor
from sightline import Pipeline
from sightline.graph import MessageKind
from sightline.runtime.processes.run import ProcessRunner

_AFTER_SECONDS = 2.0
_GIVE_UP_SECONDS = 120.0
_LOOK_SECONDS = 0.01
_STREAM = re.compile(r'"stream": ?"(\w+)"')

Arrivals = dict[str, list[float]]
"""When results of each stream came, in seconds."""


@dataclass(frozen=True, slots=True)
class Kill:
    """When a worker was killed, and the streams that it had."""

    seconds: float
    streams: frozenset[str]


def main() -> None:
    """Print what was seen."""
    parser = argparse.ArgumentParser(description="Kill workers at random.")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--streams", type=int, default=6)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--fps", type=int, default=25)
    parser.add_argument("--pause", type=float, default=10.0, help="seconds between kills, and up to one more")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(json.dumps(measured(given, Path(folder))) + "\n")


def measured(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run, kill, and look at arrivals and records."""
    chance, kills = random.Random(given.seed), list[Kill]()
    arrivals: Arrivals = {f"s{number}": [] for number in range(given.streams)}
    source = {"pattern": "counter", "size": [320, 180], "fps": given.fps, "realtime": True, "frames": None}
    pipeline = Pipeline(
        sources=dict.fromkeys(arrivals, source),
        steps=[{"jsonl": "all.jsonl"}],
        processes=given.processes,
        outputs=folder,
    )
    told: list[str] = []
    pipeline.on_message(lambda message: told.append(message.text) if message.kind is MessageKind.WORKER_LOST else None)
    with pipeline, noting(folder / "all.jsonl", arrivals):
        runner = pipeline._runner  # noqa: SLF001  there is no other way to the processes
        assert isinstance(runner, ProcessRunner)
        while not all(arrivals.values()):
            time.sleep(0.1)
        for _ in range(given.kills):
            time.sleep(given.pause + chance.random())
            share = chance.choice([one for one in runner.shares if one.pid is not None])
            kills.append(Kill(time.monotonic(), frozenset(share.sources)))
            os.kill(share.pid or 0, signal.SIGKILL)
            time.sleep(_AFTER_SECONDS)
            wait_for_all(arrivals)
        pipeline.stop()
        pipeline.wait()
    own = [pause(arrivals[name], kill.seconds) for kill in kills for name in kill.streams]
    others = [pause(arrivals[name], kill.seconds) for kill in kills for name in arrivals.keys() - kill.streams]
    missing, doubled = faults(folder / "all.jsonl")
    return {
        "kills": given.kills,
        "told": len(told),
        "away_s": spread(own),
        "others_s": spread(others),
        "frames": sum(map(len, arrivals.values())),
        "frames_missing": missing,
        "frames_doubled": doubled,
        "processor": processor(),
        "load": round(os.getloadavg()[0], 1),
    }


@contextmanager
def noting(path: Path, arrivals: Arrivals) -> Iterator[None]:
    """Note when the records of each stream come into a file."""
    is_over = threading.Event()

    def read() -> None:
        with path.open() as file:
            while not is_over.wait(_LOOK_SECONDS):
                lines, now = file.read().splitlines(), time.monotonic()
                for line in lines:
                    if (found := _STREAM.search(line)) is not None:
                        arrivals[found[1]].append(now)

    path.touch()
    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        is_over.set()
        reader.join()


def wait_for_all(arrivals: Arrivals) -> None:
    """Wait for another result of each stream."""
    counts = {name: len(seconds) for name, seconds in arrivals.items()}
    deadline = time.monotonic() + _GIVE_UP_SECONDS
    while any(len(arrivals[name]) <= count for name, count in counts.items()):
        assert time.monotonic() < deadline, "a stream does not come back"
        time.sleep(0.1)


def pause(arrivals: list[float], killed: float) -> float:
    """The longest time between two results of a stream soon after a kill, in seconds."""
    return max(
        second - first
        for first, second in itertools.pairwise(arrivals)
        if second > killed and first < killed + _AFTER_SECONDS
    )


def spread(seconds: list[float]) -> dict[str, float]:
    """The median and the largest value."""
    return {"median": round(statistics.median(seconds), 3), "most": round(max(seconds), 3)}


def faults(path: Path) -> tuple[int, int]:
    """How many frames have no record, and how many have several."""
    found = defaultdict(list)
    for line in path.read_bytes().splitlines():
        record = json.loads(line)
        found[record["stream"]].append(record["frame"])
    steps = [second - first for frames in found.values() for first, second in itertools.pairwise(sorted(frames))]
    return sum(step - 1 for step in steps if step > 1), steps.count(0)


if __name__ == "__main__":
    main()
