"""CUDA graphs: work of a stream that is noted once and queued again with one call, as often as wanted.

What a kernel costs the host is then paid once for the graph and not for each kernel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import get_ident
from typing import TYPE_CHECKING

from sightline.devices.cuda.driver import Driver
from sightline.devices.cuda.memory import postponing
from sightline.devices.cuda.streams import CudaStream, Handles, taken
from sightline.errors import CudaError, CudaFailed

if TYPE_CHECKING:
    from sightline.devices.cuda.transfers import TransferCounter


class Graph:
    """Work that was captured on a stream. It computes in the very memory it was captured with, whatever lies there.

    It keeps what `keep` was given, and goes back when nobody holds it: hold it as long as it may be launched. For one
    thread at a time.
    """

    __slots__ = ("__weakref__", "_graphs", "_handle", "_keep", "_to_host_bytes", "name", "stream")

    def __init__(
        self, graphs: Graphs, handle: int, *, name: str, stream: CudaStream, to_host_bytes: list[int], keep: object
    ) -> None:
        self.name = name
        self.stream = stream
        """The stream that it was captured on, and is launched on."""
        self._graphs = graphs
        self._handle = handle
        self._to_host_bytes = to_host_bytes
        self._keep = keep

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, {self._handle:#x})"

    def __del__(self) -> None:
        self._graphs.idle.append(self._handle)

    def launch(self) -> None:
        """Queue the work on its stream, and return at once. Copies to the host that belong to it are counted.

        What it writes has other content from then on: `array.written(graph.stream.record())`. Raises CudaError.
        """
        self._graphs.launch(self._handle, stream=self.stream, name=self.name)
        for size in self._to_host_bytes:
            self._graphs.transfers.to_host(size)


@dataclass(frozen=True, slots=True)
class _Capture:
    """A capture that is under way: by which thread, and how large the copies to the host are that belong to it."""

    name: str
    thread: int
    to_host_bytes: list[int]


class Graphs:
    """The graphs of one GPU, and what is captured now. From any thread."""

    def __init__(self, handles: Handles, transfers: TransferCounter) -> None:
        self.transfers = transfers
        self.idle: deque[int] = deque()
        """Graphs that nobody holds any more; they are destroyed at the next chance outside of a capture."""
        self._handles = handles
        self._all: set[int] = set()
        self._captures: dict[int, _Capture] = {}

    def capture(self, stream: CudaStream, queue: Callable[[], object], *, name: str, keep: object) -> Graph:
        """See `CudaDevice.capture`."""
        capture = _Capture(name, get_ident(), [])
        self._check_may_capture(stream, name)
        guard = self._handles.guard(f"capturing the graph {name!r}")
        with self._handles.marked(stream), postponing(), guard as driver:
            self._destroy_idle(driver)
            driver.begin_capture(stream.handle)
            self._captures[stream.handle] = capture
            try:
                self._queue(driver, stream, queue=queue, name=name)
                handle = driver.end_capture(stream.handle)
            finally:
                del self._captures[stream.handle]
        self._all.add(handle)
        return Graph(self, handle, name=name, stream=stream, to_host_bytes=capture.to_host_bytes, keep=keep)

    def launch(self, handle: int, *, stream: CudaStream, name: str) -> None:
        """Queue a graph on a stream."""
        with self._handles.guard(f"launching the graph {name!r}") as driver:
            self._destroy_idle(driver)
            driver.launch_graph(handle, stream=stream.handle)

    def count_to_host(self, size_bytes: int, *, stream: int) -> None:
        """A copy to the host was queued on a stream: counted now, or at each launch of the graph that it is for."""
        if (capture := self._captures.get(stream)) is not None:
            capture.to_host_bytes.append(size_bytes)
        else:
            self.transfers.to_host(size_bytes)

    def check_may_lend(self, what: str) -> None:
        """Raise CudaError in a thread that captures: what a graph uses must stay where it is."""
        if (capture := self._capture_of_this_thread()) is not None:
            raise CudaError(
                f"{what}: no memory is lent while the graph {capture.name!r} is captured; take it before, and keep it"
            )

    def destroy(self, driver: Driver) -> None:
        """Let go of all graphs, held or not."""
        self.idle.clear()
        while self._all:
            driver.destroy_graph(self._all.pop())

    @property
    def count(self) -> int:
        """How many there are, held or not yet destroyed."""
        return len(self._all)

    def _check_may_capture(self, stream: CudaStream, name: str) -> None:
        other = self._captures.get(stream.handle) or self._capture_of_this_thread()
        if other is not None:
            raise CudaError(f"the graph {name!r} cannot be captured while the graph {other.name!r} is")

    def _capture_of_this_thread(self) -> _Capture | None:
        if not self._captures:
            return None
        thread = get_ident()
        return next((capture for capture in list(self._captures.values()) if capture.thread == thread), None)

    def _queue(self, driver: Driver, stream: CudaStream, *, queue: Callable[[], object], name: str) -> None:
        """Let the caller queue his work; when he cannot, the stream is out of the capture again."""
        try:
            queue()
        except BaseException as error:
            with suppress(CudaError), self._handles.guard("abandoning a capture"):
                driver.abandon_capture(stream.handle)
            if isinstance(error, CudaError) and not isinstance(error, CudaFailed):
                raise CudaError(f"the graph {name!r} cannot be captured: {error}") from error
            raise

    def _destroy_idle(self, driver: Driver) -> None:
        if self._capture_of_this_thread() is None:
            while (handle := taken(self.idle)) is not None:
                self._all.discard(handle)
                driver.destroy_graph(handle)
