"""The streams of the double: nothing is done before somebody waits for it, and then no more than is needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Queue:
    """What one stream still has to do. `queued` and `done` count pieces of work since the beginning."""

    work: deque[Callable[[], None] | Point] = field(default_factory=deque)
    queued: int = 0
    done: int = 0

    def add(self, work: Callable[[], None] | Point) -> None:
        """Queue a piece of work, or that a point must be reached."""
        self.work.append(work)
        self.queued += 1

    def point(self) -> Point:
        """Behind everything queued so far."""
        return Point(self, self.queued)


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """A point in the work of a stream."""

    queue: Queue
    position: int

    @property
    def is_reached(self) -> bool:
        """Whether everything before it is done."""
        return self.queue.done >= self.position


class Later:
    """Work that is done by itself as soon as some points are reached."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Sequence[Point], Queue]] = []

    def add(self, points: Sequence[Point], work: Callable[[], None]) -> Point:
        """Do it when all points are reached; returns the point when it is done."""
        queue = Queue()
        for point in points:
            queue.add(point)
        queue.add(work)
        self._waiting.append((points, queue))
        self.look()
        return queue.point()

    def look(self) -> None:
        """Do what can be done."""
        waiting, self._waiting = self._waiting, []
        for points, queue in waiting:
            if all(point.is_reached for point in points):
                _run(queue.point())
            else:
                self._waiting.append((points, queue))


def reach(point: Point, *, later: Later) -> None:
    """Do what must be done to reach a point: its stream up to there, others as far as that waits for them."""
    _run(point, after_each=later.look)


def step_towards(point: Point, *, later: Later) -> bool:
    """Do one piece of work on the way to a point; whether it is reached."""
    if not point.is_reached:
        _run(point, most=1, after_each=later.look)
    return point.is_reached


def _run(point: Point, *, most: int | None = None, after_each: Callable[[], None] | None = None) -> None:
    ahead = [point]
    count = 0
    while ahead:
        queue = ahead[-1].queue
        if ahead[-1].is_reached:
            ahead.pop()
            continue
        if count == most:
            return
        work = queue.work[0]
        if isinstance(work, Point) and not work.is_reached:
            ahead.append(work)
            continue
        queue.work.popleft()
        queue.done += 1
        if not isinstance(work, Point):
            count += 1
            work()
            if after_each is not None:
                after_each()
