"""`sqlite`: rows of objects, events and frames in an SQLite database."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from sightline.errors import OutputError
from sightline.graph import CheckContext, Element, OutputPath, Problem, Sink, Site, Threading
from sightline.graph.fields import matching
from sightline.graph.ownership import SQLITE_APPLICATION_ID, is_foreign
from sightline.media import Batch, Stream
from sightline.media.time import format_time
from sightline_plugins.sinks.files import STREAM, Degradation, path_problems
from sightline_plugins.sinks.tables import COLUMNS, ROWS, Row, Table

VERSION = 1
"""The `user_version` of databases with this schema."""
_FRAME = "run INTEGER NOT NULL, stream TEXT NOT NULL, frame INTEGER NOT NULL, pts_ns INTEGER NOT NULL, time TEXT"
_SCHEMA = f"""
CREATE TABLE runs (run INTEGER PRIMARY KEY, pipeline TEXT NOT NULL, step TEXT NOT NULL, version TEXT NOT NULL,
    started TEXT NOT NULL, ended TEXT);
CREATE TABLE objects ({_FRAME}, label TEXT NOT NULL, class_id INTEGER NOT NULL, confidence REAL,
    x1 REAL, y1 REAL, x2 REAL, y2 REAL, track_id INTEGER, attributes TEXT);
CREATE TABLE events ({_FRAME}, kind TEXT NOT NULL, rule TEXT NOT NULL, data TEXT NOT NULL);
CREATE TABLE frames ({_FRAME}, time_source TEXT, width INTEGER NOT NULL, height INTEGER NOT NULL,
    objects INTEGER NOT NULL, events INTEGER NOT NULL);
