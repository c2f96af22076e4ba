"""The recordings of a pipeline: files that its `record` steps have written while it was served, as clients see them.

They are known from the messages of the steps, and have numbers: no client names a path. Where a file is no more, its
recording is forgotten.
"""

from __future__ import annotations

import sqlite3
import stat
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Lock

from sightline.graph import Clock, Message, MessageKind
from sightline.graph.site import SystemClock
from sightline.server.history_store import HistoryStore

MOST_LISTED = 1_000
_MOST_KEPT = 200_000
_MOST_NOTED = 4_096
_MEDIA_TYPES = {".mp4": "video/mp4", ".mkv": "video/x-matroska"}
_COLUMNS = "number, epoch, stream, element, path, start_ms, end_ms, first_pts_ns, last_pts_ns, images, causes"
_Row = tuple[int, int, str, str, str, int, int | None, int, int | None, int | None, str]


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording whose file is there. Times of day are exact where the camera's clock is known, else within about a
    second; `first_pts_ns` and `last_pts_ns` are in the stream's clock and exact. What is still being written has no
    `last_pts_ns` and no `images`, and ends when its file was last written to.
    """

    number: int
    stream: str
    element: str
    path: Path
    start_ms: int
    end_ms: int
    first_pts_ns: int
    last_pts_ns: int | None
    images: int | None
    causes: tuple[str, ...]
    size_bytes: int
    is_open: bool

    @property
    def media_type(self) -> str:
        """The type of the file for HTTP."""
        return _MEDIA_TYPES.get(self.path.suffix.lower(), "application/octet-stream")


class Recordings:
    """Knows the recordings. `note` is a listener for messages, from any thread; `flush` keeps what was noted.

    `newest_pts_ns` returns the time of the newest frame of a stream, for those whose times of day are not known.
    `epoch` is that of the feed.
    """

    def __init__(
        self,
        store: HistoryStore,
        *,
        epoch: int,
        newest_pts_ns: Callable[[str], int | None],
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._epoch = epoch
        self._newest_pts_ns = newest_pts_ns
        self._clock = clock or SystemClock()
        self._noted: deque[tuple[Message, int]] = deque(maxlen=_MOST_NOTED)
        self._flushing = Lock()

    def note(self, message: Message) -> None:
        """Note that a recording has begun or ended; other messages are ignored."""
        if message.kind in (MessageKind.RECORDING_STARTED, MessageKind.RECORDING):
            self._noted.append((message, self._start_ms(message)))

    def flush(self) -> None:
        """Keep what was noted."""
        with self._flushing:
            if not self._noted:
                return
            noted = [self._noted.popleft() for _ in range(len(self._noted))]

            def work(database: sqlite3.Connection) -> None:
                for message, start_ms in noted:
                    self._keep(database, message, start_ms)
                (newest,) = database.execute("SELECT max(number) FROM recordings").fetchone()
                database.execute("DELETE FROM recordings WHERE number <= ?", (newest - _MOST_KEPT,))

            self._store.write(work)

    def find(
        self, *, streams: Sequence[str] = (), start_ms: int = 0, end_ms: int = 1 << 53, limit: int = MOST_LISTED
    ) -> list[Recording]:
        """The recordings that have something of a span of time, of the streams that match one of the globs (all when
        there is none): the newest `limit`, newest first.
        """
        self.flush()
        sql = f"SELECT {_COLUMNS} FROM recordings WHERE start_ms<? AND (end_ms IS NULL OR end_ms>=?)"  # noqa: S608
        rows = self._store.rows(f"{sql} ORDER BY start_ms DESC, number DESC LIMIT ?", (end_ms, start_ms, limit * 4))
        found = []
        for row in rows:
            if streams and not any(row[2] == glob or fnmatchcase(row[2], glob) for glob in streams):
                continue
            one = self._recording(row)
            if one is not None and one.end_ms >= start_ms:
                found.append(one)
            if len(found) == limit:
                break
        return found

    def get(self, number: int) -> Recording | None:
        """The recording with that number; None when there is none, or its file is no more."""
        self.flush()
        rows = self._store.rows(f"SELECT {_COLUMNS} FROM recordings WHERE number=?", (number,))  # noqa: S608
        return self._recording(rows[0]) if rows else None

    def of_event(self, epoch: int, stream: str, pts_ns: int) -> list[Recording]:
        """The recordings that show a time of a stream, in the run whose feed began at `epoch`."""
        self.flush()
        sql = (
            f"SELECT {_COLUMNS} FROM recordings WHERE epoch=? AND stream=? AND first_pts_ns<=? "  # noqa: S608
            "AND (last_pts_ns IS NULL OR last_pts_ns>=?) ORDER BY first_pts_ns DESC LIMIT 8"
        )
        rows = self._store.rows(sql, (epoch, stream, pts_ns, pts_ns))
        return [one for one in map(self._recording, rows) if one is not None]

    def _start_ms(self, message: Message) -> int:
        """When a recording begins: by the camera's clock, else by how long ago its first frame was shown."""
        capture_ns = message.data.get("first_capture_ns")
        if isinstance(capture_ns, int):
            return capture_ns // 1_000_000
        now_ms = self._clock.epoch_ns() // 1_000_000
        newest_ns = self._newest_pts_ns(message.stream or "")
        return (
            now_ms if newest_ns is None else now_ms - max(0, newest_ns - _number(message, "first_pts_ns")) // 1_000_000
        )

    def _keep(self, database: sqlite3.Connection, message: Message, start_ms: int) -> None:
        path, stream, element = str(message.data.get("path", "")), message.stream or "", message.element or ""
        first_ns = _number(message, "first_pts_ns")
        is_begin = message.kind is MessageKind.RECORDING_STARTED
        known = "SELECT number, start_ms FROM recordings WHERE epoch=? AND path=? AND last_pts_ns IS NULL"
        found = database.execute(known, (self._epoch, path)).fetchone()
        if is_begin or found is None:
            sql = (
                "INSERT INTO recordings(epoch, stream, element, path, start_ms, first_pts_ns, causes) "
                "VALUES (?,?,?,?,?,?,'')"
            )
            number = database.execute(sql, (self._epoch, stream, element, path, start_ms, first_ns)).lastrowid
        else:
            number, start_ms = found
        if not is_begin:
            last_ns = _number(message, "last_pts_ns")
            end_ms = start_ms + (last_ns - first_ns) // 1_000_000
            values = (end_ms, last_ns, message.data.get("images"), str(message.data.get("causes", "")), number)
            database.execute("UPDATE recordings SET end_ms=?, last_pts_ns=?, images=?, causes=? WHERE number=?", values)

    def _recording(self, row: _Row) -> Recording | None:
        number, epoch, stream, element, path, start_ms, end_ms, first_ns, last_ns, images, causes = row
        try:
            facts = Path(path).lstat()
        except OSError:
            facts = None
        if facts is None or not stat.S_ISREG(facts.st_mode):
            self._store.write(lambda database: database.execute("DELETE FROM recordings WHERE number=?", (number,)))
            return None
        written_ms = facts.st_mtime_ns // 1_000_000
        return Recording(
            number,
            stream,
            element,
            Path(path),
            start_ms,
            max(start_ms, written_ms) if end_ms is None else end_ms,
            first_ns,
            last_ns,
            images,
            tuple(causes.split(", ")) if causes else (),
            facts.st_size,
            end_ms is None and epoch == self._epoch,
        )


def _number(message: Message, name: str) -> int:
    value = message.data.get(name)
    return value if isinstance(value, int) else 0
