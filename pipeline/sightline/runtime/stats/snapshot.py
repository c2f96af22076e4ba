"""The state of a run at one moment, for status, metrics and progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightline.devices.cuda.budget import MemoryUse
from sightline.graph import AlarmCount, DriftMeasure, ModelComparison, RunsOn, StreamState
from sightline.graph.rule import Counts, Occupancy
from sightline.media import Stream
from sightline.runtime.stats.counters import (
    DeliveryStats,
    ElementStats,
    LinkStats,
    StreamStats,
    TelemetryStats,
    snapshot,
)
from sightline.runtime.stats.overload import Rates


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """The state of one stream: `frames` received, `processed` completely, of `total` (None when unknown), and
    `dropped`.

    `counts` holds every counter by its name in the report: `reconnects`, `stalls`, `damaged`... A stream in trouble has
    a `cause`, and `next_attempt_seconds` until the next attempt (0 while it is made).
    """

    name: str
    state: StreamState
    frames: int
    processed: int
    total: int | None
    fps: float
    objects: int
    dropped: int
    position_ns: int
    cause: str | None = None
    next_attempt_seconds: float | None = None
    counts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, stats: StreamStats, *, now_ns: int) -> StreamStatus:
        """Return the state at a time (monotonic)."""
        seconds = ((stats.ended_ns or now_ns) - stats.started_ns) / 1e9 if stats.started_ns is not None else 0.0
        next_ns, counts = stats.next_attempt_ns, snapshot(stats)
        return cls(
            name=stats.stream.name,
            state=stats.state,
            frames=stats.received,
            processed=stats.finished,
            total=stats.frame_count,
            fps=stats.finished / seconds if seconds > 0 else 0.0,
            objects=stats.objects,
            dropped=sum(counts["dropped"].values()),
            position_ns=stats.position_ns,
            counts=counts,
            cause=stats.cause,
            next_attempt_seconds=None if next_ns is None else max(0.0, (next_ns - now_ns) / 1e9),
        )


WELL = frozenset({StreamState.WAITING, StreamState.LIVE, StreamState.PAUSED, StreamState.ENDED})
"""The states of streams that are as they should be."""
SOURCE_LINK = "source"
"""The name of the links between sources and the first stage; there is one for each stream."""


@dataclass(frozen=True, slots=True)
class LinkView:
    """A link: how many items wait in it, and how long ago the oldest frame in it left its source. `stream` is None for
    a link between stages. `policy` is what happens when it is full: `block` or `latest`.
    """

    name: str
    stream: Stream | None
    policy: str
    depth: int
    capacity: int
    oldest_age_ns: int
    stats: LinkStats


@dataclass(frozen=True, slots=True)
class StepLink:
    """The way of frames from one step to the next: `start` is None where they come from the sources. Both are ids of
    steps, or names of joins.

    `link` names the link that they wait in; None where the same thread goes on. `branch` is the name of the branch of a
    `tee` or `parallel` that begins here.
    """

    start: str | None
    end: str
    link: str | None = None
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class StageView:
    """What one thread runs: steps, by their ids. `link` is the link that it takes frames from, None for the sources;
    `waits_for` is the step before them whose pending results it awaits;
    `is_join` says that it first merges the branches of a `parallel`, and its name is that of the join.
    """

    name: str
    link: str | None
    steps: tuple[str, ...]
    waits_for: str | None = None
    is_join: bool = False


@dataclass(frozen=True, slots=True)
class RunLayout:
    """How the steps run now, or ran last: which threads run them, how frames pass, and where each works.

    Steps that do not tell where they work are left out of `places`. With several GPUs it is the layout of each.
    """

    stages: tuple[StageView, ...] = ()
    links: tuple[StepLink, ...] = ()
    places: Mapping[str, RunsOn] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelRuns:
    """How often an element ran its model, and how often it did not have to."""

    runs: int
    saved: int


@dataclass(frozen=True, slots=True)
class RunView:
    """A run at one moment. The run goes on counting in the stats: read them at once, and do not keep them.

    `at_ns` is the moment (monotonic), `running_ns` how long the run has been running, `began_epoch_ns` when it began
    (since the epoch, in all views the same). `rates` has every stream,
    `models` the elements that ran one. `counts` are those that `draw` shows: by element, stream, rule and name.
    `device_reason` says why it runs on that device.
    `occupancy` is that of zones since the beginning, by element and stream. `comparisons` are those of second models,
    by element; on several GPUs, of those on the first one. `drifts` are how far streams are from their baselines, by
    element.
    """

    pipeline: str
    device: str
    is_running: bool
    at_ns: int
    running_ns: int
    began_epoch_ns: int
    streams: tuple[StreamStats, ...]
    rates: Mapping[Stream, Rates]
    elements: tuple[ElementStats, ...]
    models: Mapping[str, ModelRuns]
    links: tuple[LinkView, ...]
    deliveries: tuple[DeliveryStats, ...] = ()
    counts: Mapping[str, Mapping[str, Counts]] = field(default_factory=dict)
    occupancy: Mapping[str, Mapping[str, Occupancy]] = field(default_factory=dict)
    gpu_memory: tuple[MemoryUse, ...] = ()
    telemetry: TelemetryStats | None = None
    device_reason: str = ""
    comparisons: Mapping[str, Sequence[ModelComparison]] = field(default_factory=dict)
    drifts: Mapping[str, Sequence[DriftMeasure]] = field(default_factory=dict)
    alarms: Mapping[str, Sequence[AlarmCount]] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        """Whether it runs, and every stream is as it should be."""
        return self.is_running and all(one.state in WELL for one in self.streams)

    @property
    def overloaded(self) -> bool:
        """Whether live streams drop frames because the machine cannot keep up."""
        return any(rates.overloaded for rates in self.rates.values())
