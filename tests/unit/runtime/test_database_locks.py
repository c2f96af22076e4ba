"""A database that is open here is not taken for one that nobody uses by another process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sightline.runtime.database import Database, DatabaseInUse

FREE = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int(sys.argv[2]))
"""
"""Takes the lock of a byte, as SQLite does of a file that nobody else has open."""
INDEX_IN_USE = 128
"""The byte of the file `-shm` that each process locks that has a database in write-ahead mode open; whoever finds it
free takes the file for a leftover, and cuts it, also while another process has it in its memory."""
SHARED = 0x40000000 + 2
"""The first byte of the file that readers lock."""


@pytest.mark.parametrize(("side", "byte"), [("-shm", INDEX_IN_USE), ("", SHARED)])
def test_the_locks_of_sqlite_are_held_while_it_is_open(tmp_path: Path, side: str, byte: int) -> None:
    path = tmp_path / "x.outbox"
    database = Database(path, what="outbox", schema="CREATE TABLE IF NOT EXISTS a (b);", version=1)
    with database.transaction() as connection:
        connection.execute("INSERT INTO a VALUES (1)")
    command = [sys.executable, "-c", FREE, f"{path}{side}", str(byte)]

    taken = subprocess.run(command, capture_output=True, text=True, check=False)

    database.close()
    assert taken.returncode != 0
    assert "BlockingIOError" in taken.stderr or "PermissionError" in taken.stderr


@pytest.mark.parametrize(("side", "byte"), [("-shm", INDEX_IN_USE), ("", SHARED)])
def test_a_second_one_in_this_process_takes_no_locks_away(tmp_path: Path, side: str, byte: int) -> None:
    path = tmp_path / "x.outbox"
    database = Database(path, what="outbox", schema="CREATE TABLE IF NOT EXISTS a (b);", version=1)
    with pytest.raises(DatabaseInUse):
        Database(path, what="outbox", schema="CREATE TABLE IF NOT EXISTS a (b);", version=1)
    command = [sys.executable, "-c", FREE, f"{path}{side}", str(byte)]

    taken = subprocess.run(command, capture_output=True, text=True, check=False)

    database.close()
    assert taken.returncode != 0
