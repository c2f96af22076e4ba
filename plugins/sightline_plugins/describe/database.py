"""The file of requests and answers: what was sent today counts there before it is sent, also over restarts."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sightline.errors import OutputError

APPLICATION_ID = 0x534C4445
"""What marks the file as ours (`PRAGMA application_id`)."""
VERSION = 1
_BUSY_SECONDS = 5.0
_SCHEMA = """
CREATE TABLE questions(
    id TEXT PRIMARY KEY, pipeline TEXT NOT NULL, step TEXT NOT NULL, stream TEXT NOT NULL, about TEXT NOT NULL,
    asked_ns INTEGER NOT NULL, prompt TEXT NOT NULL, facts TEXT NOT NULL, state TEXT NOT NULL, answer TEXT,
    ended_ns INTEGER NOT NULL) STRICT;
CREATE INDEX questions_by_time ON questions(asked_ns);
CREATE TABLE requests(
    id INTEGER PRIMARY KEY, question TEXT NOT NULL, day TEXT NOT NULL, sent_ns INTEGER NOT NULL, outcome TEXT NOT NULL,
    input_tokens INTEGER, output_tokens INTEGER, cost REAL NOT NULL) STRICT;
CREATE INDEX requests_by_day ON requests(day)
"""


@dataclass(frozen=True, slots=True)
class DayLimits:
    """The most requests of a day, and what they may cost; None: any amount."""

    requests: int
    money: float | None


@dataclass(frozen=True, slots=True)
class Ended:
    """A question that has ended, as the file keeps it: `state` says how, `facts` is JSON."""

    id: str
    stream: str
    about: str
    asked_ns: int
    prompt: str
    facts: str
    state: str
    answer: str | None
    ended_ns: int


def day_of(epoch_ns: int) -> str:
    """Return the day of a time since the epoch, in UTC: `2026-11-26`."""
    return datetime.fromtimestamp(epoch_ns / 1e9, UTC).date().isoformat()


class RequestFile:
    """The open file. Methods raise sqlite3.Error; one thread at a time uses it.

    Several steps and processes may share it: the count and the entry of a request are one transaction.
    """

    def __init__(self, path: Path, *, pipeline: str, step: str, keep: int) -> None:
        """Open or make the file. Raises OutputError for one that is something else."""
        self._pipeline, self._step, self._keep = pipeline, step, keep
        try:
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(path)
            except BaseException:
                self._connection.close()
                raise
        except sqlite3.Error as error:
            raise OutputError(f"cannot write {path}: {error}", reason=str(error)) from error

    def begin(self, question: str, *, now_ns: int, cost: float, limits: DayLimits) -> int | None:
        """Enter a request that is about to be sent, with what it may cost; return its number, or None when the day has
        no room for it.
        """
        day, connection = day_of(now_ns), self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            count, spent = self._of_day(day)
            is_over = count >= limits.requests or (limits.money is not None and spent >= limits.money)
            number = None
            if not is_over:
                values = (question, day, now_ns, "sent", cost)
                text = "INSERT INTO requests(question, day, sent_ns, outcome, cost) VALUES (?, ?, ?, ?, ?)"
                number = connection.execute(text, values).lastrowid
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return number

    def end(self, number: int, outcome: str, *, tokens: tuple[int, int] | None, cost: float) -> None:
        """Enter how a request ended, the tokens of request and answer where the server said so, and its cost."""
        self._connection.execute(
            "UPDATE requests SET outcome = ?, input_tokens = ?, output_tokens = ?, cost = ? WHERE id = ?",
            (outcome, *(tokens or (None, None)), cost, number),
        )

    def keep_ended(self, one: Ended) -> None:
        """Keep a question that has ended; the oldest of too many are deleted, and requests of other days with them."""
        connection = self._connection
        connection.execute(
            "INSERT OR REPLACE INTO questions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (one.id, self._pipeline, self._step, one.stream, one.about, one.asked_ns, one.prompt, one.facts, one.state,
             one.answer, one.ended_ns),
        )  # fmt: skip
        (count,) = connection.execute("SELECT count(*) FROM questions").fetchone()
        if count > self._keep:
            oldest = "SELECT id FROM questions ORDER BY asked_ns LIMIT ?"
            connection.execute(f"DELETE FROM questions WHERE id IN ({oldest})", (count - self._keep,))  # noqa: S608
            connection.execute(
                "DELETE FROM requests WHERE day < ? AND question NOT IN (SELECT id FROM questions)",
                (day_of(one.ended_ns),),
            )

    def today(self, now_ns: int) -> Mapping[str, float]:
        """Return `requests` and `cost` of the present day."""
        count, spent = self._of_day(day_of(now_ns))
        return {"requests": count, "cost": spent}

    def close(self) -> None:
        """Close the file; harmless when called again."""
        self._connection.close()

    def _of_day(self, day: str) -> tuple[int, float]:
        text = "SELECT count(*), coalesce(sum(cost), 0.0) FROM requests WHERE day = ?"
        count, spent = self._connection.execute(text, (day,)).fetchone()
        return int(count), float(spent)

    def _prepare(self, path: Path) -> None:
        connection = self._connection
        connection.execute("PRAGMA secure_delete = ON").fetchall()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables:
            (mark,), (version,) = (
                connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
            )
            if (mark, version) != (APPLICATION_ID, VERSION):
                reason = "it is no file of requests of this version"
                raise OutputError(f"cannot write {path}: {reason}: name another file", reason=reason)
        else:
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = FULL")  # what was sent must be counted after a power cut, too


def read_answers(path: Path) -> list[tuple[str, str, str, str | None]]:
    """Return id, stream, state and answer of each question of a file, in the order in which they were asked."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT id, stream, state, answer FROM questions ORDER BY asked_ns, rowid")
        return [(str(one), str(stream), str(state), answer) for one, stream, state, answer in rows]
