"""How many images a second a video has, learnt from their times: by that, NVENC shares out the bits of a `bitrate`."""

from __future__ import annotations

from fractions import Fraction

from sightline_plugins.encode.settings import TICKS_PER_SECOND

NOMINAL_FPS = 30
"""What is taken for granted until images have come."""
_FIRST_LOOK, _LOOK_EVERY = 4, 32
_SLOWEST, _FASTEST = 1, 240
_TOLERANCE = Fraction(1, 10)


class Pace:
    """Looks at the times of a few images, and then of every 32."""

    def __init__(self) -> None:
        self.fps = Fraction(NOMINAL_FPS)
        self._start_ticks: int | None = None
        self._count = 0
        self._window = _FIRST_LOOK

    def note(self, ticks: int) -> Fraction | None:
        """An image at that time, later than all before it; the rate to go on with where it has become another one."""
        if self._start_ticks is None:
            self._start_ticks = ticks
            return None
        self._count += 1
        if self._count < self._window:
            return None
        seen = Fraction(self._count * TICKS_PER_SECOND, ticks - self._start_ticks)
        self._start_ticks, self._count, self._window = ticks, 0, _LOOK_EVERY
        seen = min(max(seen, Fraction(_SLOWEST)), Fraction(_FASTEST)).limit_denominator(1001)
        if abs(seen - self.fps) <= _TOLERANCE * self.fps:
            return None
        self.fps = seen
        return seen
