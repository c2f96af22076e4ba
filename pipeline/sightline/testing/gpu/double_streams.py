"""The streams of the double: nothing is done before somebody waits for it, and then no more than is needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from sightline.testing.gpu.double_memory import GpuMisuse

_QUESTIONS_IN_VAIN = 1000
STREAMS_OF_CUDA = (1, 2)
"""CUDA's legacy default stream, and that of each thread."""


@dataclass(slots=True, eq=False)
class Queue:
    """What one stream still has to do. `queued` and `done` count pieces of work since the beginning.

    `stream` is 0 for work that is done by itself.
    """

    stream: int = 0
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


def _run(point: Point, *, after_each: Callable[[], None] | None = None) -> None:
    """Do what must be done to reach a point: its stream up to there, others as far as that waits for them."""
    ahead = [point]
    while ahead:
        queue = ahead[-1].queue
        if ahead[-1].is_reached:
            ahead.pop()
            continue
        work = queue.work[0]
        if isinstance(work, Point) and not work.is_reached:
            ahead.append(work)
            continue
        queue.work.popleft()
        queue.done += 1
        if not isinstance(work, Point):
            work()
            if after_each is not None:
                after_each()


class Streams:
    """The streams and events of the double, by their handles. Not for several threads at once."""

    def __init__(self) -> None:
        self._numbers = count(1000)
        self._queues: dict[int, Queue] = {number: Queue(number) for number in STREAMS_OF_CUDA}
        self._events: dict[int, Point | None] = {}
        self._later = Later()
        self._questions = 0

    @property
    def undone(self) -> int:
        """How many pieces of work are queued and not done."""
        return sum(len(queue.work) for queue in self._queues.values())

    def create_stream(self) -> int:
        """A stream."""
        number = next(self._numbers)
        self._queues[number] = Queue(number)
        return number

    def destroy_stream(self, stream: int) -> None:
        """Forget a stream; what others wait for is still done."""
        self._queue(stream)
        del self._queues[stream]

    def create_event(self) -> int:
        """An event that is not recorded."""
        number = next(self._numbers)
        self._events[number] = None
        return number

    def destroy_event(self, event: int) -> None:
        """Forget an event."""
        self._point(event)
        del self._events[event]

    def add(self, stream: int, work: Callable[[], None]) -> None:
        """Queue a piece of work."""
        self._queue(stream).add(work)

    def record(self, event: int, *, stream: int) -> None:
        """The event is the point behind everything queued on that stream so far."""
        self._point(event)
        self._events[event] = self._queue(stream).point()

    def origin(self, event: int) -> int:
        """The stream on which an event was recorded; 0 when on none."""
        point = self._events.get(event)
        return 0 if point is None else point.queue.stream

    def point(self, stream: int) -> Point:
        """Behind everything queued on a stream so far."""
        return self._queue(stream).point()

    def follow(self, stream: int, point: Point) -> None:
        """Let a stream wait for a point."""
        self._queue(stream).add(point)

    def wait(self, stream: int, *, event: int) -> None:
        """Let a stream wait for the point of an event as it is now."""
        queue, point = self._queue(stream), self._point(event)
        if point is not None:
            queue.add(point)

    def when_reached(self, events: Sequence[int], work: Callable[[], None], *, event: int) -> None:
        """Do it as soon as all events are reached; then `event` is reached, too."""
        points = [point for one in events if (point := self._point(one)) is not None]
        self._events[event] = self._later.add(points, work)

    def finish(self, stream: int) -> None:
        """Do everything queued on a stream, and on others as far as it waits for them."""
        _run(self._queue(stream).point(), after_each=self._later.look)

    def reach(self, event: int) -> None:
        """Do what is queued before the point of an event."""
        if (point := self._point(event)) is not None:
            _run(point, after_each=self._later.look)

    def is_reached(self, event: int) -> bool:
        """Whether an event is reached; who asks for it very often in vain sees it reached at last."""
        point = self._point(event)
        if point is None or point.is_reached:
            return True
        self._questions += 1
        if self._questions % _QUESTIONS_IN_VAIN == 0:
            _run(point, after_each=self._later.look)
        return point.is_reached

    def _queue(self, stream: int) -> Queue:
        if stream not in self._queues:
            raise GpuMisuse(f"there is no stream {stream}")
        return self._queues[stream]

    def _point(self, event: int) -> Point | None:
        if event not in self._events:
            raise GpuMisuse(f"there is no event {event}")
        return self._events[event]
