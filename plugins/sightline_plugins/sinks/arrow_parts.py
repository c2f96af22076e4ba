"""Parts of a table: written as an Arrow stream, which is readable up to its last batch, and made Parquet when finished.

Only what has pyarrow imports this module.
"""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePath
from typing import IO, Any, get_args
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from sightline.errors import OutputError
from sightline.graph import Outputs
from sightline.graph.outputs import LineFile, safe_name, take_over
from sightline.graph.ownership import is_foreign
from sightline_plugins.sinks.tables import COLUMNS, Row, Table

VERSION = 1
"""The version of the schema, which files hold as `sightline.version`."""
OPEN_FOLDER = ".open"
"""Folder of parts that are being written: readers skip hidden ones."""
_LONGEST_VALUE = 200
_GROUP_ROWS = 1 << 16
_STEP_ROWS = 1 << 14
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")

_TYPES: dict[str, pa.DataType] = {
    **dict.fromkeys(("label", "attributes", "kind", "rule", "data", "time_source"), pa.string()),
    **dict.fromkeys(("class_id", "width", "height", "objects", "events"), pa.int32()),
    **dict.fromkeys(("confidence", "x1", "y1", "x2", "y2"), pa.float32()),
    "track_id": pa.int64(),
}
_FRAME = (
    ("frame", pa.int64()),
    ("pts_ns", pa.int64()),
    ("time", pa.timestamp("ns", tz="UTC")),
)


def _columns(table: Table) -> tuple[tuple[str, pa.DataType], ...]:
    return tuple((name, _TYPES[name]) for name in COLUMNS[table])


def table_columns(table: Table) -> pa.Schema:
    """The columns of a table in memory, where rows name their stream."""
    return pa.schema((("stream", pa.string()), *_FRAME, *_columns(table)))


@dataclass(frozen=True, slots=True)
class Partition:
    """Where rows belong: table, stream and date (`2026-11-24`)."""

    table: Table
    stream: str
    date: str

    @property
    def folder(self) -> PurePath:
        """The folder of its files, in Hive's layout: `objects/stream=gate/date=2026-11-24`."""
        return PurePath(self.table, f"stream={partition_value(self.stream)}", f"date={self.date}")

    def schema(self) -> pa.Schema:
        """The columns of its table, with the partition and the version as metadata."""
        about = {"version": str(VERSION), "table": self.table, "stream": self.stream, "date": self.date}
        columns = (("run", pa.string()), *_FRAME, *_columns(self.table))
        return pa.schema(columns, metadata={f"sightline.{key}": value for key, value in about.items()})

    @classmethod
    def of(cls, schema: pa.Schema) -> Partition | None:
        """Return the partition that a schema names; None when it names none."""
        about = {key.decode(): value.decode("utf-8", "replace") for key, value in (schema.metadata or {}).items()}
        table, stream, date = (about.get(f"sightline.{key}", "") for key in ("table", "stream", "date"))
        is_one = table in get_args(Table) and stream and _DATE.fullmatch(date)
        return cls(table, stream, date) if is_one else None


def partition_value(name: str) -> str:
    """A stream's name as the value of a partition: percent-encoded, as readers decode it, so that it stays whole.

    A name that would be too long for a folder is cut, with a checksum that keeps it apart from others.
    """
    value = quote(name, safe="")
    if len(value) <= _LONGEST_VALUE:
        return value
    return f"{safe_name(name)}~{sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"


def schema_bytes(schema: pa.Schema) -> bytes:
    """The beginning of an Arrow stream."""
    return bytes(schema.serialize())


def record_batch(rows: Sequence[Row], *, schema: pa.Schema) -> pa.RecordBatch:
    """One row or more as columns."""
    arrays = [pa.array(column, type_) for column, type_ in zip(zip(*rows, strict=True), schema.types, strict=True)]
    return pa.record_batch(arrays, schema=schema)


def rows_bytes(rows: Sequence[Row], *, schema: pa.Schema) -> bytes:
    """Rows as a record batch of an Arrow stream."""
    return bytes(record_batch(rows, schema=schema).serialize())


@dataclass(slots=True)
class _Job:
    """A part that is made Parquet; `waiting` are batches that do not fill a row group yet."""

    path: Path
    source: IO[bytes]
    batches: Iterator[pa.RecordBatch]
    partition: Partition
    file: LineFile
    writer: pq.ParquetWriter
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0


