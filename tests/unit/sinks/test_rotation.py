"""Files that rotate: when the next begins, what it is called, and what becomes of finished ones."""

from __future__ import annotations

import csv
import fcntl
import gzip
import json
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.disks import SmallDisk
from tests.unit.sinks.images import batches

from sightline.devices import Device
from sightline.errors import ConfigurationError
from sightline.graph import CheckContext, Element, Message, MessageKind, Outputs, Sink, Site, ownership
from sightline.media import Batch, Stream
from sightline_plugins import Csv, Jsonl
from sightline_plugins.sinks import compression, rotation
from sightline_plugins.sinks.compression import zstd_module
from sightline_plugins.sinks.rotation import Rotate

SECOND_NS = 1_000_000_000
FOUR = round(datetime(2026, 11, 24, 16, tzinfo=UTC).timestamp()) * SECOND_NS
"""Four o'clock in the afternoon."""


class StepClock:
    """A clock that goes on by hand."""

    def __init__(self, epoch_ns: int) -> None:
        self.now_ns = epoch_ns

    def monotonic_ns(self) -> int:
        return self.now_ns

    def epoch_ns(self) -> int:
        return self.now_ns


class Written:
    """A step that is given frames, one a second."""

    def __init__(self, element: Element, outputs: Outputs, *, start_ns: int) -> None:
        self.messages: list[Message] = []
        self.clock = StepClock(start_ns)
        site = Site(device=Device(), element_id="lines", outputs=outputs, clock=self.clock, post=self.messages.append)
        sink = element.build(site)
        assert isinstance(sink, Sink)
        self.sink = sink

    def frames(self, given: Iterable[Batch]) -> None:
        for batch in given:
            self.sink.process(batch)
            self.clock.now_ns += SECOND_NS

    def kinds(self) -> list[MessageKind]:
        return [message.kind for message in self.messages]


Writing: TypeAlias = Callable[..., Written]


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Writing]:
    """Makes a step, which is closed when the test is over."""
    made: list[Written] = []

    def make(element: Element, outputs: Outputs | None = None, *, start_ns: int = FOUR) -> Written:
        made.append(Written(element, Outputs(tmp_path) if outputs is None else outputs, start_ns=start_ns))
        return made[-1]

    yield make
    for one in made:
        one.sink.close()


def jsonl(path: str = "{stream}.jsonl", **options: Any) -> Element:
    return Jsonl.model_validate({"path": path, **options})


def numbers(path: Path) -> list[int]:
    """The frames whose lines are in a file, compressed or not; every line is whole."""
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    data = zstd_module().decompress(data) if path.suffix == ".zst" else data
    assert data.endswith(b"\n")
    return [json.loads(line)["frame"] for line in data.splitlines()]


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def problems(element: Element, folder: Path) -> list[str]:
    context = CheckContext(device=Device(), streams=("cam",), outputs=Outputs(folder))
    return [problem.message for problem in element.check(context)]


def test_a_file_ends_on_the_hour_and_the_next_is_named_by_its_beginning(write: Writing, tmp_path: Path) -> None:
    write(jsonl(rotate={"every": "1h"}), start_ns=FOUR - 3 * SECOND_NS).frames(batches(6))

    assert names(tmp_path) == ["cam-20261124T155957Z.jsonl", "cam-20261124T160000Z.jsonl"]
    assert numbers(tmp_path / "cam-20261124T155957Z.jsonl") == [0, 1, 2]
    assert numbers(tmp_path / "cam-20261124T160000Z.jsonl") == [3, 4, 5]


def test_a_file_is_finished_before_it_is_too_large(write: Writing, tmp_path: Path) -> None:
    write(jsonl(rotate={"size": "500B"})).frames(batches(20))

    files = [tmp_path / name for name in names(tmp_path)]
    assert [number for file in files for number in numbers(file)] == list(range(20))
    assert len(files) > 3
    assert all(file.stat().st_size <= 500 for file in files)


def test_a_batch_that_is_larger_than_a_file_gets_a_file_of_its_own(write: Writing, tmp_path: Path) -> None:
    write(jsonl(rotate={"size": "10B"})).frames(batches(3))

    assert [numbers(tmp_path / name) for name in names(tmp_path)] == [[0], [1], [2]]


