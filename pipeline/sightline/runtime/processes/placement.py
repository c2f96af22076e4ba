"""Which worker reads which stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sightline.graph import SourceElement
from sightline.runtime.processes.share import Share


class Placement:
    """Deals streams out to workers; for one thread at a time."""

    def __init__(self, shares: Sequence[Share], sources: Mapping[str, SourceElement]) -> None:
        self._shares = shares
        self._of: dict[str, Share] = {}
        for index, (name, source) in enumerate(sources.items()):
            self.place(name, source, shares[index % len(shares)])

    def of(self, name: str) -> Share | None:
        """The share that a stream is in, or was in last; None when there was none of that name."""
        return self._of.get(name)

    def place(self, name: str, source: SourceElement, share: Share) -> None:
        """Put a stream into a share."""
        share.sources[name] = source
        self._of[name] = share

    def share_for(self, name: str) -> Share | None:
        """The share for a stream that comes: where it was before, because its counts are there, or that whose process
        has used the least CPU time lately. None when all are ending.
        """
        alive = [one for one in self._shares if one.running and not one.is_stopping]
        former = self._of.get(name)
        if former in alive:
            return former
        return min(alive, key=lambda one: (round(one.load, 1), len(one.sources)), default=None)
