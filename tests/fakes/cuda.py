"""The fake GPU's parts: a journal of calls, memory that detects misuse, and lazy streams.

What is free holds a poison pattern, and is lent again first. Every piece has a fence on either side, which no copy and
no kernel may touch.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import numpy.typing as npt

from sightline.devices.cuda.driver import DriverError, Harm, Span


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the driver.

    As text: `launch add on work`, `wait for other on work`, `copy 16 bytes to host on work` (`from host`, or neither).
    `stream` is the stream it was for, by its name in the journal, `stream 1003` without one, empty where there is none.
    """

    verb: str
    what: str = ""
    stream: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.verb, self.what, self.stream and f"on {self.stream}") if part)


class Journal:
    """The calls of a block (`driver.journaling`), in their order, from all threads.

    What a graph holds is noted when it is captured, between `begin_capture` and `end_capture`; a launch of the graph
    is one call. Calls that the driver refuses at once are not noted.
    """

    def __init__(self, names: Mapping[int, str]) -> None:
        self.calls: list[Call] = []
        self._names = {0: "memory", **names}

    @property
    def lines(self) -> list[str]:
        """The calls as text."""
        return [str(call) for call in self.calls]

    def of(self, *verbs: str) -> list[str]:
        """The calls of some verbs, as text."""
        return [str(call) for call in self.calls if call.verb in verbs]

    def note(self, verb: str, what: str, *, stream: int | None, other: int | None) -> None:
        """A call was made, for a stream, and about another."""
        told = what if other is None else f"for {self._name(other)}"
        self.calls.append(Call(verb, told, "" if stream is None else self._name(stream)))

    def _name(self, stream: int) -> str:
        return self._names.get(stream, f"stream {stream}")


POISON = 0xDB
"""What every byte of memory holds that nobody holds, and that nobody has written to since it was lent."""
_FENCE = 0xFE
_FENCE_BYTES = 64
_ALIGNMENT = 256


class CudaMisuse(Exception):
    """Something was done that may show wrong images, or end the process, on a real GPU."""


@dataclass(slots=True, eq=False)
class Block:
    """A piece of memory. `promised` counts how often it was given to another holder as calls say, `reached` as the work
    of the streams has come; both are equal when nothing is under way.
    """

    address: int
    size_bytes: int
    capacity_bytes: int
    is_free: bool = False
    promised: int = 0
    reached: int = 0
    event: int = 0

    @property
    def end(self) -> int:
        """The address behind its last byte."""
        return self.address + self.size_bytes


