"""`sqlite`: what is in the tables, who may write to which database, and what a full disk or a lock costs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.sinks.images import batches

from sightline.devices import Device
from sightline.errors import OutputError
from sightline.graph import CheckContext, Message, MessageKind, Outputs, Sink, Site
from sightline.graph.ownership import is_foreign, mark
from sightline.media import Batch, Event, Stream
from sightline.media.frame import TimeSource
from sightline.testing import run_element
from sightline_plugins import Sqlite
from sightline_plugins.sinks import sqlite

NOON_NS = 1_795_608_000_000_000_000


class StepClock:
    """A clock that goes on by hand."""

    def __init__(self) -> None:
        self.now_ns = NOON_NS

    def monotonic_ns(self) -> int:
        return self.now_ns

    def epoch_ns(self) -> int:
        return self.now_ns


def query(path: Path, text: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(text).fetchall()


def element(path: str = "a.db", **options: Any) -> Sqlite:
    return Sqlite.model_validate({"path": path, **options})


def problems(step: Sqlite, folder: Path, *streams: str, overwrite: bool = False) -> list[str]:
    outputs = Outputs(folder)
    outputs.may_overwrite = overwrite
    context = CheckContext(device=Device(), streams=streams or ("cam",), outputs=outputs)
    return [problem.message for problem in step.check(context)]


def live(given: Sequence[Batch]) -> list[Batch]:
    """The batches, as a camera gives them: with times of day, 40 ms apart."""
    return [
        replace(
            batch,
            frames=tuple(
                replace(frame, capture_ns=NOON_NS + frame.pts_ns, time_source=TimeSource.RTCP) for frame in batch.frames
            ),
        )
        for batch in given
    ]


class Watched:
    """A step whose messages and clock are seen."""

    def __init__(self, step: Sqlite, folder: Path) -> None:
        self.messages: list[Message] = []
        self.clock = StepClock()
        outputs = Outputs(folder)
        site = Site(device=Device(), element_id="db", outputs=outputs, clock=self.clock, post=self.messages.append)
        sink = step.build(site)
        assert isinstance(sink, Sink)
        self.sink = sink

    def frame(self, batch: Batch) -> None:
        self.sink.process(batch)
        self.clock.now_ns += 500_000_000

    def kinds(self) -> list[MessageKind]:
        return [message.kind for message in self.messages]


def test_a_row_holds_one_object(tmp_path: Path) -> None:
    run_element(element(), live(batches(2)), outputs=tmp_path)

    assert query(tmp_path / "a.db", "SELECT * FROM objects") == [
        (1, "cam", 0, 0, "2026-11-25T12:00:00.000Z", "car", 2, 0.871, 1.1, 2.25, 8.33, 40.0, 5, None),
        (1, "cam", 1, 40_000_000, "2026-11-25T12:00:00.040Z", "car", 2, 0.871, 2.1, 2.25, 9.33, 40.0, 5, None),
    ]


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    run_element(element(), batches(1, track_ids=(-1,)), outputs=tmp_path)

    assert query(tmp_path / "a.db", "SELECT time, track_id, attributes FROM objects") == [(None, None, None)]


def test_attributes_and_the_data_of_events_are_json_that_can_be_queried(tmp_path: Path) -> None:
    (batch,) = batches(1)
    colored = batch.with_objects(batch.objects.with_values("color", rows=[0], values=np.array(["red"])))
    event = Event("crossed", "gate", 0, {"direction": "in", "track_id": 5, "dwell_seconds": 1.5})
    run_element(element(), [colored.with_events([event])], outputs=tmp_path)

    path = tmp_path / "a.db"
    assert query(path, "SELECT json_extract(attributes, '$.color') FROM objects") == [("red",)]
    ((kind, rule, data),) = query(path, "SELECT kind, rule, data FROM events")
    assert (kind, rule, json.loads(data)) == ("crossed", "gate", dict(event.data))


def test_frames_have_a_row_each_when_asked(tmp_path: Path) -> None:
    given = live(batches(2, track_ids=(1, 2), size=2))
    run_element(element(tables=["frames"]), given, outputs=tmp_path)

    path = tmp_path / "a.db"
    assert query(path, "SELECT frame, time_source, width, height, objects, events FROM frames") == [
        (0, "rtcp", 64, 48, 2, 0),
        (1, "rtcp", 64, 48, 2, 0),
    ]
    assert query(path, "SELECT count(*) FROM objects") == [(0,)]


def test_rows_of_a_fifth_of_a_second_are_written_together(tmp_path: Path) -> None:
    watched = Watched(element(), tmp_path)
    counts = []
    for batch in batches(7):
        watched.sink.process(batch)
        watched.clock.now_ns += 40_000_000
        counts += query(tmp_path / "a.db", "SELECT count(*) FROM objects")
    watched.sink.close()

    assert counts == [(1,), (1,), (1,), (1,), (1,), (6,), (6,)]
    assert query(tmp_path / "a.db", "SELECT count(*) FROM objects") == [(7,)]


def test_runs_append_and_each_has_its_row(tmp_path: Path) -> None:
    for _ in range(2):
        run_element(element(), batches(2), outputs=tmp_path)

    path = tmp_path / "a.db"
    assert query(path, "SELECT run, frame FROM objects") == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert query(path, "SELECT run, step, ended IS NOT NULL FROM runs") == [(1, "sqlite", 1), (2, "sqlite", 1)]
    assert query(path, "PRAGMA user_version") == [(1,)]
    assert query(path, "PRAGMA journal_mode") == [("wal",)]


def test_each_stream_has_its_database_when_the_path_says_so(tmp_path: Path) -> None:
    run_element(element("{stream}.db"), batches(2, stream="a") + batches(3, stream="b"), outputs=tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "b.db"]
    assert query(tmp_path / "b.db", "SELECT DISTINCT stream FROM objects") == [("b",)]


def test_streams_whose_files_have_one_name_share_it(tmp_path: Path) -> None:
    operator = element("{stream}.db").build(Site(device=Device(), outputs=Outputs(tmp_path)))
    for name in ("a/b", "a_b"):
        operator.process(batches(1, stream=name)[0])
    operator.end_stream(Stream("a/b"))
    operator.process(batches(2, stream="a_b")[1])
    operator.close()

    found = query(tmp_path / "a_b.db", "SELECT stream, frame FROM objects")
    assert found == [("a/b", 0), ("a_b", 0), ("a_b", 1)]


@pytest.mark.parametrize("name", ["../../gate", "a" * 255, "😀" * 60, "x'; DROP TABLE objects; --"])
def test_names_of_streams_stay_whole_and_in_the_folder(tmp_path: Path, name: str) -> None:
    run_element(element("{stream}.db"), batches(1, stream=name), outputs=tmp_path / "out")

    (path,) = (tmp_path / "out").iterdir()
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    assert query(path, "SELECT stream FROM objects") == [(name,)]


def foreign(folder: Path) -> Path:
    path = folder / "a.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes (text)")
        connection.commit()
    return path


def test_a_database_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = foreign(tmp_path)

    (problem,) = problems(element(), tmp_path)
    assert "was not written by Sightline" in problem
    with pytest.raises(OutputError, match="was not written by Sightline"):
        run_element(element(), batches(1), outputs=tmp_path)
    assert query(path, "SELECT name FROM sqlite_master") == [("notes",)]


def test_a_database_of_ours_is_known_without_its_mark(tmp_path: Path) -> None:
    run_element(element(), batches(1), outputs=tmp_path)
    copy = tmp_path / "copy.db"
    copy.write_bytes((tmp_path / "a.db").read_bytes())

    assert not is_foreign(copy)
    assert problems(element("copy.db"), tmp_path) == []


def test_a_check_touches_nothing_beside_the_database(tmp_path: Path) -> None:
    run_element(element(), batches(1), outputs=tmp_path)

    assert problems(element(), tmp_path) == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.db"]


def test_a_database_of_somebody_else_is_replaced_when_that_is_allowed(tmp_path: Path) -> None:
    path = foreign(tmp_path)
    outputs = Outputs(tmp_path)
    outputs.may_overwrite = True

    operator = element().build(Site(device=Device(), outputs=outputs))
    operator.process(batches(1)[0])
    operator.close()

    assert query(path, "SELECT count(*) FROM objects") == [(1,)]
    assert query(path, "SELECT count(*) FROM sqlite_master WHERE name = 'notes'") == [(0,)]


@pytest.mark.parametrize("kind", ["text", "other", "newer"])
def test_a_file_of_ours_that_cannot_be_appended_to_is_left_as_it_is(tmp_path: Path, kind: str) -> None:
    path, expected = tmp_path / "a.db", "not an SQLite database"
    if kind == "text":
        path.write_text("stream,frame\n" * 100)
    elif kind == "other":
        foreign(tmp_path)
        expected = "database of another kind"
    else:
        run_element(element(), batches(1), outputs=tmp_path)
        query(path, "PRAGMA user_version = 7")
        expected = "has version 7, of a newer Sightline"
    with path.open("rb+") as file:
        mark(file.fileno())
    before = path.read_bytes()

    (problem,) = problems(element(), tmp_path)
    assert expected in problem
    with pytest.raises(OutputError, match=expected):
        run_element(element(), batches(1), outputs=tmp_path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.db"]


@pytest.mark.parametrize(("path", "expected"), [("-", "standard output"), ("{strem}.db", "{strem} stands for nothing")])
def test_a_path_that_cannot_be_a_database_is_a_problem(tmp_path: Path, path: str, expected: str) -> None:
    assert [expected in message for message in problems(element(path), tmp_path)] == [True]


def test_a_locked_database_costs_rows_that_are_counted_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 0.0)
    watched = Watched(element(on_error="skip"), tmp_path)
    first, second, third, fourth = batches(4)
    watched.frame(first)
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        watched.frame(second)
        watched.frame(third)
        other.execute("ROLLBACK")
    watched.clock.now_ns += 2_000_000_000
    watched.frame(fourth)
    watched.sink.close()

    assert query(tmp_path / "a.db", "SELECT run, frame FROM objects") == [(1, 0), (1, 3)]
    assert watched.kinds() == [MessageKind.SINK_DEGRADED, MessageKind.SINK_RECOVERED]
    assert watched.sink.totals() == {"cam": {"lost_rows": {"another program has locked the database": 2}}}


def test_a_locked_database_ends_the_run_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 0.0)
    watched = Watched(element(), tmp_path)
    first, second = batches(2)
    watched.frame(first)
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OutputError, match=r"cannot write .*a\.db: another program has locked the database"):
            watched.frame(second)
        other.execute("ROLLBACK")
    watched.sink.close()

    assert query(tmp_path / "a.db", "SELECT frame FROM objects") == [(0,)]


def test_a_batch_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(element(tables=["objects", "frames"], on_error="skip"), tmp_path)
    first, second = batches(2)
    watched.frame(first)
    query(tmp_path / "a.db", "DROP TABLE frames")
    watched.frame(second)
    watched.sink.close()

    assert query(tmp_path / "a.db", "SELECT frame FROM objects") == [(0,)]
    assert watched.kinds() == [MessageKind.SINK_DEGRADED]
