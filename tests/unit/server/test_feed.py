"""The feed: order and completeness for every reader, filters, bounds, and what a slow reader loses."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.graph import Message, MessageKind, StreamState
from sightline.graph.site import SystemClock
from sightline.media import Batch, Event, Objects, Origin, TimeSource
from sightline.server import feed as feed_module
from sightline.server.feed import EventFeed, FeedClosed, InvalidId, Subscription
from sightline.server.feed_records import JSON_ARRAYS, SERVER_SENT_EVENTS, FeedFilter
from sightline.testing import make_batches, make_frames

EVERYTHING = FeedFilter()
EVENT = re.compile(r"(?:id: (?P<id>\S+)\n)?event: (?P<type>\w+)\ndata: (?P<data>.*)\n\n")
WAIT_SECONDS = 120


class FixedClock(SystemClock):
    """A clock that stands still."""

    def epoch_ns(self) -> int:
        return 1_767_322_984_567_000_000


def batch_of(*events: Event, stream: str = "gate", frames: int = 4) -> Batch:
    (batch,) = make_batches(make_frames(frames, stream=stream), size=frames)
    return batch.with_events(events)


def line(number: int, **data: Any) -> Event:
    return Event("line", f"rule-{number}", 0, {"direction": "in", **data}, "lines-1")


def put(feed: EventFeed, *numbers: int, stream: str = "gate") -> None:
    """Events of the rules `rule-NUMBER`."""
    for number in numbers:
        batch = batch_of(line(number), stream=stream)
        feed.take(batch, batch.events)


def within(test: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await asyncio.wait_for(test(), WAIT_SECONDS)

    asyncio.run(run())


async def read(subscription: Subscription, count: int) -> list[dict[str, Any]]:
    """Read until there are so many records, notes of lost ones included."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        found += json.loads(await subscription.next())
    assert len(found) == count
    return found


def rules(records: Sequence[dict[str, Any]]) -> list[int]:
    return [int(one["event"]["rule"].removeprefix("rule-")) for one in records if one["record"] == "event"]


def test_an_event_is_written_as_in_json_lines_with_its_place_and_time() -> None:
    async def test() -> None:
        feed = EventFeed(clock=FixedClock())
        subscription = feed.subscribe(EVERYTHING, SERVER_SENT_EVENTS)
        batch = batch_of(Event("line", "gate_in", 2, {"direction": "in", "track_id": 5}, "lines-1"))
        feed.take(batch, batch.events)

        match = EVENT.fullmatch((await subscription.next()).decode())

        assert match is not None
        assert match["type"] == "event"
        assert match["id"] == "1767322984-1"
        assert json.loads(match["data"]) == {
            "id": "1767322984-1",
            "record": "event",
            "time": "2026-01-02T03:03:04.567Z",
            "stream": "gate",
            "element": "lines-1",
            "frame": 2,
            "pts_ns": batch.frames[2].pts_ns,
            "event": {"kind": "line", "rule": "gate_in", "direction": "in", "track_id": 5},
        }

    within(test)


def test_the_time_of_the_image_is_taken_where_it_is_known() -> None:
    feed = EventFeed(clock=FixedClock())
    batch = batch_of(line(1))
    frames = [replace(one, capture_ns=10**18, time_source=TimeSource.RTCP) for one in batch.frames]
    feed.take(Batch(tuple(frames)), batch.events)

    (record,), _ = feed.recent(EVERYTHING, limit=1)

    assert (
        json.loads(record.json(feed.epoch)).items()
        >= {
            "time": "2001-09-09T01:46:40.000Z",
            "time_source": "rtcp",
        }.items()
    )


def test_a_message_is_written_without_its_details() -> None:
    feed = EventFeed(clock=FixedClock())
    feed.note(
        Message(
            MessageKind.STREAM_LOST,
            "it broke off",
            "gate",
            state=StreamState.LOST,
            details="Traceback",
            data={"attempt": 3},
        )
    )

    (record,), _ = feed.recent(EVERYTHING, limit=10)

    assert json.loads(record.json(feed.epoch)) == {
        "id": "1767322984-1",
        "record": "message",
        "time": "2026-01-02T03:03:04.567Z",
        "stream": "gate",
        "kind": "stream_lost",
        "text": "it broke off",
        "state": "lost",
        "data": {"attempt": 3},
    }