CREATE INDEX objects_by_time ON objects (stream, time);
CREATE INDEX objects_by_track ON objects (run, stream, track_id) WHERE track_id IS NOT NULL;
CREATE INDEX events_by_time ON events (stream, time);
CREATE INDEX frames_by_time ON frames (stream, time)
"""
_INSERT: dict[Table, str] = {
    table: f"INSERT INTO {table} VALUES ({', '.join('?' * (5 + len(columns)))})"  # noqa: S608 - our own names
    for table, columns in COLUMNS.items()
}
_BUSY_SECONDS = 2.0
_WRITE_NS = 200_000_000
_FULL_BYTES = 1 << 16
_REASONS = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_BUSY": "another program has locked the database",
    "SQLITE_READONLY": "the database can only be read",
    "SQLITE_CORRUPT": "the database is damaged",
    "SQLITE_NOTADB": "it is not an SQLite database: name another file",
}


class Sqlite(Element):
    """Write results into an SQLite database, for queries while it grows and after: a row for each object and event.

    Table `objects` has the columns `run`, `stream`, `frame` (from 0), `pts_ns`, `time` (UTC, where the capture time is
    known), `label`, `class_id`, `confidence`, `x1`, `y1`, `x2`, `y2` (pixels), `track_id` and `attributes` (JSON, for
    `attributes ->> 'color'`); `events` has `kind`, `rule` and `data` (JSON); `frames`, if chosen, a row for each frame:
    `time_source`, `width`, `height` and the numbers of its `objects` and `events`. Keypoints, masks and embeddings are
    not included: `jsonl` holds everything.

    Several runs append to one database; each has a row in `runs`, with its start and, unless it was killed, its end. A
    stream that comes again counts its frames from 0 again. `user_version` is the version of the schema.

    Rows are in the database 200 ms after their frame at the latest, if more frames come: those of that time are one
    transaction. A write-ahead log (`-wal` and `-shm` beside the file while it is open) lets readers never wait; a kill
    costs the rows of the last 200 ms and damages nothing, nor does a power cut, which may cost the last seconds. Do not
    put it on a network file system, where SQLite's locks do not work. A path without `{stream}` collects all streams in
    one file.

    A full disk, or a program that locks the database for two seconds, ends the run. With `on_error: skip` it does not:
    rows are lost and counted, a message reports it, and writing resumes when it can.

    ```yaml
    - sqlite: {path: "out/results.db", tables: [objects, events]}
    ```
    """

    name: ClassVar[str] = "sqlite"
    sink: ClassVar[bool] = True
    results_only: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"
    threading: ClassVar[Threading] = Threading.OWN

    path: OutputPath
    """The database; `{stream}` stands for the stream's name."""
    tables: Annotated[tuple[Table, ...], Field(min_length=1)] = ("objects", "events")
    """What is written: `objects`, `events`, `frames`."""

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check that the database can be written, and that it is one of ours."""
        if self.path == "-":
            yield Problem("a database cannot be written to standard output: name a file", ("path",))
            return
        found = [*path_problems(self, self.path, context=context, shareable=True)]
        yield from found
        if not found:
            names = matching(self.streams, context.streams) if STREAM in self.path else ("",)
            for path in dict.fromkeys(context.outputs.path(self.path, stream=name) for name in names):
                if not is_foreign(path) and (mistake := _mistake_in(path)):
                    yield Problem(f"{path} cannot be written: {mistake}", ("path",))

    def build(self, site: Site) -> SqliteWriter:
        """Make the writer; databases are opened at their first frame."""
        return SqliteWriter(self, site)


class SqliteWriter(Sink):
    """Collects rows for each database, and writes them in transactions."""

    def __init__(self, element: Sqlite, site: Site) -> None:
        self._element = element
        self._site = site
        self._databases: dict[Path, Database] = {}
        self._paths: dict[Stream, Path] = {}
        self._lost: dict[str, Counter[str]] = {}

    def consume(self, batch: Batch) -> None:
        """Keep the rows of the batch, and write those that are due. Raises OutputError."""
        rows = {table: ROWS[table](batch) for table in dict.fromkeys(self._element.tables)}
        for number, frame in enumerate(batch.frames):
            time = None if frame.capture_ns is None else format_time(frame.capture_ns)
            database = self._database(frame.stream)
            for table, by_frame in rows.items():
                if by_frame[number]:
                    about = (frame.stream.name, frame.index, frame.pts_ns, time)
                    database.add(table, [about + row for row in by_frame[number]])
        for database in self._databases.values():
            database.write_if_due()

    def end_stream(self, stream: Stream) -> None:
        """Close the stream's database unless another stream writes to it. Raises OutputError."""
        path = self._paths.pop(stream, None)
        if path is not None and path not in self._paths.values():
            self._databases.pop(path).close()

    def close(self) -> None:
        """Close all databases, each of them even if another fails. Raises OutputError."""
        databases, self._databases = self._databases, {}
        with ExitStack() as stack:
            for database in databases.values():
                stack.callback(database.close)

    def totals(self) -> Mapping[str, Any]:
        """The `lost_rows` of each stream by reason, where there are any."""
        return {stream: {"lost_rows": dict(lost)} for stream, lost in self._lost.items()}

    def _count_lost(self, streams: Mapping[str, int], reason: str) -> None:
        for stream, count in streams.items():
            self._lost.setdefault(stream, Counter())[reason] += count

    def _database(self, stream: Stream) -> Database:
        path = self._paths.get(stream)
        if path is None:
            path = self._paths[stream] = self._site.outputs.path(self._element.path, stream=stream.name)
        database = self._databases.get(path)
        if database is None:
            degradation = Degradation(self._site) if self._element.on_error == "skip" else None
            database = Database(path, site=self._site, degradation=degradation, lost=self._count_lost)
            self._databases[path] = database
        return database


