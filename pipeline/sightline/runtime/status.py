"""How streams are doing while a pipeline runs, for people who watch."""

from __future__ import annotations

from dataclasses import dataclass

from sightline.graph import StreamState
from sightline.runtime.statistics import StreamStatistics


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
    def of(cls, stream: StreamStatistics, *, now_ns: int) -> StreamStatus:
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
