"""`parquet`: what is in the files, where they are, when they are finished, and who reads them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import util
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.disks import SmallDisk
from tests.unit.sinks.images import batches

from sightline.devices import Device
from sightline.errors import ConfigurationError, MissingExtra, OutputError
from sightline.graph import CheckContext, Message, MessageKind, Outputs, Sink, Site, ownership
from sightline.media import Batch, Event, Stream
from sightline.testing import run_element
from sightline_plugins import Parquet
from sightline_plugins.sinks import arrow_parts

SECOND_NS = 1_000_000_000
MIDNIGHT = round(datetime(2026, 11, 25, tzinfo=UTC).timestamp()) * SECOND_NS


class StepClock:
    """A clock that goes on by hand."""

    def __init__(self, epoch_ns: int) -> None:
        self.now_ns = epoch_ns

    def monotonic_ns(self) -> int:
        return self.now_ns

    def epoch_ns(self) -> int:
        return self.now_ns


class Written:
    """A step that is given frames."""

    def __init__(self, element: Parquet, outputs: Outputs, *, start_ns: int) -> None:
        self.messages: list[Message] = []
        self.clock = StepClock(start_ns)
        site = Site(device=Device(), element_id="parquet", outputs=outputs, clock=self.clock, post=self.messages.append)
        sink = element.build(site)
        assert isinstance(sink, Sink)
        self.sink = sink

    def frames(self, given: Iterable[Batch], *, step_ns: int = SECOND_NS) -> None:
        for batch in given:
            self.sink.process(batch)
            self.clock.now_ns += step_ns

    def kinds(self) -> list[MessageKind]:
        return [message.kind for message in self.messages]


Writing: TypeAlias = Callable[..., Written]


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Writing]:
    """Makes a step, which is closed when the test is over."""
    made: list[Written] = []

    def make(outputs: Outputs | None = None, *, start_ns: int = MIDNIGHT, **options: Any) -> Written:
        made.append(Written(element(**options), outputs or Outputs(tmp_path), start_ns=start_ns))
        return made[-1]

    yield make
    for one in made:
        one.sink.close()


def element(path: str = "out", **options: Any) -> Parquet:
    return Parquet.model_validate({"path": path, **options})


def problems(step: Parquet, folder: Path) -> list[str]:
    context = CheckContext(device=Device(), streams=("cam",), outputs=Outputs(folder))
    return [problem.message for problem in step.check(context)]


def finished(folder: Path) -> list[Path]:
    return sorted((folder / "out").glob("*/stream=*/date=*/part-*.parquet"))


def opened(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "out" / ".open").iterdir())


def numbers(path: Path) -> list[int]:
    """The frames of a file's rows."""
    found: list[int] = pq.ParquetFile(path).read(["frame"])["frame"].to_pylist()
    return found


def all_numbers(folder: Path) -> list[int]:
    return sorted(number for path in finished(folder) for number in numbers(path))


def test_a_row_holds_one_object(tmp_path: Path) -> None:
    (batch,) = batches(1)
    timed = replace(batch.frames[0], capture_ns=MIDNIGHT + 1)
    colored = batch.objects.with_values("color", rows=[0], values=np.array(["red"]))
    run_element(element(), [Batch((timed,), colored)], outputs=tmp_path)

    (path,) = finished(tmp_path)
    table = pq.ParquetFile(path).read()
    times = table["time"].cast(pa.int64()).to_pylist()  # without pandas, Python has no type for nanoseconds
    (row,) = table.drop_columns("time").to_pylist()
    run = row.pop("run")
    assert path.parent == tmp_path / "out/objects/stream=cam/date=2026-11-25"
    assert len(run) == len("20261124T160000Z-01234567")
    assert times == [MIDNIGHT + 1]
    assert {key: row[key] for key in ("frame", "pts_ns", "label", "class_id", "track_id", "attributes")} == {
        "frame": 0,
        "pts_ns": 0,
        "label": "car",
        "class_id": 2,
        "track_id": 5,
        "attributes": '{"color":"red"}',
    }
    xyxy = [row[key] for key in ("x1", "y1", "x2", "y2", "confidence")]
    np.testing.assert_allclose(xyxy, [1.1, 2.25, 8.33, 40, 0.871], rtol=1e-6)


