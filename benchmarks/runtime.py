"""What the runtime itself costs: CPU a frame of a pipeline of idle steps, beside a loop that calls the same operators.

    python -m benchmarks.runtime [--frames 20000] [--rounds 5]

The steps do nothing and the frames are there already, so all CPU time is that of links, threads, gathering, counting
and calling. The loop does in one thread what the pipeline does: it makes batches of one frame and calls each operator.
Figures are medians over interleaved rounds of the process's CPU time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from sightline import Pipeline
from sightline.devices import Device
from sightline.graph import Element, Operator, Pending, Site, SourceElement, SourceReader, Threading
from sightline.media import Batch, Frame, PixelFormat, Stream, Surface

STREAMS = (1, 4, 8)
BATCHES: tuple[int | None, ...] = (1, None)


class Ready(SourceElement):
    """Frames that cost next to nothing to make."""

    name: ClassVar[str] = "ready"

    frames: int

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        del site
        return _Reader(stream, self.frames)


class _Reader(SourceReader):
    def __init__(self, stream: Stream, count: int) -> None:
        self._stream = stream
        self.frame_count = count

    def frames(self) -> Iterator[Frame]:
        surface = Surface.allocate(PixelFormat.I420, size_wh=(16, 16)).shared()
        stream = self._stream
        return (Frame(stream, index, index * 40_000_000, surface) for index in range(self.frame_count or 0))


class Idle(Element):
    """A step that passes on what it gets, in the thread of the step before it."""

    name: ClassVar[str] = "idle"

    def build(self, site: Site) -> Operator:
        del site
        return _Idle()


class _Idle(Operator):
    def process(self, batch: Batch) -> Batch:
        return batch


class Handed(Element):
    """A step whose results are pending, as those of a detector are: what follows runs in another thread."""

    name: ClassVar[str] = "handed"
    threading: ClassVar[Threading] = Threading.PENDING

    def build(self, site: Site) -> Operator:
        del site
        return _Handed()


@dataclass(frozen=True, slots=True)
class _Result:
    batch: Batch

    def result(self) -> Batch:
        return self.batch


class _Handed(Operator):
    def process(self, batch: Batch) -> Pending:
        return _Result(batch)


STEPS: dict[str, list[Element]] = {
    "3 idle steps, 1 thread": [Idle(), Idle(), Idle()],
    "pending + 2 idle steps, 2 threads": [Handed(), Idle(), Idle()],
}


def pipeline_cpu_us(steps: list[Element], *, streams: int, size: int | None, frames: int) -> float:
    """CPU microseconds a frame of a whole run, from the first thread to the last."""
    pipeline = Pipeline(
        sources={f"s{number}": Ready(frames=frames // streams) for number in range(streams)},
        steps=steps,
        batch={} if size is None else {"size": size},
    )
    report = pipeline.run()
    return report.cpu_seconds / report.frames * 1e6


def loop_cpu_us(steps: list[Element], *, frames: int) -> float:
    """CPU microseconds a frame of the plain loop."""
    operators = [step.build(Site(device=Device())) for step in steps]
    began = time.process_time()
    for frame in _Reader(Stream("s"), frames).frames():
        batch = Batch((frame,))
        for operator in operators:
            made = operator.process(batch)
            batch = made if isinstance(made, Batch) else made.result()
    return (time.process_time() - began) / frames * 1e6


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=20_000, help="frames of all streams together")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for title, steps in STEPS.items():
        loop: list[float] = []
        runs: dict[tuple[int, int | None], list[float]] = {(s, b): [] for s in STREAMS for b in BATCHES}
        for _ in range(options.rounds):
            loop.append(loop_cpu_us(steps, frames=options.frames))
            for (streams, size), measured in runs.items():
                measured.append(pipeline_cpu_us(steps, streams=streams, size=size, frames=options.frames))
        plain = statistics.median(loop)
        print(f"{title}: plain loop {plain:.1f} us a frame")
        for (streams, size), measured in runs.items():
            cost = statistics.median(measured)
            name = f"{streams} streams, batch {size or 'default':>7}"
            print(f"  {name}: {cost:5.1f} us a frame, {cost / plain:4.1f} x the loop")


if __name__ == "__main__":
    main()
