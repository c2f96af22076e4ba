"""Where records wait on disk until they are delivered: chunks of them in one SQLite file.

SQLite runs in write-ahead mode with `synchronous=NORMAL`: what was committed survives the end of the process, however
it ends; a power cut may take the last commits. Records of one destination stand in the order in which they were put.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from sightline.errors import ConfigurationError, OutputError
from sightline.graph.outputs import Outputs
from sightline.graph.ownership import SQLITE_APPLICATION_ID
from sightline.graph.transport import Record
from sightline.runtime.delivery.chunks import Chunk, Commit, Waiting

_VERSION = 1
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS chunks(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  destination TEXT NOT NULL,
  created_ns INTEGER NOT NULL,
  records INTEGER NOT NULL,
  delivered INTEGER NOT NULL,
  size INTEGER NOT NULL,
  body BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS chunks_of_destination ON chunks(destination, id);
CREATE TABLE IF NOT EXISTS epochs(stream TEXT PRIMARY KEY, epoch INTEGER NOT NULL);
PRAGMA user_version={_VERSION};
PRAGMA application_id={SQLITE_APPLICATION_ID};
"""
_CHECKPOINT_PAGES = 4_000
"""Pages of 4 kB in the log before it is worked into the file, which waits for the disk. Most records are delivered and
removed before that."""
_SIDE_FILES = ("", "-wal", "-shm")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class OutboxInUse(ConfigurationError):
    """Another process has the outbox open."""


