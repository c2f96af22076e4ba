"""The feed: events of rules and messages of the run, for any number of viewers.

The threads of the pipeline append records to a ring; everything else happens in the event loop of the server. Records
are gathered for a tenth of a second, filtered once for all viewers that want the same, and written once for them: a
viewer costs a wake-up and a write ten times a second, however many records there are. A viewer has no queue. It has a
place in the ring, and what leaves the ring before it was read is lost for that viewer, counted and reported to it.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from threading import Lock
from typing import Any

import numpy as np

from sightline.graph import Clock, Message
from sightline.graph.site import SystemClock
from sightline.media import Batch, Event
from sightline.server.feed_records import FeedFilter, FeedRecord, Framing, Selection, event_record, message_record

KEPT_RECORDS = 4_096
"""Records that are kept for viewers that are slow or come again: almost three minutes at 25 a second."""
GATHER_SECONDS = 0.1
HEARTBEAT_SECONDS = 15.0
_MOST_BYTES_AT_ONCE = 64_000
_MOST_WRITTEN = 8
_MOST_LABELS = 4_096
_ID = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


class FeedClosed(Exception):
    """The server stops; there will be no more records."""


class InvalidId(ValueError):
    """What was given as the id of a record is none."""


class EventFeed:
    """Numbers and keeps records, and hands them out. `take` and `note` may be called from any thread, the rest from
    one event loop.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        kept: int = KEPT_RECORDS,
        describe: Callable[[Batch, Event], Mapping[str, Any] | None] | None = None,
    ) -> None:
        """`describe` returns where an event happened, which its record keeps for the history."""
        self._clock = clock or SystemClock()
        self._describe = describe
        self.epoch = self._clock.epoch_ns() // 1_000_000_000
        self._lock = Lock()
        self._kept: deque[FeedRecord] = deque(maxlen=kept)
        self._newest = 0
        self._labels = _LabelsOfTracks()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_waking = self._is_closed = False
        self._delivered_at = float("-inf")
        self._views: dict[tuple[FeedFilter, Framing], View] = {}
        self._heartbeat: asyncio.TimerHandle | None = None

    def take(self, batch: Batch, events: Sequence[Event]) -> None:
        """Add events; a listener for `Pipeline.on_events`."""
        now_ns = self._clock.epoch_ns()
        scenes = [None if self._describe is None else self._describe(batch, event) for event in events]
        with self._lock:
            for event, scene in zip(events, scenes, strict=True):
                self._newest += 1
                label = self._labels.of(event, batch)
                self._kept.append(event_record(self._newest, batch, event, label=label, now_ns=now_ns, scene=scene))
        self._wake()

    def note(self, message: Message) -> None:
        """Add a message; a listener for `Pipeline.on_message`."""
        now_ns = self._clock.epoch_ns()
        with self._lock:
            self._newest += 1
            self._kept.append(message_record(self._newest, message, now_ns=now_ns))
        self._wake()

    def since(self, number: int) -> tuple[list[FeedRecord], int]:
        """The kept records behind that number, and how many behind it are not kept any more. From any thread."""
        with self._lock:
            fresh = list(islice(reversed(self._kept), max(self._newest - number, 0)))
            newest = self._newest
        fresh.reverse()
        return fresh, max(newest - number, 0) - len(fresh)

    def recent(self, wanted: FeedFilter, *, limit: int) -> tuple[list[FeedRecord], str]:
        """The last `limit` kept records that are wanted, oldest first, and the id of the newest record of all: what
        follows it is new.
        """
        kept, _ = self.since(0)
        found = list(islice(filter(Selection(wanted).takes, reversed(kept)), limit))
        return found[::-1], f"{self.epoch}-{kept[-1].number if kept else 0}"

    def subscribe(self, wanted: FeedFilter, framing: Framing, *, after: str | None = None) -> Subscription:
        """Begin to read: new records, or those behind the record with the id `after`, as far as they are kept; all that
        are kept when the id is from another start of the server.

        Raises InvalidId, and FeedClosed when the server stops.
        """
        number = None if after is None else self._number_of(after)
        if self._is_closed:
            raise FeedClosed
        self._loop = asyncio.get_running_loop()
        if self._heartbeat is None:
            self._heartbeat = self._loop.call_later(HEARTBEAT_SECONDS, self._beat)
        view = self._views.get((wanted, framing))
        if view is None:
            view = self._views[wanted, framing] = View(wanted, framing, self.epoch)
        self._deliver()
        subscription = Subscription(self, view, after=number)
        view.subscriptions.add(subscription)
        return subscription

    def close(self) -> None:
        """Let subscriptions read what is left, and then end; harmless when called again. In the event loop, where there
        were any.
        """
        if self._is_closed:
            return
        self._is_closed = True
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        if self._views:
            self._deliver()
        for view in self._views.values():
            view.wake()

    @property
    def is_closed(self) -> bool:
        """Whether there will be no more records."""
        return self._is_closed

    def leave(self, subscription: Subscription, view: View) -> None:
        """Forget a subscription."""
        view.subscriptions.discard(subscription)
        if not view.subscriptions:
            self._views.pop((view.wanted, view.framing), None)
        if not self._views and self._heartbeat is not None:
            self._heartbeat.cancel()
            self._heartbeat = None

    def _number_of(self, record_id: str) -> int:
        match = _ID.fullmatch(record_id.strip())
        if match is None:
            raise InvalidId(f"{record_id[:40]!r} is not the id of a record: give one as a record has it")
        return int(match[2]) if int(match[1]) == self.epoch else 0

    def _wake(self) -> None:
        """Let the event loop deliver soon, if anybody reads."""
        if self._views and not self._is_waking and self._loop is not None:
            self._is_waking = True
            with suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(self._schedule)

    def _schedule(self) -> None:
        """Deliver now if nothing was delivered for a tenth of a second, else when that is over."""
        loop = asyncio.get_running_loop()
        loop.call_at(max(self._delivered_at + GATHER_SECONDS, loop.time()), self._deliver)

    def _deliver(self) -> None:
        """Sort what is new into the views, and wake those who read."""
        self._is_waking = False  # before the records are read: one that comes later wakes again
        self._delivered_at = asyncio.get_running_loop().time()
        for view in self._views.values():
            fresh, missed = self.since(view.newest)
            if fresh:
                view.add(fresh, missed=missed, oldest=self._oldest())
                view.wake()

    def _oldest(self) -> int:
        """The number of the oldest record that is kept."""
        with self._lock:
            return self._newest - len(self._kept) + 1

    def _beat(self) -> None:
        self._heartbeat = asyncio.get_running_loop().call_later(HEARTBEAT_SECONDS, self._beat)
        for view in self._views.values():
            if view.framing.heartbeat:
                view.wake(is_beat=True)


