"""One view of several workers."""

from __future__ import annotations

from dataclasses import replace

from sightline.graph import DriftMeasure
from sightline.runtime.processes.merged import Counted, merged_view
from sightline.runtime.stats.snapshot import RunView

VIEW = RunView(
    pipeline="gate",
    device="cpu",
    is_running=True,
    at_ns=0,
    running_ns=0,
    began_epoch_ns=0,
    streams=(),
    rates={},
    elements=(),
    models={},
    links=(),
)


def drift(stream: str) -> DriftMeasure:
    return DriftMeasure(stream, "count", "car", distance=0.5, limit=0.4, before=3, now=6, drifts=True)


def test_drifts_of_all_workers_are_there_by_step() -> None:
    views = [
        replace(VIEW, drifts={"drift-1": [drift("gate")]}),
        VIEW,
        replace(VIEW, drifts={"drift-1": [drift("yard"), drift("dock")], "drift-2": [drift("yard")]}),
    ]
    workers = [Counted(str(number), view, None, None) for number, view in enumerate(views)]
    found = merged_view([*workers, Counted("ended", None, None, None)], head=VIEW, main=(), order=())

    streams = {step: [one.stream for one in own] for step, own in found.drifts.items()}
    assert streams == {"drift-1": ["gate", "yard", "dock"], "drift-2": ["yard"]}
