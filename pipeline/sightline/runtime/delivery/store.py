"""Where records wait on disk until they are delivered: chunks of them in one SQLite file.

Records of one destination stand in the order in which they were put.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

import msgspec

from sightline.errors import ConfigurationError
from sightline.graph.outputs import Outputs
from sightline.graph.transport import Record
from sightline.runtime.database import Database, DatabaseInUse
from sightline.runtime.delivery.chunks import Chunk, Commit, Waiting

_VERSION = 1
_SCHEMA = """
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
"""
_CHECKPOINT_PAGES = 4_000
"""Pages of 4 kB in the log before it is worked into the file, which waits for the disk. Most records are delivered and
removed before that."""
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
        try:
            self._database = Database(
                path,
                what="outbox",
                schema=_SCHEMA,
                version=_VERSION,
                outputs=outputs,
                read_only=read_only,
                checkpoint_pages=_CHECKPOINT_PAGES,
            )
        except DatabaseInUse as error:
            raise OutboxInUse(
                f"{error}: let that end, or give this pipeline another one (`outbox: {{path: ...}}`, or another `name`)"
            ) from error

    def epochs(self) -> dict[str, int]:
        """Return the last epoch of each stream. Raises OutputError."""
        return dict(self._database.rows("SELECT stream, epoch FROM epochs"))

    def waiting(self) -> dict[str, Waiting]:
        """Return what waits, by destination. Raises OutputError."""
        query = (
            "SELECT destination, sum(records - delivered), sum(size), min(created_ns) FROM chunks GROUP BY destination"
        )
        return {name: Waiting(records, size, oldest) for name, records, size, oldest in self._database.rows(query)}

    def write(self, commit: Commit) -> None:
        """Write everything or nothing; new chunks have an id afterwards. Raises OutputError."""
        rows = [(one, _encode(one.records)) for one in commit.new]
        with self._database.transaction() as database:
            ids = [_insert(database, one, body) for one, body in rows]
            database.executemany(
                "UPDATE chunks SET delivered=? WHERE id=?", [(one.delivered, one.id) for one in commit.progress]
            )
            database.executemany("DELETE FROM chunks WHERE id=?", [(one.id,) for one in commit.done])
            database.executemany("INSERT OR REPLACE INTO epochs VALUES (?, ?)", commit.epochs.items())
        for chunk, number in zip(commit.new, ids, strict=True):
            chunk.id = number

    def next_chunk(self, destination: str, *, after: int) -> Chunk | None:
        """Return the first chunk of a destination with a higher id than `after`. Raises OutputError."""
        rows = self._database.rows(
            "SELECT id, created_ns, delivered, size, body FROM chunks WHERE destination=? AND id>? ORDER BY id LIMIT 1",
            (destination, after),
        )
        for number, created_ns, delivered, size, body in rows:
            records = [Record(*values) for values in _decode(body)]
            return Chunk(destination, created_ns, records, size, id=number, stored=size, delivered=delivered)
        return None

    def oldest(self, *, limit: int) -> list[tuple[int, str, int, int, int]]:
        """Return id, destination, records that wait, bytes and time of the oldest chunks. Raises OutputError."""
        query = "SELECT id, destination, records - delivered, size, created_ns FROM chunks ORDER BY id LIMIT ?"
        return list(self._database.rows(query, (limit,)))

    def remove(self, ids: Iterable[int]) -> None:
        """Remove chunks. Raises OutputError."""
        with self._database.transaction() as database:
            database.executemany("DELETE FROM chunks WHERE id=?", [(number,) for number in ids])

    def purge(self, destination: str | None = None) -> None:
        """Remove all chunks, or those of one destination, and give the space back. Raises OutputError."""
        with self._database.transaction() as database:
            database.execute("DELETE FROM chunks WHERE ?1 IS NULL OR destination=?1", (destination,))
        self._database.vacuum()

    def close(self) -> None:
        """Close the file; harmless when called again."""
        self._database.close()


def _insert(database: sqlite3.Connection, chunk: Chunk, body: bytes) -> int:
    chunk.stored = len(body)
    values = (chunk.destination, chunk.created_ns, len(chunk.records), chunk.delivered, chunk.stored, body)
    inserted = database.execute(
        "INSERT INTO chunks(destination, created_ns, records, delivered, size, body) VALUES (?,?,?,?,?,?)", values
    )
    return int(inserted.lastrowid or 0)