class View:
    """The kept records that pass a filter, for all who read these in the same format; in the event loop.

    Records that pass are counted from 0: `first` is the place of the oldest one that is kept, `end` the place of the
    next one to come. `newest` is the number of the last record that was looked at.
    """

    def __init__(self, wanted: FeedFilter, framing: Framing, epoch: int) -> None:
        self.wanted = wanted
        self.framing = framing
        self.first = self.newest = 0
        self.oldest = 1
        self.subscriptions: set[Subscription] = set()
        self._epoch = epoch
        self._selection = Selection(wanted)
        self._records: deque[FeedRecord] = deque()
        self._written: dict[tuple[int, int], tuple[bytes, int]] = {}

    @property
    def end(self) -> int:
        """The place of the next record."""
        return self.first + len(self._records)

    def add(self, fresh: Sequence[FeedRecord], *, missed: int, oldest: int) -> None:
        """Look at new records, before which `missed` ones are gone unseen; drop those older than the number `oldest`.
        Records that are gone unseen count as if they had passed the filter, unless nobody has read yet.
        """
        if missed:
            self.first += len(self._records) + (missed if self.subscriptions else 0)
            self._records.clear()
        self._records.extend(filter(self._selection.takes, fresh))
        while self._records and self._records[0].number < oldest:
            self._records.popleft()
            self.first += 1
        self.newest, self.oldest = fresh[-1].number, oldest
        self._written.clear()

    def place_behind(self, number: int) -> int:
        """The place of the first record with a higher number."""
        return self.first + bisect_right(self._records, number, key=lambda one: one.number)

    def read(self, place: int, *, lost: int) -> tuple[bytes, int]:
        """Records from a place on, as they are sent, and the place behind them; `lost` is noted before them."""
        written = self._written.get((place, lost))
        if written is None:
            records, size = [], 0
            for one in islice(self._records, place - self.first, None):
                records.append(one)
                size += len(one.json(self._epoch))
                if size >= _MOST_BYTES_AT_ONCE:
                    break
            written = self.framing.join(records, epoch=self._epoch, lost=lost), place + len(records)
            if len(self._written) >= _MOST_WRITTEN:
                self._written.clear()
            self._written[place, lost] = written
        return written

    def wake(self, *, is_beat: bool = False) -> None:
        """Wake those who read."""
        for one in self.subscriptions:
            one.wake(is_beat=is_beat)


class Subscription:
    """One reader of the feed; in the event loop. It must be closed."""

    def __init__(self, feed: EventFeed, view: View, *, after: int | None) -> None:
        self._feed = feed
        self._view = view
        self._place = view.end if after is None else view.place_behind(after)
        self._lost = 0 if after is None else max(view.oldest - 1 - after, 0)
        self._is_beat_due = False
        self._waiter: asyncio.Future[None] | None = None

    async def next(self) -> bytes:
        """Wait for records; return them, or a sign of life, as they are sent. Raises FeedClosed at the end."""
        view = self._view
        while True:
            if self._place < view.first:
                self._lost += view.first - self._place
                self._place = view.first
            if self._lost or self._place < view.end:
                lost, self._lost = self._lost, 0
                data, self._place = view.read(self._place, lost=lost)
                return data
            if self._is_beat_due:
                self._is_beat_due = False
                return view.framing.heartbeat
            if self._feed.is_closed:
                raise FeedClosed
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def wake(self, *, is_beat: bool = False) -> None:
        """Let it look for records, or give a sign of life."""
        self._is_beat_due |= is_beat
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Stop reading; harmless when called again."""
        self._feed.leave(self, self._view)


class _LabelsOfTracks:
    """Labels of the objects that events are about; remembers those of tracks, for events after an object has left."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], str] = {}

    def of(self, event: Event, batch: Batch) -> str | None:
        """The label of the object with the event's track id; None where the event has none, or it is not known."""
        track_id = event.data.get("track_id")
        if not isinstance(track_id, int | np.integer) or track_id < 0:
            return None
        objects, key = batch.objects, (batch.frames[event.frame].stream.name, int(track_id))
        rows = np.flatnonzero((objects.track_id == track_id) & (objects.frame == event.frame))
        known = self._known.pop(key, None)
        label = objects.select(rows[:1]).labels()[0] if len(rows) else known
        if label is not None:
            self._known[key] = label
            if len(self._known) > _MOST_LABELS:
                del self._known[next(iter(self._known))]
        return label
