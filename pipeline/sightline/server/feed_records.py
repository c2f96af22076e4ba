"""Records of the feed: what they hold, how they are filtered, and how they are written for a connection.

A record is one event of a rule, or one message of the run. As JSON it has these keys; those that hold nothing are left
out.

- `id`: names its place in the feed, `EPOCH-NUMBER`. The epoch is the time at which the feed began, in seconds.
- `record`: `event` or `message`.
- `time`: the time of day as RFC 3339 in UTC. That of the image where it is known (`time_source` says whose clock:
  `rtcp` or `arrival`), else when the record was made.
- `stream`, `element`: what it is about; the element is the step's id.
- `frame`, `pts_ns`, `label`, `event` (of an event): the frame as in JSON lines, the label of the object, and the event
  exactly as JSON lines hold it.
- `kind`, `text`, `state`, `data` (of a message): as in `sightline.graph.Message`.

Text that came from outside is passed through `redact`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np

from sightline.graph import Message
from sightline.media import Batch, Event
from sightline.media.time import format_time
from sightline.redaction import redact

RecordType = Literal["event", "message"]
RecordKey = tuple[str | None, ...]
"""Type, stream, kind, rule, label and element of a record: in the order of the lists of `FeedFilter`."""
MOST_PATTERNS = 32
LONGEST_PATTERN = 128
_MOST_KEYS = 4_096
_UNREADABLE = "its data cannot be written as JSON"
_LOG = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class FeedRecord:
    """One record, not yet written. `number` counts all records of the feed from 1, and `made_ns` is when it was made;
    `time_ns` is the time of day of what it is about.
    """

    number: int
    type: RecordType
    made_ns: int
    time_ns: int
    kind: str
    stream: str | None
    element: str | None
    rule: str | None
    label: str | None
    rest: Mapping[str, Any]
    scene: Mapping[str, Any] | None = None
    """Where an event happened, for the history; see `sightline.server.event_scenes`."""
    _json: bytes | None = field(default=None, init=False)

    @property
    def key(self) -> RecordKey:
        """All that filters look at."""
        return self.type, self.stream, self.kind, self.rule, self.label, self.element

    def json(self, epoch: int) -> bytes:
        """The record as JSON, without a line break. It is encoded once."""
        if self._json is None:
            self._json = self._encoded(epoch)
        return self._json

    def scene_json(self) -> bytes | None:
        """The scene as JSON; None without one."""
        return None if self.scene is None else _encode(self.scene)

    def _encoded(self, epoch: int) -> bytes:
        rest = {name: _cleaned(value) for name, value in self.rest.items() if value is not None}
        plain = {
            "id": f"{epoch}-{self.number}",
            "record": self.type,
            "time": format_time(self.time_ns),
            "stream": self.stream,
            "element": self.element,
            "label": self.label,
            **rest,
        }
        plain = {name: value for name, value in plain.items() if value is not None}
        try:
            return _encode(plain)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            _LOG.warning("the data of an event %r of %r cannot be written: %s", self.kind, self.element, redact(error))
            plain["event"] = {"kind": self.kind, "rule": self.rule, "error": _UNREADABLE}
            return _encode(plain)


def event_record(
    number: int, batch: Batch, event: Event, *, label: str | None, now_ns: int, scene: Mapping[str, Any] | None = None
) -> FeedRecord:
    """The record of an event on a frame of `batch`. It keeps neither the batch nor its images."""
    frame = batch.frames[event.frame]
    rest = {
        "time_source": str(frame.time_source)
        if frame.capture_ns is not None and frame.time_source is not None
        else None,
        "frame": frame.index,
        "pts_ns": frame.pts_ns,
        "event": event.to_json(),
    }
    return FeedRecord(
        number,
        "event",
        now_ns,
        now_ns if frame.capture_ns is None else frame.capture_ns,
        event.kind,
        frame.stream.name,
        event.step or None,
        event.rule,
        label,
        rest,
        scene,
    )


def message_record(number: int, message: Message, *, now_ns: int) -> FeedRecord:
    """The record of a message; what its `details` hold stays in the logs."""
    state = None if message.state is None else str(message.state)
    rest = {"kind": str(message.kind), "text": message.text, "state": state, "data": dict(message.data) or None}
    return FeedRecord(
        number, "message", now_ns, now_ns, str(message.kind), message.stream, message.element, None, None, rest
    )


@dataclass(frozen=True, slots=True)
class FeedFilter:
    """Which records are wanted: those that match one pattern of each list that is not empty.

    Patterns are names or globs (`gate*`), upper and lower case differ. A record without the key of a list does not
    match it: with `rules` there are no messages. Raises ValueError when there are more than 32 patterns in a list, or
    one has more than 128 characters.
    """

    types: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    elements: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.__slots__:
            patterns = getattr(self, name)
            if len(patterns) > MOST_PATTERNS:
                raise ValueError(f"{name} has {len(patterns)} patterns: give at most {MOST_PATTERNS}")
            if any(len(one) > LONGEST_PATTERN for one in patterns):
                raise ValueError(f"a pattern in {name} is longer than {LONGEST_PATTERN} characters")

    def matches(self, key: RecordKey) -> bool:
        """Whether records with that key are wanted."""
        lists = (self.types, self.streams, self.kinds, self.rules, self.labels, self.elements)
        return all(map(_is_one_of, key, lists))


class Selection:
    """Selects records by a filter, and remembers what it has found about their keys."""

    def __init__(self, wanted: FeedFilter) -> None:
        self._wanted = wanted
        self._known: dict[RecordKey, bool] = {}

    def takes(self, record: FeedRecord) -> bool:
        """Whether the record is wanted."""
        known = self._known.get(record.key)
        if known is None:
            if len(self._known) >= _MOST_KEYS:
                self._known.clear()
            known = self._known[record.key] = self._wanted.matches(record.key)
        return known


class Framing(ABC):
    """How records are put together into what is sent at once."""

    heartbeat: ClassVar[bytes]
    """What is sent when there was nothing to send for a while; empty for nothing."""

    @abstractmethod
    def join(self, records: Sequence[FeedRecord], *, epoch: int, lost: int) -> bytes:
        """Put records together, behind a note that `lost` records before them are lost, if any are."""


class ServerSentEvents(Framing):
    """The format of `text/event-stream`; the type of an event is the record's, or `lost`."""

    heartbeat = b": still here\n\n"

    def join(self, records: Sequence[FeedRecord], *, epoch: int, lost: int) -> bytes:
        """An event for each record, with its id."""
        parts = [b"event: lost\ndata: %b\n\n" % lost_json(lost)] if lost else []
        parts += [
            b"id: %d-%d\nevent: %b\ndata: %b\n\n" % (epoch, one.number, one.type.encode(), one.json(epoch))
            for one in records
        ]
        return b"".join(parts)


