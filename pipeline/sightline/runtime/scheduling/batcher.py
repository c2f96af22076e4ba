"""Form batches from the frames of all streams, and hand frames to an application that iterates."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic_ns

from sightline.errors import EndOfLink, LinkClosed
from sightline.graph import Clock
from sightline.media import Batch, Frame, Stream
from sightline.runtime.inspection import FrameInspection
from sightline.runtime.scheduling.link import (
    Handover,
    Item,
    Link,
    LinkPolicy,
    LinkReceiver,
    LinkSender,
    OptionsChange,
    SharedCondition,
    StateRequest,
    StreamEnd,
    StreamPause,
    WorkItem,
    open_link,
)
from sightline.runtime.scheduling.order import BatchOrder
from sightline.runtime.stats.counters import DropReason
from sightline.runtime.stats.snapshot import SOURCE_LINK
from sightline.runtime.tracing import FrameTrace, trace_of_batch

_LONGEST_NS = 250_000_000


class AdaptiveBatchLimit:
    """Limits batches of live streams to what the pipeline processes in a quarter of a second.

    A few batches are under way at any time. Where frames take long, large batches would make every image seconds old;
    where they do not, the limit is larger than any batch.
    """

    def __init__(self) -> None:
        self._frames = 0
        self._taken_ns = 0
        self._frame_ns = 0.0

    def batch_requested(self, now_ns: int, *, frames_wait: bool) -> None:
        """Measure the pipeline's pace: the time since the last batch left, per frame of it. It is known only when
        frames wait already, because then nothing but the pipeline has kept them waiting.
        """
        is_pace = frames_wait and self._frames > 0
        self._frame_ns = (now_ns - self._taken_ns) / self._frames if is_pace else 0.0

    def batch_taken(self, frames: int, now_ns: int) -> None:
        """Note that a batch of so many frames leaves."""
        self._frames, self._taken_ns = frames, now_ns

    def limit(self, size: int) -> int:
        """Return how many frames a batch of at most `size` takes."""
        return size if self._frame_ns * size <= _LONGEST_NS else max(1, int(_LONGEST_NS / self._frame_ns))


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """A frame, the monotonic time at which its source handed it over, and its trace if it is sampled."""

    frame: Frame
    at_ns: int
    trace: FrameTrace | None = None


class Batcher:
    """Turns one link per stream into a sequence of batches and ends of streams.

    A batch leaves when it is full, when its oldest frame has waited `timeout_ns`, or when waiting cannot help: nothing
    more can come, all files that are not paused are held back by full links, or a live stream is about to drop a frame.
    It takes one frame of each stream in turn, so that a fast stream does not crowd out a slow one; the order within a
    stream is kept. When the pipeline is slow and live streams wait, batches are smaller (`AdaptiveBatchLimit`).

    With an `order` batches are those that it says, whatever their size and timeout. `on_batch` is called with each
    batch before it is returned.

    One thread receives; everything else may be called from any thread. A sealed batcher ends with the last of its
    streams; another one waits for new streams.
    """

    def __init__(
        self,
        *,
        size: int,
        timeout_ns: int,
        clock: Clock,
        on_batch: Callable[[WorkItem], None] = lambda _: None,
        order: BatchOrder | None = None,
    ) -> None:
        self.size = size
        self.timeout_ns = timeout_ns
        self._clock = clock
        self._on_batch = on_batch
        self._order = order
        self._taken: list[Arrival] = []
        """Frames of the next batch of an order."""
        self._batch_limit = AdaptiveBatchLimit()
        self._condition = SharedCondition()
        self._ready = self._condition.ready
        self._links: dict[Stream, LinkReceiver[Arrival]] = {}
        self._next_link = 0
        self._ends = 0
        self._marks: deque[Handover | OptionsChange | StateRequest] = deque()
        self._paused: dict[Stream, StreamPause | None] = {}
        """The paused streams, each with its mark until that has left."""
        self._has_live = False
        self._is_suspended = False
        self._is_sealed = False
        self._holds = 0
        self._is_closed = False
        self._inspection: FrameInspection | None = None

    def add(
        self, stream: Stream, *, capacity: int, policy: LinkPolicy, on_drop: Callable[[Arrival, DropReason], None]
    ) -> LinkSender[Arrival]:
        """Open a link for a stream that has none. Raises LinkClosed when the batcher has ended."""
        sender, receiver = open_link(capacity, policy=policy, on_drop=on_drop, condition=self._condition)
        with self._ready:
            if self._is_closed:
                raise LinkClosed
            self._links[stream] = receiver
            self._has_live = self._has_live or stream.live
        return sender

    def pause_stream(self, stream: Stream, *, number: int) -> None:
        """Let no batch wait for frames of a stream, and let `receive` return a mark with this number behind its last
        one.
        """
        with self._ready:
            if stream in self._links:
                self._paused[stream] = StreamPause(stream, number)
                self._ready.notify_all()

    def resume_stream(self, stream: Stream) -> None:
        """Expect frames of a stream again; a mark that has not left is not returned any more."""
        with self._ready:
            self._paused.pop(stream, None)

    def inspect(self, inspection: FrameInspection | None) -> None:
        """Let the next frame of a stream be inspected; None for no frame any more."""
        with self._ready:
            self._inspection = inspection

    def seal(self) -> None:
        """Let `receive` end when all streams have ended."""
        with self._ready:
            self._is_sealed = True
            self._ready.notify_all()

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Wait for new streams, while the block is open, even when all streams have ended."""
        self._hold(1)
        try:
            yield
        finally:
            self._hold(-1)

    def suspend(self) -> None:
        """Let frames wait in their links: `receive` returns marks, and no batch before `resume`."""
        with self._ready:
            self._is_suspended = True

    def resume(self) -> None:
        """Return batches again; harmless when it does."""
        with self._ready:
            self._is_suspended = False
            self._ready.notify_all()

    def insert(self, mark: Handover | OptionsChange | StateRequest) -> None:
        """Let `receive` return this mark before the next batch, behind those inserted before, unless the batcher has
        ended.
        """
        with self._ready:
            self._marks.append(mark)
            self._ready.notify_all()

    def receive(self) -> Item:
        """Return the next batch or mark. Raises EndOfLink when all streams have ended."""
        item = self._next()
        if isinstance(item, WorkItem):
            self._on_batch(item)
        return item

    def _next(self) -> Item:
        requested_ns = monotonic_ns()
        with self._ready:
            if self._has_live:
                frames_wait = any(link.depth for link in self._links.values())
                self._batch_limit.batch_requested(self._clock.monotonic_ns(), frames_wait=frames_wait)
            while not self._is_closed:
                if self._marks:
                    return self._marks.popleft()
                if self._is_next_of_order():
                    taken, self._taken = self._taken, []
                    return self._item_of(taken, requested_ns)
                ended = next((stream for stream, link in self._links.items() if link.is_exhausted), None)
                if ended is not None and not self._taken:
                    del self._links[ended]
                    self._paused.pop(ended, None)
                    self._ends += 1
                    return StreamEnd(ended, self._ends)
                if self._paused and (pause := self._next_pause()) is not None:
                    return pause
                if not self._links and self._is_sealed and not self._holds:
                    self._is_closed = True
                    break
                wait_ns = None if self._is_suspended else self._wait_ns()
                if wait_ns == 0:
                    return self._take(requested_ns)
                self._ready.wait(None if wait_ns is None else wait_ns / 1e9)
            raise EndOfLink

    def close(self) -> None:
        """Close every link, and drop what is in them."""
        with self._ready:
            self._is_closed = True
            links = list(self._links.values())
            self._ready.notify_all()
        for link in links:
            link.close()

    @property
    def count(self) -> int:
        """How many streams have not ended."""
        return len(self._links)

    def links(self) -> dict[Stream, LinkReceiver[Arrival]]:
        """Return the links of the streams that have not ended."""
        with self._ready:
            return dict(self._links)

    def _next_pause(self) -> StreamPause | None:
        """Return the mark of a paused stream whose frames have all left."""
        for stream, mark in self._paused.items():
            if mark is not None and not self._links[stream].depth:
                self._paused[stream] = None
                return mark
        return None

    def _hold(self, count: int) -> None:
        with self._ready:
            self._holds += count
            self._ready.notify_all()

    def _is_next_of_order(self) -> bool:
        """Whether the next batch of the order, if there is one, is complete."""
        return self._order is not None and not self._is_suspended and self._order.fill(self._taken, self._links)

    def _wait_ns(self) -> int | None:
        """How long the next batch must wait: 0 not at all, None until something comes."""
        if self._order is not None and not self._order.is_over:
            return None
        waiting = [link for link in self._links.values() if link.depth]
        if not waiting:
            return None
        if sum(link.depth for link in waiting) >= self._batch_limit.limit(self.size) or self._cannot_grow():
            return 0
        oldest_ns = min(oldest.at_ns for oldest in (link.oldest() for link in waiting) if oldest is not None)
        return max(0, oldest_ns + self.timeout_ns - self._clock.monotonic_ns())

    def _cannot_grow(self) -> bool:
        """Whether waiting cannot help: see the class."""
        open_links = [link for stream, link in self._links.items() if not (link.is_over or stream in self._paused)]
        files = [link for link in open_links if link.policy is LinkPolicy.BLOCK]
        live = [link for link in open_links if link.policy is LinkPolicy.LATEST]
        return (
            not open_links
            or (bool(files) and all(link.is_full for link in files))
            or any(link.is_full for link in live)
        )

    def _take(self, requested_ns: int) -> WorkItem:
        """Take frames from the links in turn."""
        links, limit = list(self._links.values()), self._batch_limit.limit(self.size)
        taken: list[Arrival] = []
        while len(taken) < limit and any(link.depth for link in links):
            link = links[self._next_link % len(links)]
            self._next_link += 1
            if link.depth:
                taken.append(link.take())
        if self._has_live:
            self._batch_limit.batch_taken(len(taken), self._clock.monotonic_ns())
        return self._item_of(taken, requested_ns)

    def _item_of(self, taken: list[Arrival], requested_ns: int) -> WorkItem:
        frames = tuple(arrival.frame for arrival in taken)
        sampled = [arrival.trace for arrival in taken if arrival.trace is not None]
        trace = trace_of_batch(sampled, size=len(taken), link=SOURCE_LINK, requested_ns=requested_ns)
        item = WorkItem(frames, tuple(arrival.at_ns for arrival in taken), Batch(frames), trace=trace)
        wanted = self._inspection
        if wanted is not None and any(map(wanted.wants, frames)):
            item.inspection, self._inspection = wanted, None
        return item


_BATCHES_AHEAD = 2


class BatchIterator:
    """Yields batches to a thread; `link` is where the pipeline sends them."""

    def __init__(self) -> None:
        self.link: Link[Item] = open_link(_BATCHES_AHEAD)

    def batches(self) -> Iterator[Batch]:
        """Yield every batch, waiting for it, until the pipeline has ended."""
        while True:
            try:
                item = self.link.receiver.receive()
            except EndOfLink:
                return
            if isinstance(item, WorkItem):
                yield item.batch()


class AsyncBatchIterator:
    """Yields batches to an event loop without blocking it; made inside that loop. No thread waits for it."""

    def __init__(self) -> None:
        self.link: Link[Item] = open_link(_BATCHES_AHEAD, on_ready=self._wake)
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()

    async def batches(self) -> AsyncIterator[Batch]:
        """Yield every batch until the pipeline has ended."""
        receiver = self.link.receiver
        while True:
            while not (receiver.depth or receiver.is_over):
                self._arrived.clear()
                await self._arrived.wait()
            try:
                item = receiver.receive()
            except EndOfLink:
                return
            if isinstance(item, WorkItem):
                yield item.batch()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._arrived.set)