def test_events_and_frames_have_tables_of_their_own(tmp_path: Path) -> None:
    (batch,) = batches(1)
    given = [batch.with_events([Event("crossed", "gate", 0, {"direction": "in"})])]
    run_element(element(tables=["events", "frames"]), given, outputs=tmp_path)

    events, frames = (pq.ParquetFile(path).read().to_pylist()[0] for path in finished(tmp_path))
    assert (events["kind"], events["rule"], events["data"]) == ("crossed", "gate", '{"direction":"in"}')
    assert (frames["width"], frames["height"], frames["objects"], frames["events"]) == (64, 48, 1, 1)


def test_files_name_their_schema_and_are_compressed(tmp_path: Path) -> None:
    run_element(element(), batches(1), outputs=tmp_path)

    metadata = pq.ParquetFile(finished(tmp_path)[0]).metadata
    assert metadata.metadata[b"sightline.version"] == b"1"
    assert metadata.metadata[b"sightline.stream"] == b"cam"
    assert metadata.row_group(0).column(0).compression == "ZSTD"


STREAMS = ("a/b", "gate", "😀")


def written_for_readers(folder: Path) -> Path:
    for name in STREAMS:
        run_element(element(), batches(3, stream=name), outputs=folder)
    (folder / "out" / ".open" / "part-x.arrow").write_bytes(b"half")
    return folder / "out" / "objects"


def test_pyarrow_reads_the_folder_with_the_names_of_streams(tmp_path: Path) -> None:
    folder = written_for_readers(tmp_path)

    table = ds.dataset(folder, partitioning="hive").to_table()
    counts = table.group_by("stream").aggregate([("frame", "count")]).to_pylist()
    assert sorted((row["stream"], row["frame_count"]) for row in counts) == [(name, 3) for name in STREAMS]
    assert set(table["date"].to_pylist()) == {f"{datetime.now(UTC):%Y-%m-%d}"}


def test_duckdb_reads_the_folder_with_the_names_of_streams(tmp_path: Path) -> None:
    folder = written_for_readers(tmp_path)

    text = f"SELECT stream, typeof(date), count(*) FROM '{folder}/**/*.parquet' GROUP BY ALL ORDER BY 1"
    assert duckdb.execute(text).fetchall() == [(name, "DATE", 3) for name in STREAMS]


@pytest.mark.parametrize("name", ["../../gate", "a" * 255, "😀" * 60, ".", "..", "date=1/stream=2", "%2e"])
def test_names_of_streams_never_leave_the_folder(tmp_path: Path, name: str) -> None:
    run_element(element(), batches(1, stream=name), outputs=tmp_path / "here")

    (path,) = finished(tmp_path / "here")
    assert [entry.name for entry in tmp_path.iterdir()] == ["here"]
    assert pq.ParquetFile(path).schema_arrow.metadata[b"sightline.stream"].decode() == name
    if len(name) < 60:
        assert ds.dataset(path.parents[2], partitioning="hive").to_table()["stream"].to_pylist() == [name]


@pytest.mark.parametrize("names", [("a/b", "a_b"), ("a" * 254 + "b", "a" * 254 + "c")])
def test_streams_whose_safe_names_are_equal_share_no_file(tmp_path: Path, names: Sequence[str]) -> None:
    given = [batch for name in names for batch in batches(2, stream=name)]
    run_element(element(), given, outputs=tmp_path)

    assert len({path.parent for path in finished(tmp_path)}) == 2


def test_a_file_is_finished_at_the_end_of_a_minute(write: Writing, tmp_path: Path) -> None:
    written = write(start_ns=MIDNIGHT + 57 * SECOND_NS)
    written.frames(batches(6))

    assert [numbers(path) for path in finished(tmp_path)] == [[0, 1, 2]]
    assert len(opened(tmp_path)) == 1


def test_a_file_is_finished_when_it_has_enough_rows(write: Writing, tmp_path: Path) -> None:
    write(rotate={"rows": 4}).frames(batches(6, track_ids=(1, 2)))

    assert sorted(numbers(path) for path in finished(tmp_path)) == [[0, 0, 1, 1], [2, 2, 3, 3], [4, 4, 5, 5]]


def test_a_file_is_finished_when_it_is_large_enough(write: Writing, tmp_path: Path) -> None:
    written = write(rotate={"size": "10kB"})
    written.frames(batches(40))
    written.sink.close()

    assert len(finished(tmp_path)) > 2
    assert all_numbers(tmp_path) == list(range(40))


def test_at_midnight_rows_go_to_the_folder_of_the_next_day(write: Writing, tmp_path: Path) -> None:
    written = write(start_ns=MIDNIGHT - 2 * SECOND_NS, rotate={"every": "7d"})
    written.frames(batches(4))
    written.sink.close()

    found = {path.parent.name: numbers(path) for path in finished(tmp_path)}
    assert found == {"date=2026-11-24": [0, 1], "date=2026-11-25": [2, 3]}


