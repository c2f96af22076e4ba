"""The search for tracks: what is asked, what is found, and the contract of a step whose tracks can be searched.

A step that keeps tracks to be found (`search_index`) is an element with `track_finder`. The server asks it; nothing
else has to be known of its file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, tzinfo
from typing import Any, Protocol, runtime_checkable

from sightline.graph.outputs import Outputs


@dataclass(frozen=True, slots=True)
class TrackQuery:
    """What a text was understood as. `words` is for the text encoder; `streams` and `labels` are None where any will
    do.

    `daily` is a part of every day, in the zone of `zone_of`. `direction` (`away`, `towards`, `left`, `right`, as the
    camera sees it) leaves out tracks that are known to head elsewhere.
    """

    words: str
    streams: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    since: datetime | None = None
    until: datetime | None = None
    daily: tuple[time, time] | None = None
    zone_of: datetime | None = None
    direction: str | None = None

    @property
    def has_time(self) -> bool:
        """Whether only tracks of which the time of day is known can fit."""
        return self.since is not None or self.until is not None or self.daily is not None

    def told(self) -> str:
        """What was understood, in one line."""
        parts = []
        if self.streams is not None:
            parts.append(f"stream {' or '.join(self.streams)}")
        if self.labels is not None:
            parts.append(f"label {' or '.join(self.labels)}")
        zone = self.zone_of.tzname() if self.zone_of is not None else ""
        if self.since is not None and self.until is not None:
            parts.append(f"time {self.since:%Y-%m-%d %H:%M} to {self.until:%Y-%m-%d %H:%M} ({zone})")
        if self.daily is not None:
            parts.append(f"time {self.daily[0]:%H:%M} to {self.daily[1]:%H:%M} of every day ({zone})")
        if self.direction is not None:
            parts.append(f"direction {self.direction}")
        if self.words:
            parts.append(f'words "{self.words}"')
        return "; ".join(parts) or "everything"


@dataclass(frozen=True, slots=True)
class FoundTrack:
    """A track that was found. `score` is the cosine of its vector and what was searched for, None without words.

    `start_seconds` and `end_seconds` are in the stream's own time; `start` and `end` are times of day, None where they
    are not known, and `added` is when it was last written. `xyxy` is its box in `frame`, in pixels; `direction` is
    where it headed as the camera sees it, None where that is not known; `image` a JPEG of it, if the index keeps
    images.
    """

    id: int
    score: float | None
    pipeline: str
    stream: str
    track_id: int
    label: str
    confidence: float
    frame: int
    start_seconds: float
    end_seconds: float
    start: datetime | None
    end: datetime | None
    added: datetime
    xyxy: tuple[float, float, float, float]
    direction: str | None
    attributes: Mapping[str, Any]
    image: bytes | None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What was understood, how many tracks fitted its filters, and the best of them, the best first.

    `without_time` is how many tracks were left out because their time of day is not known.
    """

    query: TrackQuery
    fitting: int
    without_time: int
    tracks: tuple[FoundTrack, ...]


@dataclass(frozen=True, slots=True)
class TrackQuestion:
    """What is asked: a text, what tracks shall look like, and filters, which go before those of the text.

    `like_track` is the `id` of a track of the same index, `like_image` an encoded image (JPEG, PNG...). Tracks with a
    lower score than `least_score` are left out. `zone` is that of times in the text.
    """

    text: str = ""
    like_track: int | None = None
    like_image: bytes | None = None
    streams: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    since: datetime | None = None
    until: datetime | None = None
    zone: tzinfo | None = None
    count: int = 20
    least_score: float | None = None


class TrackFinder(Protocol):
    """Finds tracks of one index, while it is written. One thread at a time uses it."""

    def find(self, question: TrackQuestion) -> SearchResult:
        """Return the tracks that fit best; none where nothing was indexed yet.

        Raises ConfigurationError for what cannot be asked, ModelError for an encoder that does not fit, OutputError for
        a file that cannot be read.
        """
        ...

    def track(self, row: int) -> FoundTrack | None:
        """Return the track with an `id`; None when there is none (any more)."""
        ...

    def close(self) -> None:
        """Close files and models; harmless when called again."""
        ...


@runtime_checkable
class FindsTracks(Protocol):
    """An element whose tracks can be searched."""

    def track_finder(self, outputs: Outputs) -> TrackFinder:
        """Make a finder for what the element writes below the output root; nothing is opened yet."""
        ...