def test_no_record_holds_credentials() -> None:
    feed = EventFeed()
    url = "rtsp://admin:hunter2@10.0.0.7/main?token=abcdef"
    feed.note(Message(MessageKind.WARNING, f"cannot open {url}", data={"url": url, 'quoted "': f'"{url}"'}))
    batch = batch_of(Event("custom", "r", 0, {"url": url, "nested": {"url": url}, "other": ValueError(url)}))  # type: ignore[dict-item]
    feed.take(batch, batch.events)

    written = [one.json(feed.epoch).decode() for one in feed.recent(EVERYTHING, limit=10)[0]]

    assert len(written) == 2
    assert not any("hunter2" in one or "abcdef" in one for one in written)
    assert all(json.loads(one)["id"] for one in written)


@pytest.mark.parametrize(
    "value",
    [1 << 80, float("nan"), "\ud800", {1: {2: 3}}, np.float32(0.5), np.int64(3), object(), b"\xff", {"a": "\ud800"}],
)
def test_whatever_a_rule_puts_into_an_event_becomes_json(value: Any) -> None:
    feed = EventFeed()
    batch = batch_of(Event("custom", "r", 0, {"value": value}))
    feed.take(batch, batch.events)

    (record,), _ = feed.recent(EVERYTHING, limit=1)

    assert json.loads(record.json(feed.epoch))["event"].items() >= {"kind": "custom", "rule": "r"}.items()


def test_readers_who_want_the_same_share_what_is_written() -> None:
    async def test() -> None:
        feed = EventFeed()
        first, second = (feed.subscribe(FeedFilter(kinds=("li*",)), JSON_ARRAYS) for _ in range(2))
        put(feed, 1, 2)

        one, other = await first.next(), await second.next()

        assert one is other
        assert rules(json.loads(one)) == [1, 2]

    within(test)


def test_records_that_come_together_are_sent_together() -> None:
    async def test() -> None:
        feed = EventFeed()
        subscription = feed.subscribe(EVERYTHING, JSON_ARRAYS)
        put(feed, 1)
        assert rules(json.loads(await subscription.next())) == [1]
        put(feed, 2)
        await asyncio.sleep(0)
        put(feed, 3, 4)

        assert rules(json.loads(await subscription.next())) == [2, 3, 4]

    within(test)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (FeedFilter(types=("event",)), [1, 2, 3]),
        (FeedFilter(types=("message",)), [4, 5]),
        (FeedFilter(streams=("yard",)), [2, 4]),
        (FeedFilter(streams=("ga*", "yard")), [1, 2, 3, 4]),
        (FeedFilter(kinds=("zone",)), [3]),
        (FeedFilter(kinds=("stream_*", "zone")), [3, 4]),
        (FeedFilter(rules=("in",)), [1]),
        (FeedFilter(rules=("[x]",)), [2]),
        (FeedFilter(labels=("car",)), [1, 2]),
        (FeedFilter(labels=("c?r",), streams=("gate",)), [1]),
        (FeedFilter(elements=("lines-*",)), [1, 2]),
        (FeedFilter(streams=("Gate",)), []),
        (EVERYTHING, [1, 2, 3, 4, 5]),
    ],
)
def test_a_filter_lets_pass_what_matches_all_of_its_lists(wanted: FeedFilter, expected: list[int]) -> None:
    feed = EventFeed()
    for stream, event in (
        ("gate", Event("line", "in", 0, {"track_id": 1}, "lines-1")),
        ("yard", Event("line", "[x]", 0, {"track_id": 1}, "lines-1")),
        ("gate", Event("zone", "plaza", 0, {}, "zones-1")),
    ):
        batch = with_cars(batch_of(event, stream=stream))
        feed.take(batch, batch.events)
    feed.note(Message(MessageKind.STREAM_LOST, "lost", "yard"))
    feed.note(Message(MessageKind.STARTED, "started"))

    assert [one.number for one in feed.recent(wanted, limit=10)[0]] == expected


