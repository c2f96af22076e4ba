"""The table that `postgres` copies records into, and a connection whose exchanges end in time.

It imports psycopg, so it is imported when a connection is made.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict

from sightline.errors import DestinationLost, DestinationRefused, RecordRefused
from sightline_plugins.delivery.refusals import excerpt

_RV = TypeVar("_RV")
Row = tuple[str, str, int, int, str, datetime, str | None, bytes | None]
"""Sender, stream, epoch, seq, kind, time, record, body."""

COLUMNS = {
    "sender": "text",
    "stream": "text",
    "epoch": "bigint",
    "seq": "bigint",
    "kind": "text",
    "time": "timestamp with time zone",
    "record": "jsonb",
    "body": "bytea",
}
LAYOUTS: tuple[str, ...] = (
    """
    CREATE TABLE {table} (
        sender text NOT NULL,
        stream text NOT NULL,
        epoch bigint NOT NULL,
        seq bigint NOT NULL,
        kind text NOT NULL,
        time timestamptz NOT NULL,
        record jsonb,
        body bytea,
        PRIMARY KEY (stream, epoch, seq, sender)
    );
    CREATE INDEX ON {table} (time);
    CREATE INDEX ON {table} (stream, time);
    """,
)
"""The statements that lead from each version of the table to the next; version 0 is no table."""
_VERSION = re.compile(r"Records of Sightline, version (\d+)")
_SHORTEST_CONNECTING = 2
"""Seconds that libpq allows at least for connecting."""
_LOCK = int.from_bytes(b"sightlin")
_KEY = frozenset({"stream", "epoch", "seq"})
_KEY_MAY_HOLD = _KEY | {"sender", "kind", "time"}

_DATA_CLASSES = ("21", "22", "23", "44", "54", "P0")
_REFUSING_CLASSES = ("28", "3D", "3F", "42")
_MISSING_TABLE = "42P01"
_REFUSING_TEXT = re.compile(
    r"authentication failed|no pg_hba\.conf entry|role .* (does not exist|is not permitted)|database .* does not exist"
    r"|permission denied|no password supplied|certificate|SSL was required|does not support SSL|alert",
    re.IGNORECASE,
)
_BUSY_TEXT = re.compile(
    r"too many|connection slots|starting up|shutting down|recovery|not yet accepting|closed|timeout|timed out", re.I
)


class TimedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection on which no exchange with the server waits for longer than the time limit.

    libpq has no limit on the time that a server may take to answer: a server that is stopped holds its clients until
    it goes on. After the first exchange that took too long, all others fail at once.
    """

    limit_seconds = 5.0
    is_hung = False

    def wait(self, gen: PQGen[_RV], interval: float = 0.1, timeout: float | None = None) -> _RV:
        """Wait for an exchange. Raises NoAnswer when the server does not answer within the limit."""
        limit = self.limit_seconds if timeout is None else min(timeout, self.limit_seconds)
        return super().wait(self._limited(gen, 0 if self.is_hung else limit), min(interval, limit / 4))

    def _limited(self, gen: PQGen[_RV], limit_seconds: float) -> PQGen[_RV]:
        end = time.monotonic() + limit_seconds
        try:
            state = next(gen)
            while True:
                ready = yield state
                if not ready and time.monotonic() >= end:
                    self.is_hung = True
                    raise NoAnswer
                state = gen.send(ready)
        except StopIteration as stop:
            result: _RV = stop.value
            return result


class NoAnswer(psycopg.OperationalError):
    """The server did not answer in time."""


def open_connection(url: str, *, limit_seconds: float) -> TimedConnection:
    """Connect. Raises psycopg.Error."""
    wanted: dict[str, Any] = {
        "fallback_application_name": "sightline",
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "tcp_user_timeout": math.ceil(limit_seconds * 1000),
        **conninfo_to_dict(url),
        "client_encoding": "utf8",
        "connect_timeout": math.ceil(limit_seconds),
    }
    connection = TimedConnection.connect(autocommit=True, prepare_threshold=None, **wanted)
    connection.limit_seconds = limit_seconds
    try:
        # The server gives up first, so that its message is the one that is shown.
        connection.execute(sql.SQL("SET statement_timeout = {}").format(max(1, int(limit_seconds * 900))))
    except psycopg.Error:
        connection.close()
        raise
    return connection


