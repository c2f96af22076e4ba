"""`postgres`: records are copied into a table of a PostgreSQL database."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, ClassVar
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, Field

from sightline.errors import ConfigurationError, DestinationLost, MissingExtra, RecordRefused
from sightline.graph import Site
from sightline.graph.transport import Record, Transport
from sightline_plugins.delivery.content_types import is_json
from sightline_plugins.delivery.element import Delivery
from sightline_plugins.delivery.refusals import deliver_in_parts, excerpt
from sightline_plugins.delivery.urls import readable_url

if TYPE_CHECKING:
    from sightline_plugins.delivery.postgres_table import Row, TimedConnection

_PART = r'(?:"(?:[^"\x00]|"")+"|[^".\x00]+)'
_TABLE = re.compile(rf"({_PART})(?:\.({_PART}))?")
_LONGEST_NAME = 63
_MOST_RECORDS = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_table(text: str) -> tuple[str, ...]:
    """Return schema and table, or the table alone. Raises ValueError.

    >>> parse_table('metrics."odd.name"')
    ('metrics', 'odd.name')
    """
    found = _TABLE.fullmatch(text)
    if found is None:
        raise ValueError(f'{text!r} is not a table: write TABLE or SCHEMA.TABLE, and names with dots as "a.b"')
    names = [part[1:-1].replace('""', '"') if part.startswith('"') else part for part in found.groups() if part]
    for name in names:
        if len(name.encode()) > _LONGEST_NAME:
            raise ValueError(f"{name!r} is longer than the {_LONGEST_NAME} bytes that PostgreSQL allows")
    return tuple(names)


def _checked_table(text: str) -> str:
    parse_table(text)
    return text


class Postgres(Delivery):
    """Copy records into a table of a PostgreSQL database, each exactly once.

    The table is made when it is missing. Its columns are `sender` (`PIPELINE/STEP`), `stream`, `epoch`, `seq`, `kind`,
    `time`, and `record` (`jsonb`) or, for records that are not JSON, `body` (`bytea`). `(stream, epoch, seq, sender)`
    is the primary key: a record that was delivered before is not stored again. There are indexes on `time` and on
    `(stream, time)`. Columns and indexes may be added, if inserts work without naming them.

    The role needs USAGE on the schema, INSERT and SELECT on the table, and CREATE on the schema for the table to be
    made. TLS is configured in the URL, such as `?sslmode=verify-full&sslrootcert=/etc/ca.pem`. Without a host, the
    server's socket in the file system is used, or that in the folder of `postgresql:///site?host=/run/postgresql`.
    Connect directly, or through a pool that keeps sessions: with PgBouncer, `pool_mode = session`.

    ```yaml
    - postgres: {url: "postgresql://sightline@db.example.com/site", table: events, send: [events]}
    ```
    """

    name: ClassVar[str] = "postgres"
    schemes: ClassVar[tuple[str, ...]] = ("postgresql", "postgres")

    url: Annotated[str, AfterValidator(readable_url), Field(repr=False)]
    """The database. Credentials belong into environment variables: `${NAME}`."""
    table: Annotated[str, AfterValidator(_checked_table)] = "sightline"
    """Table, or schema and table: `SCHEMA.TABLE`. Names are taken as written, so upper case letters matter."""
    create: bool = True
    """Make the table when it is missing, and migrate it when an older Sightline made it."""

    def urls(self) -> Sequence[str]:
        """Return the URL; nothing where it names a socket in the file system."""
        host = unquote(urlsplit(self.url).netloc.rpartition("@")[2])
        return () if not host or host.startswith(("/", "@", ":")) else (self.url,)

    def destination(self) -> str:
        """Return the URL without credentials and options, and the table."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path} table {self.table}"

    def transport(self, site: Site) -> Transport:
        """Make the transport, without connecting. Raises MissingExtra without psycopg, ConfigurationError when the URL
        has an option that PostgreSQL does not know.
        """
        try:
            from psycopg import ProgrammingError
            from psycopg.conninfo import conninfo_to_dict
        except ImportError as error:
            raise MissingExtra("psycopg", extra="postgres", purpose="`postgres`") from error
        try:
            conninfo_to_dict(self.url)
        except ProgrammingError as error:
            shown = excerpt(str(error), secrets=_secrets(self.url))
            raise ConfigurationError(f"PostgreSQL does not understand the URL: {shown}") from None
        return PostgresTransport(self, sender=f"{site.pipeline}/{site.element_id}")


class PostgresTransport(Transport):
    """Copies records into the table; each part is one transaction."""

    def __init__(self, element: Postgres, *, sender: str) -> None:
        from sightline_plugins.delivery.postgres_table import Failures, Table

        self._element = element
        self._sender = sender
        self._where = element.destination()
        self._limit_seconds = element.timeout / 1e9
        self._table = Table(parse_table(element.table), where=self._where)
        self._failures = Failures(self._where, secrets=_secrets(element.url), limit_seconds=self._limit_seconds)
        self._connection: TimedConnection | None = None

    def connect(self) -> None:
        """Connect, and make or check the table."""
        from sightline_plugins.delivery.postgres_table import open_connection

        self.close()
        with self._failures.of_connection():
            connection = open_connection(self._element.url, limit_seconds=self._limit_seconds)
        try:
            with self._failures.of_connection():
                self._table.prepare(connection, create=self._element.create)
        except DestinationLost:
            connection.close()
            raise
        self._connection = connection

    def deliver(self, records: Sequence[Record]) -> None:
        """Copy the records. Those that are there already are left as they are."""
        deliver_in_parts(records, self._copy, size=_MOST_RECORDS)

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _copy(self, records: Sequence[Record]) -> None:
        assert self._connection is not None, "it is connected"
        rows = [self._row(record) for record in records]
        with self._failures.of_delivery():
            self._table.insert(self._connection, rows)

    def _row(self, record: Record) -> Row:
        try:
            text, data = (record.body.decode(), None) if is_json(record.content_type) else (None, record.body)
            time = _EPOCH + timedelta(microseconds=record.time_ns // 1000)
        except (UnicodeDecodeError, OverflowError) as error:
            raise RecordRefused(f"{self._where} cannot hold the record: {error}") from error
        return self._sender, record.stream, record.epoch, record.seq, record.kind, time, text, data


def _secrets(url: str) -> list[str]:
    parts = urlsplit(url)
    raw = [parts.password or "", *(part.partition("=")[2] for part in parts.query.split("&") if "password" in part)]
    return [*raw, *map(unquote, raw)]
