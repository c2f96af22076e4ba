"""Sinks that write lines, with `on_error: skip`: a full disk costs lines, which are counted, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

import pytest
from tests.disks import SmallDisk

from sightline.devices import Device
from sightline.errors import OutputError
from sightline.graph import Element, Message, MessageKind, Outputs, Sink, Site
from sightline.graph.outputs import LineFile
from sightline.media import Batch, Objects, Origin
from sightline.testing import make_batches, make_frames
from sightline_plugins import Csv, Jsonl, Kitti, Mot

SECOND_NS = 1_000_000_000
FULL = "the disk is full"
ROOMY = 1_000_000


class StepClock:
    """A clock that goes on by hand."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def epoch_ns(self) -> int:
        return self.now_ns


class Written:
    """A step that is given frame after frame, half a second apart."""

    def __init__(self, element: Element, outputs: Outputs) -> None:
        self.messages: list[Message] = []
        self.clock = StepClock()
        site = Site(device=Device(), element_id="lines", outputs=outputs, clock=self.clock, post=self.messages.append)
        sink = element.build(site)
        assert isinstance(sink, Sink)
        self.sink = sink

    def frames(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            self.clock.now_ns += SECOND_NS // 2
            self.sink.process(batch)

    def kinds(self) -> list[MessageKind]:
        return [message.kind for message in self.messages]

    def lost(self, stream: str = "cam") -> dict[str, int]:
        lost: dict[str, int] = self.sink.totals().get(stream, {}).get("lost_lines", {})
        return lost


Writing: TypeAlias = Callable[[Element, Outputs], Written]


@pytest.fixture
def write() -> Iterator[Writing]:
    """Makes a step, which is closed when the test is over."""
    made: list[Written] = []

    def make(element: Element, outputs: Outputs) -> Written:
        made.append(Written(element, outputs))
        return made[-1]

    yield make
    for one in made:
        one.sink.close()


def with_cars(count: int, *, stream: str = "cam", first: int = 0, track_id: int = 5) -> list[Batch]:
    """Frames with a car each."""
    car = Objects.from_columns(
        frame=[0],
        xyxy=[[1, 2, 30, 40]],
        confidence=[0.9],
        class_id=[0],
        source=Origin("detect", ("car",)),
        track_id=[track_id],
    )
    frames = make_frames(first + count, stream=stream)[first:]
    return [batch.with_objects(car) for batch in make_batches(frames)]


def numbers(path: Path) -> list[int]:
    """The frames whose lines are in the file; every line is whole."""
    text = path.read_text()
    assert text == "" or text.endswith("\n")
    return [json.loads(line)["frame"] for line in text.splitlines()]


def skipping(element: type[Element], path: str, **options: Any) -> Element:
    return element.model_validate({"path": path, "on_error": "skip", **options})


def test_lines_without_room_are_lost_whole_and_counted_until_there_is_room(write: Writing, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity=1_000)
    written = write(skipping(Jsonl, "{stream}.jsonl"), disk)

    written.frames(with_cars(20))
    before = numbers(tmp_path / "cam.jsonl")
    disk.capacity = ROOMY
    written.frames(with_cars(20, first=20))

    kept = numbers(tmp_path / "cam.jsonl")
    assert before == list(range(len(before)))
    assert 0 < len(before) < 20
    assert kept[: len(before)] == before
    assert kept[-1] == 39
    assert written.lost() == {FULL: 40 - len(kept)}
    assert written.kinds() == [MessageKind.SINK_DEGRADED, MessageKind.SINK_RECOVERED]
    assert FULL in written.messages[0].text
    assert {(message.stream, message.element) for message in written.messages} == {("cam", "lines")}


def test_a_full_disk_is_tried_every_two_seconds(write: Writing, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity=0)
    written = write(skipping(Jsonl, "a.jsonl"), disk)
    written.frames(with_cars(1))
    disk.capacity = ROOMY

    written.frames(with_cars(6, first=1))

    assert numbers(tmp_path / "a.jsonl") == [4, 5, 6]


def test_a_table_has_one_header_whatever_happens_to_its_file(write: Writing, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity=20)
    written = write(skipping(Csv, "a.csv"), disk)
    written.frames(with_cars(5))
    assert (tmp_path / "a.csv").read_bytes() == b""

    disk.capacity = ROOMY
    written.frames(with_cars(5, first=5))

    header, *rows = (tmp_path / "a.csv").read_text().splitlines()
    assert header.startswith("stream,frame,")
    assert [int(row.split(",")[1]) for row in rows] == [8, 9]
    assert written.lost() == {FULL: 8}


def test_a_file_that_was_removed_to_make_room_begins_anew(write: Writing, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity=400)
    written = write(skipping(Csv, "a.csv"), disk)
    written.frames(with_cars(20))
    (tmp_path / "a.csv").unlink()

    written.frames(with_cars(5, first=20))

    header, *rows = (tmp_path / "a.csv").read_text().splitlines()
    assert header.startswith("stream,frame,")
    assert [int(row.split(",")[1]) for row in rows][-1] == 24


def test_a_torn_line_that_could_not_be_cut_at_once_is_cut_before_the_next(
    write: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SmallDisk(tmp_path, capacity=200)
    written = write(skipping(Jsonl, "a.jsonl"), disk)
    with monkeypatch.context() as patched:
        patched.setattr(LineFile, "_abandon", _leave_torn)
        written.frames(with_cars(2))
    assert not (tmp_path / "a.jsonl").read_bytes().endswith(b"\n")

    disk.capacity = ROOMY
    written.frames(with_cars(8, first=2))

    assert numbers(tmp_path / "a.jsonl")[-1] == 9


def _leave_torn(file: Any, *, torn_bytes: int) -> None:
    del torn_bytes
    opened: IO[bytes] = file._file
    file._file = None
    opened.close()


def test_rows_that_there_are_none_of_say_nothing_of_the_disk(write: Writing, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity=150)
    written = write(skipping(Csv, "a.csv"), disk)
    written.frames(with_cars(10))
    lost = written.lost()

    written.frames(make_batches(make_frames(20)[10:]))

    assert written.kinds() == [MessageKind.SINK_DEGRADED]
    assert written.lost() == lost


def test_a_file_in_trouble_costs_no_other_its_lines(write: Writing, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").mkdir()
    written = write(skipping(Jsonl, "{stream}.jsonl"), Outputs(tmp_path))

    for number in range(10):
        written.frames([*with_cars(1, stream="a", first=number), *with_cars(1, stream="b", first=number)])

    assert numbers(tmp_path / "b.jsonl") == list(range(10))
    assert written.lost("a") == {"it is a folder": 10}
    assert written.lost("b") == {}
    assert [message.stream for message in written.messages] == ["a"]


def test_lines_of_several_streams_in_one_file_are_counted_for_each(write: Writing, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity=0)
    written = write(skipping(Jsonl, "all.jsonl"), disk)

    written.frames([*with_cars(3, stream="a"), *with_cars(2, stream="b")])

    assert (written.lost("a"), written.lost("b")) == ({FULL: 3}, {FULL: 2})


@pytest.mark.parametrize(("element", "path"), [(Mot, "{stream}.txt"), (Kitti, "{stream}.txt")])
def test_lines_of_tracks_go_on_as_well(write: Writing, tmp_path: Path, element: type[Element], path: str) -> None:
    disk = SmallDisk(tmp_path, capacity=200)
    written = write(skipping(element, path), disk)
    written.frames(with_cars(20))
    disk.capacity = ROOMY

    written.frames(with_cars(20, first=20))

    lines = (tmp_path / "cam.txt").read_text().splitlines()
    assert len({len(line.replace(",", " ").split()) for line in lines}) == 1
    assert written.lost() == {FULL: 40 - len(lines)}


def test_what_mot_takes_back_while_the_disk_is_full_does_not_come_back(write: Writing, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity=100)
    written = write(skipping(Mot, "{stream}.txt"), disk)
    written.frames(with_cars(5, track_id=-1))
    written.frames(with_cars(1, first=5))
    disk.capacity = ROOMY

    written.frames(with_cars(5, first=6))

    ids = {line.split(",")[1] for line in (tmp_path / "cam.txt").read_text().splitlines()}
    assert ids == {"5"}


def test_a_pipe_that_nobody_reads_any_more_is_not_waited_for(write: Writing, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    written = write(skipping(Jsonl, "pipe"), Outputs(tmp_path))
    written.frames(with_cars(2))
    os.close(reader)

    written.frames(with_cars(10, first=2))
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    written.frames(with_cars(10, first=12))

    lines = os.read(reader, 1 << 16).splitlines()
    os.close(reader)
    assert json.loads(lines[-1])["frame"] == 21
    assert written.lost() == {"Broken pipe": 4, "nobody reads from this pipe": 20 - 4 - len(lines)}
    assert written.kinds() == [MessageKind.SINK_DEGRADED, MessageKind.SINK_RECOVERED]


@pytest.mark.parametrize(("capacity", "advice"), [(0, ""), (2_000, "; what was written before is kept")])
def test_without_skip_a_full_disk_is_an_error(write: Writing, tmp_path: Path, capacity: int, advice: str) -> None:
    written = write(Jsonl(path="a.jsonl"), SmallDisk(tmp_path, capacity=capacity))

    with pytest.raises(OutputError, match=rf"a\.jsonl: the disk is full{advice}$"):
        written.frames(with_cars(100))
    assert ((tmp_path / "a.jsonl").stat().st_size > 0) is (capacity > 0)
