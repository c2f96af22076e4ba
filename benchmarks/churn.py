"""Streams that come and go at random under load: how long each change takes, and what is left behind.

    python -m benchmarks.churn [--changes 1000]

Four threads and an event loop add and remove test images and short clips, while three streams stay, one of which is
read as fast as the machine can. Standard output gets one line of JSON for each tenth of the changes (memory, threads,
files), and one at the end: the time that changes took, from the call to the end of waiting, and what became of the
frames. It fails when a frame of a stream that stays is lost or out of order. Run it with MALLOC_ARENA_MAX=1: heaps of
threads that are gone look like growth.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import numpy as np

from sightline import Pipeline
from sightline.graph import Capability, Element, Operator, Site
from sightline.media import Batch, Objects, Origin
from sightline.runtime.sources.manager import PendingChange
from sightline.testing import FrameOrder, assert_accounted

CLIPS = Path(__file__).parents[1] / "sample_videos"
IMAGE = {"pattern": "counter", "size": [320, 180], "frames": None, "realtime": True}
PERMANENT: Mapping[str, Mapping[str, object]] = {
    "north": IMAGE,
    "south": IMAGE,
    "mill": {"uri": str(CLIPS / "street.mp4"), "loop": True},
}
THREADS = 4
NAMES_EACH = 5
ROUNDS = 10
PATIENCE_SECONDS = 10
BOTH_WAYS_LINE = {"from": [0.2, 0.6], "to": [0.8, 0.6]}


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description="Streams that come and go at random.")
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pipeline = make_pipeline(Path(folder))
        order = FrameOrder()
        pipeline.probe("jsonl-1", order)
        with pipeline:
            took = [one for part in churn(pipeline, arguments.changes, seed=arguments.seed) for one in part]
        assert pipeline.report is not None
        assert_accounted(pipeline.report, stopped=True)
        order.check(pipeline.report)
        stayed = [stream for stream in pipeline.report.streams if stream.stream.name in PERMANENT]
        assert all(stream.received == stream.processed + stream.dropped["stopped"] for stream in stayed)
        written = {stream.stream.name: sum(1 for _ in lines_of(Path(folder), stream.stream.name)) for stream in stayed}
        assert all(written[stream.stream.name] == stream.processed for stream in stayed), written
    took.sort()
    say(
        changes=len(took),
        median_ms=round(took[len(took) // 2] * 1e3, 2),
        p99_ms=round(took[int(len(took) * 0.99)] * 1e3, 2),
        worst_ms=round(took[-1] * 1e3, 2),
        frames=pipeline.report.frames,
        lost_of_those_that_stay=sum(stream.dropped.total() for stream in stayed),
    )


class Detected(Element):
    """One box a frame that goes down the image and back again."""

    name: ClassVar[str] = "found"
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS})

    def build(self, site: Site) -> Operator:
        """Make the operator."""
        return Finder(Origin(site.element_id, ("car",)))


class Finder(Operator):
    """Finds it."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin

    def process(self, batch: Batch) -> Batch:
        """Add the boxes."""
        sizes = np.array([frame.size_wh for frame in batch.frames], np.float32)
        way = np.array([abs(frame.index % 50 - 25) / 25 for frame in batch.frames], np.float32)
        middle = sizes * np.stack([np.full_like(way, 0.5), 0.3 + 0.4 * way], axis=1)
        found = Objects.from_columns(
            frame=np.arange(len(batch)),
            xyxy=np.concatenate([middle - sizes / 10, middle + sizes / 10], axis=1),
            confidence=np.full(len(batch), 0.9),
            class_id=np.zeros(len(batch)),
            source=self._origin,
        )
        return batch.with_objects(found)


def make_pipeline(folder: Path) -> Pipeline:
    """Three streams that stay, through a tracker, a rule and a file each."""
    return Pipeline(
        sources=PERMANENT,
        steps=[
            Detected(),
            "track",
            {"lines": {"across": BOTH_WAYS_LINE}},
            {"jsonl": {"path": str(folder / "{stream}.jsonl")}},
        ],
        batch={"timeout": "10ms"},
    )


def churn(pipeline: Pipeline, changes: int, *, seed: int) -> Iterator[list[float]]:
    """Make the changes in ten rounds, each by all threads at once; yield what each change took, in seconds."""
    hands = [Hand(pipeline, number, random.Random(seed * 100 + number)) for number in range(THREADS + 1)]
    each = max(1, changes // ROUNDS // len(hands))
    with ThreadPoolExecutor(len(hands)) as pool:
        for number in range(ROUNDS):
            *_, in_loop = hands
            jobs = [pool.submit(hand.work, each) for hand in hands[:-1]]
            jobs.append(pool.submit(asyncio.run, in_loop.work_in_loop(each)))
            yield [one for job in jobs for one in job.result()]
            for hand in hands:
                hand.remove_all()
            wait_for_inputs()
            say(round=number + 1, **held())


class Hand:
    """Adds and removes streams of its own, at random."""

    def __init__(self, pipeline: Pipeline, number: int, chance: random.Random) -> None:
        self._pipeline = pipeline
        self._chance = chance
        self._absent = [f"{number}-{one}" for one in range(NAMES_EACH)]
        self._present: list[str] = []

    def work(self, changes: int) -> list[float]:
        """So many changes in a thread; what each took."""
        took: list[float] = []
        for _ in range(changes):
            with timed(took):
                self._change().wait()
        return took

    async def work_in_loop(self, changes: int) -> list[float]:
        """So many changes in an event loop; what each took."""
        took: list[float] = []
        for _ in range(changes):
            with timed(took):
                await self._change()
        return took

    def remove_all(self) -> None:
        """Let all go."""
        while self._present:
            name = self._present.pop()
            self._pipeline.remove_source(name).wait()
            self._absent.append(name)

    def _change(self) -> PendingChange:
        is_adding = not self._present or (len(self._absent) > 0 and self._chance.random() < 0.5)
        before, after = (self._absent, self._present) if is_adding else (self._present, self._absent)
        name = before.pop(self._chance.randrange(len(before)))
        after.append(name)
        return self._pipeline.add_source(name, self._source()) if is_adding else self._pipeline.remove_source(name)

    def _source(self) -> dict[str, object]:
        return self._chance.choice(
            [
                {"pattern": "noise", "size": [160, 90], "frames": None, "realtime": True},
                {"pattern": "counter", "size": [160, 90], "frames": 3},
                {"uri": str(CLIPS / "street.mp4"), "duration": "200ms"},
                {"uri": str(CLIPS / "street.mp4"), "realtime": True},
            ]
        )


@contextmanager
def timed(took: list[float]) -> Iterator[None]:
    """Append what the block took, in seconds."""
    begun = time.perf_counter()
    yield
    took.append(time.perf_counter() - begun)


def wait_for_inputs() -> None:
    """Wait for inputs that were just being opened when their stream was removed: they are closed when they answer."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    for thread in threading.enumerate():
        if thread.name.startswith(tuple(f"sightline-{number}-" for number in range(THREADS + 1))):
            thread.join(max(0.0, deadline - time.monotonic()))


def held() -> dict[str, float]:
    """Memory in MiB, without what glibc keeps for later, threads and open files of this process."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    mib = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    files = sum(1 for _ in Path("/proc/self/fd").iterdir())
    return {"mib": round(mib, 2), "threads": threading.active_count(), "files": files}


def lines_of(folder: Path, stream: str) -> Iterator[str]:
    """The records of a stream."""
    with (folder / f"{stream}.jsonl").open() as file:
        yield from file


def say(**facts: float) -> None:
    """One line of JSON."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