def test_the_date_is_that_of_the_capture_time_where_it_is_known(write: Writing, tmp_path: Path) -> None:
    written = write()
    (batch,) = batches(1)
    written.frames([replace(batch, frames=(replace(batch.frames[0], capture_ns=MIDNIGHT - 1),))])
    written.sink.close()

    assert finished(tmp_path)[0].parent.name == "date=2026-11-24"


def test_rows_are_in_the_open_file_after_a_fifth_of_a_second(write: Writing, tmp_path: Path) -> None:
    written = write()
    written.frames(batches(12), step_ns=40_000_000)

    (name,) = opened(tmp_path)
    with (tmp_path / "out" / ".open" / name).open("rb") as file:
        reader = pa.ipc.open_stream(file)
        groups = [batch["frame"].to_pylist() for batch in arrow_parts._batches(reader)]
    assert groups == [[0], [1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]


def test_a_stream_that_ends_is_finished_and_may_come_again(write: Writing, tmp_path: Path) -> None:
    written = write()
    for _ in range(2):
        written.frames(batches(2))
        written.sink.end_stream(Stream("cam"))
    written.sink.close()

    assert [numbers(path) for path in finished(tmp_path)] == [[0, 1], [0, 1]]
    assert opened(tmp_path) == []


def left_by_a_kill(folder: Path, *, torn_bytes: int = 0) -> Path:
    """An open part of an earlier run, of which the last bytes are missing."""
    partition = arrow_parts.Partition("objects", "cam", "2026-11-24")
    schema = partition.schema()
    run_element(element(), batches(3), outputs=folder)
    (path,) = finished(folder)
    rows = [tuple(row.values()) for row in pq.ParquetFile(path).read().to_pylist()]
    path.unlink()
    data = arrow_parts.schema_bytes(schema) + b"".join(arrow_parts.rows_bytes([row], schema=schema) for row in rows)
    part = Outputs(folder).prepare(folder / "out" / ".open" / "part-20261124T160000Z-0123abcd-1.arrow")
    part.write_bytes(data[: len(data) - torn_bytes])
    return part


@pytest.mark.parametrize(("torn_bytes", "expected"), [(0, [0, 1, 2]), (1, [0, 1]), (50, [0, 1])])
def test_what_a_killed_run_left_open_becomes_a_file(
    write: Writing, tmp_path: Path, torn_bytes: int, expected: list[int]
) -> None:
    part = left_by_a_kill(tmp_path, torn_bytes=torn_bytes)

    write().frames(batches(1))

    (path,) = finished(tmp_path)
    assert path.relative_to(tmp_path / "out").parts == (
        "objects",
        "stream=cam",
        "date=2026-11-24",
        "part-20261124T160000Z-0123abcd-1.parquet",
    )
    assert numbers(path) == expected
    assert not part.exists()


def test_a_kill_before_the_first_row_leaves_nothing(write: Writing, tmp_path: Path) -> None:
    part = left_by_a_kill(tmp_path)
    part.write_bytes(part.read_bytes()[:100])

    write().frames(batches(1))

    assert finished(tmp_path) == []
    assert not part.exists()


def test_a_kill_before_the_open_file_was_removed_leaves_no_double(write: Writing, tmp_path: Path) -> None:
    part = left_by_a_kill(tmp_path)
    data = part.read_bytes()
    first = write()
    first.frames(batches(1))
    Outputs(tmp_path).prepare(part).write_bytes(data)

    write().frames(batches(1))

    assert [numbers(path) for path in finished(tmp_path)] == [[0, 1, 2]]
    assert not part.exists()


def test_a_part_is_known_where_files_have_no_attributes(
    write: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "setxattr")
    monkeypatch.delattr(os, "getxattr")
    part = left_by_a_kill(tmp_path)
    part.with_suffix(".parquet").write_bytes(b"PAR1 and half of the rows")
    ownership._unmarked.clear()

    write().frames(batches(1))

    assert [numbers(path) for path in finished(tmp_path)] == [[0, 1, 2]]
    assert len(opened(tmp_path)) == 1


def test_a_file_of_somebody_else_among_the_parts_is_left_alone(write: Writing, tmp_path: Path) -> None:
    foreign = tmp_path / "out" / ".open" / "part-1.arrow"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(arrow_parts.schema_bytes(pa.schema([("a", pa.int64())])))

    write().frames(batches(1))

    assert foreign.exists()


def test_a_part_that_another_run_is_writing_is_left_to_it(write: Writing, tmp_path: Path) -> None:
    first = write()
    first.frames(batches(2))
    second = write()
    second.frames(batches(2))
    second.sink.close()
    assert [numbers(path) for path in finished(tmp_path)] == [[0, 1]]

    first.sink.close()
    assert [numbers(path) for path in finished(tmp_path)] == [[0, 1], [0, 1]]


def test_a_part_that_another_run_is_converting_is_left_to_it(write: Writing, tmp_path: Path) -> None:
    part = left_by_a_kill(tmp_path)
    with part.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write().frames(batches(1))

    assert part.exists()


def test_a_large_part_is_made_parquet_in_steps(write: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_parts, "_STEP_ROWS", 4)
    monkeypatch.setattr(arrow_parts, "_GROUP_ROWS", 8)
    written = write()
    written.frames(batches(61))
    assert finished(tmp_path) == []
    written.sink.close()

    groups = [pq.ParquetFile(path).metadata.num_row_groups for path in finished(tmp_path)]
    assert sorted(groups) == [1, 8]
    assert all_numbers(tmp_path) == list(range(61))


def test_files_beyond_a_limit_are_removed_the_oldest_first(write: Writing, tmp_path: Path) -> None:
    written = write(rotate={"rows": 1}, keep={"count": 3, "free": 0})
    written.frames(batches(8))
    written.sink.close()

    assert all_numbers(tmp_path) == [5, 6, 7]


def test_rows_lost_on_a_full_disk_are_counted_until_there_is_room(write: Writing, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity=6_000)
    written = write(disk, on_error="skip")
    written.frames(batches(20))
    disk.capacity = 1_000_000
    written.frames(batches(30)[20:])
    written.sink.close()

    lost = written.sink.totals()["cam"]["lost_rows"]
    kept = all_numbers(tmp_path)
    assert written.kinds() == [MessageKind.SINK_DEGRADED, MessageKind.SINK_RECOVERED]
    assert kept[-1] == 29
    assert lost == {"the disk is full": 30 - len(kept)}


def test_a_full_disk_ends_the_run_otherwise_and_the_next_makes_a_file_of_what_there_is(
    write: Writing, tmp_path: Path
) -> None:
    written = write(SmallDisk(tmp_path, capacity=6_000))
    with pytest.raises(OutputError, match="the disk is full"):
        written.frames(batches(20))
    written.sink.close()
    assert finished(tmp_path) == []

    write().frames(batches(1))

    kept = all_numbers(tmp_path)
    assert kept == list(range(len(kept)))
    assert kept


def test_a_part_without_room_for_its_file_waits_until_there_is(write: Writing, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity=1_000_000)
    written = write(disk, start_ns=MIDNIGHT + 30 * SECOND_NS)
    written.frames(batches(29))
    disk.capacity += 5_500 - disk.free
    written.frames(batches(31)[29:])
    assert written.kinds() == [MessageKind.SINK_DEGRADED]
    assert finished(tmp_path) == []
    assert not [name for name in opened(tmp_path) if name.endswith(".parquet")]

    disk.capacity = 1_000_000
    written.frames(batches(36)[31:])

    assert all_numbers(tmp_path) == list(range(30))
    assert written.kinds() == [MessageKind.SINK_DEGRADED, MessageKind.SINK_RECOVERED]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("out/{stream}", "leave placeholders out"),
        ("-", "cannot be written to standard output"),
        ("file/out", "is no folder"),
        ("file", "is no folder"),
    ],
)
def test_a_path_that_cannot_be_a_folder_is_a_problem(tmp_path: Path, path: str, expected: str) -> None:
    (tmp_path / "file").touch()

    assert [expected in message for message in problems(element(path), tmp_path)] == [True]


def test_a_slash_at_the_end_of_the_folder_changes_nothing(tmp_path: Path) -> None:
    assert element("out/") == element("out")
    (tmp_path / "out").mkdir()
    assert problems(element("out/"), tmp_path) == []


def test_without_pyarrow_the_command_that_installs_it_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(util, "find_spec", lambda _: None)
    monkeypatch.setattr("sightline_plugins.sinks.parquet.find_spec", lambda _: None)

    (problem,) = problems(element(), tmp_path)
    assert "pip install 'sightline[parquet]'" in problem
    with pytest.raises(MissingExtra):
        element().build(Site(device=Device(), outputs=Outputs(tmp_path)))


def test_a_rotation_without_a_limit_is_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match="say when the next file begins: size or every or rows"):
        Parquet(path="out", rotate={})
