"""The accounts of a run: what is known of it while it goes on, and when it is over."""

from __future__ import annotations

import time

from sightline.devices.use import DeviceInUse
from sightline.graph import Clock, Outputs
from sightline.runtime.assembly import Assembly
from sightline.runtime.gather import Gather
from sightline.runtime.load import Load
from sightline.runtime.report import GpuTransfers, Report
from sightline.runtime.roster import Roster
from sightline.runtime.view import LinkView, ModelRuns, RunView


class Accounts:
    """Puts together what the parts of one run have counted."""

    def __init__(
        self,
        *,
        name: str,
        device: DeviceInUse,
        clock: Clock,
        outputs: Outputs,
        roster: Roster,
        assembly: Assembly,
        gather: Gather,
        load: Load,
    ) -> None:
        self._name = name
        self._device = device
        self._clock = clock
        self._outputs = outputs
        self._roster = roster
        self._assembly = assembly
        self._gather = gather
        self._load = load
        self._made_ns = clock.monotonic_ns()
        self._begun_ns = self._cpu_begun_ns = 0
        self._transfers: GpuTransfers | None = None

    def begin(self) -> None:
        """Everything is built, and the threads are about to start."""
        self._transfers = GpuTransfers.of(self._device.gpu)
        self._begun_ns, self._cpu_begun_ns = self._clock.monotonic_ns(), time.process_time_ns()

    def view(self) -> RunView:
        """The run at this moment; from any thread."""
        now = self._clock.monotonic_ns()
        self._load.look(now)
        layout, assembly = self._assembly.layout, self._assembly
        stages = [] if layout is None else list(layout.links.items())
        operators = [(node.element_id, node.operator) for node in assembly.nodes]
        return RunView(
            pipeline=self._name,
            device=str(self._device.device),
            is_running=assembly.is_running,
            at_ns=now,
            running_ns=now - self._begun_ns if self._begun_ns else 0,
            streams=self._roster.present,
            rates=self._load.rates,
            elements=assembly.elements,
            models={name: ModelRuns(one.runs, one.saved) for name, one in operators if one.runs or one.saved},
            links=(
                *(LinkView.of_source(stream, link, now_ns=now) for stream, link in self._gather.links().items()),
                *(LinkView.of_stage(name, link, now_ns=now) for name, link in stages),
            ),
        )

    def report(self) -> Report:
        """The report of the run, which is over."""
        totals = self._assembly.totals()
        layout = self._assembly.layout
        assert layout is not None
        now_ns = self._clock.monotonic_ns()
        ended_ns = max(now_ns if thread.ended_ns is None else thread.ended_ns for thread in layout.threads)
        cpu_ns = max(thread.process_cpu_ns for thread in layout.threads) - self._cpu_begun_ns
        streams, elements = self._roster.all, self._assembly.elements
        threads_ns = self._assembly.cpu_ns + self._roster.cpu_ns
        own_ns = threads_ns - sum(one.cpu_ns for one in elements) - sum(one.read_cpu_ns for one in streams)
        return Report(
            name=self._name,
            device=str(self._device.device),
            device_reason=self._device.reason,
            transfers=GpuTransfers.of(self._device.gpu, since=self._transfers),
            runs_on={} if self._device.gpu is None else self._assembly.runs_on(),
            build_seconds=(self._begun_ns - self._made_ns) / 1e9,
            wall_seconds=(ended_ns - self._begun_ns) / 1e9,
            cpu_seconds=max(cpu_ns, 0) / 1e9,
            streams=streams,
            elements=elements,
            links=self._assembly.links,
            totals=totals,
            outputs=tuple(str(path) for path in self._outputs.files),
            framework_cpu_seconds=max(own_ns, 0) / 1e9,
            engine_cpu_seconds=max(cpu_ns - threads_ns, 0) / 1e9,
        )
