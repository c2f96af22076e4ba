"""When it does not pay to decide: where nearly every frame is detected all the same, all are for a while."""

from __future__ import annotations

from sightline_plugins.infer.adaptive.budget import SECOND_NS

_JUDGED_NS = 2 * SECOND_NS
_TOO_MANY = 0.85
"""Share of the frames with a run from which deciding costs more than it saves."""
_SHORTEST_NS, _LONGEST_NS = 8 * SECOND_NS, 32 * SECOND_NS


class Backoff:
    """Judges two seconds of one stream at a time. Where the share of runs was too large, it rests: eight seconds, and
    twice as long each time that it was too large again, up to 32.

    >>> backoff = Backoff()
    >>> for number in range(100):
    ...     if not backoff.rests(pts_ns=number * 40_000_000):
    ...         backoff.count(number * 40_000_000, runs=True)
    >>> backoff.rests(pts_ns=4_000_000_000)
    True
    >>> backoff.rests(pts_ns=11_000_000_000)
    False
    """

    def __init__(self) -> None:
        self._begin_ns: int | None = None
        self._frames = self._runs = 0
        self._until_ns = 0
        self._rest_ns = _SHORTEST_NS

    def rests(self, *, pts_ns: int) -> bool:
        """Return whether this frame is detected without looking at it."""
        return pts_ns < self._until_ns

    def count(self, pts_ns: int, *, runs: bool) -> None:
        """Count a frame that was decided."""
        self._begin_ns = pts_ns if self._begin_ns is None else self._begin_ns
        self._frames += 1
        self._runs += runs
        if pts_ns - self._begin_ns < _JUDGED_NS:
            return
        if self._runs >= _TOO_MANY * self._frames:
            self._until_ns = pts_ns + self._rest_ns
            self._rest_ns = min(_LONGEST_NS, 2 * self._rest_ns)
        else:
            self._rest_ns = _SHORTEST_NS
        self._begin_ns, self._frames, self._runs = None, 0, 0
