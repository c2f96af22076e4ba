"""`redis`: deliver records to Redis streams."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field

from sightline.errors import DeliveryError, DestinationLost, DestinationRefused, MissingExtra, RecordRefused
from sightline.graph import CheckContext, Problem, Site
from sightline.graph.fields import is_url
from sightline.graph.transport import Record, Transport
from sightline.redaction import redact
from sightline_plugins.delivery.acknowledged import Acknowledged
from sightline_plugins.delivery.tls import TlsDelivery

Connection = Any
"""A connection of redis-py, whose methods have no types."""
Identity = tuple[str, str, int, int]
_MORE_ENTRIES = 100
"""How many entries of others are looked through in a stream for those of ours whose reply was lost."""
_LARGEST_BODY = 512 << 20
"""Unless the server says otherwise (`proto-max-bulk-len`). It cuts the connection of who sends more."""
_PIECE_BYTES = 16 << 10
_REFUSED_RECORDS = re.compile(r"WRONGTYPE |The stream has exhausted|its \d+ bytes ")
_REFUSED_ALL = re.compile(r"unknown command|DB index is out of range|.*alert .*(certificate|unknown ca)")


class Redis(TlsDelivery):
    """Deliver records to Redis streams (`XADD`), for `XREADGROUP`, `redis-cli` and everything else that reads them.

    Each record is an entry with the fields `stream`, `epoch`, `seq`, `kind`, `content_type` and `body`; Redis makes the
    ids of the entries. `redis://` connects plainly, `rediss://` with TLS, `unix:///path/of/socket` on this machine. The
    path is the number of the database: `redis://host:6379/2`; that of a socket is written `?db=2`. A user of the
    server's access control list needs `+xadd` on the keys, and `+xrevrange` to avoid doubles.

    The streams grow for ever unless `max_length` is given: nothing is removed that a reader may not have seen. A Redis
    without memory left (`maxmemory`) counts as lost, and what it does not take waits in the outbox.

    When the connection breaks, the end of each stream is read to find out which entries arrived although their reply
    did not, so that they are not added again. A key that holds something else than a stream refuses its records.
    Clusters are not supported: every key must be on the server that the URL names.

    ```yaml
    - redis: {url: "redis://sightline:${REDIS_PASSWORD}@redis:6379/0", send: [events, tracks], max_length: 100000}
    ```
    """

    name: ClassVar[str] = "redis"
    schemes: ClassVar[tuple[str, ...]] = ("redis", "rediss", "unix")
    tls_schemes: ClassVar[tuple[str, ...]] = ("rediss",)
    address_key: ClassVar[str | None] = "key"
    unsafe: ClassVar[re.Pattern[str]] = re.compile(r"[\s:*?\[\]{}\\\x00-\x1f\x7f]+")

    key: Annotated[str, Field(min_length=1)] = "sightline:{pipeline}:{stream}:{kind}"
    """Key of the stream that a record is added to, with `{stream}`, `{kind}`, `{pipeline}`."""
    max_length: Annotated[int, Field(ge=1)] | None = None
    """About how many entries a stream keeps, removing the oldest (`MAXLEN ~`); all when not given."""

    def urls(self) -> tuple[str, ...]:
        """Return the URL, if it names a host."""
        return () if self.url.startswith("unix://") else (self.url,)

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check the URL with its database, the key, the certificates, and that the client is installed."""
        is_socket = not self.urls()
        yield from super().check(context)
        if not is_url(self.url):
            return  # reported already; nothing of it is shown
        try:
            parts = urlsplit(self.url)
        except ValueError:
            return  # reported already
        if is_socket and len(parts.path) < 2:
            yield Problem("the path of a socket is written unix:///run/redis/redis.sock", ("url",))
        if not is_socket and not re.fullmatch(r"(/\d*)?", parts.path):
            yield Problem(f"the path {parts.path} is the number of the database, such as /0", ("url",))
        for option, value in parse_qsl(parts.query, keep_blank_values=True):
            if option != "db" or not value.isdecimal():
                yield Problem("nothing but a number of the database, ?db=0, may follow a ? here", ("url",))

    def transport(self, site: Site) -> RedisTransport:
        """Make the transport. Raises MissingExtra without redis-py, ConfigurationError for unusable certificates."""
        del site
        return RedisTransport(self)


