"""What a controller keeps over a restart: who has which stream, with what epoch, and who has which configuration. In a
file, or in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from sightline.runtime.database import Database

_VERSION = 2
_SCHEMA = """
CREATE TABLE IF NOT EXISTS head(one INTEGER PRIMARY KEY CHECK (one = 1), term INTEGER NOT NULL,
  revision INTEGER NOT NULL, epoch_floor INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS workers(name TEXT PRIMARY KEY, incarnation TEXT NOT NULL, generation INTEGER NOT NULL,
  draining INTEGER NOT NULL, present INTEGER NOT NULL, sent_ns INTEGER NOT NULL,
  lapses INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS streams(name TEXT PRIMARY KEY, worker TEXT, epoch INTEGER NOT NULL, since INTEGER NOT NULL,
  leaving INTEGER NOT NULL, blind_ns INTEGER NOT NULL, cause TEXT NOT NULL, source TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS rollout(one INTEGER PRIMARY KEY CHECK (one = 1), json TEXT NOT NULL);
"""
_FILES, _OWNER_ONLY = ("", "-wal", "-shm"), 0o600


@dataclass(frozen=True, slots=True)
class SavedHead:
    """`term` counts the starts of the controller, `revision` its changes of assignments. No epoch below `epoch_floor`
    is given again.
    """

    term: int = 0
    revision: int = 0
    epoch_floor: int = 0


@dataclass(frozen=True, slots=True)
class SavedWorker:
    """`generation` is the revision that last changed what the worker runs; `incarnation` the start of its process. One
    that is not present runs nothing. It has sent a heartbeat at `sent_ns`, its time of day, and perhaps
    some later; `lapses` are those that it told by then.
    """

    incarnation: str
    generation: int
    is_draining: bool
    is_present: bool
    sent_ns: int
    lapses: int


@dataclass(frozen=True, slots=True)
class SavedStream:
    """Who has a stream since which revision (`since`), and whether it is leaving that worker since then. Frames are
    missing since the time of day `blind_ns`, for that cause; 0 when they come. `source` is the fingerprint of what
    the worker got.
    """

    worker: str | None
    epoch: int
    since: int
    is_leaving: bool
    blind_ns: int
    cause: str
    source: str


@dataclass(frozen=True, slots=True)
class SavedRollout:
    """Fingerprints of the configurations that all workers have proved, and that was given last; why the latter was
    rolled back; the worker that has it on probation, and those that have proved it; `number` of the last order, and the
    order of each worker: its number and a fingerprint. `configurations` are all of these, as plain data.
    """

    accepted: str
    wanted: str
    problem: str
    turn: str
    proved: tuple[str, ...]
    number: int
    orders: Mapping[str, tuple[int, str]]
    configurations: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Saved:
    """The whole state; or what has changed, where None stands for what is gone; of the roll-out for no change."""

    head: SavedHead = SavedHead()
    workers: Mapping[str, SavedWorker | None] = field(default_factory=dict)
    streams: Mapping[str, SavedStream | None] = field(default_factory=dict)
    rollout: SavedRollout | None = None


class Store(Protocol):
    """Keeps the state of one controller; a second one must not be able to open it."""

    def load(self) -> Saved:
        """Return what was kept. Raises OutputError."""
        ...

    def commit(self, changes: Saved) -> None:
        """Keep all of the changes or nothing, before returning. Raises OutputError."""
        ...


class MemoryStore:
    """Lives as long as the object: for tests and simulations, which start another controller with it."""

    def __init__(self) -> None:
        self._head = SavedHead()
        self._workers: dict[str, SavedWorker] = {}
        self._streams: dict[str, SavedStream] = {}
        self._rollout: SavedRollout | None = None

    def load(self) -> Saved:
        """Return a copy of what was kept."""
        return Saved(self._head, dict(self._workers), dict(self._streams), self._rollout)

    def commit(self, changes: Saved) -> None:
        """Keep the changes."""
        self._head, self._rollout = changes.head, changes.rollout or self._rollout
        _merge(self._workers, changes.workers)
        _merge(self._streams, changes.streams)


Row = TypeVar("Row")


def _merge(kept: dict[str, Row], changes: Mapping[str, Row | None]) -> None:
    for name, one in changes.items():
        if one is None:
            kept.pop(name, None)
        else:
            kept[name] = one


class FileStore:
    """A database file, which one controller at a time opens. Any thread may call it."""

    def __init__(self, path: Path) -> None:
        """Open or make it. Raises OutputError, DatabaseDamaged, and DatabaseInUse when another controller has it."""
        self._database = Database(path, what="state of a cluster", schema=_SCHEMA, version=_VERSION)
        for own in path.parent.glob(f"{path.name}*"):  # steps may have passwords
            if own.name.removeprefix(path.name) in _FILES:
                own.chmod(_OWNER_ONLY)

    def load(self) -> Saved:
        """Return what was kept. Raises OutputError."""
        heads = self._database.rows("SELECT term, revision, epoch_floor FROM head")
        workers = self._database.rows(
            "SELECT name, incarnation, generation, draining, present, sent_ns, lapses FROM workers"
        )
        columns = "name, worker, epoch, since, leaving, blind_ns, cause, source"
        streams = self._database.rows(f"SELECT {columns} FROM streams")  # noqa: S608  constant names
        rollouts = self._database.rows("SELECT json FROM rollout")
        return Saved(
            SavedHead(*heads[0]) if heads else SavedHead(),
            {
                name: SavedWorker(incarnation, since, bool(drains), bool(present), sent_ns, lapses)
                for name, incarnation, since, drains, present, sent_ns, lapses in workers
            },
            {
                name: SavedStream(worker, epoch, since, bool(leaves), blind_ns, cause, source)
                for name, worker, epoch, since, leaves, blind_ns, cause, source in streams
            },
            msgspec.json.decode(rollouts[0][0], type=SavedRollout) if rollouts else None,
        )

    def commit(self, changes: Saved) -> None:
        """Keep the changes in one transaction. Raises OutputError, and nothing is kept then."""
        head = changes.head
        with self._database.transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO head VALUES (1, ?, ?, ?)",
                (head.term, head.revision, head.epoch_floor),
            )
            database.executemany(
                "INSERT OR REPLACE INTO workers VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    (name, one.incarnation, one.generation, one.is_draining, one.is_present, one.sent_ns, one.lapses)
                    for name, one in changes.workers.items()
                    if one is not None
                ),
            )
            database.executemany(
                "INSERT OR REPLACE INTO streams VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    (name, one.worker, one.epoch, one.since, one.is_leaving, one.blind_ns, one.cause, one.source)
                    for name, one in changes.streams.items()
                    if one is not None
                ),
            )
            if changes.rollout is not None:
                database.execute(
                    "INSERT OR REPLACE INTO rollout VALUES (1, ?)", (msgspec.json.encode(changes.rollout).decode(),)
                )
            for table, rows in (("workers", changes.workers), ("streams", changes.streams)):
                gone = [(name,) for name, one in rows.items() if one is None]
                database.executemany(f"DELETE FROM {table} WHERE name = ?", gone)  # noqa: S608  two constant names

    def close(self) -> None:
        """Close the file; harmless when called again."""
        self._database.close()
