"""The file of a recording: whole records, whatever happens to its end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sightline.errors import ConfigurationError
from sightline.runtime.recording.file import (
    MAGIC,
    BatchRecord,
    FrameRow,
    Head,
    InputRecord,
    Kind,
    NoteRecord,
    PacketRecord,
    Recording,
    RecordWriter,
    ResultsRecord,
    StreamRecord,
)

ROW = FrameRow(0, 7, 280_000_000, None, None, damaged=False, altered=0, packet=3)
PACKET = PacketRecord(3, 7, 7, is_key=True, data=b"encoded")


def write(path: Path) -> list[int]:
    """A recording of one frame; gives back where each record ends."""
    ends = []
    with path.open("wb") as file:
        writer = RecordWriter(file)
        for kind, body in (
            (Kind.HEAD, Head({"name": "x"}, 1, {"sightline": "1"}, {}, {})),
            (Kind.STREAM, StreamRecord("gate", is_live=True, options={})),
            (Kind.INPUT, InputRecord(b"head", "avc1")),
            (Kind.PACKET, PACKET),
            (Kind.BATCH, BatchRecord(5, [ROW])),
            (Kind.RESULTS, ResultsRecord([(0, 7, b"12345678")])),
            (Kind.NOTE, NoteRecord("the steps were changed")),
            (Kind.END, None),
        ):
            writer.add(kind, body)
            ends.append(writer.size_bytes)
    return ends


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.slr"
    ends = write(path)

    read = Recording.read(path)

    assert path.stat().st_size == ends[-1]
    assert read.is_whole
    assert read.head.pipeline == {"name": "x"}
    assert [one.name for one in read.streams] == ["gate"]
    assert list(read.bodies(0)) == [InputRecord(b"head", "avc1"), PACKET]
    assert read.frames_of(0) == [ROW]
    assert read.results == {(0, 7): b"12345678"}
    assert read.notes == ("the steps were changed",)


def test_a_file_that_was_cut_off_anywhere_is_good_up_to_its_last_whole_record(tmp_path: Path) -> None:
    ends = write(tmp_path / "whole.slr")
    data = (tmp_path / "whole.slr").read_bytes()
    path = tmp_path / "cut.slr"

    for size in range(ends[0], len(data)):
        path.write_bytes(data[:size])
        read = Recording.read(path)
        assert not read.is_whole
        assert len(read.streams) == (size >= ends[1])
        assert len(read.batches) == (size >= ends[4])
        assert len(read.results) == (size >= ends[5])


def test_nothing_behind_a_damaged_record_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.slr"
    ends = write(path)
    data = bytearray(path.read_bytes())
    data[ends[4] - 1] ^= 0xFF
    path.write_bytes(data)

    read = Recording.read(path)

    assert list(read.bodies(0)) == [InputRecord(b"head", "avc1"), PACKET]
    assert (read.batches, read.results, read.is_whole) == ((), {}, False)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is no recording"),
        (b"sources: {}\n", "it is no recording"),
        (MAGIC[:6] + b"\x09\n", "it has format 9, and this version reads 1"),
        (MAGIC, "it was cut off before anything was recorded"),
    ],
)
def test_what_is_no_recording_is_refused(data: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "run.slr"
    path.write_bytes(data)

    with pytest.raises(ConfigurationError, match=f"run.slr cannot be replayed: {re.escape(why)}"):
        Recording.read(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"run.slr cannot be read: No such file"):
        Recording.read(tmp_path / "run.slr")


def test_a_stream_that_was_not_recorded_is_refused_with_those_that_were(tmp_path: Path) -> None:
    write(tmp_path / "run.slr")

    with pytest.raises(ConfigurationError, match=r"there is no stream 'yard' in .*; streams: gate"):
        Recording.read(tmp_path / "run.slr").number_of("yard")