class RedisTransport(Transport):
    """Adds records to streams, in one pipeline for each delivery and without a transaction.

    It remembers which records were sent without a reply, and which were acknowledged after one that was refused; both
    are tried again by the outbox, and neither is added twice.
    """

    def __init__(self, element: Redis) -> None:
        """Raises MissingExtra without redis-py, ConfigurationError for certificates that cannot be used."""
        try:
            import redis.connection  # noqa: F401
        except ModuleNotFoundError as error:
            raise MissingExtra("redis", extra="redis", purpose="`redis`") from error
        self._element = element
        self._address = element.destination()
        self._connection: Connection | None = None
        self._largest_body = _LARGEST_BODY
        self._in_doubt: set[Identity] = set()
        self._acknowledged = Acknowledged()
        element.tls_context()  # redis-py reads the files itself, and asks for the passphrase of a key

    def connect(self) -> None:
        """Connect, log in and select the database. Raises DestinationLost, DestinationRefused."""
        from redis.exceptions import NoPermissionError, RedisError

        self.close()
        connection = self._new_connection()
        try:
            connection.connect()
            connection.send_command("PING")
            with suppress(NoPermissionError):  # a user that may not PING may still add entries
                connection.read_response()
            self._largest_body = _largest_body(connection)
        except (RedisError, OSError, ValueError) as error:
            connection.disconnect()
            raise self._judged(error, delivered=0, to="") from error
        self._connection = connection

    def deliver(self, records: Sequence[Record]) -> None:
        """Add the records. Raises RecordRefused, DestinationLost, DestinationRefused."""
        from redis.exceptions import RedisError, ResponseError

        connection = self._open_connection()
        missing = set(self._acknowledged.missing(records))
        refusals = {place: _too_large(records[place]) for place in missing if self._is_too_large(records[place])}
        waiting: list[int] = []
        try:
            missing -= self._find_delivered(connection, records)
            waiting = [place for place in sorted(missing) if place not in refusals]
            commands = [self._command(records[place]) for place in waiting]
            connection.send_packed_command(_pieces(commands), check_health=False)
            for place in waiting:
                try:
                    connection.read_response()
                    missing.remove(place)
                except ResponseError as error:
                    refusals[place] = error
        except (RedisError, OSError) as error:
            self.close()
            self._in_doubt |= {_identity(records[place]) for place in waiting if place in missing - refusals.keys()}
            delivered = self._count_delivered(records, missing)
            raise self._judged(error, delivered=delivered, to=records[delivered].to) from error
        delivered = self._count_delivered(records, missing)
        if refusals:
            raise self._judged(refusals[delivered], delivered=delivered, to=records[delivered].to)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None

    def _open_connection(self) -> Connection:
        """Return the connection; connect again when the server has closed it while it was idle (its `timeout`)."""
        from redis.exceptions import RedisError

        try:
            is_usable = self._connection is not None and not self._connection.can_read()
        except (RedisError, OSError):
            is_usable = False
        if not is_usable:
            self.connect()
        assert self._connection is not None
        return self._connection

    def _new_connection(self) -> Connection:
        from redis import connection

        element = self._element
        seconds = element.timeout / 1e9
        parse_url: Any = connection.parse_url
        options: dict[str, Any] = dict(parse_url(element.url))
        kind = options.pop("connection_class", connection.Connection)
        options |= {"socket_timeout": seconds, "socket_connect_timeout": seconds, "protocol": 2}
        if not element.url.startswith("unix://"):
            options["socket_keepalive"] = True
        if element.is_tls():
            options |= {"ssl_cert_reqs": "required", "ssl_check_hostname": True}
            options |= {"ssl_ca_certs": _text(element.ca_file), "ssl_certfile": _text(element.cert_file)}
            options["ssl_keyfile"] = _text(element.key_file or element.cert_file)
        return kind(**options)

    def _command(self, record: Record) -> bytes:
        """Return the packed command; packing all words of each anew would take longer than all the rest."""
        head, tail = _around_seq(
            record.to, record.stream, record.epoch, record.kind, record.content_type, self._element.max_length
        )
        return b"%b%b%b%b" % (head, _packed(b"%d" % record.seq), tail, _packed(record.body))

    def _is_too_large(self, record: Record) -> bool:
        return len(record.body) > self._largest_body

    def _find_delivered(self, connection: Connection, records: Sequence[Record]) -> set[int]:
        """Return the places of records whose reply was lost and that are in their stream."""
        doubtful: dict[str, dict[tuple[bytes, ...], int]] = {}
        for place, record in enumerate(records):
            if _identity(record) in self._in_doubt:
                doubtful.setdefault(record.to, {})[_fields(record)] = place
        places: set[int] = set()
        for key, by_fields in doubtful.items():
            entries = _last_entries(connection, key, 2 * len(by_fields) + _MORE_ENTRIES)
            places |= {by_fields[fields] for fields in entries if fields in by_fields}
        return places

    def _count_delivered(self, records: Sequence[Record], missing: set[int]) -> int:
        """Return how many of the first records are there, and remember the others that are."""
        self._in_doubt -= {_identity(record) for place, record in enumerate(records) if place not in missing}
        return self._acknowledged.count(records, missing)

    def _judged(self, error: Exception, *, delivered: int, to: str) -> DeliveryError:
        from redis import exceptions

        credentials = (
            exceptions.AuthenticationError,
            exceptions.AuthorizationError,
            exceptions.AuthenticationWrongNumberOfArgsError,
            exceptions.NoPermissionError,
        )
        text = redact(error).rstrip(".")
        if isinstance(error, exceptions.AskError):  # also MOVED
            text = f"{to} is on another server of its cluster, and clusters are not supported"
            return DestinationRefused(f"{self._address}: {text}", delivered=delivered)
        if isinstance(error, credentials) or _REFUSED_ALL.match(text):
            return DestinationRefused(f"{self._address} does not let us in: {text}", delivered=delivered)
        if isinstance(error, exceptions.ResponseError) and _REFUSED_RECORDS.match(text):
            return RecordRefused(f"{self._address} refuses a record for {to}: {text}", delivered=delivered)
        if isinstance(error, exceptions.TimeoutError):
            text = f"no answer within {self._element.timeout / 1e9:g} s"
        return DestinationLost(f"{self._address}: {text}", delivered=delivered)


