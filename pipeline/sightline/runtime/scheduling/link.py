"""Bounded links between threads, and the items that travel through them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Condition, Event, Lock, RLock
from time import monotonic_ns
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from sightline.errors import EndOfLink, LinkClosed, SightlineError
from sightline.graph import Element, Pending
from sightline.media import Batch, Frame, Stream
from sightline.runtime.inspection import FrameInspection
from sightline.runtime.state.file import SavedState
from sightline.runtime.stats.counters import DropReason, LinkStats
from sightline.runtime.tracing import BatchTrace

if TYPE_CHECKING:
    from sightline.runtime.scheduling.node import Node


@dataclass(slots=True, eq=False)
class WorkItem:
    """A batch, or the pending result of one, with the monotonic times at which its frames arrived, the trace of those
    that are sampled, and the inspection of one of them.

    `is_lost` says that a step has failed on it in a run that goes on all the same: no other step gets it, and in a
    branch it travels on so that the join finds it.
    """

    frames: tuple[Frame, ...]
    arrivals_ns: tuple[int, ...]
    work: Batch | Pending
    is_lost: bool = False
    trace: BatchTrace | None = None
    inspection: FrameInspection | None = None

    def batch(self) -> Batch:
        """Return the batch; wait for it while it is pending."""
        if not isinstance(self.work, Batch):
            self.work = self.work.result()
        return self.work


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """Marks the end of a stream: all its frames are in front. `number` is unique in a run, so that a stream that comes
    back under the same name is another one.
    """

    stream: Stream
    number: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class StreamPause:
    """Marks that a stream is paused: all its frames until then are in front. `number` counts the pauses of it."""

    stream: Stream
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Handover:
    """Marks the end of the present stages: others continue behind it. They take over the operators of the `kept`
    nodes unchanged; all other operators end.
    """

    kept: frozenset[Node]


@dataclass(frozen=True, slots=True, eq=False)
class OptionsChange:
    """Marks where options change in one lane: the operators of these elements, by id, take them over between the batch
    in front and the one behind.

    `over` is set when it has passed all stages (`has_passed`), or when these have ended before. `errors` are those of
    the operators that did not take them, and go on with the former ones.
    """

    elements: Mapping[str, Element]
    errors: list[SightlineError] = field(default_factory=list)
    has_passed: Event = field(default_factory=Event)
    over: Event = field(default_factory=Event)


@dataclass(frozen=True, slots=True, eq=False)
class StateRequest:
    """Marks where the operators of one lane save their state of these streams, so that all save it between the same two
    batches. `at_ns` is the time of day (nanoseconds since the epoch), `saved` what the operators have given so far.

    `over` is set when it has passed all stages (`has_passed`), or when these have ended before.
    """

    streams: frozenset[Stream]
    at_ns: int
    saved: list[SavedState] = field(default_factory=list)
    has_passed: Event = field(default_factory=Event)
    over: Event = field(default_factory=Event)


Item = WorkItem | StreamEnd | StreamPause | Handover | OptionsChange | StateRequest


LinkItem = TypeVar("LinkItem")


class LinkPolicy(StrEnum):
    """What happens when a link is full: `block` makes the sender wait, `latest` drops the oldest item."""

    BLOCK = "block"
    LATEST = "latest"


class SharedCondition:
    """One reentrant lock and one condition for several links, so that their receiver can wait for any of them, and
    look at all of them without a change in between.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.ready = Condition(self.lock)


class _State(Generic[LinkItem]):
    """What the two ends of a link share. Each method of an end takes the lock by itself."""

    def __init__(
        self,
        capacity: int,
        policy: LinkPolicy,
        on_drop: Callable[[LinkItem, DropReason], None] | None,
        on_ready: Callable[[], None] | None,
        condition: SharedCondition,
    ) -> None:
        self.capacity = capacity
        self.policy = policy
        self.on_ready = on_ready
        self.lock = condition.lock
        self.ready = condition.ready
        self.room = Condition(condition.lock)
        self.items: deque[LinkItem] = deque()
        self.stats = LinkStats()
        self.is_over = False
        self._on_drop = on_drop

    def drop(self, item: LinkItem, reason: DropReason) -> None:
        self.stats.dropped += 1
        if self._on_drop is not None:
            self._on_drop(item, reason)

    def finish(self) -> None:
        self.is_over = True
        self.room.notify_all()
        self.ready.notify_all()
        if self.on_ready is not None:
            self.on_ready()


