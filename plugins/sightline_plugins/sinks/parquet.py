"""`parquet`: rows of objects, events and frames as Parquet files."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from sightline.errors import MissingExtra, OutputError
from sightline.graph import CheckContext, Element, OutputPath, Problem, Sink, Site, Threading
from sightline.graph.fields import Size
from sightline.media import Batch, Frame, Stream
from sightline_plugins.sinks.files import Degradation, StreamFile
from sightline_plugins.sinks.retention import FileNames, Keep, Retention, facts_of
from sightline_plugins.sinks.rotation import EXPRESSIONS, TIME, Period, Rotate, fill_times
from sightline_plugins.sinks.tables import ROWS, Row, Table

if TYPE_CHECKING:
    import pyarrow as pa

    from sightline_plugins.sinks.arrow_parts import Partition

_FLUSH_NS = 200_000_000
_ABANDONED_NS = 60_000_000_000
_SECOND_NS = 1_000_000_000
_MISSING = MissingExtra("pyarrow", extra="parquet", purpose="`parquet`")


class RotateParts(Rotate):
    """When the next file begins: at a number of rows, a size, or a time, whichever comes first."""

    rows: Annotated[int, Field(ge=1)] | None = None
    """A file is finished when it has this many rows."""
    size: Annotated[Size, Field(gt=0)] | None = None
    """A file is finished when its rows take this much, before compression."""


def _without_slash(path: str) -> str:
    return path.rstrip("/") or path


class Parquet(Element):
    """Write results as Parquet files, for DuckDB, pandas, polars and Spark: a row for each object and event.

    Files are partitioned as Hive does it, by stream and UTC date: `out/objects/stream=gate/date=2026-11-24/part-...`.
    Names of streams are percent-encoded there, as readers decode them; one that is too long is cut, and whole in the
    file's metadata. Table `objects` has the columns `run`, `frame` (from 0), `pts_ns`, `time` (UTC, where the capture
    time is known), `label`, `class_id`, `confidence`, `x1`, `y1`, `x2`, `y2` (pixels), `track_id` and `attributes`
    (JSON); `events` has `kind`, `rule` and `data` (JSON); `frames`, if chosen, a row for each frame: `time_source`,
    `width`, `height` and the numbers of its `objects` and `events`. `stream` and `date` are in the path alone; the date
    is that of the capture time, else of the day of writing. Metadata `sightline.version` is the version of the schema.
    Keypoints, masks and embeddings are not included: `jsonl` holds everything. DuckDB answers, for example,
    `SELECT stream, label, count(DISTINCT track_id) FROM 'out/objects/**/*.parquet' GROUP BY ALL`. pandas and polars
    read a table by its folder: `polars.scan_parquet("out/objects")`, `pandas.read_parquet("out/objects")`. Given
    a pattern of files, polars leaves out `stream` and `date` without `hive_partitioning=True`.

    A file appears when it is finished: every minute, unless `rotate` says otherwise. Fewer and larger files are read
    faster. Until then its rows are in `out/.open` as an Arrow stream, which is written every 200 ms. After a kill it is
    made a Parquet file by the next run that writes to the same folder; several runs may do so at the same time. No
    file is ever overwritten.

    A full disk ends the run. With `on_error: skip` it does not: rows without room are lost and counted, a message
    reports it, and writing resumes when there is room. Requires the extra `parquet`.

    ```yaml
    - parquet: {path: out, rotate: {every: 10m, rows: 1000000}, keep: {age: 365d}}
    ```
    """

    name: ClassVar[str] = "parquet"
    sink: ClassVar[bool] = True
    results_only: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"
    threading: ClassVar[Threading] = Threading.OWN

    path: Annotated[OutputPath, AfterValidator(_without_slash)]
    """The folder; it is made."""
    tables: Annotated[tuple[Table, ...], Field(min_length=1)] = ("objects", "events")
    """What is written: `objects`, `events`, `frames`."""
    rotate: RotateParts | None = None
    """When the next file of a table and stream begins: every minute when not given."""
    keep: Keep | None = None
    """What is kept of finished files; all when not given."""

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check that the folder can be written, and that pyarrow is installed."""
        if "{" in self.path:
            yield Problem("the path is a folder, in which each stream has its own: leave placeholders out", ("path",))
        elif self.path == "-":
            yield Problem("Parquet cannot be written to standard output: name a folder", ("path",))
        else:
            try:
                path = context.outputs.path(f"{self.path}/{self.tables[0]}/part")
            except OutputError:
                return
            if obstacle := context.outputs.obstacle(path):
                yield Problem(obstacle, ("path",))
        if find_spec("pyarrow") is None:
            yield Problem(str(_MISSING))

    def build(self, site: Site) -> ParquetSink:
        """Make the writer; files are opened at their first row. Raises MissingExtra without pyarrow."""
        if find_spec("pyarrow") is None:
            raise _MISSING
        return ParquetSink(self, site)