class OutboxStore:
    """The file. Any thread may call it; a call holds it for the time of one transaction.

    One process at a time opens it for writing. `read_only` looks at it while another process delivers.
    """

    def __init__(self, path: Path, *, outputs: Outputs | None = None, read_only: bool = False) -> None:
        """Open the file; make it, and its folder, where it is not there.

        Raises OutputError when it cannot be written or is no outbox, OutboxInUse when another process has it.
        """
        self.path = path
        outputs = outputs or Outputs(path.parent)
        self._lock = Lock()
        self._claim = None
        if not read_only:
            outputs.prepare(path)
            self._claim = outputs.lock(path)
            if self._claim is None:
                raise OutboxInUse(
                    f"the outbox {path} is open in another process: let that end, or give this pipeline another one "
                    "(`outbox: {path: ...}`, or another `name`)"
                )
        try:
            self._database = _connected(path, read_only=read_only)
            for side in () if read_only else _SIDE_FILES:
                outputs.mark(path.with_name(path.name + side))
        except sqlite3.Error as error:
            self._release()
            raise _output_error(path, error, doing="open") from error

    def epochs(self) -> dict[str, int]:
        """Return the last epoch of each stream. Raises OutputError."""
        return dict(self._rows("SELECT stream, epoch FROM epochs"))

    def waiting(self) -> dict[str, Waiting]:
        """Return what waits, by destination. Raises OutputError."""
        query = (
            "SELECT destination, sum(records - delivered), sum(size), min(created_ns) FROM chunks GROUP BY destination"
        )
        return {name: Waiting(records, size, oldest) for name, records, size, oldest in self._rows(query)}

    def write(self, commit: Commit) -> None:
        """Write everything or nothing; new chunks have an id afterwards. Raises OutputError."""
        rows = [(one, _encode(one.records)) for one in commit.new]
        with self._lock:
            try:
                with self._database as database:
                    ids = [self._insert(one, body) for one, body in rows]
                    database.executemany(
                        "UPDATE chunks SET delivered=? WHERE id=?", [(one.delivered, one.id) for one in commit.progress]
                    )
                    database.executemany("DELETE FROM chunks WHERE id=?", [(one.id,) for one in commit.done])
                    database.executemany("INSERT OR REPLACE INTO epochs VALUES (?, ?)", commit.epochs.items())
            except sqlite3.Error as error:
                with contextlib.suppress(sqlite3.Error):
                    self._database.rollback()
                raise _output_error(self.path, error, doing="write") from error
        for chunk, number in zip(commit.new, ids, strict=True):
            chunk.id = number

    def next_chunk(self, destination: str, *, after: int) -> Chunk | None:
        """Return the first chunk of a destination with a higher id than `after`. Raises OutputError."""
        rows = self._rows(
            "SELECT id, created_ns, delivered, size, body FROM chunks WHERE destination=? AND id>? ORDER BY id LIMIT 1",
            (destination, after),
        )
        for number, created_ns, delivered, size, body in rows:
            records = [Record(*values) for values in _decode(body)]
            return Chunk(destination, created_ns, records, size, id=number, delivered=delivered)
        return None

    def oldest(self, *, limit: int) -> list[tuple[int, str, int, int, int]]:
        """Return id, destination, records that wait, bytes and time of the oldest chunks. Raises OutputError."""
        query = "SELECT id, destination, records - delivered, size, created_ns FROM chunks ORDER BY id LIMIT ?"
        return list(self._rows(query, (limit,)))

    def remove(self, ids: Iterable[int]) -> None:
        """Remove chunks. Raises OutputError."""
        self._run("DELETE FROM chunks WHERE id=?", [(number,) for number in ids])

    def purge(self, destination: str | None = None) -> None:
        """Remove all chunks, or those of one destination, and give the space back. Raises OutputError."""
        self._run("DELETE FROM chunks WHERE ?1 IS NULL OR destination=?1", [(destination,)])
        with self._lock:
            try:
                self._database.execute("VACUUM")
            except sqlite3.Error as error:
                raise _output_error(self.path, error, doing="write") from error

    def close(self) -> None:
        """Close the file; harmless when called again."""
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._database.close()
        self._release()

    def _insert(self, chunk: Chunk, body: bytes) -> int:
        values = (chunk.destination, chunk.created_ns, len(chunk.records), chunk.delivered, chunk.size, body)
        inserted = self._database.execute(
            "INSERT INTO chunks(destination, created_ns, records, delivered, size, body) VALUES (?,?,?,?,?,?)", values
        )
        return int(inserted.lastrowid or 0)

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._database.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise _output_error(self.path, error, doing="read") from error

    def _run(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        with self._lock:
            try:
                with self._database as database:
                    database.executemany(statement, rows)
            except sqlite3.Error as error:
                raise _output_error(self.path, error, doing="write") from error

    def _release(self) -> None:
        if self._claim is not None:
            self._claim.close()
            self._claim = None


def _connected(path: Path, *, read_only: bool) -> sqlite3.Connection:
    if read_only:
        # Without a log nobody writes; an immutable database leaves no side files behind.
        options = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
        return sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True, check_same_thread=False)
    database = sqlite3.connect(path, check_same_thread=False, timeout=5)
    try:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            raise sqlite3.DatabaseError(f"it was written by another version of Sightline (format {version})")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute("PRAGMA secure_delete=OFF")  # a default of some builds, which writes removed records once more
        database.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        database.executescript(_SCHEMA)
    except sqlite3.Error:
        database.close()
        raise
    return database


_REASONS = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "it is read-only",
    "SQLITE_IOERR_READ": "it cannot be read",
    "SQLITE_CANTOPEN": "it cannot be opened",
    "SQLITE_NOTADB": "it is not an outbox",
    "SQLITE_CORRUPT": "it is damaged: move it away",
    "SQLITE_BUSY": "another program holds it",
}


def _output_error(path: Path, error: sqlite3.Error, *, doing: str) -> OutputError:
    name = getattr(error, "sqlite_errorname", "")
    reason = next((text for code, text in _REASONS.items() if name.startswith(code)), str(error))
    if reason.startswith("no such table"):
        reason = _REASONS["SQLITE_NOTADB"]
    return OutputError(f"cannot {doing} the outbox {path}: {reason}", reason=reason)