def _largest_body(connection: Connection) -> int:
    """Ask how large a value may be; most servers allow users to ask, and few have another limit than the default."""
    from redis.exceptions import ResponseError

    connection.send_command("CONFIG", "GET", "proto-max-bulk-len")
    try:
        return int(dict([connection.read_response()])[b"proto-max-bulk-len"])
    except (ResponseError, ValueError, KeyError):
        return _LARGEST_BODY


def _too_large(record: Record) -> Exception:
    from redis.exceptions import ResponseError

    return ResponseError(f"its {len(record.body)} bytes are more than the server allows (proto-max-bulk-len)")


def _last_entries(connection: Connection, key: str, count: int) -> Iterator[tuple[bytes, ...]]:
    """Yield names and values of the last entries of a stream; none when it may not be read."""
    from redis.exceptions import ResponseError

    connection.send_command("XREVRANGE", key, "+", "-", "COUNT", count, check_health=False)
    try:
        entries = connection.read_response()
    except ResponseError:
        return
    for _, fields in entries:
        yield tuple(fields)


def _fields(record: Record) -> tuple[bytes, ...]:
    values = {
        "stream": record.stream,
        "epoch": str(record.epoch),
        "seq": str(record.seq),
        "kind": record.kind,
        "content_type": record.content_type,
    }
    texts = [part.encode() for pair in values.items() for part in pair]
    return (*texts, b"body", record.body)


@lru_cache(maxsize=1024)
def _around_seq(
    to: str, stream: str, epoch: int, kind: str, content_type: str, max_length: int | None
) -> tuple[bytes, bytes]:
    """Return what stands before and after `seq` in the command that adds a record, packed, without the body."""
    limit = () if max_length is None else ("MAXLEN", "~", str(max_length))
    words = ["XADD", to, *limit, "*", "stream", stream, "epoch", str(epoch), "seq"]
    after = ["kind", kind, "content_type", content_type, "body"]
    count = b"*%d\r\n" % (len(words) + len(after) + 2)  # with the values of `seq` and `body`
    head, tail = (b"".join([_packed(word.encode()) for word in part]) for part in (words, after))
    return count + head, tail


def _pieces(commands: Sequence[bytes]) -> Iterator[bytes]:
    """Join commands to pieces that are sent at once; the time limit begins again with each."""
    first = size = 0
    for place, command in enumerate(commands):
        size += len(command)
        if size >= _PIECE_BYTES:
            yield b"".join(commands[first : place + 1])
            first, size = place + 1, 0
    yield b"".join(commands[first:])


def _packed(word: bytes) -> bytes:
    """Return a word of a command as Redis reads it."""
    return b"$%d\r\n%b\r\n" % (len(word), word)


def _identity(record: Record) -> Identity:
    return record.to, record.stream, record.epoch, record.seq


def _text(path: object | None) -> str | None:
    return None if path is None else str(path)
