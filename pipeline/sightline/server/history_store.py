"""Where the history is kept: samples and records in one SQLite file, bounded by age and size.

Samples stand in tiers: intervals of one length, each kept for its time. Records are those of the feed.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

import msgspec

from sightline.errors import ConfigurationError, OutputError
from sightline.graph.outputs import Outputs
from sightline.runtime.database import Database, DatabaseDamaged
from sightline.server.feed_records import FeedFilter, RecordKey

_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS samples(
  step INTEGER NOT NULL,
  stream TEXT NOT NULL,
  time_ms INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY(step, stream, time_ms)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS records(
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  time_ms INTEGER NOT NULL,
  key INTEGER NOT NULL,
  body BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS records_by_time ON records(time_ms);
CREATE INDEX IF NOT EXISTS records_by_key ON records(key);
CREATE TABLE IF NOT EXISTS grids(
  stream TEXT NOT NULL,
  time_ms INTEGER NOT NULL,
  label TEXT NOT NULL,
  feet BLOB NOT NULL,
  paths BLOB NOT NULL,
  PRIMARY KEY(stream, time_ms, label)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS grids_by_time ON grids(time_ms);
CREATE TABLE IF NOT EXISTS keys(id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE);
"""
_REMOVED_RECORDS = 10_000
_REMOVED_SAMPLES_MS = 6 * 3_600_000
_LOG = logging.getLogger(__name__)

SampleRow = tuple[int, str, int, bytes]
"""Step in seconds, stream, the time at which the interval begins in milliseconds, and the sample."""
GridRow = tuple[str, int, str, bytes, bytes]
"""Stream, the hour in milliseconds, label, and two grids of a heat map as `sightline.server.heat` encodes them."""
RecordRow = tuple[int, RecordKey, bytes]
"""Time in milliseconds, what filters look at, and the record as JSON."""


@dataclass(frozen=True, slots=True)
class Tier:
    """Samples of intervals of `step_seconds`, which are kept for `age_seconds`."""

    step_seconds: int
    age_seconds: int

    @property
    def step_ms(self) -> int:
        """The length of an interval in milliseconds."""
        return self.step_seconds * 1_000


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """What the history keeps at most.

    Ten seconds show what has just happened; a day of them is as much as anybody zooms into. A minute is fine enough
    for a week on a screen, ten minutes for a month, and an hour to compare months. Together these are 26,000 samples
    of some 200 bytes for each stream: 5 MB, and 85 MB for sixteen streams. Grids of heat maps take some 2 kB for an
    hour and label, 70 MB at most. Records take what is left.
    """

    tiers: tuple[Tier, ...] = (
        Tier(10, 86_400),
        Tier(60, 7 * 86_400),
        Tier(600, 30 * 86_400),
        Tier(3_600, 92 * 86_400),
    )
    """From the shortest step to the longest; each step is a multiple of the one before."""
    records_age_seconds: int = 7 * 86_400
    grids_age_seconds: int = 31 * 86_400
    grids: int = 35_000
    """How many grids of heat maps at most: a month of sixteen streams with three labels."""
    size_bytes: int = 256_000_000
    memory_bytes: int = 32_000_000
    """The size where no file can be written."""