def test_files_that_begin_in_the_same_second_are_numbered(write: Writing, tmp_path: Path) -> None:
    written = write(jsonl(rotate={"size": "10B"}))
    for batch in batches(3):
        written.sink.process(batch)

    assert names(tmp_path) == [f"cam-20261124T160000Z{end}.jsonl" for end in ("-2", "-3", "")]


def test_date_and_time_in_the_path_put_the_time_elsewhere(write: Writing, tmp_path: Path) -> None:
    midnight = FOUR + 8 * 3600 * SECOND_NS
    element = jsonl("{date}/{stream}.jsonl", rotate={"every": "1d"})
    write(element, start_ns=midnight - SECOND_NS).frames(batches(3))

    assert names(tmp_path) == ["2026-11-24/cam.jsonl", "2026-11-25/cam.jsonl"]


def test_no_file_of_an_earlier_run_is_overwritten(write: Writing, tmp_path: Path) -> None:
    for _ in range(2):
        written = write(jsonl("{date}/{stream}.jsonl", rotate={"every": "1d"}))
        written.frames(batches(2))
        written.sink.close()

    assert names(tmp_path) == ["2026-11-24/cam-2.jsonl", "2026-11-24/cam.jsonl"]
    assert numbers(tmp_path / "2026-11-24/cam.jsonl") == [0, 1]


def test_a_name_is_taken_while_a_compressed_file_has_it(write: Writing, tmp_path: Path) -> None:
    for _ in range(2):
        written = write(jsonl("{date}.jsonl", rotate={"every": "1d"}, compress="gzip"))
        written.frames(batches(2))
        written.sink.close()

    assert names(tmp_path) == ["2026-11-24-2.jsonl.gz", "2026-11-24.jsonl.gz"]


def test_a_clock_that_is_set_back_overwrites_nothing(write: Writing, tmp_path: Path) -> None:
    written = write(jsonl(rotate={"every": "2s"}))
    written.frames(batches(6)[:5])
    written.clock.now_ns = FOUR
    written.frames(batches(8)[5:])

    assert sorted(number for name in names(tmp_path) for number in numbers(tmp_path / name)) == list(range(8))


def test_a_stream_without_frames_does_not_keep_its_file_open(write: Writing, tmp_path: Path) -> None:
    written = write(jsonl(rotate={"every": "1h"}, compress="gzip"), start_ns=FOUR - SECOND_NS)
    written.frames(batches(1, stream="gate"))
    written.frames(batches(4, stream="yard"))

    assert names(tmp_path) == ["gate-20261124T155959Z.jsonl.gz", "yard-20261124T160000Z.jsonl"]


def test_every_table_has_its_header(write: Writing, tmp_path: Path) -> None:
    write(Csv.model_validate({"path": "{stream}.csv", "rotate": {"every": "2s"}})).frames(batches(4))

    tables = [list(csv.DictReader((tmp_path / name).read_text().splitlines())) for name in names(tmp_path)]
    assert [[row["frame"] for row in table] for table in tables] == [["0", "1"], ["2", "3"]]


@pytest.mark.parametrize(("kind", "ending"), [("gzip", ".gz"), ("zstd", ".zst")])
def test_finished_files_are_compressed_while_frames_pass(
    write: Writing, tmp_path: Path, kind: str, ending: str
) -> None:
    write(jsonl(rotate={"every": "4s"}, compress=kind)).frames(batches(8))

    assert names(tmp_path) == [f"cam-20261124T160000Z.jsonl{ending}", "cam-20261124T160004Z.jsonl"]
    assert numbers(tmp_path / names(tmp_path)[0]) == [0, 1, 2, 3]


def test_the_last_file_is_compressed_at_the_end(write: Writing, tmp_path: Path) -> None:
    written = write(jsonl(rotate={"every": "4s"}, compress="gzip"))
    written.frames(batches(6))
    written.sink.end_stream(Stream("cam"))
    written.sink.close()

    assert [numbers(tmp_path / name) for name in names(tmp_path)] == [[0, 1, 2, 3], [4, 5]]
    assert all(name.endswith(".gz") for name in names(tmp_path))


def test_a_step_of_compression_is_short_whatever_the_file(
    write: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "_STEP_BYTES", 1_000)
    written = write(jsonl(rotate={"every": "60s"}, compress="gzip"))
    written.frames(batches(62))

    assert any(name.endswith(".jsonl.gz.part") for name in names(tmp_path))
    written.sink.close()
    assert [numbers(tmp_path / name) for name in names(tmp_path)] == [list(range(60)), [60, 61]]