class Database:
    """One database, opened at the first write; rows of 200 ms are one transaction. Used by one thread at a time.

    With a `degradation`, an error stops nothing: rows are lost, and two seconds later it tries again. Without one, the
    error is raised.
    """

    def __init__(
        self,
        path: Path,
        *,
        site: Site,
        degradation: Degradation | None,
        lost: Callable[[Mapping[str, int], str], None],
    ) -> None:
        """`lost` is called with the numbers of rows that are lost, by stream, and the reason."""
        self._path = path
        self._site = site
        self._degradation = degradation
        self._count_lost = lost
        self._connection: sqlite3.Connection | None = None
        self._run: int | None = None
        self._waiting: dict[Table, list[Row]] = {}
        self._written_ns: int | None = None

    def add(self, table: Table, rows: Iterable[Row]) -> None:
        """Keep rows, without the run, until they are written."""
        self._waiting.setdefault(table, []).extend(rows)

    def write_if_due(self) -> None:
        """Write the rows that wait, unless some were written within the last 200 ms. Raises OutputError."""
        now_ns = self._site.clock.monotonic_ns()
        if self._waiting and (self._written_ns is None or now_ns - self._written_ns >= _WRITE_NS):
            self._written_ns = now_ns
            self._write_waiting()

    def close(self) -> None:
        """Write the rest, note the end of the run and close the database; harmless when called again.

        Raises OutputError.
        """
        try:
            if self._waiting:
                self._write_waiting()
            if self._connection is not None:
                now = format_time(self._site.clock.epoch_ns())
                self._connection.execute("UPDATE runs SET ended = ? WHERE run = ?", (now, self._run))
        except sqlite3.Error as error:
            if self._degradation is None:
                raise _output_error(self._path, error, doing="close") from error
        finally:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _write_waiting(self) -> None:
        tables, self._waiting = self._waiting, {}
        degradation, stream = self._degradation, next(iter(tables.values()))[0][0]
        if degradation is not None and degradation.is_waiting:
            self._lose(tables, degradation.reason)
            return
        try:
            self._write(tables)
        except (OutputError, sqlite3.Error) as error:
            failure = self._released_after(error)
            if degradation is None:
                raise failure from error
            degradation.failed(failure, stream=stream)
            self._lose(tables, failure.reason)
        else:
            if degradation is not None:
                degradation.succeeded(stream=stream)

    def _lose(self, tables: Mapping[Table, Sequence[Row]], reason: str) -> None:
        self._count_lost(Counter(row[0] for rows in tables.values() for row in rows), reason)

    def _write(self, tables: Mapping[Table, Sequence[Row]]) -> None:
        connection = self._opened()
        run = (self._run,)
        connection.execute("BEGIN IMMEDIATE")
        for table, rows in tables.items():
            connection.executemany(_INSERT[table], [run + row for row in rows])
        connection.execute("COMMIT")

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            outputs = self._site.outputs
            if outputs.may_overwrite and is_foreign(self._path):
                outputs.remove(self._path)
            outputs.prepare(self._path)
            connection = sqlite3.connect(
                self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                self._begin(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _begin(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables:
            found = {name: _pragma(connection, name) for name in ("application_id", "user_version")}
            if mistake := _mistake(application_id=found["application_id"], version=found["user_version"]):
                raise OutputError(f"cannot write {self._path}: {mistake}", reason=mistake)
        else:
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {SQLITE_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        if self._run is None:
            site = self._site
            about = (site.pipeline, site.element_id, version("sightline"), format_time(site.clock.epoch_ns()))
            text = "INSERT INTO runs (pipeline, step, version, started) VALUES (?, ?, ?, ?)"
            self._run = connection.execute(text, about).lastrowid
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")

    def _released_after(self, error: Exception) -> OutputError:
        """Undo the transaction; keep the connection only where the disk is full and another attempt follows."""
        failure = error if isinstance(error, OutputError) else _output_error(self._path, error, doing="write")
        connection = self._connection
        if connection is not None:
            with suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            if self._degradation is None or not _is_called(error, "SQLITE_FULL"):
                self._connection = None
                with suppress(sqlite3.Error):
                    connection.close()
        return failure


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _mistake(*, application_id: int, version: int) -> str:
    """Return why a database is none to append to; empty for ours."""
    if application_id != SQLITE_APPLICATION_ID:
        return "it is a database of another kind: name another file"
    if version > VERSION:
        return f"its schema has version {version}, of a newer Sightline; this one knows {VERSION}: name another file"
    return ""


def _mistake_in(path: Path) -> str:
    """Return why the file there is no database to append to; empty where there is none."""
    if not path.is_file() or not path.stat().st_size:
        return ""
    # By SQLite: it knows the files that are open in this process, and closing one of them takes no locks away. Without
    # a log nobody has the file open; an immutable database leaves no side files behind.
    options = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True, timeout=0)) as connection:
            found = {name: _pragma(connection, name) for name in ("application_id", "user_version")}
    except sqlite3.Error as error:
        return _REASONS["SQLITE_NOTADB"] if _is_called(error, "SQLITE_NOTADB") else ""
    return _mistake(application_id=found["application_id"], version=found["user_version"])


def _is_called(error: Exception, name: str) -> bool:
    return str(getattr(error, "sqlite_errorname", "")).startswith(name)


def _reason(path: Path, error: Exception) -> str:
    if _is_called(error, "SQLITE_IOERR") or _is_called(error, "SQLITE_CANTOPEN"):
        with suppress(OSError):
            disk = os.statvfs(path.parent)
            if disk.f_bavail * disk.f_frsize < _FULL_BYTES:
                return _REASONS["SQLITE_FULL"]
    return next((reason for name, reason in _REASONS.items() if _is_called(error, name)), str(error))


def _output_error(path: Path, error: Exception, *, doing: str) -> OutputError:
    reason = _reason(path, error)
    kept = "; what was written before is kept" if _is_called(error, "SQLITE_FULL") else ""
    return OutputError(f"cannot {doing} {path}: {reason}{kept}", reason=reason)
