"""The state of a run at one moment, for status, metrics and progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sightline.graph import StreamState
from sightline.media import Stream
from sightline.runtime.scheduling.batcher import Arrival
from sightline.runtime.scheduling.link import Item, Link, LinkStats, WorkItem
from sightline.runtime.stats.counters import ElementStats, StreamStats
from sightline.runtime.stats.overload import Rates


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """How one stream is doing; `processed` counts frames that went all the way, `total` is None when nobody knows.

    A stream in trouble has a `cause`, and `next_attempt_seconds` until it is tried again (0 while it is).
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
    damaged: int = 0
    reconnects: int = 0
    stalls: int = 0
    cause: str | None = None
    next_attempt_seconds: float | None = None

    @classmethod
    def of(cls, stream: StreamStats, *, now_ns: int) -> StreamStatus:
        """What the statistics of a stream say at a time."""
        seconds = ((stream.ended_ns or now_ns) - stream.started_ns) / 1e9 if stream.started_ns is not None else 0.0
        next_ns = stream.next_attempt_ns
        return cls(
            name=stream.stream.name,
            state=stream.state,
            frames=stream.received,
            processed=stream.finished,
            total=stream.frame_count,
            fps=stream.finished / seconds if seconds > 0 else 0.0,
            objects=stream.objects,
            dropped=sum(list(stream.dropped.values())),
            position_ns=stream.position_ns,
            damaged=stream.damaged,
            reconnects=stream.reconnects,
            stalls=stream.stalls,
            cause=stream.cause,
            next_attempt_seconds=None if next_ns is None else max(0.0, (next_ns - now_ns) / 1e9),
        )


SOURCE_LINK = "source"
"""The name of the links between sources and the first stage; there is one for each stream."""


@dataclass(frozen=True, slots=True)
class LinkView:
    """A queue: how many items wait in it, and how long ago the oldest frame in it left its source."""

    name: str
    stream: Stream | None
    depth: int
    capacity: int
    oldest_age_ns: int
    statistics: LinkStats

    @classmethod
    def of_source(cls, stream: Stream, link: Link[Arrival], *, now_ns: int) -> LinkView:
        """The queue of frames between a source and the first stage."""
        oldest = link.oldest()
        age_ns = 0 if oldest is None else max(0, now_ns - oldest.at_ns)
        return cls(SOURCE_LINK, stream, link.depth, link.capacity, age_ns, link.statistics)

    @classmethod
    def of_stage(cls, name: str, link: Link[Item], *, now_ns: int) -> LinkView:
        """The queue of batches in front of a stage."""
        oldest = link.oldest()
        age_ns = max(0, now_ns - min(oldest.arrivals_ns)) if isinstance(oldest, WorkItem) else 0
        return cls(name, None, link.depth, link.capacity, age_ns, link.statistics)


@dataclass(frozen=True, slots=True)
class ModelRuns:
    """How often a step ran its model, and how often it did not have to."""

    runs: int
    saved: int


@dataclass(frozen=True, slots=True)
class RunView:
    """A run at one moment. Statistics are those that the run goes on to count in: read them, and do not keep them.

    `at_ns` is the moment (monotonic), `running_ns` how long it has been running. `rates` has every stream, `models` the
    steps that ran one.
    """

    pipeline: str
    device: str
    is_running: bool
    at_ns: int
    running_ns: int
    streams: tuple[StreamStats, ...]
    rates: Mapping[Stream, Rates]
    elements: tuple[ElementStats, ...]
    models: Mapping[str, ModelRuns]
    links: tuple[LinkView, ...]

    @property
    def overloaded(self) -> bool:
        """Whether live streams drop frames because they are more than the machine carries."""
        return any(rates.overloaded for rates in self.rates.values())
