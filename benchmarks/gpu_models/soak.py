"""So many frames at full speed: what the GPU and the process hold meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.gpu_models.case import BenchmarkCase
from benchmarks.gpu_models.figures import Goals, print_table
from benchmarks.gpu_models.rates import check_place

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from sightline.media import Batch
from sightline.runtime.stats.metrics import Process
from sightline_plugins.commands.soak.samples import slope

MOST_GROWN_MIB = 64.0
"""Over the whole run: what allocators hold moves that much by itself."""
_SAMPLES = 20
_WARM_SHARE = 0.25
_MIB = 2**20
_MOST_IMAGES = 32


class Sample(NamedTuple):
    """What is held when so many are done: memory of the GPU, of the process, its threads and files."""

    done: int
    gpu_mib: float
    process_mib: float
    threads: int
    files: int


@dataclass(slots=True)
class Watch:
    """A probe that takes a sample every so many frames."""

    gpu: CudaDevice
    every: int
    samples: list[Sample]
    _frames: int = 0

    def __call__(self, batch: Batch) -> None:
        before, self._frames = self._frames, self._frames + len(batch.frames)
        if before // self.every != self._frames // self.every:
            self.samples.append(sample(self.gpu, self._frames))


def sample(gpu: CudaDevice, done: int) -> Sample:
    """What is held now."""
    with gpu.guard("asking for its memory") as driver:
        free, total = driver.free_memory_bytes()
    held = Process.now()
    resident, files = held.resident_bytes or 0, held.open_files or 0
    return Sample(done, (total - free) / _MIB, resident / _MIB, held.threads, files)


def measure(case: BenchmarkCase, clip: Path, *, streams: int, frames: int, goals: Goals) -> None:
    """Print what is held over that many frames of all streams together, and by how much it grew."""
    each = -(-frames // streams)
    watch = Watch(case.gpu, max(1, each * streams // _SAMPLES), [])
    pipeline = Pipeline(
        sources={f"s{number}": {"uri": str(clip), "loop": True} for number in range(streams)},
        steps=[case.element, "track"],
        batch={"size": min(streams, _MOST_IMAGES)},
        gpu=case.gpu,
    )
    pipeline.probe("detect-1", watch)
    report = pipeline.run(frames=each)
    check_place(report, case)
    print_samples(watch.samples, of="frames")
    print(f"{report.frames} frames of {streams} streams, {report.fps:.0f} a second")
    judge(watch.samples, count=report.frames, goals=goals)


def print_samples(samples: Sequence[Sample], *, of: str) -> None:
    """Print what was held when so many of something were done."""
    head = (of, "memory of the GPU, MiB", "of the process, MiB", "threads", "open files")
    print_table(head, [(one.done, f"{one.gpu_mib:.1f}", f"{one.process_mib:.1f}", *one[3:]) for one in samples])


def judge(samples: Sequence[Sample], *, count: int, goals: Goals) -> None:
    """Print by how much memory grew while so many were done, and whether it may; the beginning does not count."""
    judged = samples[round(_WARM_SHARE * len(samples)) :]
    for place, what in ((1, "memory of the GPU"), (2, "memory of the process")):
        grown = slope([one.done for one in judged], [one[place] for one in judged]) * count
        met = goals.at_most(MOST_GROWN_MIB, grown, what=f"{what}, MiB grown over the run")
        print(f"{what}: {grown:+.2f} MiB by the slope over the run; {met}", flush=True)
