"""Work items, and the bounded links that carry them between stages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Condition, Lock
from time import monotonic_ns
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from sightline.errors import EndOfLink, LinkClosed
from sightline.graph import Pending
from sightline.media import Batch, Frame, Stream

if TYPE_CHECKING:
    from sightline.runtime.scheduling.node import Node


@dataclass(slots=True, eq=False)
class WorkItem:
    """A batch, or one still being worked on, with the monotonic times at which its frames arrived."""

    frames: tuple[Frame, ...]
    arrivals_ns: tuple[int, ...]
    work: Batch | Pending

    def batch(self) -> Batch:
        """The batch; waits for it when it is pending."""
        if not isinstance(self.work, Batch):
            self.work = self.work.result()
        return self.work


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """All frames of the stream are in front of this mark; those behind it are of another one with its name. No two
    marks of a run have a number in common.
    """

    stream: Stream
    number: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Handover:
    """The stages end here, and others go on behind this mark. The operators of `kept` nodes go on in those, as if
    nothing had been; all others have come to their end.
    """

    kept: frozenset[Node]


Item = WorkItem | StreamEnd | Handover


LinkItem = TypeVar("LinkItem")


class LinkPolicy(StrEnum):
    """What happens when a link is full: `block` makes the sender wait, with `latest` the oldest item gives way."""

    BLOCK = "block"
    LATEST = "latest"


class DropReason(StrEnum):
    """Why an item was dropped: what comes behind could not keep up (`latest` only), the run was stopped, its image
    was damaged and the source leaves such out, or the GPU that worked on it broke and the stream went on on another.
    """

    OVERLOADED = "overloaded"
    DAMAGED = "damaged"
    STOPPED = "stopped"
    GPU_LOST = "gpu lost"


@dataclass(slots=True)
class LinkStats:
    """Counts since the link was made; times are summed over all calls."""

    sent: int = 0
    received: int = 0
    dropped: int = 0
    peak_depth: int = 0
    send_wait_ns: int = 0
    receive_wait_ns: int = 0


class SharedCondition:
    """One lock and one condition for several links, so that their receiver can wait for any of them."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.ready = Condition(self.lock)


