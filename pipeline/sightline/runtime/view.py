"""The view of a run: what it looks like at one moment, for monitoring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sightline.media import Stream
from sightline.runtime.gather import Arrival
from sightline.runtime.link import Link, LinkStatistics
from sightline.runtime.load import Rates
from sightline.runtime.parcel import Item, Parcel
from sightline.runtime.statistics import ElementStatistics, StreamStatistics

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
    statistics: LinkStatistics

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
        age_ns = max(0, now_ns - min(oldest.arrivals_ns)) if isinstance(oldest, Parcel) else 0
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
    streams: tuple[StreamStatistics, ...]
    rates: Mapping[Stream, Rates]
    elements: tuple[ElementStatistics, ...]
    models: Mapping[str, ModelRuns]
    links: tuple[LinkView, ...]

    @property
    def overloaded(self) -> bool:
        """Whether live streams drop frames because they are more than the machine carries."""
        return any(rates.overloaded for rates in self.rates.values())
