"""One view, and one report, of what all workers of a run have counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from sightline.runtime.scheduling.element_totals import add_totals
from sightline.runtime.stats.counters import ElementStats, LinkStats, TelemetryStats, add_up
from sightline.runtime.stats.report import CudaTransfers, Report
from sightline.runtime.stats.snapshot import ModelRuns, RunView


@dataclass(frozen=True, slots=True)
class Counted:
    """What one worker, by its name, has counted: in its present process, in those before, and in the end."""

    name: str
    view: RunView | None
    former: RunView | None
    report: Report | None

    @property
    def views(self) -> list[RunView]:
        """Of all its processes the last view."""
        return [one for one in (self.former, self.view) if one is not None]


def folded(earlier: RunView, later: RunView) -> RunView:
    """The last view of a process that has ended, with what the ones before had counted of steps and models."""
    elements: dict[str, list[ElementStats]] = {}
    for one in (*earlier.elements, *later.elements):
        elements.setdefault(one.element_id, []).append(one)
    return replace(
        later,
        elements=tuple(add_up(parts) for parts in elements.values()),
        models=_models((earlier.models, later.models)),
        telemetry=_telemetry((earlier.telemetry, later.telemetry)),
    )


def merged_view(
    workers: Sequence[Counted],
    *,
    head: RunView,
    main: Sequence[ElementStats],
    order: Sequence[str],
) -> RunView:
    """The view of all workers: `head` has the streams, what is delivered and sent, and what else belongs to no worker;
    `main` are the counts of the steps in the main process, and `order` are the ids of all steps.
    """
    present = [one.view for one in workers if one.view is not None]
    return replace(
        head,
        rates={stream: rates for view in present for stream, rates in view.rates.items()},
        elements=merged_elements(workers, main=main, order=order),
        models=_models(view.models for one in workers for view in one.views),
        links=tuple(
            replace(link, name=f"{one.name}/{link.name}")
            for one in workers
            if one.view is not None
            for link in one.view.links
        ),
        counts=_by_step(view.counts for view in present),
        occupancy=_by_step(view.occupancy for view in present),
        gpu_memory=tuple(use for view in present for use in view.gpu_memory),
        comparisons={name: own for view in reversed(present) for name, own in view.comparisons.items()},
        drifts={
            step: [one for view in present for one in view.drifts.get(step, ())]
            for step in dict.fromkeys(step for view in present for step in view.drifts)
        },
        telemetry=_telemetry((head.telemetry, *(view.telemetry for one in workers for view in one.views))),
    )


def merged_elements(
    workers: Sequence[Counted], *, main: Sequence[ElementStats], order: Sequence[str]
) -> tuple[ElementStats, ...]:
    """The counts of each step, over all workers and the main process."""
    parts: dict[str, list[ElementStats]] = {name: [] for name in order}
    own = {one.element_id: one for one in main}
    for worker in workers:
        for view in worker.views:
            for stats in view.elements:
                if stats.element_id not in own:
                    parts.setdefault(stats.element_id, []).append(stats)
    for name, stats in own.items():
        parts[name] = [stats]
    return tuple(add_up(each) for each in parts.values() if each)


def merged_report(
    workers: Sequence[Counted],
    *,
    head: Report,
    main: Sequence[ElementStats],
    main_totals: Mapping[str, Mapping[str, Any]],
    order: Sequence[str],
) -> Report:
    """The report of all workers. `head` has what belongs to the main process: the streams, what was delivered, its own
    time and files.
    """
    reports = [one.report for one in workers if one.report is not None]
    totals: dict[str, list[Mapping[str, Any]]] = {}
    for report in reports:
        for name, own in report.totals.items():
            totals.setdefault(name, []).append(own)
    links: dict[str, LinkStats] = {
        f"{one.name}/{name}": stats
        for one in workers
        if one.report is not None
        for name, stats in one.report.links.items()
    }
    return replace(
        head,
        build_seconds=max([head.build_seconds, *(one.build_seconds for one in reports)]),
        cpu_seconds=head.cpu_seconds + sum(one.cpu_seconds for one in reports),
        framework_cpu_seconds=head.cpu_seconds + sum(one.framework_cpu_seconds for one in reports),
        engine_cpu_seconds=sum(one.engine_cpu_seconds for one in reports),
        elements=merged_elements(workers, main=main, order=order),
        links=links,
        totals={**{name: add_totals(own) for name, own in totals.items() if name not in main_totals}, **main_totals},
        outputs=tuple(dict.fromkeys([*head.outputs, *(path for one in reports for path in one.outputs)])),
        lost_outputs={name: why for one in (*reports, head) for name, why in one.lost_outputs.items()},
        transfers=_transfers(reports),
        gpu_memory=tuple(use for one in reports for use in one.gpu_memory),
        runs_on={name: place for one in reversed(reports) for name, place in one.runs_on.items()},
        device_reason=next((one.device_reason for one in reports if one.device_reason), head.device_reason),
        telemetry=_telemetry((head.telemetry, *(view.telemetry for one in workers for view in one.views))),
    )


def _telemetry(parts: Iterable[TelemetryStats | None]) -> TelemetryStats | None:
    present = [one for one in parts if one is not None]
    if not present:
        return None
    return TelemetryStats(**{of.name: sum(getattr(one, of.name) for one in present) for of in fields(TelemetryStats)})


def _models(parts: Iterable[Mapping[str, ModelRuns]]) -> dict[str, ModelRuns]:
    sums: dict[str, ModelRuns] = {}
    for part in parts:
        for name, one in part.items():
            before = sums.get(name, ModelRuns(0, 0))
            sums[name] = ModelRuns(before.runs + one.runs, before.saved + one.saved)
    return sums


def _by_step(parts: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Values by step and stream; a stream is in one worker only."""
    found: dict[str, dict[str, Any]] = {}
    for part in parts:
        for step, own in part.items():
            found.setdefault(step, {}).update(own)
    return found


def _transfers(reports: Sequence[Report]) -> CudaTransfers | None:
    parts = [one.transfers for one in reports if one.transfers is not None]
    if not parts:
        return None
    return CudaTransfers(
        sum(one.host_to_device_bytes for one in parts),
        sum(one.device_to_host_bytes for one in parts),
        sum(one.host_to_device_copies for one in parts),
        sum(one.device_to_host_copies for one in parts),
    )
