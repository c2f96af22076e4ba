"""What tests of runs on several GPUs have in common: steps that work on one, and doubles of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from sightline.graph import Element, Operator, PipelineDescription, RunsOn, Sink, Site, Step
from sightline.media import Batch, Stream
from sightline.runtime.stats.report import Report
from sightline.testing import assert_accounted
from tests.unit.runtime.elements import Synthetic

LIMIT_SECONDS = 300
Gpus = list[CudaDevice]
"""Three of them."""


def use(gpu: CudaDevice) -> None:
    """Do something on a GPU, and wait for it."""
    stream = gpu.stream("work")
    gpu.fill(gpu.empty((1,), "u1", stream=stream), 0, stream=stream)
    stream.synchronize()


class Work(Element):
    """Works on a GPU; `option` makes it another element."""

    name: ClassVar[str] = "work"

    option: int = 0

    def build(self, site: Site) -> Operator:
        return Worker(site)


class Worker(Operator):
    built: ClassVar[list[Worker]] = []

    def __init__(self, site: Site) -> None:
        self.site = site
        self.streams: set[str] = set()
        self.threads: set[int] = set()
        self.ended: list[str] = []
        self.frames = self.drained = self.closed = 0
        self.on_frame: Callable[[], object] = lambda: None
        self.built.append(self)

    def process(self, batch: Batch) -> Batch:
        self.threads.add(threading.get_ident())
        for frame in batch.frames:
            self.streams.add(frame.stream.name)
            self.on_frame()
        self.frames += len(batch)
        if self.site.gpu is not None:
            use(self.site.gpu)
        return batch

    def end_stream(self, stream: Stream) -> None:
        self.ended.append(stream.name)

    def totals(self) -> dict[str, Any]:
        return {"frames": self.frames, "where": str(self.site.device)}

    def runs_on(self) -> RunsOn:
        return RunsOn(str(self.site.device))

    def drain(self) -> None:
        self.drained += 1

    def close(self) -> None:
        self.closed += 1


class Collect(Work):
    """A sink: there is one for all streams."""

    name: ClassVar[str] = "collect"
    sink: ClassVar[bool] = True

    def build(self, site: Site) -> Operator:
        return Collector(site)


class Collector(Worker, Sink):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.seen: list[tuple[str, int]] = []
        self.inside = 0
        self.most_inside = 0

    def process(self, batch: Batch) -> Batch:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.seen += [(frame.stream.name, frame.index) for frame in batch.frames]
        super().process(batch)
        self.inside -= 1
        return batch


def described(*steps: Step, streams: int = 4, frames: int | None = 20, **options: Any) -> PipelineDescription:
    sources = {f"s{number}": Synthetic(frames=frames) for number in range(streams)}
    return PipelineDescription(sources=sources, steps=steps, **options)


def workers(kind: type[Worker] = Worker) -> list[Worker]:
    return [one for one in Worker.built if type(one) is kind]


def ended(pipeline: Pipeline, *, gpu_lost: bool = False) -> Report:
    pipeline.stop()
    report = pipeline.wait()
    assert_accounted(report, stopped=True, gpu_lost=gpu_lost)
    return report
