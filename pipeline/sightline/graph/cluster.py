"""How the streams of a pipeline are spread over machines, as options."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field, model_validator

from sightline.graph.described import Described
from sightline.graph.fields import OutputPath
from sightline.media.time import Duration

_Share = Annotated[float, Field(gt=0, le=1)]
_Time = Annotated[Duration, Field(gt=0)]


class PlacedStreams(Described):
    """What some streams take, and where they may run."""

    fps: Annotated[float, Field(gt=0, le=1000)] | None = None
    """Frames a second of each; when not given, that of the cluster."""
    requires: Mapping[str, str] = {}
    """Labels that their worker must have, such as `{site: north}`."""
    group: str = ""
    """The streams of a group are spread over workers, so that no machine takes all of them along."""


class ClusterSettings(Described):
    """How quickly a cluster notices failures, and where streams go."""

    store: OutputPath = "out/{pipeline}.cluster"
    """The file on the machine of the controller that keeps who has which stream; `{pipeline}` stands for the pipeline's
    name."""
    heartbeat: _Time = 1_000_000_000
    """How often workers report."""
    lease: _Time = 4_000_000_000
    """A worker that had no answer for so long stops its streams by itself; three times `heartbeat` or more."""
    grace: _Time = 2_000_000_000
    """How long a worker may take for that; then its streams start elsewhere."""
    rebalance: _Time = 2_000_000_000
    """How often streams are looked for that should move."""
    fill: _Share = 0.9
    """The share of a worker's capacity that is used at most."""
    tolerance: _Share = 0.1
    """By how much of the mean two workers may differ before streams are moved for it."""
    moving: _Share = 0.02
    """The share of all streams that is moved at a time at most, for drains and balance; at least one stream."""
    spread: _Share = 0.25
    """The share of a group's streams that one worker gets at most, as long as others have room."""
    prove: Annotated[Duration, Field(ge=0)] = 5_000_000_000
    """How long a worker runs changed steps on probation before the next worker gets them; `0s`: not at all."""
    fps: Annotated[float, Field(gt=0, le=1000)] = 25.0
    """Frames a second of a stream for which nothing else is given; `max_fps` of a source goes before it."""
    streams: Mapping[str, PlacedStreams] = {}
    """What some streams take and require, by name or pattern (`north-*`); the first that matches counts."""

    def idle_patterns(self, names: Collection[str]) -> Iterator[str]:
        """The patterns of `streams` that none of these streams has."""
        yield from (one for one in self.streams if not any(fnmatchcase(name, one) for name in names))

    @model_validator(mode="after")
    def _leave_time_for_heartbeats(self) -> ClusterSettings:
        if self.lease < 3 * self.heartbeat:
            lease, heartbeat = (f"{time_ns / 1e9:g}s" for time_ns in (self.lease, self.heartbeat))
            text = f"lease is {lease}: give three times heartbeat ({heartbeat}) or more"
            raise ValueError(f"{text}, so that one lost heartbeat stops no streams")
        return self