class PartConverter:
    """Makes Parquet files of finished parts, one after another, in short steps. Used by one thread.

    The Arrow stream is removed when the Parquet file is complete and has its name. A batch that a kill has torn is left
    out.
    """

    def __init__(self, folder: Path, *, outputs: Outputs, done: Callable[[Path, int], None]) -> None:
        """`done` is called with each file and its size in bytes."""
        self._folder = folder
        self._outputs = outputs
        self._done = done
        self._waiting: deque[Path] = deque()
        self._job: _Job | None = None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return self._job is None and not self._waiting

    def add(self, path: Path) -> None:
        """Convert a part when its turn comes."""
        self._waiting.append(path)

    def work(self) -> None:
        """Do a step. Raises OutputError: the part is kept, and its turn comes again."""
        if self._job is None and self._waiting:
            self._begin(self._waiting.popleft())
        if (job := self._job) is None:
            return
        try:
            if not self._continue(job):
                self._end(job)
        except OutputError:
            self._give_up(job)
            raise

    def finish(self) -> None:
        """Do all that is left. Raises OutputError."""
        while not self.is_idle:
            self.work()

    def release(self) -> None:
        """Leave what is not done to the next run."""
        if self._job is not None:
            self._give_up(self._job)
        self._waiting.clear()

    def _begin(self, path: Path) -> None:
        source = take_over(path)
        if source is None:
            return
        try:
            reader = pa.ipc.open_stream(source)
            partition = Partition.of(reader.schema)
        except (pa.ArrowException, OSError):  # killed before the first row
            partition = None
        if partition is None or self._final(path, partition).exists():  # or killed between the last two steps
            source.close()
            if partition is not None or not is_foreign(path):
                self._outputs.remove(path)
            return
        try:
            part = path.with_suffix(".parquet")
            if part.exists():  # a kill came before: nobody else has the lock
                self._outputs.remove(part)
            file = LineFile(part, self._outputs.open_binary(part))
            writer = pq.ParquetWriter(_Whole(file), reader.schema, compression="zstd")
        except OutputError:
            source.close()
            self._waiting.append(path)
            raise
        self._job = _Job(path, source, _batches(reader), partition, file, writer)

    def _continue(self, job: _Job) -> bool:
        """Read some batches, and write a row group when there are enough; False at the end."""
        rows, is_over = 0, True
        for batch in job.batches:
            job.waiting.append(batch)
            rows += batch.num_rows
            if rows >= _STEP_ROWS:
                is_over = False
                break
        job.rows += rows
        if job.waiting and (is_over or sum(batch.num_rows for batch in job.waiting) >= _GROUP_ROWS):
            job.writer.write_table(pa.Table.from_batches(job.waiting), row_group_size=2 * _GROUP_ROWS)
            job.waiting.clear()
        return not is_over

    def _end(self, job: _Job) -> None:
        job.writer.close()
        if job.rows:
            final = self._final(job.path, job.partition)
            job.file.synchronize()
            job.file.close()
            self._outputs.rename(job.file.path, to=final)
        else:
            job.file.close()
            self._outputs.remove(job.file.path)
        self._outputs.remove(job.path)
        job.source.close()
        self._job = None
        if job.rows:
            self._done(final, job.file.whole_bytes)

    def _final(self, path: Path, partition: Partition) -> Path:
        return self._folder / partition.folder / f"{path.stem}.parquet"

    def _give_up(self, job: _Job) -> None:
        self._job = None
        self._waiting.append(job.path)
        job.source.close()
        job.file.close()
        if job.file.path.exists():
            self._outputs.remove(job.file.path)


class _Whole(io.RawIOBase):
    """A file that takes all that it is given, or raises OutputError: pyarrow does not look at how much it took."""

    def __init__(self, file: LineFile) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._file.write(bytes(data))
        return len(data)

    def tell(self) -> int:
        return self._file.whole_bytes


def _batches(reader: pa.ipc.RecordBatchStreamReader) -> Iterator[pa.RecordBatch]:
    """The whole batches of a stream; what a kill has torn at its end is left out."""
    while True:
        try:
            yield reader.read_next_batch()
        except (StopIteration, pa.ArrowException, OSError):
            return
