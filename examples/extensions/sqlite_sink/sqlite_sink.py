"""A sink of your own: events as rows of a SQLite database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import ClassVar

from sightline.errors import OutputError
from sightline.graph import CheckContext, Element, OutputPath, Problem, Sink, Site, Threading
from sightline.media import Batch


class EventsDb(Element):
    """Write events into a SQLite database, one row each.

    ```yaml
    - events_db: {path: "out/events.db"}
    ```
    """

    name: ClassVar[str] = "events_db"
    sink: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"
    threading: ClassVar[Threading] = Threading.OWN  # a slow disk holds up this step alone

    path: OutputPath
    """The database; a table `events` is created where it is missing."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Report a path with placeholders: one database holds all streams."""
        del context
        if "{" in str(self.path):
            yield Problem("one database holds all streams: leave {stream} out of the path", ("path",))

    def build(self, site: Site) -> Sink:
        """Return the writer; it opens the database below the output root."""
        return SqliteWriter(site, self.path)


class SqliteWriter(Sink):
    """Write the events of a batch in one transaction."""

    def __init__(self, site: Site, path: str) -> None:
        self.path = site.outputs.prepare(site.outputs.path(path))
        self.database = sqlite3.connect(self.path, check_same_thread=False)
        self.database.execute("CREATE TABLE IF NOT EXISTS events (stream, frame, pts_ns, kind, rule, data)")

    def consume(self, batch: Batch) -> None:
        """Insert the events. Raises OutputError when the database cannot be written."""
        frames = [(batch.frames[event.frame], event) for event in batch.events]
        rows = [(f.stream.name, f.index, f.pts_ns, e.kind, e.rule, json.dumps(dict(e.data))) for f, e in frames]
        try:
            with self.database:
                self.database.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", rows)
        except sqlite3.Error as error:
            raise OutputError(f"{self.path}: {error}") from error

    def close(self) -> None:
        """Close the database; harmless when called again."""
        self.database.close()
