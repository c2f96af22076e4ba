"""Search in the records of the history: by what they are about, by words, by attributes, by time.

What records are about (stream, kind, rule, label, step) stands in few keys, and records are found by key in an index.
Words and attributes stand in a full-text index. Whatever is asked for, only what is shown is read.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec

from sightline.server.feed_records import FeedFilter, FeedRecord

SEARCH_SCHEMA = """
CREATE TABLE IF NOT EXISTS records(
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  time_ms INTEGER NOT NULL,
  key INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  place INTEGER NOT NULL,
  body BLOB NOT NULL,
  scene BLOB
);
CREATE INDEX IF NOT EXISTS records_by_time ON records(time_ms, key);
CREATE INDEX IF NOT EXISTS records_by_key ON records(key, number);
CREATE INDEX IF NOT EXISTS records_by_place ON records(epoch, place);
CREATE TABLE IF NOT EXISTS keys(id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(text, detail=none);
"""
LONGEST_TEXT = 200
MOST_ATTRIBUTES = 16
_MOST_WORDS = 12
_MOST_MERGED = 256
"""Keys that are searched one by one; where more are wanted, records are found soon in their order."""
_LONGEST_WORDS = 1_000
_MOST_TOKENS = 32
_WORD = re.compile(r"[^\W_]+")
_SPAN = "number>=? AND number<=? AND time_ms>=? AND time_ms<?"
_FOUND_BY_WORDS = "words CROSS JOIN records ON records.number=words.rowid WHERE words MATCH ?"
_KEY, _ATTRIBUTE = "\ue000", "\ue001"
"""How tokens begin that nobody can type; the tokenizer takes these characters for letters."""
_EVERYTHING = FeedFilter()
Rows = Callable[[str, Sequence[object]], list[Any]]


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """Which records are wanted.

    All of these must hold: `wanted`; a word of the record begins with each word of `text`, upper and lower case alike;
    `attributes` (`direction=in`) are among what the event holds. Words of an event are those of its stream, kind, rule,
    label, step and of its texts; those of a message also of its sentence. Raises ValueError when it is too long, or an
    attribute has no `=`.
    """

    wanted: FeedFilter = _EVERYTHING
    text: str = ""
    attributes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST_TEXT or len(_WORD.findall(self.text)) > _MOST_WORDS:
            raise ValueError(f"search for at most {_MOST_WORDS} words of {LONGEST_TEXT} characters in all")
        if len(self.attributes) > MOST_ATTRIBUTES:
            raise ValueError(f"there are {len(self.attributes)} attributes: give at most {MOST_ATTRIBUTES}")
        for one in self.attributes:
            if not one.partition("=")[1]:
                raise ValueError(f"the attribute {one[:40]!r} has no value: give it as `direction=in`")

    @property
    def terms(self) -> list[str]:
        """The expressions of the full-text index that must all hold."""
        words = [f'"{one}" *' for one in _WORD.findall(self.text)]
        return words + [f'"{_attribute_token(*one.partition("=")[::2])}"' for one in self.attributes]


def words_of(record: FeedRecord) -> str:
    """What the full-text index holds of a record beside the token of its key: words that people look for, and tokens
    of its attributes.
    """
    data = record.rest.get("event") or record.rest.get("data") or {}
    texts = [one for one in (record.stream, record.kind, record.rule, record.label, record.element) if one]
    texts += [str(record.rest.get("text", ""))]
    texts += [one for one in data.values() if isinstance(one, str)]
    tokens = [_attribute_token(name, _written(value)) for name, value in data.items() if not isinstance(value, float)]
    return " ".join([*tokens[:_MOST_TOKENS], " ".join(texts)[:_LONGEST_WORDS]])


def key_token(key: int) -> str:
    """The token of a key in the full-text index."""
    return f"{_KEY}{key}"


class RecordSearch:
    """Finds records. `rows` asks the database."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def find(
        self, query: RecordQuery, *, start_ms: int, end_ms: int, after: int, limit: int, newest_first: bool
    ) -> list[tuple[int, bytes]]:
        """Number and body of the wanted records of a span of time, in the order of their numbers or from the newest
        on; those that follow the number `after`, or all when it is 0.
        """
        keys = self._keys(query.wanted)
        first, last = self._numbers(start_ms, end_ms)
        if newest_first:
            last = min(last, after - 1) if after else last
        else:
            first = max(first, after + 1)
        if first > last or keys == []:
            return []
        span = (first, last, start_ms, end_ms)
        if query.terms:
            numbers = self._by_words(query.terms, keys, span, limit=limit, newest_first=newest_first)
        elif keys is None or len(keys) > _MOST_MERGED:
            numbers = self._in_order(keys, span, limit=limit, newest_first=newest_first)
        else:
            numbers = self._by_keys(keys, span, limit=limit, newest_first=newest_first)
        chosen = msgspec.json.encode(numbers).decode()
        bodies: list[tuple[int, bytes]] = self._rows(
            "SELECT number, body FROM records WHERE number IN (SELECT value FROM json_each(?)) ORDER BY number",
            (chosen,),
        )
        return bodies[::-1] if newest_first else bodies

    def counts(self, query: RecordQuery, *, start_ms: int, step_ms: int, count: int) -> Mapping[str, list[int]]:
        """How many wanted records there are of each stream in each of `count` intervals; those without a stream stand
        under the empty name.
        """
        end_ms = start_ms + count * step_ms
        keys = self._keys(query.wanted)
        table: dict[str, list[int]] = {}
        if keys == []:
            return table
        streams = {number: key[1] or "" for number, key in self._all_keys()}
        for key, slot, found in self._counted(query, keys, start_ms=start_ms, end_ms=end_ms, step_ms=step_ms):
            column = table.setdefault(streams.get(key, ""), [0] * count)
            column[slot] += found
        return table

    def values(self) -> dict[str, list[str]]:
        """What there is to filter by, by the names of the parts of a key."""
        names = ("type", "stream", "kind", "rule", "label", "element")
        found: dict[str, set[str]] = {name: set() for name in names}
        for _, key in self._all_keys():
            for name, value in zip(names, key, strict=True):
                if value is not None:
                    found[name].add(value)
        return {name: sorted(values) for name, values in found.items()}

    def _counted(
        self, query: RecordQuery, keys: Sequence[int] | None, *, start_ms: int, end_ms: int, step_ms: int
    ) -> Iterable[tuple[int, int, int]]:
        """Key, interval and number of records."""
        select = f"SELECT key, (time_ms - {start_ms}) / {step_ms}, count(*) FROM"
        wanted, chosen = _condition(keys)
        span = "time_ms>=? AND time_ms<?"
        if not query.terms:
            sql = f"{select} records INDEXED BY records_by_time WHERE {span} AND {wanted} GROUP BY 1, 2"
            return self._rows(sql, (start_ms, end_ms, *chosen))
        sql = f"{select} {_FOUND_BY_WORDS} AND {span} AND {wanted} GROUP BY 1, 2"
        return self._rows(sql, (_expression(query.terms, keys), start_ms, end_ms, *chosen))

    def _keys(self, wanted: FeedFilter) -> list[int] | None:
        """The numbers of the wanted keys; None when all are."""
        known = list(self._all_keys())
        keys = [number for number, key in known if wanted.matches(key)]
        return None if known and len(keys) == len(known) else keys

    def _all_keys(self) -> Iterator[tuple[int, tuple[str | None, ...]]]:
        for number, key in self._rows("SELECT id, key FROM keys", ()):
            yield number, tuple(msgspec.json.decode(key))

    def _numbers(self, start_ms: int, end_ms: int) -> tuple[int, int]:
        """The lowest and the highest number in a span of time. The clock may have been set back: in a part of the
        records, each time is looked at.
        """
        of_all = "SELECT (SELECT min({0}) FROM records), (SELECT max({0}) FROM records)"
        earliest, latest = self._rows(of_all.format("time_ms"), ())[0]
        if earliest is None:
            return 1, 0
        if start_ms <= earliest and latest < end_ms:
            first, last = self._rows(of_all.format("number"), ())[0]
        else:
            sql = "SELECT min(number), max(number) FROM records WHERE time_ms>=? AND time_ms<?"
            first, last = self._rows(sql, (start_ms, end_ms))[0]
        return (1, 0) if first is None else (first, last)

    def _in_order(
        self, keys: Sequence[int] | None, span: tuple[int, int, int, int], *, limit: int, newest_first: bool
    ) -> list[int]:
        wanted, chosen = _condition(keys)
        sql = f"SELECT number FROM records WHERE {_SPAN} AND {wanted} {_order(newest_first)}"  # noqa: S608
        return [number for (number,) in self._rows(sql, (*span, *chosen, limit))]

    def _by_keys(
        self, keys: Sequence[int], span: tuple[int, int, int, int], *, limit: int, newest_first: bool
    ) -> list[int]:
        """The first of each key, and of these the first."""
        table = "records INDEXED BY records_by_key"
        sql = f"SELECT number FROM {table} WHERE key=? AND {_SPAN} {_order(newest_first)}"  # noqa: S608
        found = [number for key in keys for (number,) in self._rows(sql, (key, *span, limit))]
        return heapq.nlargest(limit, found) if newest_first else heapq.nsmallest(limit, found)

    def _by_words(
        self,
        terms: Sequence[str],
        keys: Sequence[int] | None,
        span: tuple[int, int, int, int],
        *,
        limit: int,
        newest_first: bool,
    ) -> list[int]:
        wanted, chosen = _condition(keys)
        span_of_words = "words.rowid>=? AND words.rowid<=? AND time_ms>=? AND time_ms<?"
        sql = (
            f"SELECT words.rowid AS number FROM {_FOUND_BY_WORDS} AND {span_of_words} AND {wanted} "  # noqa: S608
            f"{_order(newest_first)}"
        )
        return [number for (number,) in self._rows(sql, (_expression(terms, keys), *span, *chosen, limit))]


def _condition(keys: Sequence[int] | None) -> tuple[str, tuple[str, ...]]:
    """The condition on the key of a record, and its value."""
    if keys is None:
        return "1", ()
    return "key IN (SELECT value FROM json_each(?))", (msgspec.json.encode(keys).decode(),)


def _expression(terms: Sequence[str], keys: Sequence[int] | None) -> str:
    """What the full-text index is asked for. Few keys make it faster."""
    named = [] if keys is None or len(keys) > _MOST_MERGED else [" OR ".join(f'"{key_token(key)}"' for key in keys)]
    return " AND ".join(f"({one})" for one in [*named, *terms])


def _order(newest_first: bool) -> str:
    return f"ORDER BY 1 {'DESC' if newest_first else 'ASC'} LIMIT ?"


def _attribute_token(name: str, value: str) -> str:
    digest = blake2b(f"{name.strip()}={value.strip()}".encode("utf-8", "replace"), digest_size=6)
    return f"{_ATTRIBUTE}{digest.hexdigest()}"


def _written(value: object) -> str:
    """A value as people write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
