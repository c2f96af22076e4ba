"""The history: samples and series, bounds of age and size, restarts, and files that cannot be used."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.graph import Message, MessageKind, StreamState
from sightline.graph.site import SystemClock
from sightline.media import Stream
from sightline.runtime.stats.counters import StreamStats
from sightline.runtime.stats.snapshot import RunView
from sightline.server import history as history_module
from sightline.server.feed import EventFeed
from sightline.server.feed_records import FeedFilter
from sightline.server.history import History
from sightline.server.history_search import RecordQuery
from sightline.server.history_series import SERIES, Column, TooMuch
from sightline.server.history_store import HistoryLimits, HistoryStore, Tier
from tests.unit.server.test_feed import batch_of, line, with_cars
from tests.waiting import wait_until

MORNING = 1_767_322_800
"""A full hour, in seconds since the epoch."""
MS = 1_000_000
EVERYTHING = RecordQuery()


class ManualClock(SystemClock):
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_ns = self.offset_seconds = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def epoch_ns(self) -> int:
        return (MORNING + self.offset_seconds) * 1_000_000_000 + self.now_ns


class Run:
    """A run whose numbers the test makes, and its history."""

    def __init__(self, path: Path, *, limits: HistoryLimits | None = None, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.began_ns = self.clock.now_ns
        self.streams: dict[str, StreamStats] = {}
        self.counts: Mapping[str, Any] = {}
        self.occupancy: dict[str, dict[str, dict[str, Counter[int]]]] = {}
        self.is_running = True
        self.feed = EventFeed(clock=self.clock)
        self.store = HistoryStore(path, limits=limits)
        self.history = History(self.store, view=self.view, feed=self.feed, clock=self.clock, limits=limits)

    def view(self) -> RunView:
        return RunView(
            pipeline="test",
            device="cpu",
            is_running=self.is_running,
            at_ns=self.clock.now_ns,
            began_epoch_ns=0,
            running_ns=self.clock.now_ns - self.began_ns,
            streams=tuple(self.streams.values()),
            rates={},
            elements=(),
            models={},
            links=(),
            counts=self.counts,
            occupancy=self.occupancy,
        )

    def stream(self, name: str) -> StreamStats:
        return self.streams.setdefault(name, StreamStats(Stream(name)))

    def pass_seconds(self, seconds: float) -> None:
        self.clock.now_ns += round(seconds * 1e9)
        self.history.tick()

    def process(self, name: str, *, frames: int, latency_ms: float = 10, **objects: int) -> None:
        """Frames that were processed, and the objects on all of them by label; each a new track."""
        stats = self.stream(name)
        for _ in range(frames):
            stats.finish(damaged=False, latency_ns=round(latency_ms * MS))
        for label, count in objects.items():
            for _ in range(count):
                stats.see(label, stats.objects)

    def column(self, name: str, *, key: str = "", stream: str = "gate", **query: Any) -> list[float | None]:
        found = [one for one in self.history.series([name], **query).columns if (one.stream, one.key) == (stream, key)]
        assert len(found) == 1
        return found[0].values


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path / "test.history")
    yield run
    run.store.close()


def near(*values: float | None) -> Any:
    return [None if one is None else pytest.approx(one, rel=0.1) for one in values]


def ten_minutes(**more: Any) -> dict[str, Any]:
    return {"start_seconds": MORNING, "end_seconds": MORNING + 600, **more}


def fill(run: Run, *, intervals: int, frames: int = 100) -> None:
    """Ten seconds at a time, with ever slower frames and more cars."""
    run.history.tick()
    for number in range(intervals):
        run.process("gate", frames=frames, latency_ms=10 * (number + 1), car=frames * (number + 1))
        run.pass_seconds(10)


def for_a_while(path: Path) -> None:
    """A run that leaves something in the file."""
    run = Run(path)
    fill(run, intervals=1)
    run.store.close()


def test_each_ten_seconds_have_a_value(run: Run) -> None:
    fill(run, intervals=4)

    assert run.column("fps", **ten_minutes(end_seconds=MORNING + 50)) == [10, 10, 10, 10, None]
    assert run.column("latency_p50_ms", **ten_minutes(end_seconds=MORNING + 40)) == near(10, 20, 30, 40)
    assert run.column("latency_p95_ms", **ten_minutes(end_seconds=MORNING + 40)) == near(10, 20, 30, 40)
    assert run.column("objects", key="car", **ten_minutes(end_seconds=MORNING + 40)) == [1, 2, 3, 4]
    assert run.column("tracks", key="car", **ten_minutes(end_seconds=MORNING + 40)) == [100, 200, 300, 400]


def test_values_are_combined_as_the_series_or_the_question_says(run: Run) -> None:
    fill(run, intervals=6)
    minute = ten_minutes(end_seconds=MORNING + 60, step_seconds=60)

    assert run.column("fps", **minute) == [10]
    assert run.column("latency_p50_ms", **minute) == near(30)
    assert run.column("objects", key="car", **minute) == [3.5]
    assert run.column("tracks", key="car", **minute) == [2100]
    assert run.column("objects", key="car", **ten_minutes(end_seconds=MORNING + 60, step_seconds=30)) == [2, 5]
    assert run.column(
        "objects", key="car", combine="max", **ten_minutes(end_seconds=MORNING + 60, step_seconds=30)
    ) == [3, 6]
    assert run.column("fps", combine="sum", **ten_minutes(end_seconds=MORNING + 60, step_seconds=20)) == [20, 20, 20]


def test_the_percentiles_of_a_minute_are_those_of_its_frames(run: Run) -> None:
    run.history.tick()
    for latency_ms in (10, 10, 10, 10, 10, 1000):
        run.process("gate", frames=10, latency_ms=latency_ms)
        run.pass_seconds(10)
    minute = ten_minutes(end_seconds=MORNING + 60, step_seconds=60)

    assert run.column("latency_p50_ms", **minute) == near(10)
    assert run.column("latency_p95_ms", **minute) == near(1000)


def test_what_is_not_there_is_zero_where_something_was_measured_and_unknown_elsewhere(run: Run) -> None:
    run.history.tick()
    run.process("gate", frames=10, car=10)
    run.pass_seconds(10)
    run.process("gate", frames=10, bus=10)
    run.pass_seconds(10)
    run.pass_seconds(10)
    half = ten_minutes(end_seconds=MORNING + 40)

    assert run.column("objects", key="car", **half) == [1, 0, None, None]
    assert run.column("tracks", key="bus", **half) == [0, 10, 0, None]
    assert run.column("latency_p50_ms", **half) == near(10, 10, None, None)
    assert run.column("fps", **half) == [1, 1, 0, None]


def test_drops_are_counted_by_reason(run: Run) -> None:
    run.history.tick()
    stats = run.stream("gate")
    stats.received = 10
    stats.drop("overloaded", 3)
    run.pass_seconds(10)
    stats.drop("overloaded", 2)
    stats.drop("damaged")
    run.pass_seconds(10)

    assert run.column("dropped", key="overloaded", **ten_minutes(step_seconds=20, end_seconds=MORNING + 20)) == [5]
    assert run.column("dropped", key="damaged", **ten_minutes(end_seconds=MORNING + 20)) == [0, 1]


def test_counts_of_rules_are_those_at_the_end_of_the_interval(run: Run) -> None:
    run.history.tick()
    run.process("gate", frames=1)
    for value in (3, 5, 4):
        run.counts = {"zones-1": {"gate": {"plaza": {"inside": value}}, "other": {"plaza": {"inside": 99}}}}
        run.pass_seconds(10)

    half = ten_minutes(end_seconds=MORNING + 30)
    assert run.column("counts", key="zones-1.plaza.inside", **half) == [3, 5, 4]
    assert run.column("counts", key="zones-1.plaza.inside", **half, step_seconds=30) == [4]
    assert run.column("counts", key="zones-1.plaza.inside", **half, step_seconds=30, combine="max") == [5]
    assert run.column("counts", key="zones-1.plaza.inside", **half, step_seconds=30, combine="mean") == [4]


def test_events_are_counted_by_rule(run: Run) -> None:
    run.history.tick()
    run.process("gate", frames=1)
    for count in (2, 0, 1):
        for _ in range(count):
            batch = batch_of(line(1))
            run.feed.take(batch, batch.events)
        run.pass_seconds(5)
        run.pass_seconds(5)

    assert run.column("events", key="lines-1.rule-1", **ten_minutes(end_seconds=MORNING + 30)) == [2, 0, 1]


def test_records_are_found_by_time_type_kind_and_stream(run: Run) -> None:
    for number in range(4):
        batch = with_cars(batch_of(line(number, track_id=1), stream=f"stream-{number % 2}"))
        run.feed.take(batch, batch.events)
        run.feed.note(Message(MessageKind.STREAM_LOST, "lost", f"stream-{number % 2}", state=StreamState.LOST))
        run.pass_seconds(10)

    def found(wanted: FeedFilter = EVERYTHING.wanted, **query: Any) -> list[int]:
        answer = run.history.records(RecordQuery(wanted), **query)
        return [int(json.loads(one)["id"].partition("-")[2]) for one in answer.records]

    assert found() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert found(FeedFilter(types=("message",))) == [2, 4, 6, 8]
    assert found(FeedFilter(kinds=("li*",), streams=("stream-1", "none"))) == [3, 7]
    assert found(FeedFilter(rules=("rule-2",), labels=("car",), elements=("lines-?",))) == [5]
    assert found(FeedFilter(kinds=("none",))) == []
    assert found(start_seconds=MORNING + 10, end_seconds=MORNING + 30) == [3, 4, 5, 6]
    assert found(start_seconds=MORNING + 1_000, end_seconds=MORNING + 2_000) == []


def test_what_records_are_about_is_forgotten_with_them(run: Run) -> None:
    for number in range(3_000):
        batch = batch_of(line(number))
        run.feed.take(batch, batch.events)
    run.pass_seconds(1)
    assert len(run.store._database.rows("SELECT key FROM keys")) == 3_000

    run.pass_seconds(8 * 86_400)
    batch = batch_of(line(1))
    run.feed.take(batch, batch.events)
    run.pass_seconds(1)

    assert len(run.store._database.rows("SELECT key FROM keys")) == 1
    assert len(run.history.records(RecordQuery(FeedFilter(rules=("rule-1",)))).records) == 1


def test_records_are_found_by_words_and_attributes(run: Run) -> None:
    events = [line(1, track_id=7), line(2, track_id=8, plate="B-MX 12"), line(3, track_id=9, direction="out")]
    for number, event in enumerate(events):
        batch = with_cars(batch_of(event, stream=f"Köln-{'abc'[number]}"))
        run.feed.take(batch, batch.events)
    run.feed.note(Message(MessageKind.WARNING, "The disk is almost full", "gate"))
    run.pass_seconds(1)

    def found(text: str = "", *attributes: str, **query: Any) -> list[int]:
        answer = run.history.records(RecordQuery(text=text, attributes=attributes), newest_first=True, **query)
        return [int(json.loads(one)["id"].partition("-")[2]) for one in answer.records]

    assert found() == [4, 3, 2, 1]
    assert found("disk FULL") == [4]
    assert found("almo") == [4]
    assert found("b-mx 12") == [2]
    assert found("koln c") == [3]
    assert found("rule_2") == [2]
    assert found("", "direction=in") == [2, 1]
    assert found("", "direction=in", "track_id=7") == [1]
    assert found("line", "direction=out") == [3]
    assert found("nowhere") == found("", "direction=up") == []
    assert found('"NEAR( * OR -') == []
    assert found("lines", limit=1) == [3]


def test_records_come_from_the_newest_in_parts(run: Run) -> None:
    for number in range(25):
        run.feed.note(Message(MessageKind.WARNING, f"number {number}", f"stream-{number % 3}"))
    run.pass_seconds(1)
    for query in (EVERYTHING, RecordQuery(FeedFilter(streams=("stream-?",))), RecordQuery(text="number")):
        after, texts = 0, []
        while True:
            answer = run.history.records(query, after=after, limit=10, newest_first=True)
            texts += [json.loads(one)["text"] for one in answer.records]
            if answer.next is None:
                break
            after = answer.next
        assert texts == [f"number {number}" for number in reversed(range(25))]


def test_records_are_counted_by_stream_and_time(run: Run) -> None:
    for number in range(6):
        batch = with_cars(batch_of(line(number % 2, track_id=1), stream=f"stream-{number % 3}"))
        run.feed.take(batch, batch.events)
        run.pass_seconds(10)

    def counted(query: RecordQuery) -> Mapping[str, list[int]]:
        answer = run.history.record_counts(query, start_seconds=MORNING, end_seconds=MORNING + 60, points=6)
        assert (answer.step_seconds, answer.times) == (10, list(range(MORNING, MORNING + 60, 10)))
        return answer.counts

    by_stream = {"stream-0": [1, 0, 0, 1, 0, 0], "stream-1": [0, 1, 0, 0, 1, 0], "stream-2": [0, 0, 1, 0, 0, 1]}
    assert counted(EVERYTHING) == counted(RecordQuery(text="car")) == by_stream
    assert counted(RecordQuery(FeedFilter(rules=("rule-0",)))) == {
        "stream-0": [1, 0, 0, 0, 0, 0],
        "stream-1": [0, 0, 0, 0, 1, 0],
        "stream-2": [0, 0, 1, 0, 0, 0],
    }
    assert counted(RecordQuery(FeedFilter(rules=("none",)))) == {}


def test_what_records_can_be_filtered_by_is_known(run: Run) -> None:
    batch = with_cars(batch_of(line(1, track_id=1)))
    run.feed.take(batch, batch.events)
    run.feed.note(Message(MessageKind.STREAM_LOST, "lost", "gate"))
    run.pass_seconds(1)

    assert run.store.record_values() == {
        "type": ["event", "message"],
        "stream": ["gate"],
        "kind": ["line", "stream_lost"],
        "rule": ["rule-1"],
        "label": ["car"],
        "element": ["lines-1"],
    }


@pytest.mark.parametrize(
    "question",
    [{"text": "x" * 201}, {"text": "a " * 13}, {"attributes": ("direction",)}, {"attributes": ("a=b",) * 17}],
)
def test_a_search_that_is_too_long_or_unclear_is_refused(question: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"at most|as `direction=in`"):
        RecordQuery(**question)


def test_records_come_in_parts(run: Run) -> None:
    for number in range(25):
        run.feed.note(Message(MessageKind.WARNING, f"number {number}"))
    run.pass_seconds(1)
    after, parts = 0, []
    while True:
        answer = run.history.records(EVERYTHING, after=after, limit=10)
        parts.append([json.loads(one)["text"] for one in answer.records])
        if answer.next is None:
            break
        after = answer.next

    assert [len(part) for part in parts] == [10, 10, 5]
    assert [text for part in parts for text in part] == [f"number {number}" for number in range(25)]


def test_a_stopped_run_leaves_its_last_seconds_and_a_new_one_begins_at_zero(run: Run) -> None:
    run.history.tick()
    run.process("gate", frames=40)
    run.clock.now_ns += 4_000_000_000
    run.is_running = False
    run.history.tick()
    for _ in range(3):
        run.pass_seconds(10)
    run.is_running, run.began_ns, run.streams = True, run.clock.now_ns, {}
    run.history.tick()
    run.process("gate", frames=60)
    run.pass_seconds(6)

    assert run.column("fps", **ten_minutes(end_seconds=MORNING + 40)) == [10, None, None, 10]


def test_a_run_that_is_over_before_it_was_looked_at_leaves_its_samples(run: Run) -> None:
    run.process("gate", frames=3)
    run.is_running = False
    run.pass_seconds(0.5)
    run.pass_seconds(10)

    assert run.column("fps", **ten_minutes(end_seconds=MORNING + 20)) == [6, None]


def test_a_stream_that_comes_later_counts_from_its_beginning(run: Run) -> None:
    fill(run, intervals=2)
    run.process("yard", frames=50)
    run.pass_seconds(10)

    assert run.column("fps", stream="yard", **ten_minutes(end_seconds=MORNING + 30)) == [None, None, 5]


def test_streams_are_chosen_by_name_or_glob(run: Run) -> None:
    run.history.tick()
    for name in ("gate", "yard north", "yard south"):
        run.process(name, frames=10)
    run.pass_seconds(10)

    def streams(*wanted: str) -> list[str]:
        return [one.stream for one in run.history.series(["fps"], streams=wanted, **ten_minutes()).columns]

    assert streams() == ["gate", "yard north", "yard south"]
    assert streams("yard *") == ["yard north", "yard south"]
    assert streams("gate", "none") == ["gate"]
    assert streams("Gate") == []


def test_columns_come_in_the_order_of_the_question(run: Run) -> None:
    fill(run, intervals=1)

    answer = run.history.series(["tracks", "fps", "objects"], **ten_minutes(step_seconds=600))

    assert [one.name for one in answer.columns] == ["tracks", "fps", "objects"]
    assert answer.times == [MORNING]
    assert answer.step_seconds == 600
    assert {one.unit for one in answer.columns} == {"tracks", "1/s", "objects"}


def test_the_interval_that_is_not_over_is_filled_from_shorter_ones(run: Run) -> None:
    fill(run, intervals=65)
    hour = ten_minutes(end_seconds=MORNING + 1_200, step_seconds=600)

    assert run.column("fps", **hour) == [10, 10]
    assert run.column("tracks", key="car", **hour) == [100 * sum(range(1, 61)), 100 * sum(range(61, 66))]


def test_a_step_fits_the_samples_that_are_kept(run: Run) -> None:
    run.clock.now_ns = 40 * 86_400 * 1_000_000_000
    now = MORNING + 40 * 86_400

    def step(ago: float, asked: int | None = None) -> int:
        return run.history.series(["fps"], start_seconds=now - ago, step_seconds=asked).step_seconds

    assert [step(one) for one in (600, 3_600, 86_400)] == [10, 10, 300]
    assert [step(3_600, asked) for asked in (1, 10, 15, 60, 61, 600, 900)] == [10, 10, 20, 60, 120, 600, 1_200]
    assert step(2 * 86_400, 300) == 300
    assert (
        run.history.series(
            ["fps"], start_seconds=now - 2 * 86_400, end_seconds=now - 2 * 86_400 + 60, step_seconds=10
        ).step_seconds
        == 60
    )
    assert (
        run.history.series(["fps"], start_seconds=now - 20 * 86_400, end_seconds=now - 20 * 86_400 + 60).step_seconds
        == 600
    )


@pytest.mark.parametrize(
    ("names", "query", "text"),
    [
        (["fsp"], {}, "there is no series 'fsp', did you mean 'fps'; there are fps, latency_p50_ms"),
        (["fps"], {"start_seconds": MORNING, "end_seconds": MORNING}, "the time span is empty"),
        (["fps"], {"start_seconds": float("nan")}, "the time span is empty"),
        (["fps"], {"end_seconds": float("inf")}, "the time span is empty"),
        (["fps"], {"start_seconds": -1.0}, "the time span is empty"),
        (["fps"], {"step_seconds": 0}, "a step is at least one second"),
        (["fps"], {"step_seconds": -10}, "a step is at least one second"),
        (["fps"], {"start_seconds": MORNING - 86_400, "step_seconds": 10}, "there would be 8640 points"),
    ],
)
def test_a_question_without_an_answer_is_refused(run: Run, names: list[str], query: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        run.history.series(names, **query)


def test_an_answer_has_bounds(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.history.tick()
    for number in range(6):
        run.process(f"stream-{number}", frames=1)
    for _ in range(10):
        run.pass_seconds(10)
    monkeypatch.setattr(history_module, "MOST_SAMPLES", 50)
    with pytest.raises(TooMuch, match="more than 50 samples"):
        run.history.series(["fps"], **ten_minutes())
    monkeypatch.setattr(history_module, "MOST_SAMPLES", 60)
    assert len(run.history.series(["fps"], **ten_minutes()).columns) == 6

    monkeypatch.setattr(history_module, "MOST_VALUES", 299)
    with pytest.raises(TooMuch, match="more than 299 values"):
        run.history.series(["fps"], **ten_minutes())


def test_a_restart_goes_on_with_what_is_there(tmp_path: Path) -> None:
    first = Run(tmp_path / "test.history")
    fill(first, intervals=3)
    first.feed.note(Message(MessageKind.WARNING, "before"))
    first.history.tick(is_last=True)
    first.store.close()
    first.clock.now_ns += 10_000_000_000

    second = Run(tmp_path / "test.history", clock=first.clock)
    fill(second, intervals=2)
    second.feed.note(Message(MessageKind.WARNING, "after"))
    second.history.tick()

    assert second.column("fps", **ten_minutes(end_seconds=MORNING + 60)) == [10, 10, 10, None, 10, 10]
    texts = [json.loads(one)["text"] for one in second.history.records(EVERYTHING).records]
    assert texts == ["before", "after"]
    second.store.close()


def test_a_process_that_is_killed_loses_no_more_than_the_shortest_interval_under_way(tmp_path: Path) -> None:
    first = Run(tmp_path / "test.history")
    fill(first, intervals=87)
    for name in ("test.history", "test.history-wal"):  # what another process would find
        (tmp_path / name.replace("test", "killed")).write_bytes((tmp_path / name).read_bytes())
    whole = {step: columns(first, step) for step in (10, 60, 600)}
    first.store.close()

    second = Run(tmp_path / "killed.history", clock=first.clock)
    second.is_running = False
    second.history.start()
    second.history.close()
    second = Run(tmp_path / "killed.history", clock=first.clock)
    second.clock.now_ns += 600_000_000_000

    for step, expected in whole.items():
        found = columns(second, step)
        assert found.keys() == expected.keys()
        assert all(found[name] == near(*values) for name, values in expected.items())
    assert second.column("fps", start_seconds=MORNING, end_seconds=MORNING + 1_200, step_seconds=600) == [10, 10]
    second.store.close()


def columns(run: Run, step: int) -> dict[tuple[str, str], list[float | None]]:
    names = ["fps", "tracks", "objects", "latency_p50_ms", "latency_p95_ms"]
    query = {"start_seconds": MORNING, "end_seconds": MORNING + 1_200, "step_seconds": step}
    return {(one.name, one.key): one.values for one in run.history.series(names, **query).columns}  # type: ignore[arg-type]


SMALL = HistoryLimits(
    tiers=(Tier(10, 3_600), Tier(60, 4 * 3_600), Tier(600, 20 * 3_600)), records_age_seconds=2 * 3_600
)


def test_a_day_keeps_within_its_ages(tmp_path: Path) -> None:
    run = Run(tmp_path / "test.history", limits=SMALL)
    sizes = []
    for number in range(24 * 360):
        run.process("gate", frames=2, car=1)
        run.process("yard", frames=1)
        if number % 6 == 0:
            run.feed.note(Message(MessageKind.WARNING, f"minute {number // 6}"))
        run.pass_seconds(10)
        if number % 360 == 359:
            sizes.append(run.store.used_bytes())
    now = MORNING + 86_400

    def hours(age: float, step: int) -> int:
        answer = run.history.series(["fps"], start_seconds=now - age * 3_600, end_seconds=now, step_seconds=step)
        return sum(value is not None for value in answer.columns[0].values)

    assert hours(0.9, 10) == 324
    assert hours(3.5, 60) == 210
    assert hours(19.5, 600) == 117
    for tier in SMALL.tiers:
        rows = run.store.samples(tier, "gate", start_ms=0, end_ms=10**15, limit=10**9)
        assert tier.age_seconds / tier.step_seconds <= len(rows) <= (tier.age_seconds + 600) / tier.step_seconds + 1
    kept = run.history.records(EVERYTHING, start_seconds=0, limit=10_000).records
    assert 120 <= len(kept) <= 131
    assert json.loads(kept[-1])["text"] == "minute 1439"
    assert max(sizes[20:]) <= 1.1 * max(sizes[4:20])
    run.store.close()


def test_records_without_end_keep_within_the_size_and_spare_the_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sightline.server.history_store._REMOVED_RECORDS", 500)
    run = Run(tmp_path / "test.history", limits=HistoryLimits(size_bytes=1_000_000))
    for _ in range(130):
        run.process("gate", frames=1)
        for number in range(100):
            run.feed.note(Message(MessageKind.WARNING, f"{number}: {'x' * 300}"))
        run.pass_seconds(10)

    assert run.store.used_bytes() < 2_000_000
    assert (tmp_path / "test.history").stat().st_size < 2_500_000
    assert sum(one is not None for one in run.column("fps", start_seconds=MORNING, step_seconds=10)) == 130
    newest = run.history.records(EVERYTHING, start_seconds=MORNING + 1_290).records
    assert len(newest) == 100
    run.store.close()


def test_samples_without_end_keep_within_the_size(tmp_path: Path) -> None:
    run = Run(tmp_path / "test.history", limits=HistoryLimits(size_bytes=300_000))
    for _ in range(5_000):
        run.process("gate", frames=1)
        run.counts = {"lines-1": {"gate": {f"rule-{number}": {"in": 10**6} for number in range(8)}}}
        run.pass_seconds(10)

    assert run.store.used_bytes() < 600_000
    assert run.column("fps", step_seconds=10)[-1] is not None
    run.store.close()


def test_a_flood_of_records_is_bounded_and_reported_once(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    run.history.tick()
    for _ in range(2):
        for number in range(5_000):
            run.feed.note(Message(MessageKind.WARNING, f"{number}"))
        run.pass_seconds(1)

    assert len(run.history.records(EVERYTHING, limit=20_000).records) == 2 * 4_096
    assert caplog.text.count("904 of them are not in it") == 1


def test_a_damaged_file_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "test.history"
    first = Run(path)
    fill(first, intervals=2)
    first.store.close()
    path.write_bytes(b"not a database at all" * 1_000)

    second = Run(path)
    fill(second, intervals=2)

    assert "it is no history; it is set aside as test.history.damaged, and the history begins anew" in caplog.text
    assert (tmp_path / "test.history.damaged").read_bytes().startswith(b"not a database")
    assert second.column("fps", **ten_minutes(end_seconds=MORNING + 20)) == [10, 10]
    assert second.store.is_on_disk
    second.store.close()


def test_a_file_that_is_damaged_while_it_is_used_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "test.history"
    first = Run(path)
    fill(first, intervals=300, frames=1)
    first.store.close()
    data = bytearray(path.read_bytes())
    noise = random.Random(1).randbytes(len(data) - 8192)
    data[8192:] = noise
    path.write_bytes(data)

    second = Run(path, clock=first.clock)
    second.history.records(EVERYTHING)
    second.history.series(["fps"])
    fill(second, intervals=2)
    second.history.series(["fps"])

    assert "it is damaged" in caplog.text
    assert caplog.text.count("the history begins anew") == 1
    assert [one for one in second.column("fps") if one is not None] == [10, 10]
    second.store.close()


def test_a_file_of_another_version_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "test.history"
    for_a_while(path)
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version=99")
    database.close()

    for_a_while(path)

    assert "another version of Sightline (format 99)" in caplog.text
    assert (tmp_path / "test.history.damaged").exists()


def test_without_a_file_the_history_is_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "somebody's").write_text("a diary")
    first = Run(tmp_path / "test.history")
    fill(first, intervals=1)
    for path in (tmp_path / "test.history", tmp_path / "somebody's", tmp_path / "somebody's" / "in it", tmp_path):
        caplog.clear()
        second = Run(path)
        fill(second, intervals=2)

        assert not second.store.is_on_disk
        assert caplog.text.count("the history is kept in memory only") == 1
        assert second.column("fps", **ten_minutes(end_seconds=MORNING + 20)) == [10, 10]
        second.store.close()
    first.store.close()
    assert (tmp_path / "somebody's").read_text() == "a diary"


def test_a_full_disk_leaves_a_gap(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    fill(run, intervals=1)
    connection = run.store._database._connection
    connection.execute("PRAGMA max_page_count=1")
    run.process("gate", frames=100)
    for _ in range(3):
        for _ in range(400):
            run.feed.note(Message(MessageKind.WARNING, "x" * 500))
        run.pass_seconds(10)
    connection.execute("PRAGMA max_page_count=1000000")
    run.process("gate", frames=100)
    run.pass_seconds(10)

    assert caplog.text.count("the disk is full; there is a gap in the history") == 1
    assert run.column("fps", **ten_minutes(end_seconds=MORNING + 50)) == [10, None, None, None, 10]


def test_a_clock_that_is_set_back_or_ahead_stops_nothing(run: Run) -> None:
    fill(run, intervals=3)
    for jump_seconds in (3_600, -7_200, 86_400 * 400, -86_400 * 400):
        run.clock.offset_seconds = jump_seconds
        run.process("gate", frames=100)
        run.pass_seconds(10)
        run.process("gate", frames=100)
        run.pass_seconds(10)

        now = MORNING + jump_seconds + run.clock.now_ns // 1_000_000_000
        assert run.column("fps", start_seconds=now - 10, end_seconds=now) == [10]


def test_many_rules_and_labels_take_bounded_room(run: Run) -> None:
    run.history.tick()
    run.process("gate", frames=1, **{f"label-{number}": number % 3 + 1 for number in range(500)})
    for number in range(3_000):
        batch = batch_of(line(number))
        run.feed.take(batch, batch.events)
    run.pass_seconds(10)
    run.pass_seconds(10)

    def keys(name: str) -> list[Column]:
        return run.history.series([name], **ten_minutes(step_seconds=600)).columns

    assert len(keys("objects")) == 200
    assert all((column.values[0] or 0) > 1 for column in keys("objects")[:100])
    assert len(keys("events")) == 200
    assert len(run.history._reported["gate"].events) <= 1_000


def test_every_series_can_be_asked_for(run: Run) -> None:
    fill(run, intervals=1)

    assert run.history.series(list(SERIES), **ten_minutes()).columns


def test_a_real_run_leaves_its_history(tmp_path: Path) -> None:
    pipeline = Pipeline(
        sources={"street": {"uri": "sample_videos/street.mp4", "loop": True, "realtime": True}},
        steps=[
            {"replay": {"path": "sample_videos/street.mot.txt", "ids": True}},
            {"lines": {"middle": {"from": [0.5, 0], "to": [0.5, 1]}}},
        ],
        keep_running=True,
    )
    feed = EventFeed()
    pipeline.on_events(feed.take)
    pipeline.on_message(feed.note)
    limits = HistoryLimits(tiers=(Tier(1, 3_600), Tier(60, 86_400)))
    history = History(
        HistoryStore(tmp_path / "run.history", limits=limits), view=pipeline.view, feed=feed, limits=limits
    )
    history.start()
    with pipeline:
        wait_until(lambda: history.series(["fps"], step_seconds=2).columns)
        wait_until(lambda: history.records(RecordQuery(FeedFilter(types=("event",))), limit=1).records)
        wait_until(lambda: sum(map(bool, history.series(["fps"], step_seconds=2).columns[0].values)) >= 3)
        found = {
            one.name: one for one in history.series(["fps", "counts", "events", "objects"], step_seconds=3600).columns
        }
        event = json.loads(history.records(RecordQuery(FeedFilter(types=("event",))), limit=1).records[0])
    history.close()
    history.close()

    assert 0 < (found["fps"].values[-1] or 0) < 60
    assert found["counts"].key.startswith("lines-1.middle.")
    assert found["events"].key == "lines-1.middle"
    assert event["event"]["rule"] == "middle"
    assert (tmp_path / "run.history").exists()
