"""How far the work of a stream is known to be done, so that nobody asks the GPU for what the host has seen already.

When the host has waited for a point of a stream, everything is done that was queued there before, and everything for
which the stream had waited. The steady state ends with one such wait for each batch, after which all memory
of that batch is free without a question.
"""

from __future__ import annotations

from collections import deque
from itertools import count

_MOST_REMEMBERED = 256
"""So many waits for other streams are remembered of each. What is forgotten is asked for."""


class Point:
    """A point in the work of a stream, behind everything that was queued there when `Progress.point` was called."""

    __slots__ = ("begun", "ended", "is_seen", "progress")

    def __init__(self, progress: Progress, begun: int) -> None:
        self.progress = progress
        self.begun = begun
        """When its recording began, in ticks of its progress."""
        self.ended = begun
        """When its recording was over: `recorded` sets it."""
        self.is_seen = False
        """Whether somebody has waited for this very point, or seen one behind it on another stream."""

    def recorded(self) -> Point:
        """The event is recorded: from now on the point has its place."""
        self.ended = self.progress.tick()
        return self

    @property
    def is_done(self) -> bool:
        """Whether the host knows that the work before it is done. Where it is False, nobody has seen it yet."""
        return self.is_seen or self.ended < self.progress.done

    def reached(self) -> None:
        """The host has seen that the work before it is done, and so what its stream had waited for."""
        reached = [self]
        while reached:
            point = reached.pop()
            if not point.is_seen:
                point.is_seen = True
                reached += point.progress.advance(point.begun)


class Progress:
    """The order in which the points of one stream were recorded, and which are known to be done. From any thread.

    Recording takes two ticks, one before and one after it. One point is behind another when it began after that one was
    over: two threads may record at once, and nobody knows in which order the GPU saw them.
    """

    __slots__ = ("_ticks", "_waited", "done")

    def __init__(self) -> None:
        self._ticks = count(1)
        self._waited: deque[tuple[int, Point]] = deque(maxlen=_MOST_REMEMBERED)
        self.done = 0
        """Points whose recording was over before this tick are done."""

    def tick(self) -> int:
        """Return the next tick."""
        return next(self._ticks)

    def point(self) -> Point:
        """Begin a point, which is about to be recorded."""
        return Point(self, self.tick())

    def has_waited(self, point: Point) -> None:
        """The stream waits for another one's point: whatever is queued from now on begins behind it."""
        self._waited.append((self.tick(), point))

    def advance(self, tick: int) -> list[Point]:
        """A point that began at that tick is reached. Return the points of other streams that were before it."""
        self.done = max(self.done, tick)
        before: list[Point] = []
        while True:
            try:
                entry = self._waited.popleft()
            except IndexError:
                return before
            if entry[0] < tick:
                before.append(entry[1])
            else:
                self._waited.appendleft(entry)
                return before