def with_cars(batch: Batch, *, track_id: int = 1, rows: Sequence[int] = (0,)) -> Batch:
    count = len(rows)
    return batch.with_objects(
        Objects.from_columns(
            frame=np.array(rows),
            xyxy=np.zeros((count, 4), np.float32),
            confidence=np.ones(count),
            class_id=np.ones(count),
            source=Origin("test", ("person", "car")),
            track_id=np.full(count, track_id),
        )
    )


def test_the_label_of_a_track_is_remembered_for_events_after_it_has_left() -> None:
    feed = EventFeed()
    for batch in (
        with_cars(batch_of(Event("zone", "r", 0, {"track_id": 7})), track_id=7),
        batch_of(Event("zone", "r", 0, {"track_id": 7})),
        batch_of(Event("zone", "r", 0, {"track_id": 7}), stream="yard"),
        batch_of(Event("zone", "r", 0, {"track_id": "7"})),
        with_cars(batch_of(Event("zone", "r", 1, {"track_id": 7}), stream="yard"), track_id=7),
    ):
        feed.take(batch, batch.events)

    assert [one.label for one in feed.recent(EVERYTHING, limit=10)[0]] == ["car", "car", None, None, None]


def test_labels_of_many_tracks_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "_MOST_LABELS", 10)
    feed = EventFeed()
    for track_id in range(1, 100):
        batch = with_cars(batch_of(Event("zone", "r", 0, {"track_id": track_id})), track_id=track_id)
        feed.take(batch, batch.events)

    assert len(feed._labels._known) == 10


@pytest.mark.parametrize("patterns", [tuple("x" * 33), ("x" * 129,)])
def test_a_filter_has_bounds(patterns: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="rules"):
        FeedFilter(rules=patterns)


def test_a_reader_that_comes_again_goes_on_where_it_was() -> None:
    async def test() -> None:
        feed = EventFeed()
        put(feed, 1, 2)
        first = feed.subscribe(EVERYTHING, JSON_ARRAYS)
        put(feed, 3, 4)
        last = (await read(first, 2))[-1]["id"]
        first.close()
        put(feed, 5, 6)

        again = feed.subscribe(EVERYTHING, JSON_ARRAYS, after=last)
        put(feed, 7)

        assert rules(await read(again, 3)) == [5, 6, 7]

    within(test)


def test_a_reader_that_comes_too_late_hears_how_many_are_gone() -> None:
    async def test() -> None:
        feed = EventFeed(kept=4)
        put(feed, *range(1, 11))

        late = feed.subscribe(EVERYTHING, JSON_ARRAYS, after=f"{feed.epoch}-3")
        records = await read(late, 5)

        assert records[0] == {"record": "lost", "count": 3}
        assert rules(records) == [7, 8, 9, 10]

    within(test)


def test_an_id_of_another_start_means_all_that_is_kept() -> None:
    async def test() -> None:
        feed = EventFeed()
        put(feed, 1, 2)

        assert rules(await read(feed.subscribe(EVERYTHING, JSON_ARRAYS, after="1-99"), 2)) == [1, 2]

    within(test)


def test_an_id_that_has_yet_to_come_means_what_is_new() -> None:
    async def test() -> None:
        feed = EventFeed()
        put(feed, 1, 2)
        subscription = feed.subscribe(EVERYTHING, JSON_ARRAYS, after=f"{feed.epoch}-99")
        put(feed, 3)

        assert rules(await read(subscription, 1)) == [3]

    within(test)


@pytest.mark.parametrize("record_id", ["", "1", "-1", "1-", "x-1", "1-2-3", "9" * 40 + "-1", "1-\u0663"])
def test_what_is_no_id_is_refused(record_id: str) -> None:
    async def test() -> None:
        with pytest.raises(InvalidId, match="is not the id of a record"):
            EventFeed().subscribe(EVERYTHING, JSON_ARRAYS, after=record_id)

    within(test)