class LinkSender(Generic[LinkItem]):
    """The sending end of a link, for one thread; `end` and `resize` may be called from any thread."""

    def __init__(self, state: _State[LinkItem]) -> None:
        self._state = state

    def send(self, item: LinkItem) -> None:
        """Add an item; wait for room (`block`) or make room (`latest`). Raises LinkClosed after either end has ended
        or closed the link.
        """
        state = self._state
        with state.lock:
            items = state.items
            if len(items) >= state.capacity and state.policy is LinkPolicy.BLOCK:
                self._wait_for_room()
            if state.is_over:
                state.drop(item, DropReason.STOPPED)
                raise LinkClosed
            if len(items) >= state.capacity:
                state.drop(items.popleft(), DropReason.OVERLOADED)
            items.append(item)
            stats = state.stats
            stats.sent += 1
            if len(items) > stats.peak_depth:
                stats.peak_depth = len(items)
            state.ready.notify()
            if state.on_ready is not None:
                state.on_ready()

    def end(self) -> None:
        """Send nothing more. The receiver still gets what is in the link. Harmless when called again."""
        with self._state.lock:
            self._state.finish()

    def resize(self, capacity: int) -> None:
        """Change how many items fit, and wake a sender that waits for room."""
        with self._state.lock:
            self._state.capacity = capacity
            self._state.room.notify_all()

    def _wait_for_room(self) -> None:
        state, started = self._state, monotonic_ns()
        while len(state.items) >= state.capacity and not state.is_over:
            state.room.wait()
        state.stats.send_wait_ns += monotonic_ns() - started


class LinkReceiver(Generic[LinkItem]):
    """The receiving end of a link, for one thread; everything but `receive` and `take` may be called from any
    thread.
    """

    def __init__(self, state: _State[LinkItem]) -> None:
        self._state = state

    def receive(self) -> LinkItem:
        """Take the oldest item; wait for one. Raises EndOfLink when nothing is left and nothing more will come."""
        state = self._state
        with state.lock:
            if not state.items and not state.is_over:
                started = monotonic_ns()
                while not state.items and not state.is_over:
                    state.ready.wait()
                state.stats.receive_wait_ns += monotonic_ns() - started
            return self.take()

    def take(self) -> LinkItem:
        """Take the oldest item without waiting. Raises EndOfLink when there is none."""
        state = self._state
        with state.lock:
            if not state.items:
                raise EndOfLink
            state.stats.received += 1
            item = state.items.popleft()
            state.room.notify()
            return item

    def close(self) -> None:
        """Receive nothing more: drop what is in the link, and let `send` raise LinkClosed. Harmless when called
        again.
        """
        state = self._state
        with state.lock:
            state.finish()
            while state.items:
                state.drop(state.items.popleft(), DropReason.STOPPED)

    def oldest(self) -> LinkItem | None:
        """Return the oldest item and leave it in the link; None when it is empty."""
        with self._state.lock:
            return self._state.items[0] if self._state.items else None

    @property
    def policy(self) -> LinkPolicy:
        """What happens when the link is full."""
        return self._state.policy

    @property
    def capacity(self) -> int:
        """How many items fit."""
        return self._state.capacity

    @property
    def depth(self) -> int:
        """How many items wait."""
        return len(self._state.items)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another item."""
        return len(self._state.items) >= self._state.capacity

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come; items may be left."""
        return self._state.is_over

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing is left and nothing more will come."""
        return self._state.is_over and not self._state.items

    @property
    def stats(self) -> LinkStats:
        """What the link has counted."""
        return self._state.stats

    def continue_stats(self, stats: LinkStats) -> None:
        """Go on counting in the stats of a link that this one replaces; before anything is sent."""
        self._state.stats = stats


class Link(NamedTuple, Generic[LinkItem]):
    """The two ends of a bounded first-in, first-out queue between two threads."""

    sender: LinkSender[LinkItem]
    receiver: LinkReceiver[LinkItem]


def open_link(
    capacity: int,
    *,
    policy: LinkPolicy = LinkPolicy.BLOCK,
    on_drop: Callable[[LinkItem, DropReason], None] | None = None,
    on_ready: Callable[[], None] | None = None,
    condition: SharedCondition | None = None,
) -> Link[LinkItem]:
    """Open a link for `capacity` items.

    `on_drop` gets every item that is dropped, with the reason; `on_ready` is called whenever the receiver would find
    something new. Both are called under the link's lock: they must be quick. Links of one receiver may share a
    `condition`.
    """
    state = _State(capacity, policy, on_drop, on_ready, condition or SharedCondition())
    return Link(LinkSender(state), LinkReceiver(state))


class Outlet(Protocol):
    """Where a stage sends to: a link, or one of several ways into it."""

    def send(self, item: Item) -> None:
        """Add an item. Raises LinkClosed."""
        ...

    def end(self) -> None:
        """Send nothing more."""
        ...


class FanInOutlet:
    """One of several ways into a link, which ends when all of them have ended.

    `open_outlets` and `lock` are common to them.
    """

    def __init__(self, sender: LinkSender[Item], *, open_outlets: set[FanInOutlet], lock: Lock) -> None:
        self._sender = sender
        self._open = open_outlets
        self._lock = lock
        open_outlets.add(self)

    def send(self, item: Item) -> None:
        """Add an item; for one thread. Raises LinkClosed."""
        self._sender.send(item)

    def end(self) -> None:
        """Send nothing more by this way. Harmless when called again."""
        with self._lock:
            self._open.discard(self)
            is_last = not self._open
        if is_last:
            self._sender.end()


def fan_in(sender: LinkSender[Item] | None, *, count: int) -> Sequence[Outlet | None]:
    """Return `count` ways into a link: the sender itself when one is enough."""
    if sender is None or count == 1:
        return [sender] * count
    open_outlets, lock = set[FanInOutlet](), Lock()
    return [FanInOutlet(sender, open_outlets=open_outlets, lock=lock) for _ in range(count)]