class HistoryStore:
    """Keeps samples and records; from any thread.

    Where the file cannot be written, or another process has it, everything is kept in memory. A file of ours that is
    damaged is set aside, once, and another one begun. Both are logged.
    """

    def __init__(self, path: Path, *, outputs: Outputs | None = None, limits: HistoryLimits | None = None) -> None:
        self.path = path
        self._outputs = outputs or Outputs(path.parent)
        self._limits = limits or HistoryLimits()
        self._lock = RLock()
        self._is_full = False
        self._keys: dict[RecordKey, int] = {}
        self._opened: Database | None = None

    @property
    def _database(self) -> Database:
        """The database, which is opened when it is used first."""
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    @property
    def is_on_disk(self) -> bool:
        """Whether it survives the end of the process."""
        return self._database.path is not None

    def add(self, samples: Sequence[SampleRow], records: Sequence[RecordRow]) -> None:
        """Keep samples and records. While the disk refuses them they are lost, which is logged once."""
        if not samples and not records:
            return
        try:
            with self._lock, self._database.transaction() as database:
                database.executemany("INSERT OR REPLACE INTO samples VALUES (?,?,?,?)", samples)
                rows = [(time_ms, self._number_of(key, database), body) for time_ms, key, body in records]
                database.executemany("INSERT INTO records(time_ms, key, body) VALUES (?,?,?)", rows)
        except DatabaseDamaged as error:
            self._begin_anew(error)
        except OutputError as error:
            self._keys.clear()
            if not self._is_full:
                _LOG.warning("%s; there is a gap in the history until it can be written again", error)
            self._is_full = True
        else:
            self._is_full = False
        self._keep_size()

    def prune(self, now_ms: int) -> None:
        """Remove what is too old."""
        limits = self._limits
        try:
            with self._lock:
                for tier in limits.tiers:
                    self._remove_samples(tier, before_ms=now_ms - tier.age_seconds * 1_000)
                before_ms = now_ms - limits.records_age_seconds * 1_000
                self._remove_grids(before_ms=now_ms - limits.grids_age_seconds * 1_000)
                with self._database.transaction() as database:
                    database.execute("DELETE FROM records WHERE time_ms < ?", (before_ms,))
                    database.execute("DELETE FROM keys WHERE NOT EXISTS (SELECT 1 FROM records WHERE key = keys.id)")
                    self._keys.clear()
        except DatabaseDamaged as error:
            self._begin_anew(error)
        except OutputError as error:
            _LOG.debug("the history is not tidied: %s", error)

    def streams(self, tier: Tier) -> list[str]:
        """The names of the streams with samples in a tier."""
        found: list[str] = []
        query = "SELECT min(stream) FROM samples WHERE step=? AND stream>?"
        while (
            name := self._rows(query, (tier.step_seconds, found[-1] if found else ""), empty=(None,))[0][0]
        ) is not None:
            found.append(name)
        return found

    def newest_ms(self, tier: Tier, stream: str) -> int | None:
        """When the newest sample of a stream in a tier begins; None without one."""
        query = "SELECT max(time_ms) FROM samples WHERE step=? AND stream=?"
        newest: int | None = self._rows(query, (tier.step_seconds, stream), empty=(None,))[0][0]
        return newest

    def samples(
        self, tier: Tier, stream: str, *, start_ms: int, end_ms: int, limit: int
    ) -> list[tuple[str, int, bytes]]:
        """Stream, time and body of the samples of a stream that begin in a span of time, in order."""
        return self._rows(
            "SELECT stream, time_ms, body FROM samples WHERE step=? AND stream=? AND time_ms>=? AND time_ms<? "
            "ORDER BY time_ms LIMIT ?",
            (tier.step_seconds, stream, start_ms, end_ms, limit),
        )

    def records(
        self, *, start_ms: int, end_ms: int, wanted: FeedFilter, after: int = 0, limit: int
    ) -> list[tuple[int, bytes]]:
        """Number and body of wanted records in a span of time with a higher number than `after`, in order."""
        known = [(number, msgspec.json.decode(key)) for number, key in self._rows("SELECT id, key FROM keys", ())]
        keys = [number for number, key in known if wanted.matches(tuple(key))]
        return self._rows(
            "SELECT number, body FROM records WHERE time_ms>=? AND time_ms<? AND number>? "
            "AND (? OR key IN (SELECT value FROM json_each(?))) ORDER BY number LIMIT ?",
            (start_ms, end_ms, after, len(keys) == len(known), msgspec.json.encode(keys).decode(), limit),
        )

    def add_grids(self, rows: Sequence[GridRow], *, merge: Callable[[bytes, bytes], bytes]) -> None:
        """Keep grids of heat maps, merged with those of the same hour. What cannot be written is lost."""
        try:
            with self._lock, self._database.transaction() as database:
                for stream, time_ms, label, feet, paths in rows:
                    where = (stream, time_ms, label)
                    query = "SELECT feet, paths FROM grids WHERE stream=? AND time_ms=? AND label=?"
                    found = database.execute(query, where).fetchone()
                    grids = (feet, paths) if found is None else (merge(found[0], feet), merge(found[1], paths))
                    database.execute("INSERT OR REPLACE INTO grids VALUES (?,?,?,?,?)", (*where, *grids))
        except DatabaseDamaged as error:
            self._begin_anew(error)
        except OutputError as error:
            _LOG.debug("grids of the heat maps are not kept: %s", error)

    def grids(self, stream: str, *, start_ms: int, end_ms: int, limit: int) -> list[tuple[str, bytes, bytes]]:
        """Label and both grids of the hours of a stream that begin in a span of time."""
        return self._rows(
            "SELECT label, feet, paths FROM grids WHERE stream=? AND time_ms>=? AND time_ms<? ORDER BY time_ms LIMIT ?",
            (stream, start_ms, end_ms, limit),
        )

    def used_bytes(self) -> int:
        """How much is in use."""
        return self._database.used_bytes()

    def close(self) -> None:
        """Close the file; harmless when called again."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()

    def _rows(self, query: str, values: Sequence[object], *, empty: tuple[Any, ...] | None = None) -> list[Any]:
        try:
            with self._lock:
                return self._database.rows(query, values)
        except DatabaseDamaged as error:
            self._begin_anew(error)
            return [] if empty is None else [empty]

    def _number_of(self, key: RecordKey, database: sqlite3.Connection) -> int:
        """The number of a key, which is kept if it is a new one."""
        number = self._keys.get(key)
        if number is None:
            text = msgspec.json.encode(key).decode()
            database.execute("INSERT OR IGNORE INTO keys(key) VALUES (?)", (text,))
            (number,) = database.execute("SELECT id FROM keys WHERE key=?", (text,)).fetchone()
            self._keys[key] = number
        return int(number)

    def _keep_size(self) -> None:
        """Remove the oldest records, then samples, while there is too much."""
        most = self._limits.size_bytes if self.is_on_disk else self._limits.memory_bytes
        try:
            with self._lock:
                while self._database.used_bytes() > most and self._remove_oldest():
                    pass
        except DatabaseDamaged as error:
            self._begin_anew(error)
        except OutputError as error:
            _LOG.debug("the history is not made smaller: %s", error)

    def _remove_samples(self, tier: Tier, *, before_ms: int) -> None:
        for stream in self.streams(tier):
            with self._database.transaction() as database:
                database.execute(
                    "DELETE FROM samples WHERE step=? AND stream=? AND time_ms<?",
                    (tier.step_seconds, stream, before_ms),
                )

    def _remove_grids(self, *, before_ms: int) -> None:
        """Remove the grids of earlier hours, and the oldest ones beyond the limit."""
        with self._database.transaction() as database:
            database.execute("DELETE FROM grids WHERE time_ms<?", (before_ms,))
            query = "SELECT time_ms FROM grids ORDER BY time_ms DESC LIMIT 1 OFFSET ?"
            oldest = database.execute(query, (self._limits.grids,)).fetchone()
            if oldest is not None:
                database.execute("DELETE FROM grids WHERE time_ms<=?", oldest)

    def _remove_oldest(self) -> bool:
        """Remove some of the oldest records, else the oldest grids, else samples of the shortest step; return whether
        there were any.
        """
        with self._database.transaction() as database:
            query = "DELETE FROM records WHERE number IN (SELECT number FROM records ORDER BY number LIMIT ?)"
            if database.execute(query, (_REMOVED_RECORDS,)).rowcount:
                return True
            query = "DELETE FROM grids WHERE time_ms < (SELECT min(time_ms) FROM grids) + ?"
            if database.execute(query, (_REMOVED_SAMPLES_MS,)).rowcount:
                return True
        for tier in self._limits.tiers:
            (oldest,) = self._database.rows("SELECT min(time_ms) FROM samples WHERE step=?", (tier.step_seconds,))[0]
            if oldest is not None:
                self._remove_samples(tier, before_ms=oldest + _REMOVED_SAMPLES_MS)
                return True
        return False

    def _open(self) -> Database:
        try:
            return self._connect(self.path)
        except DatabaseDamaged as error:
            return self._set_aside(error)
        except (OutputError, ConfigurationError) as error:
            _LOG.warning("%s: the history is kept in memory only", error)
            return self._connect(None)

    def _connect(self, path: Path | None) -> Database:
        return Database(path, what="history", schema=_SCHEMA, version=_VERSION, outputs=self._outputs)

    def _begin_anew(self, error: DatabaseDamaged) -> None:
        with self._lock:
            self._database.close()
            self._keys.clear()
            self._opened = self._set_aside(error)

    def _set_aside(self, error: OutputError) -> Database:
        """Move a damaged file away, which takes the place of one that was set aside before, and begin another one."""
        aside = self.path.with_name(f"{self.path.name}.damaged")
        try:
            self._outputs.rename(self.path, to=aside)
            for side in ("-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    self.path.with_name(self.path.name + side).unlink()
            database = self._connect(self.path)
        except (OSError, OutputError, ConfigurationError) as failure:
            _LOG.warning("%s, and it cannot be set aside (%s): the history is kept in memory only", error, failure)
            return self._connect(None)
        _LOG.warning("%s; it is set aside as %s, and the history begins anew", error, aside.name)
        return database