class Table:
    """One table: made, migrated, checked, filled."""

    def __init__(self, names: Sequence[str], *, where: str) -> None:
        self._name = sql.Identifier(*names)
        self._where = where
        self._layouts = LAYOUTS
        self._columns = sql.SQL(", ").join(map(sql.Identifier, COLUMNS))

    def prepare(self, connection: TimedConnection, *, create: bool) -> None:
        """Make the table, or migrate it, if `create` and needed; check that records fit.

        Raises psycopg.Error, DestinationRefused. Processes that do it at the same time wait for each other.
        """
        found = self._find(connection)
        if create and (found is None or self._is_older(found)):
            with _transaction(connection):
                connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
                found = self._find(connection)
                if found is None or self._is_older(found):
                    self._migrate(connection, version=0 if found is None else found[1] or 0)
                found = self._find(connection)
        self._check(connection, found)

    def insert(self, connection: TimedConnection, rows: Sequence[Row]) -> None:
        """Store the rows that are not there yet, in one transaction. Raises psycopg.Error, RecordRefused."""
        try:
            self._copy(connection, self._name, rows)
        except psycopg.errors.UniqueViolation:
            with _transaction(connection):
                self._merge(connection, rows)

    def _copy(self, connection: TimedConnection, table: sql.Identifier, rows: Sequence[Row]) -> None:
        copying = sql.SQL("COPY {} ({}) FROM STDIN").format(table, self._columns)
        with connection.cursor() as cursor, cursor.copy(copying) as copy:
            for row in rows:
                copy.write_row(row)

    def _merge(self, connection: TimedConnection, rows: Sequence[Row]) -> None:
        """Store those of the rows that are not there yet."""
        incoming = sql.Identifier("pg_temp", "sightline_rows")
        names: dict[str, sql.Composable] = {"table": self._name, "columns": self._columns, "rows": incoming}
        columns = sql.SQL(", ").join(sql.SQL(f"{name} {kind}") for name, kind in COLUMNS.items())
        making = sql.SQL("CREATE TEMPORARY TABLE sightline_rows ({}) ON COMMIT DROP")
        connection.execute(making.format(columns))
        self._copy(connection, incoming, rows)
        adding = sql.SQL("INSERT INTO {table} ({columns}) SELECT {columns} FROM {rows} ON CONFLICT DO NOTHING")
        connection.execute(adding.format(**names))
        searching = sql.SQL(
            "SELECT stream, epoch, seq FROM {rows} AS new WHERE NOT EXISTS (SELECT FROM {table} AS old"
            " WHERE old.stream = new.stream AND old.epoch = new.epoch AND old.seq = new.seq"
            " AND old.record IS NOT DISTINCT FROM new.record AND old.body IS NOT DISTINCT FROM new.body) LIMIT 1"
        )
        other = connection.execute(searching.format(**names)).fetchone()
        if other is not None:
            raise RecordRefused(
                f"{self._where} holds another record with stream {other[0]}, epoch {other[1]} and seq {other[2]}: "
                "does another machine write there under the same names?"
            )

    def _find(self, connection: TimedConnection) -> tuple[int, int | None] | None:
        """The table's object id and version; the version is None for a table that was not made by Sightline."""
        found = connection.execute(
            "SELECT oid, obj_description(oid, 'pg_class') FROM pg_class WHERE oid = to_regclass(%s)",
            [self._name.as_string(connection)],
        ).fetchone()
        if found is None:
            return None
        version = _VERSION.search(found[1] or "")
        return int(found[0]), None if version is None else int(version[1])

    def _is_older(self, found: tuple[int, int | None]) -> bool:
        return found[1] is not None and found[1] < len(self._layouts)

    def _migrate(self, connection: TimedConnection, *, version: int) -> None:
        for layout in self._layouts[version:]:
            connection.execute(sql.SQL(layout).format(table=self._name))
        comment = f"Records of Sightline, version {len(self._layouts)}"
        connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(self._name, sql.Literal(comment)))

    def _check(self, connection: TimedConnection, found: tuple[int, int | None] | None) -> None:
        if found is None:
            raise DestinationRefused(f"{self._where} does not exist: make it, or set `create: true`")
        oid, version = found
        if version is not None and version > len(self._layouts):
            raise DestinationRefused(
                f"{self._where} has version {version}, made by a newer Sightline; this one knows {len(self._layouts)}: "
                "update it, or name another table"
            )
        if self._is_older(found):
            raise DestinationRefused(
                f"{self._where} has version {version}, version {len(self._layouts)} is needed: set `create: true`"
            )
        columns = dict(
            connection.execute(
                "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
                " WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped",
                [oid],
            ).fetchall()
        )
        wrong = [
            f"{name} is missing" if name not in columns else f"{name} is {columns[name]}, not {kind}"
            for name, kind in COLUMNS.items()
            if columns.get(name) != kind
        ]
        if not wrong and not self._has_key(connection, oid):
            wrong = ["there is no primary key or unique index on (stream, epoch, seq, sender)"]
        if wrong:
            raise DestinationRefused(f"{self._where} has another shape: {'; '.join(wrong)}. Name another table")

    def _has_key(self, connection: TimedConnection, oid: int) -> bool:
        keys = connection.execute(
            "SELECT ARRAY(SELECT attname::text FROM pg_attribute"
            " WHERE attrelid = indrelid AND attnum = ANY((indkey::int2[])[0:indnkeyatts - 1]))"
            " FROM pg_index WHERE indrelid = %s"
            " AND indisunique AND indisvalid AND indpred IS NULL AND indexprs IS NULL",
            [oid],
        ).fetchall()
        return any(_KEY <= set(names) <= _KEY_MAY_HOLD for (names,) in keys)


