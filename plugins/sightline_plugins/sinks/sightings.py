"""Which sightings of a track are worth an image: the first, and later ones only when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass

MEMORY_NS = 60_000_000_000
MOST_TRACKS = 4096
"""Tracks not seen for a minute (or `again`) are forgotten when more than this are known."""


@dataclass(slots=True)
class _Track:
    seen_ns: int
    saved_ns: int
    score: float


class Sightings:
    """The tracks of one stream: when each was seen and saved last, and how well it was seen then.

    A track is worth an image when it is new, when it was saved `again_ns` ago, and when it is seen `better` times as
    well as on the last image. None switches the second and the third off.
    """

    def __init__(self, *, again_ns: int | None, better: float | None) -> None:
        self._again_ns = again_ns
        self._better = better
        self._tracks: dict[int, _Track] = {}

    def is_worth(self, track: int, *, now_ns: int, score: float) -> bool:
        """Whether this sighting is to be saved; it then counts as saved."""
        known = self._tracks.get(track)
        if known is None:
            self._tracks[track] = _Track(now_ns, now_ns, score)
            self._forget(now_ns)
            return True
        known.seen_ns = now_ns
        is_time = self._again_ns is not None and now_ns - known.saved_ns >= self._again_ns
        if not is_time and (self._better is None or score < self._better * known.score):
            return False
        known.saved_ns, known.score = now_ns, score
        return True

    def _forget(self, now_ns: int) -> None:
        if len(self._tracks) <= MOST_TRACKS:
            return
        memory_ns = max(MEMORY_NS, self._again_ns or 0)
        self._tracks = {number: one for number, one in self._tracks.items() if now_ns - one.seen_ns <= memory_ns}
