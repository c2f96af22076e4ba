"""The state file: written as a whole or not at all, and checked before anything of it is used."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sightline.errors import OutputError
from sightline.graph import Outputs
from sightline.runtime.state import file as state_file
from sightline.runtime.state.file import SavedState, StateFile, StateUnusable
from tests.disks import SmallDisk

STATES = [
    SavedState("lines-1", "lines", "gate", 5, {"in": 7, "sides": {"3": -1.5}}),
    SavedState("lines-1", "lines", "yard", 6, {"in": 0, "sides": {}}),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out" / "street.state"


@pytest.fixture
def file(path: Path) -> Iterator[StateFile]:
    made = StateFile(path, pipeline="street", outputs=Outputs(path.parent.parent))
    assert made.claim()
    yield made
    made.close()


def write(file: StateFile, states: list[SavedState] = STATES) -> None:
    file.write([one.line() for one in states])


def forge(path: Path, *lines: str, **head: object) -> None:
    """Write a file with any content, whose sum is right."""
    rest = "".join(line + "\n" for line in lines).encode()
    known = {
        "sightline_state": 1,
        "pipeline": "street",
        "entries": len(lines),
        "sha256": hashlib.sha256(rest).hexdigest(),
    }
    path.write_bytes(json.dumps({**known, **head}, separators=(",", ":")).encode() + b"\n" + rest)


def test_what_was_written_is_read(file: StateFile) -> None:
    write(file, STATES[:1])
    write(file)

    assert file.read() == STATES
    assert sorted(one.name for one in file.path.parent.iterdir()) == ["street.state", "street.state.lock"]


def test_a_file_that_is_not_there_holds_nothing(file: StateFile) -> None:
    assert file.read() == []
    file.path.touch()
    assert file.read() == []


def test_a_file_that_is_cut_off_anywhere_is_refused(file: StateFile, path: Path) -> None:
    write(file)
    whole = path.read_bytes()
    for length in range(1, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(StateUnusable):
            file.read()


def test_a_file_with_a_changed_byte_is_refused(file: StateFile, path: Path) -> None:
    write(file)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"in":7', b'"in":8'))

    with pytest.raises(StateUnusable, match="damaged"):
        file.read()


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ({"pipeline": "yard"}, "of another pipeline, 'yard'"),
        ({"sightline_state": 2}, r"another version of Sightline \(format 2\)"),
        ({"sightline_state": "x"}, "damaged"),
        ({"entries": 3}, "damaged"),
        ({"more": 1}, "damaged"),
    ],
)
def test_a_file_of_somebody_else_is_refused(file: StateFile, path: Path, head: dict[str, object], reason: str) -> None:
    forge(path, *[one.line().decode().strip() for one in STATES], **head)

    with pytest.raises(StateUnusable, match=reason):
        file.read()


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        '{"step":"lines-1"}',
        '{"step":1,"element":"lines","stream":"gate","at_ns":5,"state":{}}',
        '{"step":"lines-1","element":"lines","stream":"gate","at_ns":5,"state":[]}',
        '{"step":"lines-1","element":"lines","stream":"gate","at_ns":5,"state":{"in":'
        + "[" * 5_000
        + "]" * 5_000
        + "}}",
        '{"step":"lines-1","element":"lines","stream":"gate","at_ns":' + "9" * 10_000 + ',"state":{}}',
    ],
    ids=["list", "short", "number", "state", "deep", "long"],
)
def test_hostile_lines_are_refused(file: StateFile, path: Path, line: str) -> None:
    forge(path, line)

    with pytest.raises(StateUnusable, match="damaged"):
        file.read()


def test_what_is_no_ordinary_file_is_refused(file: StateFile, path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("x")
    path.symlink_to(other)
    with pytest.raises(StateUnusable, match="symbolic link"):
        file.read()

    path.unlink()
    os.mkfifo(path)
    with pytest.raises(StateUnusable, match="no ordinary file"):
        file.read()


def test_size_is_bounded(file: StateFile, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(file)
    monkeypatch.setattr(state_file, "LARGEST_BYTES", 100)

    with pytest.raises(OutputError, match="100 at most"):
        write(file)
    with pytest.raises(StateUnusable, match="more than 100 bytes"):
        file.read()


def test_one_process_at_a_time_uses_it(file: StateFile, path: Path) -> None:
    other = StateFile(path, pipeline="street", outputs=Outputs(path.parent.parent))
    assert not other.claim()

    file.close()

    assert other.claim()
    other.close()


def test_a_file_that_is_not_ours_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("my diary")
    file = StateFile(path, pipeline="street", outputs=Outputs(path.parent.parent))

    with pytest.raises(OutputError, match="was not written by Sightline"):
        file.claim()

    assert path.read_text() == "my diary"


def test_a_full_disk_leaves_the_file_as_it_was(path: Path) -> None:
    disk = SmallDisk(path.parent.parent, capacity=600)
    file = StateFile(path, pipeline="street", outputs=disk)
    assert file.claim()
    write(file, STATES[:1])

    with pytest.raises(OutputError, match="the disk is full"):
        write(file, [replace(STATES[0], state={"in": "x" * 1000})])
    assert file.read() == STATES[:1]

    disk.capacity = 10_000
    write(file)
    assert file.read() == STATES
    file.close()
