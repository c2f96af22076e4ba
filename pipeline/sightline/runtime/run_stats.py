"""Put together the view of a run while it goes on, and its report when it is over."""

from __future__ import annotations

import time

from sightline.devices.discovery import DeviceInUse
from sightline.graph import Clock, Outputs
from sightline.runtime.delivery.outbox import RunOutbox
from sightline.runtime.scheduling.lanes import Lanes
from sightline.runtime.sources.manager import StreamManager
from sightline.runtime.stats.counters import TelemetryStats
from sightline.runtime.stats.overload import OverloadMonitor, Rates
from sightline.runtime.stats.report import CudaTransfers, Report
from sightline.runtime.stats.snapshot import ModelRuns, RunView


class RunStats:
    """Collects what the parts of one run have counted."""

    def __init__(
        self,
        *,
        name: str,
        device: DeviceInUse,
        clock: Clock,
        outputs: Outputs,
        manager: StreamManager,
        lanes: Lanes,
        overload: OverloadMonitor,
        outbox: RunOutbox,
        telemetry: TelemetryStats | None,
    ) -> None:
        self._name = name
        self._device = device
        self._clock = clock
        self._outputs = outputs
        self._manager = manager
        self._lanes = lanes
        self._overload = overload
        self._outbox = outbox
        self._telemetry = telemetry
        self._created_ns = clock.monotonic_ns()
        self._begun_epoch_ns = clock.epoch_ns()
        self._begun_ns = self._cpu_begun_ns = 0
        self._transfers: CudaTransfers | None = None
        self.lost_outputs: dict[str, str] = {}
        """Steps that could not write all of their output, with the first reason."""

    def begin(self) -> None:
        """Start measuring: everything is built, and the threads are about to start."""
        self._transfers = CudaTransfers.of(self._device.gpus)
        self._begun_ns, self._cpu_begun_ns = self._clock.monotonic_ns(), time.process_time_ns()
        self._begun_epoch_ns = self._clock.epoch_ns()

    def view(self) -> RunView:
        """Return the run at this moment; from any thread."""
        now_ns = self._clock.monotonic_ns()
        self._overload.update(now_ns)
        lanes, streams, rates = self._lanes, self._manager.present, self._overload.rates
        return RunView(
            pipeline=self._name,
            device=str(self._device),
            is_running=lanes.is_running,
            at_ns=now_ns,
            running_ns=now_ns - self._begun_ns if self._begun_ns else 0,
            began_epoch_ns=self._begun_epoch_ns,
            streams=streams,
            rates={one.stream: rates.get(one.stream, Rates()) for one in streams},
            elements=lanes.elements.stats,
            models=self._models(),
            links=lanes.link_views(now_ns=now_ns),
            deliveries=self._outbox.stats,
            counts=lanes.elements.counts(),
            occupancy=lanes.elements.occupancy(),
            gpu_memory=tuple(gpu.budget.use() for gpu in self._device.gpus),
            telemetry=self._telemetry,
            device_reason=self._device.reason,
            comparisons=lanes.elements.comparisons(),
            drifts=lanes.elements.drifts(),
            alarms=lanes.elements.alarms(),
        )

    def report(self) -> Report:
        """Return the report of the run, which is over."""
        lanes, streams = self._lanes, self._manager.all
        totals = lanes.elements.totals()
        threads = [thread for group in lanes.stage_groups for thread in group.threads]
        now_ns = self._clock.monotonic_ns()
        ended_ns = max(now_ns if thread.ended_ns is None else thread.ended_ns for thread in threads)
        cpu_ns = max(thread.process_cpu_ns for thread in threads) - self._cpu_begun_ns
        elements = lanes.elements.stats
        threads_ns = lanes.cpu_ns + self._manager.cpu_ns
        own_ns = threads_ns - sum(one.cpu_ns for one in elements) - sum(one.read_cpu_ns for one in streams)
        return Report(
            name=self._name,
            device=str(self._device),
            device_reason=self._device.reason,
            transfers=CudaTransfers.of(self._device.gpus, since=self._transfers),
            gpu_memory=tuple(gpu.budget.use() for gpu in self._device.gpus),
            runs_on=lanes.elements.runs_on() if self._device.gpus else {},
            build_seconds=(self._begun_ns - self._created_ns) / 1e9,
            wall_seconds=(ended_ns - self._begun_ns) / 1e9,
            cpu_seconds=max(cpu_ns, 0) / 1e9,
            streams=streams,
            elements=elements,
            links=lanes.link_stats,
            totals=totals,
            lost_outputs=dict(self.lost_outputs),
            deliveries=self._outbox.stats,
            telemetry=self._telemetry,
            outputs=tuple(str(path) for path in self._outputs.files),
            framework_cpu_seconds=max(own_ns, 0) / 1e9,
            engine_cpu_seconds=max(cpu_ns - threads_ns, 0) / 1e9,
        )

    def _models(self) -> dict[str, ModelRuns]:
        sums = {
            name: ModelRuns(sum(node.operator.runs for node in nodes), sum(node.operator.saved for node in nodes))
            for name, nodes in self._lanes.elements.nodes.items()
        }
        return {name: one for name, one in sums.items() if one.runs or one.saved}