def test_the_newest_id_of_recent_records_continues_without_a_gap() -> None:
    async def test() -> None:
        feed = EventFeed()
        put(feed, 1, 2, 3)
        found, newest = feed.recent(FeedFilter(rules=("rule-1",)), limit=5)
        put(feed, 4)

        assert [one.number for one in found] == [1]
        assert rules(await read(feed.subscribe(EVERYTHING, JSON_ARRAYS, after=newest), 1)) == [4]

    within(test)


def test_a_slow_reader_loses_the_oldest_and_hears_how_many_while_others_lose_none() -> None:
    async def test() -> None:
        feed = EventFeed(kept=10)
        slow = feed.subscribe(FeedFilter(streams=("gate",)), JSON_ARRAYS)
        quick = feed.subscribe(EVERYTHING, JSON_ARRAYS)
        seen: list[int] = []
        for number in range(1, 41):
            put(feed, number, stream="gate" if number % 2 else "yard")
            if number % 5 == 0:
                seen += rules(await read(quick, 5))

        records = await read(slow, 6)

        assert seen == list(range(1, 41))
        assert records[0] == {"record": "lost", "count": 15}
        assert rules(records) == [31, 33, 35, 37, 39]

    within(test)


def test_a_flood_between_two_looks_is_lost_and_counted() -> None:
    async def test() -> None:
        feed = EventFeed(kept=10)
        subscription = feed.subscribe(EVERYTHING, JSON_ARRAYS)
        put(feed, *range(1, 1001))

        records = await read(subscription, 11)

        assert records[0] == {"record": "lost", "count": 990}
        assert rules(records) == list(range(991, 1001))

    within(test)


def test_much_is_sent_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(feed_module, "_MOST_BYTES_AT_ONCE", 1_000)
        feed = EventFeed()
        put(feed, *range(1, 101))
        subscription = feed.subscribe(EVERYTHING, JSON_ARRAYS, after=f"{feed.epoch}-0")
        found: list[int] = []
        while len(found) < 100:
            part = await subscription.next()
            assert len(part) < 1_500
            found += rules(json.loads(part))

        assert found == list(range(1, 101))

    within(test)


class Reader:
    """A reader, and what it got and lost so far."""

    def __init__(self, feed: EventFeed, wanted: FeedFilter) -> None:
        self._feed, self._wanted = feed, wanted
        self.subscription = feed.subscribe(wanted, JSON_ARRAYS)
        self.got: list[int] = []
        self.lost = 0

    async def read(self) -> None:
        while self.subscription._place < self.subscription._view.end:
            for one in json.loads(await self.subscription.next()):
                self.lost += one.get("count", 0)
                self.got += rules([one])

    async def come_again(self) -> None:
        await self.read()
        self.subscription.close()
        newest = self._feed.recent(EVERYTHING, limit=1)[1]
        self.subscription = self._feed.subscribe(self._wanted, JSON_ARRAYS, after=newest)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 6)),
        st.tuples(st.just("read"), st.integers(0, 2)),
        st.tuples(st.just("again"), st.integers(0, 2)),
    ),
    max_size=60,
)