class Failures:
    """Makes our errors of those of the client."""

    def __init__(self, where: str, *, secrets: Sequence[str], limit_seconds: float) -> None:
        self._where = where
        self._secrets = secrets
        self._limit_seconds = limit_seconds

    @contextmanager
    def of_connection(self) -> Iterator[None]:
        """Raise DestinationLost or DestinationRefused for an error of the client while it connects."""
        try:
            yield
        except psycopg.Error as error:
            raise self._of_destination(error) from error

    @contextmanager
    def of_delivery(self) -> Iterator[None]:
        """Raise the error of the contract for an error of the client while it delivers."""
        try:
            yield
        except UnicodeEncodeError as error:
            raise RecordRefused(f"{self._where} cannot hold the record: {error}") from error
        except psycopg.Error as error:
            state = error.sqlstate or ""
            if state.startswith(_DATA_CLASSES) or isinstance(error, psycopg.DataError):
                raise RecordRefused(f"{self._where} refuses the record: {self._text(error)}") from error
            raise self._of_destination(error) from error

    def _of_destination(self, error: psycopg.Error) -> DestinationLost:
        if isinstance(error, NoAnswer):
            return DestinationLost(f"{self._where}: no answer within {self._limit_seconds:g} s")
        if isinstance(error, psycopg.errors.ConnectionTimeout):
            limit = max(math.ceil(self._limit_seconds), _SHORTEST_CONNECTING)
            return DestinationLost(f"{self._where}: no answer within {limit} s")
        text = self._text(error)
        if _is_refusal(error):
            return DestinationRefused(f"{self._where} refuses us: {text}")
        return DestinationLost(f"{self._where}: {text}")

    def _text(self, error: psycopg.Error) -> str:
        said = [error.diag.message_primary, error.diag.message_detail] if error.diag.message_primary else [str(error)]
        return excerpt(": ".join(part for part in said if part), secrets=self._secrets)


def _is_refusal(error: psycopg.Error) -> bool:
    if error.sqlstate:
        return error.sqlstate.startswith(_REFUSING_CLASSES) and error.sqlstate != _MISSING_TABLE
    # A refused connection has no code, and the server words it in its own language.
    text = str(error)
    if _REFUSING_TEXT.search(text):
        return True
    connection = error.pgconn
    asked = connection is not None and (connection.used_password or connection.needs_password)
    return asked and not _BUSY_TEXT.search(text)


@contextmanager
def _transaction(connection: TimedConnection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except (psycopg.Error, RecordRefused, UnicodeEncodeError):
        if not (connection.is_hung or connection.broken):
            connection.execute("ROLLBACK")
        raise
