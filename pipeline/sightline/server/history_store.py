"""Where the history is kept: samples, records, images and recordings in one SQLite file, bounded by age and size.

Samples stand in tiers: intervals of one length, each kept for its time. Records are those of the feed. Images are those
of events; recordings are files, of which the history keeps where they are.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

import msgspec

from sightline.errors import ConfigurationError, OutputError
from sightline.graph import PipelineDescription
from sightline.graph.outputs import Outputs
from sightline.runtime.database import Database, DatabaseDamaged
from sightline.server.feed_records import RecordKey
from sightline.server.history_search import SEARCH_SCHEMA, RecordQuery, RecordSearch, key_token

_VERSION = 3
_SCHEMA = """
CREATE TABLE IF NOT EXISTS samples(
  step INTEGER NOT NULL,
  stream TEXT NOT NULL,
  time_ms INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY(step, stream, time_ms)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS images(
  number INTEGER PRIMARY KEY,
  time_ms INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  stream TEXT NOT NULL,
  frame INTEGER NOT NULL,
  pts_ns INTEGER NOT NULL,
  track INTEGER NOT NULL,
  size INTEGER NOT NULL,
  body BLOB NOT NULL,
  UNIQUE(epoch, stream, frame, track)
);
CREATE TABLE IF NOT EXISTS grids(
  stream TEXT NOT NULL,
  time_ms INTEGER NOT NULL,
  label TEXT NOT NULL,
  feet BLOB NOT NULL,
  paths BLOB NOT NULL,
  PRIMARY KEY(stream, time_ms, label)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS grids_by_time ON grids(time_ms);
CREATE INDEX IF NOT EXISTS images_by_time ON images(time_ms, size);
CREATE INDEX IF NOT EXISTS images_by_stream ON images(epoch, stream, track, pts_ns);
CREATE TABLE IF NOT EXISTS recordings(
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  epoch INTEGER NOT NULL,
  stream TEXT NOT NULL,
  element TEXT NOT NULL,
  path TEXT NOT NULL,
  start_ms INTEGER NOT NULL,
  end_ms INTEGER,
  first_pts_ns INTEGER NOT NULL,
  last_pts_ns INTEGER,
  images INTEGER,
  causes TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS recordings_by_time ON recordings(start_ms);
CREATE INDEX IF NOT EXISTS recordings_by_stream ON recordings(epoch, stream, first_pts_ns);
"""
_REMOVED_RECORDS = 10_000
_REMOVED_IMAGES = 200
_REMOVED_SAMPLES_MS = 6 * 3_600_000
_ADD_RECORD = "INSERT INTO records(time_ms, key, epoch, place, body, scene) VALUES (?,?,?,?,?,?)"
_LOG = logging.getLogger(__name__)


SampleRow = tuple[int, str, int, bytes]
"""Step in seconds, stream, the time at which the interval begins in milliseconds, and the sample."""
GridRow = tuple[str, int, str, bytes, bytes]
"""Stream, the hour in milliseconds, label, and two grids of a heat map as `sightline.server.heat` encodes them."""


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A record to be kept: when it was made, what filters look at, its place in the feed that began at `epoch`, the
    words to find it by, itself as JSON, and what is known of where it happened.
    """

    time_ms: int
    key: RecordKey
    epoch: int
    place: int
    words: str
    body: bytes
    scene: bytes | None


def history_path(outbox: Path, description: PipelineDescription) -> Path:
    """The file of a pipeline's history: beside its outbox."""
    return outbox.with_name(f"{description.name}.history")


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
        self._search = RecordSearch(self.rows)

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

        def work(database: sqlite3.Connection) -> None:
            database.executemany("INSERT OR REPLACE INTO samples VALUES (?,?,?,?)", samples)
            for one in records:
                key = self._number_of(one.key, database)
                row = (one.time_ms, key, one.epoch, one.place, one.body, one.scene)
                number = database.execute(_ADD_RECORD, row).lastrowid
                text = f"{key_token(key)} {one.words}"
                database.execute("INSERT INTO words(rowid, text) VALUES (?,?)", (number, text))

        self.write(work)

    def write(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Let `work` write in one transaction. While the disk refuses it, it is lost, which is logged once."""
        try:
            with self._lock, self._database.transaction() as database:
                work(database)
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
                    old = "SELECT number FROM records WHERE time_ms < ?"
                    database.execute(f"DELETE FROM words WHERE rowid IN ({old})", (before_ms,))  # noqa: S608
                    database.execute("DELETE FROM records WHERE time_ms < ?", (before_ms,))
                    database.execute("DELETE FROM images WHERE time_ms < ?", (before_ms,))
                    database.execute("DELETE FROM keys WHERE NOT EXISTS (SELECT 1 FROM records WHERE key = keys.id)")
                    self._keys.clear()
        except DatabaseDamaged as error:
            self._begin_anew(error)
        except OutputError as error:
            _LOG.debug("the history is not tidied: %s", error)

    def streams(self, tier: Tier) -> list[str]:
        """The names of the streams with samples in a tier."""
        found: list[str] = []
        first = "SELECT min(stream) FROM samples WHERE step=?"
        name = self.rows(first, (tier.step_seconds,), empty=(None,))[0][0]
        while name is not None:
            found.append(name)
            name = self.rows(f"{first} AND stream>?", (tier.step_seconds, name), empty=(None,))[0][0]
        return found

    def newest_ms(self, tier: Tier, stream: str) -> int | None:
        """When the newest sample of a stream in a tier begins; None without one."""
        query = "SELECT max(time_ms) FROM samples WHERE step=? AND stream=?"
        newest: int | None = self.rows(query, (tier.step_seconds, stream), empty=(None,))[0][0]
        return newest

    def samples(
        self, tier: Tier, stream: str, *, start_ms: int, end_ms: int, limit: int
    ) -> list[tuple[str, int, bytes]]:
        """Stream, time and body of the samples of a stream that begin in a span of time, in order."""
        return self.rows(
            "SELECT stream, time_ms, body FROM samples WHERE step=? AND stream=? AND time_ms>=? AND time_ms<? "
            "ORDER BY time_ms LIMIT ?",
            (tier.step_seconds, stream, start_ms, end_ms, limit),
        )

    def records(
        self, query: RecordQuery, *, start_ms: int, end_ms: int, after: int, limit: int, newest_first: bool
    ) -> list[tuple[int, bytes]]:
        """Number and body of the wanted records of a span of time; see `RecordSearch.find`."""
        return self._search.find(
            query, start_ms=start_ms, end_ms=end_ms, after=after, limit=limit, newest_first=newest_first
        )

    def add_grids(self, rows: Sequence[GridRow], *, merge: Callable[[bytes, bytes], bytes]) -> None:
        """Keep grids of heat maps, merged with those of the same hour. What cannot be written is lost."""

        def work(database: sqlite3.Connection) -> None:
            for stream, time_ms, label, feet, paths in rows:
                where = (stream, time_ms, label)
                query = "SELECT feet, paths FROM grids WHERE stream=? AND time_ms=? AND label=?"
                found = database.execute(query, where).fetchone()
                grids = (feet, paths) if found is None else (merge(found[0], feet), merge(found[1], paths))
                database.execute("INSERT OR REPLACE INTO grids VALUES (?,?,?,?,?)", (*where, *grids))

        self.write(work)

    def grids(self, stream: str, *, start_ms: int, end_ms: int, limit: int) -> list[tuple[str, bytes, bytes]]:
        """Label and both grids of the hours of a stream that begin in a span of time."""
        return self.rows(
            "SELECT label, feet, paths FROM grids WHERE stream=? AND time_ms>=? AND time_ms<? ORDER BY time_ms LIMIT ?",
            (stream, start_ms, end_ms, limit),
        )

    def record_counts(self, query: RecordQuery, *, start_ms: int, step_ms: int, count: int) -> Mapping[str, list[int]]:
        """How many wanted records each stream has in each of `count` intervals; see `RecordSearch.counts`."""
        return self._search.counts(query, start_ms=start_ms, step_ms=step_ms, count=count)

    def record_values(self) -> dict[str, list[str]]:
        """What there is to filter records by; see `RecordSearch.values`."""
        return self._search.values()

    def record(self, epoch: int, place: int) -> tuple[int, bytes, bytes | None] | None:
        """Time, body and scene of the record with that place in the feed that began at `epoch`; None without it."""
        found = self.rows("SELECT time_ms, body, scene FROM records WHERE epoch=? AND place=?", (epoch, place))
        return found[0] if found else None

    def used_bytes(self) -> int:
        """How much is in use."""
        return self._database.used_bytes()

    def close(self) -> None:
        """Close the file; harmless when called again."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()

    def rows(self, query: str, values: Sequence[object], *, empty: tuple[Any, ...] | None = None) -> list[Any]:
        """The rows of a query; of a damaged file, which is set aside, `empty` alone. Raises OutputError."""
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
                while self._database.used_bytes() > most and self._remove_oldest(most):
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

    def _remove_oldest(self, most: int) -> bool:
        """Remove some of the oldest images where these take more than half, else records, else grids and images, else
        samples of the shortest step; return whether there were any.
        """
        (image_bytes,) = self._database.rows("SELECT total(size) FROM images")[0]
        with self._database.transaction() as database:
            if image_bytes > most / 2:
                query = "DELETE FROM images WHERE number IN (SELECT number FROM images ORDER BY time_ms LIMIT ?)"
                return database.execute(query, (_REMOVED_IMAGES,)).rowcount > 0
            oldest = "(SELECT number FROM records ORDER BY number LIMIT ?)"
            database.execute(f"DELETE FROM words WHERE rowid IN {oldest}", (_REMOVED_RECORDS,))  # noqa: S608
            query = f"DELETE FROM records WHERE number IN {oldest}"  # noqa: S608
            if database.execute(query, (_REMOVED_RECORDS,)).rowcount:
                return True
            query = "DELETE FROM grids WHERE time_ms < (SELECT min(time_ms) FROM grids) + ?"
            if database.execute(query, (_REMOVED_SAMPLES_MS,)).rowcount:
                return True
            if database.execute("DELETE FROM images").rowcount:
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
        return Database(path, what="history", schema=_SCHEMA + SEARCH_SCHEMA, version=_VERSION, outputs=self._outputs)

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
