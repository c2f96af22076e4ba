"""Events and messages of a pipeline as they come, also across broken connections."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

import msgspec
from pydantic import TypeAdapter, ValidationError
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from sightline.api import EventRecord, LostRecords, MessageRecord
from sightline.client.connection import Connection
from sightline.client.errors import Unavailable, UnexpectedAnswer, Unreachable

Record = EventRecord | MessageRecord | LostRecords
_RECORD: TypeAdapter[Record] = TypeAdapter(Record)
_SILENCE_SECONDS = 45.0
"""The server gives a sign of life every 15 s."""
_MOST_BYTES = 65_536
_FIRST_WAIT_SECONDS = 0.2
_LONGEST_WAIT_SECONDS = 5.0


def follow(
    connection: Connection,
    path: str,
    *,
    query: Mapping[str, Sequence[str]],
    after: str,
    reconnect_seconds: float,
) -> Generator[Record, None, None]:
    """Yield the records behind the one with the id `after`, and go on there when the connection breaks off.

    Raises ClientError: Unreachable when nothing has answered for `reconnect_seconds`.
    """
    wait_seconds, lost_at = _FIRST_WAIT_SECONDS, time.monotonic()
    while True:
        try:
            response = connection.open(path, query=query, headers={"Last-Event-ID": after}, seconds=_SILENCE_SECONDS)
        except (Unreachable, Unavailable):
            if time.monotonic() - lost_at > reconnect_seconds:
                raise
        else:
            try:
                for record in _records(response):
                    wait_seconds = _FIRST_WAIT_SECONDS
                    if not isinstance(record, LostRecords):
                        after = record.id
                    yield record
            except HTTPError:
                pass  # the connection broke off, or was silent: connect again
            finally:
                response.close()
            lost_at = time.monotonic()
        time.sleep(wait_seconds)
        wait_seconds = min(wait_seconds * 2, _LONGEST_WAIT_SECONDS)


def _records(response: BaseHTTPResponse) -> Iterator[Record]:
    """The records in a stream of server-sent events. Raises HTTPError, UnexpectedAnswer."""
    if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
        raise UnexpectedAnswer("the answer is no stream of events; is this a server of Sightline?")
    for data in _data(_chunks(response)):
        try:
            yield _RECORD.validate_python(msgspec.json.decode(data))
        except (ValueError, ValidationError) as error:
            raise UnexpectedAnswer(f"a record is not as this version knows it: {data[:80]!r}") from error


def _chunks(response: BaseHTTPResponse) -> Iterator[bytes]:
    """What has come, as soon as it has."""
    while chunk := response.read1(_MOST_BYTES):
        yield chunk


def _data(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each event. Ids are in the data, too; comments and types are left out."""
    rest, data = b"", list[bytes]()
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in map(bytes.rstrip, lines):
            if line.startswith(b"data:"):
                data.append(line[5:].lstrip())
            elif not line and data:
                yield b"\n".join(data)
                data = []
