"""Make the run of a pipeline, in this process or in several."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.devices.discovery import take_device
from sightline.errors import ConfigurationError
from sightline.graph import Clock, Message, Mounts, Outputs, Packets, PipelineDescription
from sightline.graph.site import SystemClock
from sightline.runtime.inspection import FrameInspection
from sightline.runtime.listeners import Listeners
from sightline.runtime.run import Run
from sightline.runtime.runner import Runner
from sightline.runtime.scheduling.link import Item, Link
from sightline.runtime.scheduling.node import Probe
from sightline.runtime.scheduling.order import BatchOrder
from sightline.runtime.sources.supervisor import Limits
from sightline.runtime.tracing import MakeTelemetry
from sightline.runtime.watchdog import Watch

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all runs of a pipeline are given: where outputs go, the clock, the open GPUs, who listens and probes, and
    what steps serve and encode for others.
    """

    outputs_root: Path | None
    clock: Clock
    gpus: Sequence[CudaDevice]
    mounts: Mounts
    packets: Packets
    probes: dict[str, list[Probe]]
    listeners: Listeners
    post: Callable[[Message], None]


@dataclass(frozen=True, slots=True)
class Launch:
    """How one run is wanted; see `Pipeline.start` and `Runner`. `consumer` gets what is finished."""

    limits: Limits = field(default_factory=Limits)
    consumer: Link[Item] | None = None
    fresh: bool = False
    record: str | os.PathLike[str] | None = None
    order: BatchOrder | None = None
    inspection: FrameInspection | None = None

    def make(self, description: PipelineDescription, around: Surroundings, watches: Sequence[Watch]) -> Run:
        """Make the run. Raises DeviceUnavailable, and ConfigurationError for what several processes cannot do."""
        if description.process_count > 1:
            return self._in_several(description, around, watches)
        telemetry = _telemetry_of(description)
        return Runner(
            description,
            device=take_device(description.device, given=around.gpus),
            outputs=Outputs(around.outputs_root),
            clock=around.clock,
            post=around.post,
            probes=around.probes,
            mounts=around.mounts,
            packets=around.packets,
            limits=self.limits,
            consumer=self.consumer,
            watches=watches,
            on_events=around.listeners.on_events,
            on_batch=around.listeners.on_batch,
            telemetry=None if telemetry is None else telemetry(post=around.post),
            fresh=self.fresh,
            record=None if self.record is None else os.fspath(self.record),
            order=self.order,
            inspection=self.inspection,
        )

    def _in_several(self, description: PipelineDescription, around: Surroundings, watches: Sequence[Watch]) -> Run:
        from sightline.runtime.processes.run import ProcessRunner

        refused = {
            "frames cannot be iterated over": self.consumer is not None,
            "it cannot be recorded": self.record is not None,
            "a recorded run cannot be replayed": self.order is not None,
            "probes cannot be called": bool(around.probes),
            "open GPUs cannot be given": bool(around.gpus),
            "the clock cannot be replaced": not isinstance(around.clock, SystemClock),
        }
        for what, is_wanted in refused.items():
            if is_wanted:
                raise ConfigurationError(f"{what} when the pipeline runs in several processes: leave `processes` out")
        telemetry = _telemetry_of(description, sample=0.0)
        return ProcessRunner(
            description,
            count=description.process_count,
            outputs=Outputs(around.outputs_root),
            clock=around.clock,
            post=around.post,
            mounts=around.mounts,
            limits=self.limits,
            watches=watches,
            on_events=around.listeners.on_events,
            on_batch=around.listeners.on_batch,
            telemetry=None if telemetry is None else telemetry(post=around.post),
            traces=_traces_of_workers(description),
            fresh=self.fresh,
        )


def _telemetry_of(description: PipelineDescription, **instead: Any) -> MakeTelemetry | None:
    """Return what makes the telemetry of a run, with some options `instead` of those of its description."""
    options = description.telemetry
    if options is None:
        return None
    from sightline.telemetry.run import RunTelemetry

    return partial(RunTelemetry, options.model_copy(update=instead), pipeline=description.name)


def _traces_of_workers(description: PipelineDescription) -> MakeTelemetry | None:
    """Return what makes the telemetry of a worker, which traces its own frames; None when no frame is traced."""
    options = description.telemetry
    if options is None or not options.sample:
        return None
    return _telemetry_of(description, metrics=False, max_rate=options.max_rate / description.process_count)