def test_what_takes_too_long_at_the_end_is_left_and_compressed_by_the_next_run(
    write: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = write(jsonl(rotate={"every": "1h"}, compress="gzip"))
    written.frames(batches(3))
    with monkeypatch.context() as patched:
        patched.setattr(rotation, "_CLOSING_SECONDS", -1.0)
        written.sink.close()
    assert names(tmp_path) == ["cam-20261124T160000Z.jsonl"]

    write(jsonl(rotate={"every": "1h"}, compress="gzip"), start_ns=FOUR + 60 * SECOND_NS).frames(batches(3))

    assert names(tmp_path) == ["cam-20261124T160000Z.jsonl.gz", "cam-20261124T160100Z.jsonl"]


def torn(folder: Path, write: Writing) -> Path:
    """A file as a kill leaves it: its last line is torn."""
    written = write(jsonl(rotate={"every": "1h"}))
    written.frames(batches(3))
    written.sink.close()
    path = folder / "cam-20261124T160000Z.jsonl"
    with path.open("ab") as file:
        file.write(b'{"stream":"cam","fra')
    return path


def test_the_next_run_compresses_the_whole_lines_of_a_killed_one(write: Writing, tmp_path: Path) -> None:
    torn(tmp_path, write)

    write(jsonl(rotate={"every": "1h"}, compress="gzip")).frames(batches(3))

    assert names(tmp_path) == ["cam-20261124T160000Z-2.jsonl", "cam-20261124T160000Z.jsonl.gz"]
    assert numbers(tmp_path / "cam-20261124T160000Z.jsonl.gz") == [0, 1, 2]


def test_a_file_that_another_run_is_writing_is_not_compressed(write: Writing, tmp_path: Path) -> None:
    write(jsonl(rotate={"every": "1h"})).frames(batches(3))

    write(jsonl(rotate={"every": "1h"}, compress="gzip")).frames(batches(3))

    assert names(tmp_path) == ["cam-20261124T160000Z-2.jsonl", "cam-20261124T160000Z.jsonl"]


def test_a_file_that_another_run_is_compressing_is_left_to_it(write: Writing, tmp_path: Path) -> None:
    path = torn(tmp_path, write)
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write(jsonl(rotate={"every": "1h"}, compress="gzip")).frames(batches(3))

    assert path.exists()


def test_a_kill_before_the_uncompressed_file_was_removed_leaves_no_double(write: Writing, tmp_path: Path) -> None:
    path = torn(tmp_path, write)
    first = write(jsonl(rotate={"every": "1h"}, compress="gzip"))
    first.frames(batches(3))
    os.link(tmp_path / "cam-20261124T160000Z.jsonl.gz", tmp_path / "kept")
    path.write_bytes(gzip.decompress((tmp_path / "kept").read_bytes()))
    os.setxattr(path, "user.sightline", b"1")

    write(jsonl(rotate={"every": "1h"}, compress="gzip")).frames(batches(2))

    assert not path.exists()
    assert numbers(tmp_path / "cam-20261124T160000Z.jsonl.gz") == [0, 1, 2]


def test_a_file_of_somebody_else_with_such_a_name_is_left_alone(write: Writing, tmp_path: Path) -> None:
    (tmp_path / "cam-20261124T155900Z.jsonl").write_text("notes\n")

    write(jsonl(rotate={"every": "1h"}, compress="gzip")).frames(batches(3))

    assert (tmp_path / "cam-20261124T155900Z.jsonl").read_text() == "notes\n"


def test_finished_files_beyond_a_limit_are_removed(write: Writing, tmp_path: Path) -> None:
    keep = {"count": 2, "free": 0}
    write(jsonl(rotate={"every": "2s"}, keep=keep)).frames(batches(10))

    assert [numbers(tmp_path / name) for name in names(tmp_path)] == [[4, 5], [6, 7], [8, 9]]


def test_compressed_files_count_for_the_limits_also_those_of_an_earlier_run(write: Writing, tmp_path: Path) -> None:
    options: dict[str, Any] = {"rotate": {"every": "2s"}, "compress": "gzip", "keep": {"count": 3, "free": 0}}
    first = write(jsonl(**options))
    first.frames(batches(4))
    first.sink.close()

    second = write(jsonl(**options), start_ns=FOUR + 60 * SECOND_NS)
    second.frames(batches(4))
    second.sink.close()

    assert names(tmp_path) == [f"cam-20261124T16{end}Z.jsonl.gz" for end in ("0002", "0100", "0102")]


def test_a_full_disk_keeps_the_uncompressed_file_until_there_is_room(write: Writing, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity=10_000_000)
    written = write(jsonl(rotate={"every": "100s"}, compress="gzip"), disk)
    written.frames(batches(100))
    disk.capacity = disk.capacity - disk.free + 600
    written.frames(batches(102)[100:])
    assert written.kinds() == [MessageKind.SINK_DEGRADED]
    assert names(tmp_path) == ["cam-20261124T160000Z.jsonl", "cam-20261124T160140Z.jsonl"]

    disk.capacity = 10_000_000
    written.frames(batches(107)[102:])

    assert names(tmp_path) == ["cam-20261124T160000Z.jsonl.gz", "cam-20261124T160140Z.jsonl"]
    assert written.kinds() == [MessageKind.SINK_DEGRADED, MessageKind.SINK_RECOVERED]


def test_lines_lost_on_a_full_disk_are_counted_and_the_oldest_files_make_room(write: Writing, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity=2_000)
    element = jsonl(rotate={"size": "500B"}, keep={"free": 0}, on_error="skip")
    written = write(element, disk)
    written.frames(batches(60))

    kept = [number for name in names(tmp_path) for number in numbers(tmp_path / name)]
    assert kept[-1] == 59
    assert written.sink.totals()["cam"]["lost_lines"]["the disk is full"] < 20
    assert kept == sorted(kept)


def test_two_runs_that_begin_in_the_same_second_share_no_file(write: Writing, tmp_path: Path) -> None:
    first, second = (write(jsonl(rotate={"every": "1h"})) for _ in range(2))
    for batch in batches(3):
        first.frames([batch])
        second.frames([batch])

    assert [numbers(tmp_path / name) for name in names(tmp_path)] == [[0, 1, 2], [0, 1, 2]]


def test_a_file_that_nothing_could_be_written_to_is_not_left(write: Writing, tmp_path: Path) -> None:
    written = write(jsonl(rotate={"every": "1h"}, on_error="skip"), SmallDisk(tmp_path, capacity=0))
    written.frames(batches(3))
    written.sink.close()

    assert names(tmp_path) == []


def test_half_a_compressed_file_is_replaced_where_files_have_no_attributes(
    write: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "setxattr")
    monkeypatch.delattr(os, "getxattr")
    path = torn(tmp_path, write)
    path.with_name(path.name + ".gz.part").write_bytes(b"half")
    ownership._unmarked.clear()

    write(jsonl(rotate={"every": "1h"}, compress="gzip")).frames(batches(3))

    assert names(tmp_path) == ["cam-20261124T160000Z-2.jsonl", "cam-20261124T160000Z.jsonl.gz"]


def test_names_of_streams_never_leave_the_folder(write: Writing, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    for name in ("../../gate", "a" * 255, "😀" * 60, "."):
        written = write(jsonl("{stream}/{stream}.jsonl", rotate={"every": "1h"}, compress="gzip"), Outputs(folder))
        written.frames(batches(2, stream=name))
        written.sink.close()

    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert len(names(folder)) == 4


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"compress": "gzip"}, "compress is about finished files: give rotate too"),
        ({"keep": {"count": 3}}, "keep is about finished files: give rotate too"),
        ({"path": "-", "rotate": {"every": "1h"}}, "standard output cannot be rotated: name a file"),
        ({"path": "a.{time}", "rotate": {"every": "1h"}}, "must end in a suffix without a placeholder"),
        ({"path": "a-{number}.jsonl", "rotate": {"every": "1h"}}, "{number} stands for nothing here"),
        ({"path": "a-{time}.jsonl"}, "{time} stands for nothing here"),
    ],
)
def test_options_that_cannot_work_are_problems(tmp_path: Path, options: dict[str, Any], expected: str) -> None:
    (found,) = problems(Jsonl.model_validate({"path": "a.jsonl", **options}), tmp_path)

    assert expected in found


def test_a_rotation_without_a_limit_is_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match="say when the next file begins: size or every"):
        Rotate()


def test_zstd_without_its_package_is_reported_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "backports", None)
    monkeypatch.setitem(__import__("sys").modules, "compression", None)

    (found,) = problems(jsonl(rotate={"every": "1h"}, compress="zstd"), tmp_path)

    assert "pip install 'sightline[zstd]'" in found