@dataclass(slots=True, eq=False)
class _Part:
    """An open part: `waiting` are rows that are not in its file yet."""

    partition: Partition
    path: Path
    file: StreamFile
    schema: pa.Schema
    period: Period
    waiting: list[Row] = field(default_factory=list)
    rows: int = 0
    written_ns: int | None = None


class ParquetSink(Sink):
    """Writes rows to a part for each table and stream, and makes Parquet files of finished parts."""

    def __init__(self, element: Parquet, site: Site) -> None:
        from sightline_plugins.sinks.arrow_parts import OPEN_FOLDER, PartConverter

        self._element = element
        self._rotate = RotateParts.model_validate({"every": "1m"}) if element.rotate is None else element.rotate
        self._site = site
        self._folder = site.outputs.path(element.path)
        self._open_folder = self._folder / OPEN_FOLDER
        self._degradation = Degradation(site) if element.on_error == "skip" else None
        self._delay = Degradation(site)
        names = FileNames(
            f"{element.path}/{{table}}/stream={{stream}}/date={{date}}/part-{{time}}-{{run}}.parquet",
            {**EXPRESSIONS, "{table}": "[a-z]+", "{stream}": "[^/]+", "{run}": "[0-9a-f]{8}-[0-9]+"},
        )
        self._retention = Retention(element.keep, names=names, outputs=site.outputs, clock=site.clock, warn=site.warn)
        self._converter = PartConverter(self._folder, outputs=site.outputs, done=self._done)
        self._parts: dict[tuple[Stream, Table], _Part] = {}
        self._token = secrets.token_hex(4)
        self._run = fill_times(f"{TIME}-{self._token}", epoch_ns=site.clock.epoch_ns())
        self._number = 0
        self._has_looked = False
        self._lost: dict[str, Counter[str]] = {}

    def consume(self, batch: Batch) -> None:
        """Write the rows of the batch. Raises OutputError."""
        self._look_for_unfinished()
        rows = {table: ROWS[table](batch) for table in dict.fromkeys(self._element.tables)}
        for number, frame in enumerate(batch.frames):
            date, about = self._date(frame), (self._run, frame.index, frame.pts_ns, frame.capture_ns)
            for table, by_frame in rows.items():
                if by_frame[number]:
                    part = self._part(frame.stream, table, date)
                    part.waiting.extend((*about, *row) for row in by_frame[number])
        now_ns = self._site.clock.monotonic_ns()
        for key, part in list(self._parts.items()):
            if part.waiting and (part.written_ns is None or now_ns - part.written_ns >= _FLUSH_NS):
                self._write(part, now_ns=now_ns)
            if self._is_due(part):
                self._finish(key)
        self._convert()

    def end_stream(self, stream: Stream) -> None:
        """Finish the parts of the stream. Raises OutputError."""
        for key in [key for key in self._parts if key[0] == stream]:
            self._finish(key)

    def close(self) -> None:
        """Finish all parts, each of them even if another fails, and make them Parquet. Raises OutputError."""
        with ExitStack() as stack:
            stack.callback(self._convert_all)
            for key in list(self._parts):
                stack.callback(self._finish, key)

    def totals(self) -> Mapping[str, Any]:
        """The `lost_rows` of each stream by reason, where there are any."""
        return {stream: {"lost_rows": dict(lost)} for stream, lost in self._lost.items()}

    def _date(self, frame: Frame) -> str:
        epoch_ns = self._site.clock.epoch_ns() if frame.capture_ns is None else frame.capture_ns
        return f"{datetime.fromtimestamp(epoch_ns // _SECOND_NS, UTC):%Y-%m-%d}"

    def _part(self, stream: Stream, table: Table, date: str) -> _Part:
        part = self._parts.get((stream, table))
        if part is not None and (part.partition.date != date or self._is_due(part)):
            self._finish((stream, table))
            part = None
        if part is None:
            part = self._parts[stream, table] = self._begin(stream, table, date)
        return part

    def _begin(self, stream: Stream, table: Table, date: str) -> _Part:
        from sightline_plugins.sinks.arrow_parts import Partition, schema_bytes

        self._retention.tidy(open_bytes=sum(part.file.whole_bytes for part in self._parts.values()))
        partition = Partition(table, stream.name, date)
        schema = partition.schema()
        self._number += 1
        name = fill_times(f"part-{TIME}-{self._token}-{self._number}.arrow", epoch_ns=self._site.clock.epoch_ns())
        path = self._open_folder / name
        file = StreamFile(
            path,
            outputs=self._site.outputs,
            header=schema_bytes(schema),
            degradation=self._degradation,
            make_room=self._retention.make_room,
        )
        period = Period(self._rotate.every, clock=self._site.clock)
        return _Part(partition, path, file, schema, period)

    def _write(self, part: _Part, *, now_ns: int) -> None:
        """Write the rows that wait."""
        from sightline_plugins.sinks.arrow_parts import rows_bytes

        rows, part.waiting, part.written_ns = part.waiting, [], now_ns
        lost_because = part.file.write(rows_bytes(rows, schema=part.schema), stream=part.partition.stream)
        if lost_because is None:
            part.rows += len(rows)
        else:
            self._lost.setdefault(part.partition.stream, Counter())[lost_because] += len(rows)

    def _is_due(self, part: _Part) -> bool:
        if self._degradation is not None and self._degradation.is_degraded:
            return False
        rotate = self._rotate
        is_full = rotate.rows is not None and part.rows >= rotate.rows
        is_large = rotate.size is not None and part.file.whole_bytes >= rotate.size
        return is_full or is_large or part.period.is_over

    def _finish(self, key: tuple[Stream, Table]) -> None:
        part = self._parts.pop(key)
        try:
            if part.waiting:
                self._write(part, now_ns=self._site.clock.monotonic_ns())
        finally:
            part.file.close()
            self._converter.add(part.path)

    def _convert(self) -> None:
        if self._converter.is_idle or self._delay.is_waiting:
            return
        try:
            self._converter.work()
        except OutputError as error:
            self._delay.failed(error, stream="", at_once=self._retention.make_room())

    def _convert_all(self) -> None:
        try:
            self._converter.finish()
        except OutputError as error:
            self._delay.failed(error, stream="")
        self._converter.release()

    def _done(self, path: Path, size_bytes: int) -> None:
        self._delay.succeeded(stream="")
        self._retention.add(path, size_bytes=size_bytes)
        self._retention.tidy(open_bytes=sum(part.file.whole_bytes for part in self._parts.values()))

    def _look_for_unfinished(self) -> None:
        """Find parts that a killed run has left; those that another run writes are locked."""
        if not self._has_looked:
            self._has_looked = True
            for path in sorted(self._open_folder.glob("part-*.arrow")):
                self._converter.add(path)
                self._remove_empty(path)

    def _remove_empty(self, path: Path) -> None:
        """Remove a part that a kill has left empty; one that is new may be about to be locked and written."""
        facts, now_ns = facts_of(path), self._site.clock.epoch_ns()
        if facts is not None and not facts.st_size and now_ns - facts.st_mtime_ns > _ABANDONED_NS:
            self._site.outputs.remove(path)
