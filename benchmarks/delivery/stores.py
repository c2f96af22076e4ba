"""Rows a second into SQLite and Parquet, beside a plain loop that writes fewer columns of as many rows."""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sightline.devices import Device
from sightline.graph import Element, Outputs, Site
from sightline.media import Batch, Frame, Objects, Origin
from sightline.testing import make_frames
from sightline_plugins import Parquet, Sqlite

LEAST = 20_000
TARGET = 0.8
OBJECTS = 20
ROWS_AT_ONCE = 10_000
_COLUMNS = ("frame", "pts_ns", "label", "class_id", "confidence", "x1", "y1", "x2", "y2", "track_id")
Row = tuple[Any, ...]


def stores(names: Sequence[str], *, count: int, rounds: int) -> Iterator[str]:
    """The lines of the table."""
    yield "| sink | rows a second, plain loop | through the sink | ratio |"
    yield "|---|---:|---:|---:|"
    batches = batches_of(max(count // OBJECTS, 1))
    rows = OBJECTS * len(batches)
    for name in names:
        element, plain = STORES[name]
        found = []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                ours = through_sink(element, batches, Path(folder))
                began = time.perf_counter()
                plain(batches, Path(folder))
                found.append((ours, time.perf_counter() - began))
        own, other = (statistics.median(rows / one[index] for one in found) for index in (0, 1))
        ratio = statistics.median(one[1] / one[0] for one in found)
        verdict = "met" if own >= LEAST else "missed"
        yield f"| {name} | {other:,.0f} | {own:,.0f} ({verdict}) | {ratio:.2f} |"


def batches_of(count: int) -> list[Batch]:
    """Frames with tracked objects that move by a pixel a frame."""
    (first,) = make_frames(1, stream="gate")
    origin, numbers = Origin("detect", ("person", "bicycle", "car")), np.arange(OBJECTS)
    batches = []
    for index in range(count):
        left = 10.25 * numbers + index
        objects = Objects.from_columns(
            frame=np.zeros(OBJECTS, int),
            xyxy=np.stack([left, left / 2, left + 30, left / 2 + 60], axis=1),
            confidence=0.5 + numbers / 50,
            class_id=numbers % 3,
            source=origin,
            track_id=numbers,
        )
        batches.append(Batch((Frame(first.stream, index, index * 40_000_000, first.surface),), objects))
    return batches


def through_sink(element: Element, batches: Sequence[Batch], folder: Path) -> float:
    """Return the seconds until all is in files that others can read."""
    sink: Any = element.build(Site(Device(), element_id=element.name, pipeline="benchmark", outputs=Outputs(folder)))
    began = time.perf_counter()
    for batch in batches:
        sink.consume(batch)
    sink.close()
    return time.perf_counter() - began


def _rows(batch: Batch) -> Iterator[Row]:
    (frame,), objects = batch.frames, batch.objects
    columns = objects.class_id.tolist(), objects.confidence.tolist(), objects.xyxy.tolist(), objects.track_id.tolist()
    for label, class_id, confidence, box, track_id in zip(objects.labels(), *columns, strict=True):
        yield frame.index, frame.pts_ns, label, class_id, confidence, *box, track_id


def _groups(batches: Sequence[Batch]) -> Iterator[list[Row]]:
    """The rows, several thousand at a time."""
    waiting: list[Row] = []
    for batch in batches:
        waiting += _rows(batch)
        if len(waiting) >= ROWS_AT_ONCE:
            yield waiting
            waiting = []
    yield waiting


def _plain_sqlite(batches: Sequence[Batch], folder: Path) -> None:
    database = sqlite3.connect(folder / "plain.db")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute(f"CREATE TABLE objects ({', '.join(_COLUMNS)})")
    database.execute("CREATE INDEX objects_by_track ON objects (track_id)")
    database.execute("CREATE INDEX objects_by_time ON objects (pts_ns)")
    for rows in _groups(batches):
        with database:
            database.executemany(f"INSERT INTO objects VALUES ({', '.join('?' * len(_COLUMNS))})", rows)
    database.close()


def _plain_parquet(batches: Sequence[Batch], folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = (pa.int64(), pa.int64(), pa.string(), pa.int32(), *[pa.float32()] * 5, pa.int64())
    schema = pa.schema(list(zip(_COLUMNS, types, strict=True)))
    with pq.ParquetWriter(folder / "plain.parquet", schema, compression="zstd") as writer:
        for rows in _groups(batches):
            columns = zip(*rows, strict=True) if rows else [()] * len(_COLUMNS)
            arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


STORES: Mapping[str, tuple[Element, Callable[[Sequence[Batch], Path], None]]] = {
    "sqlite": (Sqlite(path="results.db", tables=("objects",)), _plain_sqlite),
    "parquet": (Parquet(path="results", tables=("objects",)), _plain_parquet),
}