@given(STEPS)
def test_what_a_reader_gets_and_what_it_loses_is_all_that_it_wants(steps: list[tuple[str, int]]) -> None:
    async def test() -> None:
        feed, number = EventFeed(kept=8), 0
        readers = [Reader(feed, FeedFilter(streams=streams)) for streams in ((), ("odd",), ("none",))]
        for what, value in steps:
            if what == "put":
                for _ in range(value):
                    number += 1
                    put(feed, number, stream="odd" if number % 2 else "even")
                feed._deliver()  # before records leave the ring that nobody has looked at
            else:
                await (readers[value].read() if what == "read" else readers[value].come_again())
        for reader in readers:
            await reader.read()

        assert all(reader.got == sorted(set(reader.got)) for reader in readers)
        assert [len(reader.got) + reader.lost for reader in readers] == [number, (number + 1) // 2, 0]
        assert all(len(reader.subscription._view._records) <= 8 for reader in readers)
        for reader in readers:
            reader.subscription.close()
        assert not feed._views

    within(test)


def test_records_of_many_threads_arrive_whole_and_in_order() -> None:
    threads, each = 4, 500

    async def test() -> None:
        feed = EventFeed(kept=10 * threads * each)
        readers = [feed.subscribe(EVERYTHING, JSON_ARRAYS) for _ in range(3)]
        started = threading.Barrier(threads)

        def work(name: str) -> None:
            started.wait()
            for number in range(each):
                put(feed, number, stream=name)

        workers = [threading.Thread(target=work, args=(f"stream-{index}",)) for index in range(threads)]
        for worker in workers:
            worker.start()
        found = await asyncio.gather(*(read(one, threads * each) for one in readers))
        for worker in workers:
            worker.join()

        assert found[0] == found[1] == found[2]
        assert [one["id"] for one in found[0]] == [f"{feed.epoch}-{number}" for number in range(1, threads * each + 1)]
        for index in range(threads):
            own = [one for one in found[0] if one["stream"] == f"stream-{index}"]
            assert rules(own) == list(range(each))

    within(test)


def test_without_readers_nothing_is_written_and_only_the_last_are_kept() -> None:
    feed = EventFeed(kept=5)
    put(feed, *range(1, 101))

    kept, gone = feed.since(0)

    assert [one.number for one in kept] == [96, 97, 98, 99, 100]
    assert gone == 95
    assert all(one._json is None for one in kept)
    assert feed.since(98) == (kept[3:], 0)
    assert feed.since(100) == ([], 0)
    assert feed.since(1_000) == ([], 0)


def test_the_feed_keeps_no_images() -> None:
    feed = EventFeed()
    batch = with_cars(batch_of(line(1, track_id=1)))
    held = [batch, batch.frames[0], batch.frames[0].surface, batch.objects]
    before = [sys.getrefcount(one) for one in held]

    feed.take(batch, batch.events)

    assert [sys.getrefcount(one) for one in held] == before
    assert len(feed.recent(EVERYTHING, limit=5)[0]) == 1


def test_a_reader_without_records_gets_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(feed_module, "HEARTBEAT_SECONDS", 0.01)
        feed = EventFeed()
        subscription = feed.subscribe(EVERYTHING, SERVER_SENT_EVENTS)
        silent = feed.subscribe(EVERYTHING, JSON_ARRAYS)

        assert [await subscription.next() for _ in range(3)] == [b": still here\n\n"] * 3
        assert not silent._is_beat_due

    within(test)


def test_at_the_end_readers_get_what_is_left() -> None:
    async def test() -> None:
        feed = EventFeed()
        subscription = feed.subscribe(EVERYTHING, JSON_ARRAYS)
        waiting = asyncio.create_task(feed.subscribe(FeedFilter(kinds=("none",)), JSON_ARRAYS).next())
        await asyncio.sleep(0)
        put(feed, 1)
        feed.close()
        feed.close()

        assert rules(json.loads(await subscription.next())) == [1]
        with pytest.raises(FeedClosed):
            await subscription.next()
        with pytest.raises(FeedClosed):
            await waiting
        with pytest.raises(FeedClosed):
            feed.subscribe(EVERYTHING, JSON_ARRAYS)

    within(test)


def test_a_reader_that_vanishes_leaves_nothing_behind() -> None:
    async def test() -> None:
        feed = EventFeed()
        subscription = feed.subscribe(EVERYTHING, JSON_ARRAYS)
        task = asyncio.create_task(subscription.next())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        subscription.close()
        subscription.close()

        assert not feed._views
        assert feed._heartbeat is None
        put(feed, 1)

    within(test)


def test_a_feed_outlives_its_event_loop() -> None:
    feed = EventFeed()

    async def test() -> None:
        feed.subscribe(EVERYTHING, JSON_ARRAYS)

    within(test)
    put(feed, 1)

    assert len(feed.recent(EVERYTHING, limit=5)[0]) == 1