class Arena:
    """Memory of one kind. Not for several threads at once."""

    def __init__(self, what: str, *, size_bytes: int) -> None:
        self.what = what
        self._bytes: npt.NDArray[np.uint8] = np.empty(size_bytes + _ALIGNMENT, np.uint8)
        self._start = self._bytes.ctypes.data
        self._next = -(-self._start // _ALIGNMENT) * _ALIGNMENT + _ALIGNMENT
        self._end = self._start + self._bytes.nbytes
        self._addresses: list[int] = []
        self._blocks: list[Block] = []
        self._free: list[Block] = []
        self._fences: npt.NDArray[np.int64] = np.empty((0, 2 * _FENCE_BYTES), np.int64)

    @property
    def live_bytes(self) -> int:
        """How much is lent."""
        return sum(block.size_bytes for block in self._blocks if not block.is_free)

    def holds(self, address: int) -> bool:
        """Whether it is an address of this kind of memory."""
        return self._start <= address < self._end

    def allocate(self, size_bytes: int) -> int:
        """Lend a piece. Raises DriverError when there is not enough."""
        if size_bytes <= 0:
            raise CudaMisuse(f"{size_bytes} bytes of {self.what} were asked for")
        block = self._freed(size_bytes, fits_well=True) or self._new(size_bytes) or self._freed(size_bytes)
        if block is None:
            raise DriverError("out of memory", harm=Harm.MEMORY)
        block.is_free, block.size_bytes = False, size_bytes
        self.poison(block)
        return block.address

    def free(self, address: int) -> Block:
        """Take a piece back."""
        block = self._at(address)
        if block is None or block.address != address:
            raise CudaMisuse(f"{address:#x} was freed, but is no {self.what} that was allocated")
        if block.is_free:
            raise CudaMisuse(f"{self.what} at {address:#x} was freed twice")
        self.check_fences()
        block.is_free = True
        block.promised, block.reached = block.promised + 1, block.reached + 1
        self.poison(block)
        self._free.append(block)
        return block

    def block(self, address: int, *, size_bytes: int = 1) -> Block:
        """The lent piece that holds these bytes. Raises CudaMisuse when there is none."""
        block = self._at(address)
        if block is None or address >= block.end:
            raise CudaMisuse(f"{address:#x} lies outside of all {self.what} that was allocated")
        if block.is_free:
            raise CudaMisuse(f"{self.what} at {address:#x} is used after it was freed")
        if address + size_bytes > block.end:
            raise CudaMisuse(
                f"{size_bytes} bytes at {address:#x} reach {address + size_bytes - block.end} bytes beyond the end of "
                f"{block.size_bytes} bytes of {self.what}"
            )
        return block

    def rows(self, span: Span, *, width_bytes: int, rows: int) -> npt.NDArray[np.uint8]:
        """The bytes of a span, (rows, width), as a view. Raises CudaMisuse outside of what is lent."""
        pitch = max(span.pitch_bytes, width_bytes) if rows == 1 else span.pitch_bytes
        if rows < 1 or width_bytes < 1 or pitch < width_bytes:
            raise CudaMisuse(f"a copy of {rows} rows of {width_bytes} bytes, {span.pitch_bytes} apart")
        self.block(span.address, size_bytes=pitch * (rows - 1) + width_bytes)
        offset = span.address - self._start
        view: npt.NDArray[np.uint8] = np.ndarray((rows, width_bytes), np.uint8, self._bytes, offset, (pitch, 1))
        return view

    def poison(self, block: Block) -> None:
        """Spoil what a piece holds."""
        offset = block.address - self._start
        self._bytes[offset : offset + block.capacity_bytes] = POISON

    def check_fences(self) -> None:
        """Raise CudaMisuse when anybody wrote beside the pieces."""
        touched = (self._bytes[self._fences] != _FENCE).any(axis=1)
        if touched.any():
            block = self._blocks[int(np.argmax(touched))]
            raise CudaMisuse(
                f"something wrote before the start or behind the end of {block.capacity_bytes} bytes of {self.what}"
            )

    def _freed(self, size_bytes: int, *, fits_well: bool = False) -> Block | None:
        """The piece that was freed last and is large enough, or of just that size."""
        for place in range(len(self._free) - 1, -1, -1):
            capacity = self._free[place].capacity_bytes
            if capacity == _rounded(size_bytes) or (not fits_well and capacity >= size_bytes):
                return self._free.pop(place)
        return None

    def _new(self, size_bytes: int) -> Block | None:
        capacity = _rounded(size_bytes)
        address = self._next
        if address + capacity + _ALIGNMENT > self._end:
            return None
        self._next = -(-(address + capacity) // _ALIGNMENT) * _ALIGNMENT + _ALIGNMENT
        offset = address - self._start
        before = np.arange(offset - _FENCE_BYTES, offset)
        behind = np.arange(offset + capacity, offset + capacity + _FENCE_BYTES)
        fence = np.concatenate([before, behind])
        self._bytes[fence] = _FENCE
        self._fences = np.concatenate([self._fences, fence[None]])
        block = Block(address, size_bytes, capacity)
        self._addresses.append(address)
        self._blocks.append(block)
        return block

    def _at(self, address: int) -> Block | None:
        place = bisect.bisect_right(self._addresses, address) - 1
        return self._blocks[place] if place >= 0 else None


def _rounded(size_bytes: int) -> int:
    """Fences stand right behind the last byte, up to 15 bytes that keep them aligned."""
    return -(-size_bytes // 16) * 16


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
            raise CudaMisuse(f"there is no stream {stream}")
        return self._queues[stream]

    def _point(self, event: int) -> Point | None:
        if event not in self._events:
            raise CudaMisuse(f"there is no event {event}")
        return self._events[event]