class JsonArrays(Framing):
    """An array of records, for a message of a WebSocket."""

    heartbeat = b""

    def join(self, records: Sequence[FeedRecord], *, epoch: int, lost: int) -> bytes:
        """A JSON array, with the note of what is lost as its first entry."""
        parts = [lost_json(lost)] if lost else []
        return b"[%b]" % b",".join([*parts, *(one.json(epoch) for one in records)])


SERVER_SENT_EVENTS = ServerSentEvents()
JSON_ARRAYS = JsonArrays()


def lost_json(count: int) -> bytes:
    """The note that records are lost."""
    return b'{"record":"lost","count":%d}' % count


def _is_one_of(value: str | None, patterns: Sequence[str]) -> bool:
    if not patterns:
        return True
    return value is not None and any(value == one or fnmatchcase(value, one) for one in patterns)


def _cleaned(value: Any) -> Any:
    """Text without credentials and without halves of characters, also in a mapping."""
    if isinstance(value, str):
        return redact(value if value.isascii() else value.encode("utf-8", "replace").decode())
    if isinstance(value, Mapping):
        return {name: _cleaned(one) for name, one in value.items()}
    return value


def _plain(value: object) -> Any:
    return value.item() if isinstance(value, np.generic) else redact(value)


_encode = msgspec.json.Encoder(enc_hook=_plain).encode