class Link(Generic[LinkItem]):
    """A bounded first-in, first-out queue to one receiving thread, from one that sends, or several through `fan_in`.

    The sender ends it (`end`): what is in it can still be received, then `receive` raises EndOfLink. The receiver
    closes it (`close`): what is in it is dropped, and `send` raises LinkClosed from then on. Both may be called from
    any thread and more than once. Every item that is dropped is handed to `on_drop` with the reason, and `on_ready` is
    called whenever there is something new to find out by `receive`; both under the link's lock: they must be quick.
    """

    def __init__(
        self,
        capacity: int,
        *,
        policy: LinkPolicy = LinkPolicy.BLOCK,
        on_drop: Callable[[LinkItem, DropReason], None] | None = None,
        on_ready: Callable[[], None] | None = None,
        doorbell: SharedCondition | None = None,
    ) -> None:
        bell = doorbell or SharedCondition()
        self._capacity = capacity
        self.policy = policy
        self.statistics = LinkStats()
        self._on_drop = on_drop
        self._on_ready = on_ready
        self._ready = bell.ready
        self._room = Condition(bell.lock)
        self._items: deque[LinkItem] = deque()
        self._ended = False
        self._closed = False

    def send(self, item: LinkItem) -> None:
        """Put an item in; wait for room (`block`) or make room (`latest`). Raises LinkClosed."""
        with self._room:
            items, statistics = self._items, self.statistics
            if len(items) >= self._capacity and self.policy is LinkPolicy.BLOCK:
                self._wait_for_room()
            if self._ended or self._closed:
                self._drop(item, DropReason.STOPPED)
                raise LinkClosed
            if len(items) >= self._capacity:
                self._drop(items.popleft(), DropReason.OVERLOADED)
            items.append(item)
            statistics.sent += 1
            if len(items) > statistics.peak_depth:
                statistics.peak_depth = len(items)
            self._ready.notify()
            if self._on_ready is not None:
                self._on_ready()

    def receive(self) -> LinkItem:
        """Take the oldest item, waiting for one. Raises EndOfLink when the sender ended and nothing is left."""
        with self._ready:
            if not self._items and not self._over:
                started = monotonic_ns()
                while not self._items and not self._over:
                    self._ready.wait()
                self.statistics.receive_wait_ns += monotonic_ns() - started
            return self.take()

    def take(self) -> LinkItem:
        """Take the oldest item without waiting; for a receiver that holds the doorbell's lock."""
        if not self._items:
            raise EndOfLink
        self.statistics.received += 1
        item = self._items.popleft()
        self._room.notify()
        return item

    def peek(self) -> LinkItem:
        """The oldest item, left where it is; for a receiver that holds the doorbell's lock."""
        return self._items[0]

    def oldest(self) -> LinkItem | None:
        """The oldest item, left where it is, for who watches from another thread; None when nothing waits."""
        with self._ready:
            return self._items[0] if self._items else None

    def end(self) -> None:
        """Say that nothing more will be sent."""
        with self._room:
            self._ended = True
            self._wake_both()

    def close(self) -> None:
        """Say that nothing more will be received, and drop what is left."""
        with self._room:
            self._closed = True
            while self._items:
                self._drop(self._items.popleft(), DropReason.STOPPED)
            self._wake_both()

    @property
    def capacity(self) -> int:
        """How many items fit. A sender that waits for room is woken when it changes."""
        return self._capacity

    @capacity.setter
    def capacity(self, capacity: int) -> None:
        with self._room:
            self._capacity = capacity
            self._room.notify_all()

    @property
    def depth(self) -> int:
        """How many items are waiting."""
        return len(self._items)

    @property
    def full(self) -> bool:
        """Whether there is no room for another item."""
        return len(self._items) >= self._capacity

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self._over

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left and nothing more will come."""
        return self._over and not self._items

    @property
    def _over(self) -> bool:
        return self._ended or self._closed

    def _wait_for_room(self) -> None:
        started = monotonic_ns()
        while len(self._items) >= self._capacity and not self._over:
            self._room.wait()
        self.statistics.send_wait_ns += monotonic_ns() - started

    def _wake_both(self) -> None:
        self._room.notify_all()
        self._ready.notify_all()
        if self._on_ready is not None:
            self._on_ready()

    def _drop(self, item: LinkItem, reason: DropReason) -> None:
        self.statistics.dropped += 1
        if self._on_drop is not None:
            self._on_drop(item, reason)


class Outlet(Protocol):
    """Where a stage sends to: a link, or one of several ways into it."""

    def send(self, item: Item) -> None:
        """Put an item in. Raises LinkClosed."""
        ...

    def end(self) -> None:
        """Say that nothing more will be sent."""
        ...


class FanInOutlet:
    """One of several ways into a link, which ends when all of them have been ended.

    `open_outlets` and `lock` are common to them.
    """

    def __init__(self, link: Link[Item], *, open_outlets: set[FanInOutlet], lock: Lock) -> None:
        self._link = link
        self._open = open_outlets
        self._lock = lock
        open_outlets.add(self)

    def send(self, item: Item) -> None:
        """Put an item in; from one thread. Raises LinkClosed."""
        self._link.send(item)

    def end(self) -> None:
        """Say that nothing more will be sent here; harmless when called again."""
        with self._lock:
            self._open.discard(self)
            is_last = not self._open
        if is_last:
            self._link.end()


def fan_in(link: Link[Item] | None, *, count: int) -> Sequence[Outlet | None]:
    """So many ways into a link; the link itself when there is one."""
    if link is None or count == 1:
        return [link] * count
    open_outlets, lock = set[FanInOutlet](), Lock()
    return [FanInOutlet(link, open_outlets=open_outlets, lock=lock) for _ in range(count)]
