"""Which worker reads which stream."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Generic, Protocol, TypeVar

from sightline.graph import SourceElement

_LOOKED_AT = 256
"""Of so many sources the sizes are asked for, which opens files; the start does not wait for more."""


class Placed(Protocol):
    """A share of the streams, as far as its place among the others needs it; see `Share`."""

    sources: dict[str, SourceElement]
    load: float

    @property
    def load_at(self) -> float: ...
    @property
    def running(self) -> bool: ...
    @property
    def is_stopping(self) -> bool: ...


ShareT = TypeVar("ShareT", bound=Placed)


class Placement(Generic[ShareT]):
    """Deals streams out to workers by their load; for one thread at a time.

    At the start nothing is measured, so a stream weighs its pixels a second, and one of unknown size as much as the
    others on average. The heaviest are placed first, each where there is least so far (Graham's LPT rule, 1969: the
    fullest share has at most 4/3 of what is possible). A stream that comes later goes where the least CPU time is used,
    and what has come since that was measured counts by its weight.
    """

    def __init__(self, shares: Sequence[ShareT], sources: Mapping[str, SourceElement]) -> None:
        self._shares = shares
        self._of: dict[str, ShareT] = {}
        self._came_at: dict[str, float] = {}
        self._weights = _weights(sources)
        names = list(sources)
        for name in sorted(names, key=lambda one: -self._weights[one]):
            self.place(name, sources[name], min(shares, key=lambda one: (self._weight(one), len(one.sources))))
        for share in shares:  # in the order of the description
            share.sources = {name: share.sources[name] for name in names if name in share.sources}

    def of(self, name: str) -> ShareT | None:
        """The share that a stream is in, or was in last; None when there was none of that name."""
        return self._of.get(name)

    def place(self, name: str, source: SourceElement, share: ShareT) -> None:
        """Put a stream into a share."""
        if name not in self._weights:
            known = list(self._weights.values())
            self._weights[name] = source.pixels_per_second() or (fmean(known) if known else 1.0)
        self._came_at[name] = time.monotonic()
        share.sources[name] = source
        self._of[name] = share

    def share_for(self, name: str) -> ShareT | None:
        """The share for a stream that comes: where it was before, because its counts are there, or the least loaded.
        None when all are ending.
        """
        alive = [one for one in self._shares if one.running and not one.is_stopping]
        former = self._of.get(name)
        if former in alive:
            return former
        weight = sum(self._weight(one) for one in alive)
        cost = sum(one.load for one in alive) / weight if weight else 0.0

        def expected(share: ShareT) -> tuple[float, float, int]:
            fresh = sum(self._weights[one] for one in share.sources if self._came_at[one] > share.load_at)
            return round(share.load + fresh * cost, 1), self._weight(share), len(share.sources)

        return min(alive, key=expected, default=None)

    def _weight(self, share: ShareT) -> float:
        return sum(self._weights[name] for name in share.sources)


def _weights(sources: Mapping[str, SourceElement]) -> dict[str, float]:
    """The pixels a second of each source; the mean of the known ones where they are not known, and 1 where none is."""
    looked_at = dict(list(sources.items())[:_LOOKED_AT]) if len(sources) > 1 else {}
    known = {name: rate for name, source in looked_at.items() if (rate := source.pixels_per_second())}
    usual = fmean(known.values()) if known else 1.0
    return {name: known.get(name, usual) for name in sources}
