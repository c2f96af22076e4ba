"""The accounts of a run: what is known of it while it goes on, and when it is over."""

from __future__ import annotations

import time

from sightline.devices.discovery import DeviceInUse
from sightline.graph import Clock, Outputs
from sightline.runtime.scheduling.lanes import Lanes
from sightline.runtime.sources.manager import StreamManager
from sightline.runtime.stats.overload import OverloadMonitor, Rates
from sightline.runtime.stats.report import CudaTransfers, Report
from sightline.runtime.stats.snapshot import LinkView, ModelRuns, RunView


class RunStats:
    """Puts together what the parts of one run have counted."""

    def __init__(
        self,
        *,
        name: str,
        device: DeviceInUse,
        clock: Clock,
        outputs: Outputs,
        manager: StreamManager,
        lanes: Lanes,
        load: OverloadMonitor,
    ) -> None:
        self._name = name
        self._device = device
        self._clock = clock
        self._outputs = outputs
        self._manager = manager
        self._lanes = lanes
        self._load = load
        self._made_ns = clock.monotonic_ns()
        self._begun_ns = self._cpu_begun_ns = 0
        self._transfers: CudaTransfers | None = None

    def begin(self) -> None:
        """Everything is built, and the threads are about to start."""
        self._transfers = CudaTransfers.of(self._device.gpus)
        self._begun_ns, self._cpu_begun_ns = self._clock.monotonic_ns(), time.process_time_ns()

    def view(self) -> RunView:
        """The run at this moment; from any thread."""
        now = self._clock.monotonic_ns()
        self._load.look(now)
        lanes, streams, rates = self._lanes, self._manager.present, self._load.rates
        return RunView(
            pipeline=self._name,
            device=str(self._device),
            is_running=lanes.is_running,
            at_ns=now,
            running_ns=now - self._begun_ns if self._begun_ns else 0,
            streams=streams,
            rates={one.stream: rates.get(one.stream, Rates()) for one in streams},
            elements=lanes.ledger.elements,
            models=self._models(),
            links=(
                *(LinkView.of_source(stream, link, now_ns=now) for stream, link in lanes.source_links.items()),
                *(LinkView.of_stage(name, link, now_ns=now) for name, link in lanes.stage_links.items()),
            ),
        )

    def report(self) -> Report:
        """The report of the run, which is over."""
        ledger = self._lanes.ledger
        totals = ledger.totals()
        threads = [thread for layout in self._lanes.layouts for thread in layout.threads]
        now_ns = self._clock.monotonic_ns()
        ended_ns = max(now_ns if thread.ended_ns is None else thread.ended_ns for thread in threads)
        cpu_ns = max(thread.process_cpu_ns for thread in threads) - self._cpu_begun_ns
        streams, elements = self._manager.all, ledger.elements
        threads_ns = self._lanes.cpu_ns + self._manager.cpu_ns
        own_ns = threads_ns - sum(one.cpu_ns for one in elements) - sum(one.read_cpu_ns for one in streams)
        return Report(
            name=self._name,
            device=str(self._device),
            device_reason=self._device.reason,
            transfers=CudaTransfers.of(self._device.gpus, since=self._transfers),
            runs_on=ledger.runs_on() if self._device.gpus else {},
            build_seconds=(self._begun_ns - self._made_ns) / 1e9,
            wall_seconds=(ended_ns - self._begun_ns) / 1e9,
            cpu_seconds=max(cpu_ns, 0) / 1e9,
            streams=streams,
            elements=elements,
            links=self._lanes.link_statistics,
            totals=totals,
            outputs=tuple(str(path) for path in self._outputs.files),
            framework_cpu_seconds=max(own_ns, 0) / 1e9,
            engine_cpu_seconds=max(cpu_ns - threads_ns, 0) / 1e9,
        )

    def _models(self) -> dict[str, ModelRuns]:
        """How often the operators of each step that has a model ran it, and did not have to."""
        sums = {
            name: ModelRuns(sum(node.operator.runs for node in nodes), sum(node.operator.saved for node in nodes))
            for name, nodes in self._lanes.ledger.nodes.items()
        }
        return {name: one for name, one in sums.items() if one.runs or one.saved}
