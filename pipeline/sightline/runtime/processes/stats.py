"""Put together the view of a run in several processes while it goes on, and its report when it is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sightline.graph import Clock, Outputs
from sightline.runtime.delivery.outbox import RunOutbox
from sightline.runtime.processes.main_steps import MainSteps
from sightline.runtime.processes.merged import Counted, merged_report, merged_view
from sightline.runtime.processes.share import Share
from sightline.runtime.processes.streams import RunStreams
from sightline.runtime.stats.counters import TelemetryStats
from sightline.runtime.stats.report import Report
from sightline.runtime.stats.snapshot import RunView


class ProcessStats:
    """Merges what workers have counted, by their `shares`, with what the main process has.

    `main` returns its steps, None before they are built, and `order` the ids of all steps.
    """

    def __init__(
        self,
        *,
        name: str,
        devices: Sequence[str],
        clock: Clock,
        outputs: Outputs,
        outbox: RunOutbox,
        streams: RunStreams,
        shares: Sequence[Share],
        main: Callable[[], MainSteps | None],
        order: Callable[[], Sequence[str]],
        telemetry: TelemetryStats | None,
    ) -> None:
        self._name = name
        self._device = ", ".join(dict.fromkeys(devices))
        self._reason = f"in {len(shares)} processes"
        self._clock, self._outputs, self._outbox = clock, outputs, outbox
        self._streams, self._shares, self._main, self._order = streams, shares, main, order
        self._telemetry = telemetry
        self._created_ns, self._begun_ns, self._cpu_begun_ns = clock.monotonic_ns(), 0, 0
        self._begun_epoch_ns = clock.epoch_ns()

    def start(self) -> None:
        """Count the CPU time of this process from now on: its steps are built."""
        self._cpu_begun_ns = time.process_time_ns()

    def begin(self) -> None:
        """Count time from now on, unless another worker has begun before: frames are counted from the first on."""
        if not self._begun_ns:
            self._begun_ns, self._begun_epoch_ns = self._clock.monotonic_ns(), self._clock.epoch_ns()

    def view(self, *, is_running: bool) -> RunView:
        """Return the run as its workers were half a second ago at most; from any thread."""
        now_ns = self._clock.monotonic_ns()
        head = RunView(
            pipeline=self._name,
            device=self._device,
            is_running=is_running,
            at_ns=now_ns,
            running_ns=now_ns - self._begun_ns if self._begun_ns else 0,
            began_epoch_ns=self._begun_epoch_ns,
            streams=self._streams.present,
            rates={},
            elements=(),
            models={},
            links=(),
            deliveries=self._outbox.stats,
            telemetry=self._telemetry,
            device_reason=self._reason,
        )
        steps = self._main()
        main = () if steps is None else steps.elements.stats
        return merged_view(self._counted(), head=head, main=main, order=self._order())

    def report(self, *, lost_outputs: Mapping[str, str]) -> Report:
        """Return the report of the run, which is over."""
        steps = self._main()
        main: Sequence[Any] = () if steps is None else steps.elements.stats
        totals: Mapping[str, Mapping[str, Any]] = {} if steps is None else steps.elements.totals()
        written = [share.files for share in self._shares]
        head = Report(
            name=self._name,
            device=self._device,
            device_reason=self._reason,
            build_seconds=(self._begun_ns - self._created_ns) / 1e9,
            wall_seconds=(self._clock.monotonic_ns() - self._begun_ns) / 1e9,
            cpu_seconds=(time.process_time_ns() - self._cpu_begun_ns) / 1e9,
            streams=self._streams.all,
            elements=(),
            links={},
            totals={},
            outputs=tuple(str(path) for files in (self._outputs.files, *written) for path in files),
            framework_cpu_seconds=0.0,
            engine_cpu_seconds=0.0,
            lost_outputs=dict(lost_outputs),
            deliveries=self._outbox.stats,
            telemetry=self._telemetry,
        )
        return merged_report(self._counted(), head=head, main=main, main_totals=totals, order=self._order())

    def _counted(self) -> list[Counted]:
        return [Counted(f"worker-{one.number}", one.view, one.former, one.report) for one in self._shares]
