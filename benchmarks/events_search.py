"""How long a search in the history takes, beside a plain scan of the same records.

    python -m benchmarks.events_search [--events 100000] [--rounds 40]

Events of eight cameras, four rules and five labels over a week, with words and attributes, are put into a history as
the server does it. Then each kind of question is asked again and again: all, by stream, by a rare label, by words, by
an attribute, by all of these, far back in time, and the counts of the timeline. The scan reads each record from the
same file and compares it in Python, as a history without an index would. Standard output gets one line of JSON for each
question: milliseconds (median and 95 of 100) of the search and of the scan (one round), and how many records were
found. It fails when a search and the scan do not find the same.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sightline.server.feed_records import FeedFilter, FeedRecord
from sightline.server.history_search import RecordQuery, words_of
from sightline.server.history_store import HistoryStore, RecordRow

EPOCH = 1_795_000_000
WEEK_MS = 7 * 86_400_000
PAGE = 48
LABELS = ("car", "person", "truck", "bicycle", "scooter")
QUESTIONS = {
    "all": RecordQuery(),
    "stream": RecordQuery(FeedFilter(streams=("camera-3",))),
    "rare label": RecordQuery(FeedFilter(labels=("scooter",))),
    "rule and label": RecordQuery(FeedFilter(rules=("gate*",), labels=("person", "bicycle"))),
    "word": RecordQuery(text="truck"),
    "rare words": RecordQuery(text="truck k 777"),
    "attribute": RecordQuery(attributes=("direction=in",)),
    "everything": RecordQuery(FeedFilter(streams=("camera-*",), labels=("car",)), "gate", ("direction=out",)),
    "nothing": RecordQuery(text="zeppelin"),
}


def records(count: int) -> Iterator[FeedRecord]:
    """Make events from the oldest on."""
    chance = random.Random(7)
    for number in range(1, count + 1):
        label = chance.choices(LABELS, (60, 25, 10, 5, 0.05))[0]
        rule = chance.choice(("gate_in", "gate_out", "yard", "crossing"))
        data = {"direction": chance.choice(("in", "out")), "track_id": number, "plate": f"K {number % 1000}"}
        made_ns = (EPOCH * 1000 + WEEK_MS * number // count) * 1_000_000
        yield FeedRecord(
            number,
            "event",
            made_ns,
            made_ns,
            "line",
            f"camera-{chance.randrange(8)}",
            "lines-1",
            rule,
            label,
            {"frame": number, "pts_ns": number, "event": {"kind": "line", "rule": rule, **data}},
        )


def fill(store: HistoryStore, count: int) -> float:
    """Keep events as the history does, and return the seconds that took."""
    rows = [
        RecordRow(one.made_ns // 1_000_000, one.key, EPOCH, one.number, words_of(one), one.json(EPOCH), b"{}")
        for one in records(count)
    ]
    begin = time.perf_counter()
    for first in range(0, count, 1_000):
        store.add([], rows[first : first + 1_000])
    return time.perf_counter() - begin


def scan(store: HistoryStore, query: RecordQuery, *, start_ms: int, end_ms: int) -> list[int]:
    """Find records without an index: the numbers of the newest page."""
    words = query.text.lower().split()
    found: list[int] = []
    for number, time_ms, body in store.rows("SELECT number, time_ms, body FROM records ORDER BY number DESC", ()):
        plain = json.loads(body)
        event = plain["event"]
        key = ("event", plain["stream"], event["kind"], event["rule"], plain["label"], plain["element"])
        said = (
            " ".join(one for one in (*key, *event.values()) if isinstance(one, str)).lower().replace("_", " ").split()
        )
        holds = all(
            str(event.get(name)) == value for name, _, value in (one.partition("=") for one in query.attributes)
        )
        is_said = all(any(one.startswith(word) for one in said) for word in words)
        if start_ms <= time_ms < end_ms and query.wanted.matches(key) and holds and is_said:
            found.append(number)
            if len(found) == PAGE:
                break
    return found


def measured(ask: Callable[[], object], rounds: int) -> dict[str, float]:
    """Milliseconds: the median and the 95th percentile."""
    took = []
    for _ in range(rounds):
        begin = time.perf_counter()
        ask()
        took.append(1000 * (time.perf_counter() - begin))
    return {"p50_ms": round(statistics.median(took), 2), "p95_ms": round(sorted(took)[int(0.95 * len(took))], 2)}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    begin_ms, end_ms = EPOCH * 1000, EPOCH * 1000 + WEEK_MS + 1
    with tempfile.TemporaryDirectory() as folder:
        store = HistoryStore(Path(folder) / "search.history")
        seconds = fill(store, options.events)
        megabytes = round(store.used_bytes() / 1e6, 1)
        print(json.dumps({"events": options.events, "fill_seconds": round(seconds, 1), "megabytes": megabytes}))
        spans = dict.fromkeys(QUESTIONS, (begin_ms, end_ms))
        asked = {**QUESTIONS, "far back": QUESTIONS["everything"]}
        spans["far back"] = (begin_ms + WEEK_MS // 10, begin_ms + WEEK_MS // 9)
        for name, query in asked.items():
            start_ms, stop_ms = spans[name]

            def find(
                query: RecordQuery = query, start_ms: int = start_ms, stop_ms: int = stop_ms
            ) -> list[tuple[int, bytes]]:
                return store.records(query, start_ms=start_ms, end_ms=stop_ms, after=0, limit=PAGE, newest_first=True)

            begin = time.perf_counter()
            expected = scan(store, query, start_ms=start_ms, end_ms=stop_ms)
            scan_ms = round(1000 * (time.perf_counter() - begin), 2)
            found = [number for number, _ in find()]
            if found != expected:
                raise SystemExit(f"{name}: the search finds {found[:5]}..., the scan {expected[:5]}...")
            line = {"question": name, "found": len(found), **measured(find, options.rounds), "scan_ms": scan_ms}
            print(json.dumps(line), flush=True)
        for name in ("all", "stream", "everything"):

            def count(query: RecordQuery = QUESTIONS[name]) -> object:
                return store.record_counts(query, start_ms=begin_ms, step_ms=WEEK_MS // 120, count=121)

            print(json.dumps({"question": f"timeline: {name}", **measured(count, options.rounds)}), flush=True)
        store.close()


if __name__ == "__main__":
    main()
