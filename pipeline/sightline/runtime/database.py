"""SQLite files that the runtime keeps: in write-ahead mode, one process at a time, errors as ours.

With `synchronous=NORMAL`, what was committed survives the end of the process, however it ends; a power cut may take the
last commits.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from sightline.errors import ConfigurationError, OutputError
from sightline.graph.outputs import Outputs
from sightline.graph.ownership import SQLITE_APPLICATION_ID

_SIDE_FILES = ("", "-wal", "-shm")
_BUSY_SECONDS = 5
_JOURNAL_BYTES = 16_000_000
"""What is left of a log that has grown while somebody read."""


class DatabaseInUse(ConfigurationError):
    """Another process has the file open."""


class DatabaseDamaged(OutputError):
    """The file is no database, is damaged, or is of another version."""


class Database:
    """One file, or a database in memory where `path` is None. Any thread may call it; a call holds it for the time of
    one transaction.

    `what` names it in messages: `outbox`. One process at a time opens it for writing; `read_only` looks at it while
    another process writes. `checkpoint_pages` of 4 kB are in the log before it is worked into the file, which waits
    for the disk.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        what: str,
        schema: str,
        version: int,
        outputs: Outputs | None = None,
        read_only: bool = False,
        checkpoint_pages: int = 1_000,
    ) -> None:
        """Open the file; make it, and its folder, where it is not there.

        Raises OutputError when it cannot be written, DatabaseDamaged, and DatabaseInUse when another process has it.
        """
        self.path = path
        self._what = what
        self._lock = Lock()
        self._claim = None
        self._name = what if path is None else f"{what} {path}"
        outputs = outputs or Outputs(None if path is None else path.parent)
        if path is not None and not read_only:
            outputs.prepare(path)
            self._claim = outputs.lock(path)
            if self._claim is None:
                raise DatabaseInUse(f"the {self._name} is open in another process")
        try:
            if path is not None and read_only:
                self._connection = _read_only(path)
            else:
                settings = _settings(schema, version=version, checkpoint_pages=checkpoint_pages)
                self._connection = _connected(path, settings, version=version)
            if path is not None and not read_only:
                for side in _SIDE_FILES:
                    outputs.mark(path.with_name(path.name + side))
        except sqlite3.Error as error:
            self._release()
            raise self._error(error, doing="open") from error

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write everything or nothing. Raises OutputError."""
        with self._lock:
            try:
                with self._connection as connection:
                    yield connection
            except sqlite3.Error as error:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.rollback()
                raise self._error(error, doing="write") from error

    def rows(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query. Raises OutputError."""
        with self._lock:
            try:
                return self._connection.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise self._error(error, doing="read") from error

    def vacuum(self) -> None:
        """Give back to the disk what is free in the file. Raises OutputError."""
        with self._lock:
            try:
                self._connection.execute("VACUUM")
            except sqlite3.Error as error:
                raise self._error(error, doing="write") from error

    def used_bytes(self) -> int:
        """Return how much of the file is in use. Raises OutputError."""
        query = "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, "
        return int(self.rows(f"{query} pragma_page_size")[0][0])

    def close(self) -> None:
        """Close it; harmless when called again."""
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._connection.close()
        self._release()

    def _release(self) -> None:
        if self._claim is not None:
            self._claim.close()
            self._claim = None

    def _error(self, error: sqlite3.Error, *, doing: str) -> OutputError:
        name = getattr(error, "sqlite_errorname", "")
        reason = next((text for code, text in _REASONS.items() if name.startswith(code)), str(error))
        if name.startswith("SQLITE_NOTADB") or reason.startswith("no such table"):
            reason = f"it is not an {self._what}" if self._what[0] in "aeiou" else f"it is no {self._what}"
            return DatabaseDamaged(f"cannot {doing} the {self._name}: {reason}", reason=reason)
        kind = DatabaseDamaged if name.startswith("SQLITE_CORRUPT") or isinstance(error, _OtherVersion) else OutputError
        return kind(f"cannot {doing} the {self._name}: {reason}", reason=reason)


class _OtherVersion(sqlite3.DatabaseError):
    """The file is of another version of Sightline."""


_REASONS = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "it is read-only",
    "SQLITE_IOERR_READ": "it cannot be read",
    "SQLITE_CANTOPEN": "it cannot be opened",
    "SQLITE_CORRUPT": "it is damaged: move it away",
    "SQLITE_BUSY": "another program holds it",
}


def _settings(schema: str, *, version: int, checkpoint_pages: int) -> str:
    # The id comes first, so that a new file has it even when the process is killed before its log is worked in.
    # `secure_delete`, a default of some builds, writes what is removed once more.
    return f"""
PRAGMA application_id={SQLITE_APPLICATION_ID};
PRAGMA journal_mode=WAL;
PRAGMA synchronous=NORMAL;
PRAGMA secure_delete=OFF;
PRAGMA wal_autocheckpoint={checkpoint_pages};
PRAGMA journal_size_limit={_JOURNAL_BYTES};
{schema}
PRAGMA user_version={version};
"""


def _read_only(path: Path) -> sqlite3.Connection:
    # Without a log nobody writes; an immutable database leaves no side files behind.
    options = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True, check_same_thread=False)


def _connected(path: Path | None, settings: str, *, version: int) -> sqlite3.Connection:
    connection = sqlite3.connect(path or ":memory:", check_same_thread=False, timeout=_BUSY_SECONDS)
    try:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found not in (0, version):
            raise _OtherVersion(f"it was written by another version of Sightline (format {found})")
        connection.executescript(settings)
    except sqlite3.Error:
        connection.close()
        raise
    return connection
