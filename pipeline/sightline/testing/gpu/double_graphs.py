"""Captures and graphs of the double. What CUDA refuses while a stream is captured spoils the capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from threading import get_ident
from typing import NoReturn

from sightline.devices.gpu.driver import DriverError
from sightline.testing.gpu.double_memory import Arena, Block, GpuMisuse
from sightline.testing.gpu.double_streams import STREAMS_OF_CUDA, Point

NOT_WHILE_CAPTURING = frozenset(
    {
        "allocate",
        "allocate_pinned",
        "destroy_graph",
        "free",
        "free_pinned",
        "is_done",
        "load",
        "synchronize",
    }
)
"""What a thread that captures may not do, with any stream or memory. CUDA may be more lenient in some of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Work on memory, which must be the same holder's when it is done. `held` says which, and whose it is to be."""

    run: Callable[[], None]
    held: Sequence[tuple[Arena, Block, int]]
    kernel: str = ""

    def check_promised(self) -> None:
        """Raise GpuMisuse when the memory has not the holder any more that it had when the piece was made."""
        for arena, block, promised in self.held:
            if block.is_free or block.promised > promised:
                raise GpuMisuse(f"{arena.what} at {block.address:#x} was given back since a graph captured its use")

    def check_holders(self) -> None:
        """Raise GpuMisuse when the memory is not the holder's now."""
        for arena, block, promised in self.held:
            place = f"{arena.what} at {block.address:#x}"
            if block.is_free:
                raise GpuMisuse(f"{place} was freed before work that uses it was done")
            if block.reached > promised:
                raise GpuMisuse(f"{place} was given to another before work that uses it was done")
            if block.reached < promised:
                raise GpuMisuse(f"{place} is used before those who had it before are done")


@dataclass(slots=True, eq=False)
class Graph:
    """Pieces of work in their order; `last` is where the last launch of them ends."""

    pieces: list[Piece]
    last: Point | None = None


@dataclass(slots=True, eq=False)
class _Capture:
    """What one stream noted since a thread began; `cause` is why it was spoiled."""

    thread: int
    pieces: list[Piece] = field(default_factory=list)
    cause: str = ""

    def refuse(self, code: str, why: str) -> NoReturn:
        """What was just tried is not allowed, and this capture gives no graph any more."""
        self.cause = self.cause or why
        raise DriverError(f"CUDA_ERROR_{code}: {why}")


class Captures:
    """The captures that are under way, and the graphs that came of others. Not for several threads at once."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._captures: dict[int, _Capture] = {}
        self._captured_events: dict[int, _Capture] = {}
        self._graphs: dict[int, Graph] = {}

    @property
    def count(self) -> int:
        """How many graphs there are."""
        return len(self._graphs)

    def begin(self, stream: int) -> None:
        """The stream notes from now on."""
        if stream in STREAMS_OF_CUDA:
            raise DriverError("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: a default stream cannot be captured")
        if stream in self._captures:
            raise DriverError("CUDA_ERROR_ILLEGAL_STATE: the stream is captured already")
        self._captures[stream] = _Capture(get_ident())

    def end(self, stream: int) -> list[Piece]:
        """What it noted. The capture is over."""
        capture = self._ended(stream)
        if capture.cause:
            raise DriverError(f"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: {capture.cause}")
        return capture.pieces

    def abandon(self, stream: int) -> None:
        """The capture is over, and forgotten."""
        self._ended(stream)

    def add(self, pieces: list[Piece]) -> int:
        """Make a graph."""
        number = next(self._numbers)
        self._graphs[number] = Graph(pieces)
        return number

    def graph(self, number: int) -> Graph:
        """A graph by its number."""
        if number not in self._graphs:
            raise GpuMisuse(f"there is no graph {number}")
        return self._graphs[number]

    def destroy(self, number: int) -> None:
        """Forget a graph."""
        self.graph(number)
        del self._graphs[number]

    def check_thread(self, verb: str) -> None:
        """Raise DriverError when this thread captures and may not do such a thing meanwhile."""
        for capture in self._captures.values():
            if verb in NOT_WHILE_CAPTURING and capture.thread == get_ident():
                capture.refuse("STREAM_CAPTURE_UNSUPPORTED", f"{verb} in a thread that captures a stream")

    def check_stream(self, stream: int, verb: str) -> None:
        """Raise DriverError when the stream is captured: whoever does such a thing with it spoils the capture."""
        if (capture := self._captures.get(stream)) is not None:
            capture.refuse("STREAM_CAPTURE_UNSUPPORTED", f"{verb} of a stream that is captured")

    def check_event(self, event: int) -> None:
        """Raise DriverError when the event is part of a capture, so that its point is nowhere outside."""
        if event in self._captured_events:
            raise DriverError("CUDA_ERROR_CAPTURED_EVENT: the event was recorded in a capture")

    def note(self, stream: int, piece: Piece) -> bool:
        """Note a piece of work; False when the stream is not captured."""
        capture = self._captures.get(stream)
        if capture is None:
            return False
        if capture.cause:
            raise DriverError(f"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: {capture.cause}")
        capture.pieces.append(piece)
        return True

    def record(self, event: int, *, stream: int) -> bool:
        """Record an event as part of a capture; False when the stream is not captured."""
        capture = self._captures.get(stream)
        if capture is None:
            self._captured_events.pop(event, None)
            return False
        self._captured_events[event] = capture
        return True

    def wait(self, stream: int, *, event: int) -> bool:
        """Let a captured stream wait for its own event; False when neither is captured.

        A stream that waits for the captured event of another would be captured, too: nobody here means that.
        """
        capture, origin = self._captures.get(stream), self._captured_events.get(event)
        if (spoiled := capture or origin) is None:
            return False
        if capture is not origin:
            spoiled.refuse("STREAM_CAPTURE_ISOLATION", "a wait across the border of a capture")
        return True

    def _ended(self, stream: int) -> _Capture:
        capture = self._captures.get(stream)
        if capture is None:
            raise DriverError("CUDA_ERROR_ILLEGAL_STATE: the stream is not captured")
        if capture.thread != get_ident():
            raise DriverError("CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: another thread began the capture")
        return self._captures.pop(stream)
