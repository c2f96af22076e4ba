"""The file of an index: an SQLite database with a row for each track, its vector and its image.

Vectors are stored as 8-bit integers with a factor each: a byte for each dimension. Deleted rows are overwritten
(`secure_delete`), and their space is given back, because what an index holds of people is personal data.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.errors import ConfigurationError, OutputError
from sightline.graph.ownership import SQLITE_APPLICATION_ID

VERSION = 2
"""The version of the schema, in the table `about`."""
_USER_VERSION = 1001
"""Such that the step `sqlite` takes the file for none of its own."""
_SCHEMA = """
CREATE TABLE about (version INTEGER NOT NULL, encoder TEXT NOT NULL, digest TEXT NOT NULL, dimensions INTEGER NOT NULL);
CREATE TABLE tracks (id INTEGER PRIMARY KEY, pipeline TEXT NOT NULL, stream TEXT NOT NULL, track_id INTEGER NOT NULL,
    label TEXT NOT NULL, confidence REAL NOT NULL, frame INTEGER NOT NULL, start_pts_ns INTEGER NOT NULL,
    end_pts_ns INTEGER NOT NULL, start_ns INTEGER, end_ns INTEGER, x1 REAL NOT NULL, y1 REAL NOT NULL, x2 REAL NOT NULL,
    y2 REAL NOT NULL, direction TEXT,
    attributes TEXT, added_ns INTEGER NOT NULL, factor REAL NOT NULL, vector BLOB NOT NULL,
    image BLOB);
