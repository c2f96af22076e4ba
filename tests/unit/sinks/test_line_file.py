from __future__ import annotations

import errno
import io
from pathlib import Path

import pytest

from sightline.errors import OutputError
from sightline.graph.outputs import LineFile, Outputs


class NearlyFullDisk(io.FileIO):
    """A file on a disk with room for so many bytes."""

    room = 10

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = super().write(data[: self.room])
        self.room -= written
        return written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lines.txt"


def test_what_was_written_is_in_the_file_at_once(tmp_path: Path, path: Path) -> None:
    file = Outputs(tmp_path).open_lines(path)
    file.write(b"one\n")
    assert path.read_bytes() == b"one\n"
    file.close()


def test_a_full_disk_leaves_whole_lines_only(path: Path) -> None:
    file = LineFile(path, NearlyFullDisk(path, "wb"))
    file.write(b"first\n")
    with pytest.raises(OutputError, match=r"lines\.txt: the disk is full"):
        file.write(b"second line\n")
    assert path.read_bytes() == b"first\n"


def test_trouble_is_told_once(path: Path) -> None:
    file = LineFile(path, NearlyFullDisk(path, "wb"))
    with pytest.raises(OutputError):
        file.write(b"more than ten bytes\n")
    file.write(b"x\n")
    file.close()


def test_restart_takes_back_what_was_written(tmp_path: Path, path: Path) -> None:
    file = Outputs(tmp_path).open_lines(path)
    file.write(b"one\n")
    file.take_back(0)
    file.write(b"two\n")
    file.close()
    assert path.read_bytes() == b"two\n"


def test_a_symbolic_link_is_not_followed(tmp_path: Path, path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="links are not followed"):
        Outputs(tmp_path).open_lines(path)
