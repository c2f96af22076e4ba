"""Streams and events: what a GPU does one after another, and how one stream waits for another.

Only events order work; the host waits for an event where it needs what is there, and nowhere else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from sightline.devices.gpu.driver import Driver
from sightline.devices.gpu.guard import Guard
from sightline.errors import GpuError
from sightline.media.device_array import DeviceEvent


class Handles:
    """The streams and events of one GPU: made when needed, used again when nobody holds them, gone with the GPU."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.idle_streams: deque[int] = deque()
        self.idle_events: deque[int] = deque()
        self._all_streams: list[int] = []
        self._all_events: list[int] = []
        self._marks: dict[int, GpuEvent] = {}
        self._latest_capture = object()

    def stream(self, name: str) -> GpuStream:
        """A stream; after a time of use by others what they queued may come before."""
        with self.guard("making a stream") as driver:
            handle = taken(self.idle_streams)
            if handle is None:
                handle = driver.create_stream()
                self._all_streams.append(handle)
        return GpuStream(self, handle, name=name)

    def event(self, driver: Driver) -> int:
        """An event that nobody holds."""
        handle = taken(self.idle_events)
        if handle is None:
            handle = driver.create_event()
            self._all_events.append(handle)
        return handle

    def record(self, driver: Driver, stream: GpuStream) -> GpuEvent:
        """The point behind everything queued on a stream so far.

        While a stream is captured that is the point before: nothing is queued meanwhile, and an event that became part
        of the capture could be waited for by nobody. When a capture begins just now the event may be part of it.
        """
        while True:
            latest = self._latest_capture
            if (mark := self._marks.get(stream.handle)) is not None:
                return mark
            event = GpuEvent(self, self.event(driver), stream=stream)
            driver.record(event.handle, stream=stream.handle)
            if self._latest_capture is latest:
                return event

    def is_captured(self, stream: int) -> bool:
        """Whether a stream is captured now."""
        return stream in self._marks

    @contextmanager
    def marked(self, stream: GpuStream) -> Iterator[None]:
        """A block in which a stream is captured, as others have to know."""
        self._marks[stream.handle] = stream.record()
        self._latest_capture = object()
        try:
            yield
        finally:
            del self._marks[stream.handle]

    def synchronize(self, driver: Driver) -> None:
        """Wait for everything that is queued on any of them."""
        for stream in self._all_streams:
            driver.synchronize(stream)

    def destroy(self, driver: Driver) -> None:
        """Let go of all of them."""
        for event in self._all_events:
            driver.destroy_event(event)
        for stream in self._all_streams:
            driver.destroy_stream(stream)

    @property
    def counts(self) -> tuple[int, int]:
        """How many streams and events there are, held or idle."""
        return len(self._all_streams), len(self._all_events)


class GpuStream:
    """A stream of work on a GPU, in order. `name` says in messages whose it is. Work may be queued by any thread.

    `handle` is CUDA's, which other libraries take: keep this object alive while they use it.
    """

    __slots__ = ("__weakref__", "_handles", "_is_ours", "handle", "name")

    def __init__(self, handles: Handles, handle: int, *, name: str, is_ours: bool = True) -> None:
        self.handle = handle
        self.name = name
        self._handles = handles
        self._is_ours = is_ours

    def __repr__(self) -> str:
        return f"GpuStream({self.name!r}, {self.handle:#x})"

    def __del__(self) -> None:
        if self._is_ours:
            self._handles.idle_streams.append(self.handle)

    def record(self) -> GpuEvent:
        """The point behind everything queued here so far. In a capture: behind what was queued before it."""
        with self._handles.guard(f"recording an event on the stream {self.name!r}") as driver:
            return self._handles.record(driver, self)

    def wait(self, event: DeviceEvent) -> None:
        """Let what is queued here from now on begin after that point. Returns at once; no thread waits.

        Raises GpuError while the stream is captured: a graph cannot wait for what is outside of it.
        """
        if event.stream.handle == self.handle:
            return
        if self._handles.is_captured(self.handle):
            raise GpuError(
                f"the stream {self.name!r} is captured as a graph and cannot wait for another stream's work: wait for "
                "it before the capture, and let the graph use arrays that are ready on its own stream"
            )
        with self._handles.guard(f"waiting for an event on the stream {self.name!r}") as driver:
            driver.wait(self.handle, event=event.handle)

    def synchronize(self) -> None:
        """Wait, without the GIL, until everything queued here is done. Not for the steady state: wait for events."""
        with self._handles.guard(f"waiting for the stream {self.name!r}") as driver:
            driver.synchronize(self.handle)


class GpuEvent:
    """A point in the work of a stream: behind everything that was queued there when it was recorded."""

    __slots__ = ("_handles", "handle", "stream")

    def __init__(self, handles: Handles, handle: int, *, stream: GpuStream) -> None:
        self.handle = handle
        self.stream = stream
        self._handles = handles

    def __del__(self) -> None:
        self._handles.idle_events.append(self.handle)

    def wait(self) -> None:
        """Wait, without the GIL, until the work before it is done."""
        with self._handles.guard(f"waiting for work of the stream {self.stream.name!r}") as driver:
            driver.synchronize_event(self.handle)

    @property
    def is_done(self) -> bool:
        """Whether the work before it is done."""
        with self._handles.guard(f"asking for work of the stream {self.stream.name!r}") as driver:
            return driver.is_done(self.handle)


def taken(idle: deque[int]) -> int | None:
    """The handle that is idle for longest; None when there is none."""
    try:
        return idle.popleft()
    except IndexError:
        return None
