"""The runs that all streams of a step may spend together."""

from __future__ import annotations

from sightline_plugins.infer.adaptive.budget import Budget

_SAVED_SECONDS = 1.0


class Allowance:
    """A bucket of runs that fills at `max_rate` a second; a full one holds what a second brings.

    The emptier it is, the greater a stream's need (0 to 1) has to be. A need of 1 is always met, and may leave a debt
    of a bucket: others then wait until it is paid. Frames of all streams fill it, each by its share, so a bucket fills
    as fast as the streams' own time passes. One thread uses it.
    """

    def __init__(self, budget: Budget) -> None:
        self._rate = budget.max_rate
        self._size = max(1.0, _SAVED_SECONDS * (budget.max_rate or 0.0))
        self._runs = self._size
        self._streams = 1

    def share_among(self, streams: int) -> None:
        """Note how many streams there are."""
        self._streams = max(1, streams)

    def earn(self, seconds: float) -> None:
        """Fill the bucket by what one stream's time brings."""
        if self._rate is not None:
            self._runs = min(self._size, self._runs + self._rate * seconds / self._streams)

    def spend(self, need: float) -> bool:
        """Take a run if the need is great enough for what is left."""
        if self._rate is None:
            return True
        if need < 1 and (self._runs < 1 or need < 1 - self._runs / self._size):
            return False
        self._runs = max(-self._size, self._runs - 1)
        return True
