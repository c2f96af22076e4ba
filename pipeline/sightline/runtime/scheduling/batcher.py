"""Form batches from the frames of all streams, and hand frames to an application that iterates."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sightline.errors import EndOfLink, LinkClosed
from sightline.graph import Clock
from sightline.media import Batch, Frame, Stream
from sightline.runtime.scheduling.link import (
    DropReason,
    Handover,
    Item,
    Link,
    LinkPolicy,
    SharedCondition,
    StreamEnd,
    WorkItem,
)

_LONGEST_NS = 250_000_000


class AdaptiveBatchLimit:
    """The most frames of a batch when live streams wait: what the pipeline gets through in a quarter of a second.

    A few batches are under way at any time. Where frames take long, large batches would make every image seconds old;
    where they do not, this is more than any batch has.
    """

    def __init__(self) -> None:
        self._frames = 0
        self._taken_ns = 0
        self._frame_ns = 0.0

    def asked_for(self, now_ns: int, *, waits: bool) -> None:
        """The next batch is asked for. `waits` says that frames are there already: nothing but the pipeline's own pace
        has kept them waiting.
        """
        is_pace = waits and self._frames > 0
        self._frame_ns = (now_ns - self._taken_ns) / self._frames if is_pace else 0.0

    def taken(self, frames: int, now_ns: int) -> None:
        """A batch of so many frames leaves."""
        self._frames, self._taken_ns = frames, now_ns

    def of(self, size: int) -> int:
        """How many frames of a batch of `size` are taken."""
        return size if self._frame_ns * size <= _LONGEST_NS else max(1, int(_LONGEST_NS / self._frame_ns))


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """A frame and the monotonic time at which its source handed it over."""

    frame: Frame
    at_ns: int


class Batcher:
    """Turns one link per stream into a sequence of batches and ends of streams.

    A batch leaves when it is full, when its oldest frame has waited `timeout_ns`, or when waiting would be of no use:
    nothing more can come, all files are held back by full links, or a live stream is about to drop a frame. It takes
    one frame of each stream in turn, so a fast stream does not crowd out a slow one; the order within a stream is
    kept. When the pipeline is slow and live streams wait, batches are smaller (`Portion`). One thread receives at a
    time; everything else may be called from any thread. When the gather is sealed, it ends with the last of its
    streams; else it waits for others.
    """

    def __init__(self, *, size: int, timeout_ns: int, clock: Clock) -> None:
        self.size = size
        self.timeout_ns = timeout_ns
        self._clock = clock
        self._batch_limit = AdaptiveBatchLimit()
        self._bell = SharedCondition()
        self._links: dict[Stream, Link[Arrival]] = {}
        self._turn = 0
        self._ends = 0
        self._handover: Handover | None = None
        self._has_live = False
        self._sealed = False
        self._holds = 0
        self._closed = False

    def add(
        self, stream: Stream, *, capacity: int, policy: LinkPolicy, on_drop: Callable[[Arrival, DropReason], None]
    ) -> Link[Arrival]:
        """A new link for a stream, which has none. Raises LinkClosed when the gather has ended."""
        link: Link[Arrival] = Link(capacity, policy=policy, on_drop=on_drop, doorbell=self._bell)
        with self._bell.ready:
            if self._closed:
                raise LinkClosed
            self._links[stream] = link
            self._has_live = self._has_live or stream.live
        return link

    def seal(self) -> None:
        """When all streams have ended, `receive` ends too."""
        with self._bell.ready:
            self._sealed = True
            self._bell.ready.notify_all()

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """A block in which it waits for others although all streams have ended."""
        self._hold(1)
        try:
            yield
        finally:
            self._hold(-1)

    def hand_over(self, mark: Handover) -> None:
        """Let this mark be the next that `receive` returns, if it has not ended."""
        with self._bell.ready:
            self._handover = mark
            self._bell.ready.notify_all()

    def receive(self) -> Item:
        """The next batch, or a mark. Raises EndOfLink when all streams have ended."""
        with self._bell.ready:
            if self._has_live:
                waits = any(link.depth for link in self._links.values())
                self._batch_limit.asked_for(self._clock.monotonic_ns(), waits=waits)
            while not self._closed:
                if self._handover is not None:
                    mark, self._handover = self._handover, None
                    return mark
                ended = next((stream for stream, link in self._links.items() if link.exhausted), None)
                if ended is not None:
                    del self._links[ended]
                    self._ends += 1
                    return StreamEnd(ended, self._ends)
                if not self._links and self._sealed and not self._holds:
                    self._closed = True
                    break
                wait_ns = self._wait_ns()
                if wait_ns == 0:
                    return self._take()
                self._bell.ready.wait(None if wait_ns is None else wait_ns / 1e9)
            raise EndOfLink

    def close(self) -> None:
        """Take nothing more: every link is closed, what is in them is dropped."""
        with self._bell.ready:
            self._closed = True
            links = list(self._links.values())
            self._bell.ready.notify_all()
        for link in links:
            link.close()

    @property
    def count(self) -> int:
        """How many streams have not ended."""
        return len(self._links)

    def links(self) -> dict[Stream, Link[Arrival]]:
        """The links of the streams that have not ended."""
        with self._bell.ready:
            return dict(self._links)

    def _hold(self, count: int) -> None:
        with self._bell.ready:
            self._holds += count
            self._bell.ready.notify_all()

    def _wait_ns(self) -> int | None:
        """How long the next batch must wait: 0 not at all, None until something comes."""
        links = self._links.values()
        waiting = sum(link.depth for link in links)
        if waiting == 0:
            return None
        if waiting >= self._batch_limit.of(self.size) or self._waiting_is_of_no_use():
            return 0
        oldest = min(link.peek().at_ns for link in links if link.depth)
        return max(0, oldest + self.timeout_ns - self._clock.monotonic_ns())

    def _waiting_is_of_no_use(self) -> bool:
        going_on = [link for link in self._links.values() if not link.ended]
        if not going_on:
            return True
        files = [link for link in going_on if link.policy is LinkPolicy.BLOCK]
        return (bool(files) and all(link.full for link in files)) or any(
            link.full for link in going_on if link.policy is LinkPolicy.LATEST
        )

    def _take(self) -> WorkItem:
        links, most = list(self._links.values()), self._batch_limit.of(self.size)
        taken: list[Arrival] = []
        while len(taken) < most and any(link.depth for link in links):
            link = links[self._turn % len(links)]
            self._turn += 1
            if link.depth:
                taken.append(link.take())
        if self._has_live:
            self._batch_limit.taken(len(taken), self._clock.monotonic_ns())
        frames = tuple(arrival.frame for arrival in taken)
        return WorkItem(frames, tuple(arrival.at_ns for arrival in taken), Batch(frames))


_AHEAD = 2


class BatchIterator:
    """Batches for a thread; `link` is what the pipeline sends to."""

    def __init__(self) -> None:
        self.link: Link[Item] = Link(_AHEAD)

    def batches(self) -> Iterator[Batch]:
        """Every batch, waiting for it, until the pipeline has ended."""
        while True:
            try:
                item = self.link.receive()
            except EndOfLink:
                return
            if isinstance(item, WorkItem):
                yield item.batch()


class AsyncBatchIterator:
    """Batches for an event loop, which goes on while none is there; made inside that loop. No thread waits for it."""

    def __init__(self) -> None:
        self.link: Link[Item] = Link(_AHEAD, on_ready=self._wake)
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()

    async def batches(self) -> AsyncIterator[Batch]:
        """Every batch until the pipeline has ended."""
        while True:
            while not (self.link.depth or self.link.ended):
                self._arrived.clear()
                await self._arrived.wait()
            try:
                item = self.link.receive()
            except EndOfLink:
                return
            if isinstance(item, WorkItem):
                yield item.batch()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._arrived.set)
