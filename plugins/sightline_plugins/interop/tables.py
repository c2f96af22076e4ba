"""Objects, events and frames of a run as tables: Arrow, pandas and polars, with the columns of the `parquet` step."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sightline.errors import ConfigurationError, MissingExtra
from sightline.media import Batch, FrameView
from sightline_plugins.sinks.tables import ROWS, Row, Table

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

_CHUNK_ROWS = 1 << 13
"""Rows that wait until they become columns."""
_MOST_ROWS = 20_000_000


def _needed(package: str, *, purpose: str, extra: str) -> None:
    if find_spec(package) is None:
        raise MissingExtra(package, extra=extra, purpose=purpose)


class ResultTable:
    """Rows of one table of a run: `objects`, `events` or `frames`, as the `parquet` step names them.

    Columns are `stream`, `frame`, `pts_ns`, `time` and those of the table; `docs/elements/parquet.md` lists them. There
    is no `run`, and no `date`. DuckDB, polars, pandas 3 and all that read Arrow's C stream take the table itself.
    """

    def __init__(self, table: Table) -> None:
        from sightline_plugins.sinks.arrow_parts import table_columns

        self._table = table
        self._schema = table_columns(table)
        self._rows: list[Row] = []
        self._chunks: list[pa.RecordBatch] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, batch: Batch) -> None:
        """Add the rows of a batch."""
        for frame, rows in zip(batch.frames, ROWS[self._table](batch), strict=True):
            about = (frame.stream.name, frame.index, frame.pts_ns, frame.capture_ns)
            self._rows.extend((*about, *row) for row in rows)
            self._count += len(rows)
        if len(self._rows) >= _CHUNK_ROWS:
            self._pack()

    def to_arrow(self) -> pa.Table:
        """Return all rows as a `pyarrow.Table`, which shares the memory of this one."""
        import pyarrow as pa

        self._pack()
        return pa.Table.from_batches(self._chunks, schema=self._schema)

    def to_pandas(self) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame; `track_id` is `Int64`, which has missing values.

        Raises MissingExtra without pandas.
        """
        _needed("pandas", purpose="`to_pandas`", extra="pandas")
        import pandas as pd

        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame.astype({"track_id": pd.Int64Dtype()}) if "track_id" in frame else frame

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a polars DataFrame. Raises MissingExtra without polars."""
        _needed("polars", purpose="`to_polars`", extra="polars")
        import polars as pl

        return pl.from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _pack(self) -> None:
        if self._rows:
            from sightline_plugins.sinks.arrow_parts import record_batch

            self._chunks.append(record_batch(self._rows, schema=self._schema))
            self._rows = []


class Collected:
    """What `collect` gives: the tables `objects`, `events` and `frames` of a run."""

    def __init__(self) -> None:
        self.objects = ResultTable("objects")
        self.events = ResultTable("events")
        self.frames = ResultTable("frames")

    def add(self, batch: Batch) -> None:
        """Add everything of a batch."""
        for table in (self.objects, self.events, self.frames):
            table.add(batch)

    def __repr__(self) -> str:
        return f"Collected({len(self.frames)} frames, {len(self.objects)} objects, {len(self.events)} events)"


def collect(frames: Iterable[FrameView], *, most_rows: int = _MOST_ROWS) -> Collected:
    """Run a pipeline, or take any other frames, and return their objects, events and frames as tables.

    Images are not kept. `itertools.islice(pipeline, 500)` takes 500 frames. Raises what the pipeline raises,
    MissingExtra without pyarrow, and ConfigurationError when there are more than `most_rows` objects (about 100 bytes
    each): the `parquet` step writes results of any length, and of streams that do not end.

    >>> from sightline import Pipeline
    >>> from sightline_plugins.interop import collect
    >>> steps = [{"replay": {"path": "sample_videos/gate.mot.txt", "label": "car"}}, "track"]
    >>> run = collect(Pipeline(sources={"gate": "sample_videos/gate.mp4"}, steps=steps))
    >>> run.objects.to_pandas().groupby("track_id").size()
    """
    _needed("pyarrow", purpose="`collect`", extra="parquet")
    run = Collected()
    with closing(_batches(frames)) as batches:
        for batch in batches:
            run.add(batch)
            if len(run.objects) > most_rows:
                raise ConfigurationError(
                    f"there are more than {most_rows} objects: take fewer frames, raise most_rows, or write them with"
                    " the step `parquet`"
                )
    return run


def _batches(frames: Iterable[FrameView]) -> Generator[Batch]:
    """Frames that came together, together: rows of one batch that follow one another."""
    rows: list[int] = []
    batch: Batch | None = None
    for frame in frames:
        if frame.batch is not batch:
            if batch is not None:
                yield batch if len(rows) == len(batch) else batch.select_frames(rows)
            batch, rows = frame.batch, []
        rows.append(frame.row)
    if batch is not None:
        yield batch if len(rows) == len(batch) else batch.select_frames(rows)
