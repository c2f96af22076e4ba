"""Links: the bounded queues between threads. There are two kinds, and no other queue exists."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from threading import Condition, Lock
from time import monotonic_ns
from typing import Generic, TypeVar

from sightline.errors import EndOfLink, LinkClosed

Item = TypeVar("Item")


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
class LinkStatistics:
    """Counts since the link was made; times are summed over all calls."""

    sent: int = 0
    received: int = 0
    dropped: int = 0
    peak_depth: int = 0
    send_wait_ns: int = 0
    receive_wait_ns: int = 0


class Doorbell:
    """One lock and one condition for several links, so that their receiver can wait for any of them."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.ready = Condition(self.lock)


class Link(Generic[Item]):
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
        on_drop: Callable[[Item, DropReason], None] | None = None,
        on_ready: Callable[[], None] | None = None,
        doorbell: Doorbell | None = None,
    ) -> None:
        bell = doorbell or Doorbell()
        self.capacity = capacity
        self.policy = policy
        self.statistics = LinkStatistics()
        self._on_drop = on_drop
        self._on_ready = on_ready
        self._ready = bell.ready
        self._room = Condition(bell.lock)
        self._items: deque[Item] = deque()
        self._ended = False
        self._closed = False

    def send(self, item: Item) -> None:
        """Put an item in; wait for room (`block`) or make room (`latest`). Raises LinkClosed."""
        with self._room:
            items, statistics = self._items, self.statistics
            if len(items) >= self.capacity and self.policy is LinkPolicy.BLOCK:
                self._wait_for_room()
            if self._ended or self._closed:
                self._drop(item, DropReason.STOPPED)
                raise LinkClosed
            if len(items) >= self.capacity:
                self._drop(items.popleft(), DropReason.OVERLOADED)
            items.append(item)
            statistics.sent += 1
            if len(items) > statistics.peak_depth:
                statistics.peak_depth = len(items)
            self._ready.notify()
            if self._on_ready is not None:
                self._on_ready()

    def receive(self) -> Item:
        """Take the oldest item, waiting for one. Raises EndOfLink when the sender ended and nothing is left."""
        with self._ready:
            if not self._items and not self._over:
                started = monotonic_ns()
                while not self._items and not self._over:
                    self._ready.wait()
                self.statistics.receive_wait_ns += monotonic_ns() - started
            return self.take()

    def take(self) -> Item:
        """Take the oldest item without waiting; for a receiver that holds the doorbell's lock."""
        if not self._items:
            raise EndOfLink
        self.statistics.received += 1
        item = self._items.popleft()
        self._room.notify()
        return item

    def peek(self) -> Item:
        """The oldest item, left where it is; for a receiver that holds the doorbell's lock."""
        return self._items[0]

    def oldest(self) -> Item | None:
        """The oldest item, left where it is, for who watches from another thread; None when nothing waits."""
        with self._ready:
            return self._items[0] if self._items else None

    def end(self) -> None:
        """Say that nothing more will be sent."""
        with self._room:
            self._ended = True
            self._tell_both()

    def close(self) -> None:
        """Say that nothing more will be received, and drop what is left."""
        with self._room:
            self._closed = True
            while self._items:
                self._drop(self._items.popleft(), DropReason.STOPPED)
            self._tell_both()

    @property
    def depth(self) -> int:
        """How many items are waiting."""
        return len(self._items)

    @property
    def full(self) -> bool:
        """Whether there is no room for another item."""
        return len(self._items) >= self.capacity

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
        while len(self._items) >= self.capacity and not self._over:
            self._room.wait()
        self.statistics.send_wait_ns += monotonic_ns() - started

    def _tell_both(self) -> None:
        self._room.notify_all()
        self._ready.notify_all()
        if self._on_ready is not None:
            self._on_ready()

    def _drop(self, item: Item, reason: DropReason) -> None:
        self.statistics.dropped += 1
        if self._on_drop is not None:
            self._on_drop(item, reason)