CREATE INDEX tracks_by_time ON tracks (start_ns);
CREATE INDEX tracks_by_age ON tracks (added_ns)
"""
_COLUMNS = (
    "pipeline", "stream", "track_id", "label", "confidence", "frame", "start_pts_ns", "end_pts_ns", "start_ns",
    "end_ns", "x1", "y1", "x2", "y2", "direction", "attributes", "added_ns", "factor", "vector",
    "image",
)  # fmt: skip
_INSERT = f"INSERT INTO tracks ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - our own names
_UPDATE = f"UPDATE tracks SET {', '.join(f'{name} = ?' for name in _COLUMNS)} WHERE id = ?"  # noqa: S608 - our own names
_BUSY_SECONDS = 5.0
_OLDEST = 20
"""When there is too much, the oldest of so many parts goes at once."""


@dataclass(frozen=True, slots=True)
class EncoderMark:
    """Which encoder made the vectors of a file: its folder, its digest, and how many numbers a vector has."""

    folder: str
    digest: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class TrackEntry:
    """What a file holds of a track. Times of day are None where they are not known; `xyxy` is in pixels of `frame`.
    `direction` is one of `motion.DIRECTIONS`, or None.

    `vector` (D,) has length 1. `image` is a JPEG of the object.
    """

    pipeline: str
    stream: str
    track_id: int
    label: str
    confidence: float
    frame: int
    start_pts_ns: int
    end_pts_ns: int
    start_ns: int | None
    end_ns: int | None
    xyxy: tuple[float, float, float, float]
    direction: str | None
    attributes: Mapping[str, Any] | None
    added_ns: int
    vector: npt.NDArray[np.float32]
    image: bytes | None

    def values(self) -> tuple[Any, ...]:
        """As a row of the table."""
        codes, factor = quantised(self.vector)
        attributes = None if not self.attributes else json.dumps(self.attributes, ensure_ascii=False)
        return (
            self.pipeline, self.stream, self.track_id, self.label, self.confidence, self.frame, self.start_pts_ns,
            self.end_pts_ns, self.start_ns, self.end_ns, *self.xyxy, self.direction, attributes, self.added_ns, factor,
            codes.tobytes(), self.image,
        )  # fmt: skip


def quantised(vector: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], float]:
    """Return a vector as whole numbers from -127 to 127 and the factor that makes it of them again."""
    factor = float(np.abs(vector).max()) / 127
    return np.rint(vector / np.float32(factor)).astype(np.int8), factor


class IndexFile:
    """The open file of an index, for writing. One thread uses it. Methods raise sqlite3.Error."""

    def __init__(self, path: Path, *, mark: EncoderMark) -> None:
        """Open or make the file. Raises OutputError for one that is no index, or of another encoder."""
        self._connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            self._prepare(path, mark)
        except BaseException:
            self._connection.close()
            raise

    def put(self, entries: Iterable[tuple[int | None, TrackEntry]]) -> list[int]:
        """Write tracks in one transaction, each over the row whose id is given, or as a new one; return their ids."""
        connection, ids = self._connection, []
        connection.execute("BEGIN IMMEDIATE")
        try:
            for row, entry in entries:
                if row is None or not connection.execute(_UPDATE, (*entry.values(), row)).rowcount:
                    row = connection.execute(_INSERT, entry.values()).lastrowid
                    assert row is not None
                ids.append(row)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return ids

    def retain(self, *, before_ns: int | None, size_bytes: int | None, count: int | None) -> int:
        """Delete what was added before a time, then the oldest while there is too much; return how many went."""
        connection, gone = self._connection, 0
        if before_ns is not None:
            gone += connection.execute("DELETE FROM tracks WHERE added_ns < ?", (before_ns,)).rowcount
        if count is not None:
            (total,) = connection.execute("SELECT count(*) FROM tracks").fetchone()
            gone += self._delete_oldest(total - count)
        while size_bytes is not None and self._used_bytes() > size_bytes:
            (total,) = connection.execute("SELECT count(*) FROM tracks").fetchone()
            if not total:
                break
            gone += self._delete_oldest(max(total // _OLDEST, 1))
        if gone:
            connection.executescript("PRAGMA incremental_vacuum")  # `execute` frees one page
        return gone

    def close(self) -> None:
        """Close the file; harmless when called again."""
        self._connection.close()

    def _delete_oldest(self, count: int) -> int:
        if count <= 0:
            return 0
        text = "DELETE FROM tracks WHERE id IN (SELECT id FROM tracks ORDER BY added_ns, id LIMIT ?)"
        return self._connection.execute(text, (count,)).rowcount

    def _used_bytes(self) -> int:
        pages, free, size = (
            self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def _prepare(self, path: Path, mark: EncoderMark) -> None:
        connection = self._connection
        connection.execute("PRAGMA secure_delete = ON").fetchall()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables:
            found = read_mark(connection, path)
            if (found.digest, found.dimensions) != (mark.digest, mark.dimensions):
                raise OutputError(
                    f"cannot write {path}: its vectors are of another encoder ({found.folder}): name another file",
                    reason="its vectors are of another encoder",
                )
        else:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {SQLITE_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {_USER_VERSION}")
            connection.execute(
                "INSERT INTO about VALUES (?, ?, ?, ?)", (VERSION, mark.folder, mark.digest, mark.dimensions)
            )
            connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = NORMAL")


def read_mark(connection: sqlite3.Connection, path: Path) -> EncoderMark:
    """Return which encoder a file is of. Raises OutputError where it is no index."""
    try:
        version, folder, digest, dimensions = connection.execute("SELECT * FROM about").fetchone()
        connection.execute("SELECT id FROM tracks LIMIT 1")
    except (sqlite3.Error, TypeError, ValueError) as error:
        reason = "it is no index of tracks"
        raise OutputError(f"{path}: {reason}: the step `search_index` writes one", reason=reason) from error
    if version != VERSION:
        reason = f"its version is {version}, and this Sightline knows {VERSION}"
        raise OutputError(f"{path}: {reason}", reason=reason)
    return EncoderMark(folder, digest, dimensions)


def open_index(path: Path, *, for_writing: bool = False) -> sqlite3.Connection:
    """Open the file of an index that is there, for one thread at a time.

    Raises ConfigurationError for one that is missing or something else.
    """
    if not path.is_file():
        raise ConfigurationError(
            f"there is no index {path}: run a pipeline with the step `search_index`, or name it with --in"
        )
    mode = "rw" if for_writing else "ro"
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
    except sqlite3.Error as error:
        raise ConfigurationError(f"{path} cannot be opened: {error}") from error
    try:
        read_mark(connection, path)
    except OutputError as error:
        connection.close()
        raise ConfigurationError(str(error)) from error
    return connection


def forget(path: Path, *, where: str, values: tuple[Any, ...]) -> int:
    """Delete the tracks that a condition chooses, with vector and image, for good; return how many. Raises OutputError.

    The file is written anew without them, so that nothing of them is left in it.
    """
    with closing(open_index(path, for_writing=True)) as connection:
        try:
            connection.execute("PRAGMA secure_delete = ON").fetchall()
            gone = connection.execute(f"DELETE FROM tracks WHERE {where}", values).rowcount  # noqa: S608 - ours
            if gone:
                connection.executescript("PRAGMA incremental_vacuum")  # `execute` frees one page
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise OutputError(f"{path}: nothing can be deleted: {error}", reason=str(error)) from error
    return int(gone)


def names(connection: sqlite3.Connection, column: str) -> Iterator[str]:
    """Yield the values of `stream` or `label` that there are, in alphabetical order."""
    for (value,) in connection.execute(f"SELECT DISTINCT {column} FROM tracks ORDER BY 1"):  # noqa: S608 - ours
        yield value
