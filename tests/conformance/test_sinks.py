"""Sinks keep the contract of sinks, and the contract catches one that does not."""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pyarrow.dataset as ds
import pytest

from sightline.graph import Element, Operator, Sink, Site
from sightline.media import Batch
from sightline.testing.sink_conformance import SinkConformance
from sightline_plugins import Csv, Jsonl, Parquet, Sqlite
from tests.unit.delivery.sending import Post
from tests.unit.sinks.images import batches


class TestJsonl(SinkConformance):
    def sink(self, folder: Path) -> Element:
        return Jsonl.model_validate({"path": "all.jsonl"})

    def written(self, folder: Path) -> Sequence[tuple[str, int]]:
        lines = [json.loads(line) for line in (folder / "all.jsonl").read_text().splitlines()]
        return [(line["stream"], line["frame"]) for line in lines]


class TestDelivery(SinkConformance):
    def sink(self, folder: Path) -> Element:
        return Post()

    def written(self, folder: Path) -> Sequence[tuple[str, int]]:
        return [(record.stream, json.loads(record.body)["frame"]) for record in self.outbox.records]


class TestRotatedJsonl(SinkConformance):
    def sink(self, folder: Path) -> Element:
        return Jsonl.model_validate({"path": "all.jsonl", "rotate": {"size": "1kB"}, "compress": "gzip"})

    def written(self, folder: Path) -> Sequence[tuple[str, int]]:
        files = sorted(folder.iterdir(), key=lambda path: len(path.name))
        lines = [json.loads(line) for path in files for line in gzip.decompress(path.read_bytes()).splitlines()]
        return [(line["stream"], line["frame"]) for line in lines]


class TestCsv(SinkConformance):
    """Rows of objects: each frame has one."""

    def sink(self, folder: Path) -> Element:
        return Csv.model_validate({"path": "{stream}.csv", "rotate": {"every": "1d"}})

    def batches(self) -> list[Batch]:
        return [
            batch for pair in zip(batches(12, stream="gate"), batches(12, stream="yard"), strict=True) for batch in pair
        ]

    def written(self, folder: Path) -> Sequence[tuple[str, int]]:
        rows = [row for path in folder.iterdir() for row in csv.DictReader(path.read_text().splitlines())]
        return [(row["stream"], int(row["frame"])) for row in rows]


class TestSqlite(SinkConformance):
    def sink(self, folder: Path) -> Element:
        return Sqlite.model_validate({"path": "all.db", "tables": ["frames"]})

    def written(self, folder: Path) -> Sequence[tuple[str, int]]:
        with closing(sqlite3.connect(folder / "all.db")) as connection:
            return connection.execute("SELECT stream, frame FROM frames ORDER BY rowid").fetchall()


class TestParquet(SinkConformance):
    def sink(self, folder: Path) -> Element:
        return Parquet.model_validate({"path": "out", "tables": ["frames"]})

    def written(self, folder: Path) -> Sequence[tuple[str, int]]:
        table = ds.dataset(folder / "out" / "frames", partitioning="hive").to_table()
        return list(zip(table["stream"].to_pylist(), table["frame"].to_pylist(), strict=True))


class Forgetful(Element):
    """Writes stream and frame as rows, and keeps the last ones for itself until the streams end."""

    name: ClassVar[str] = "forgetful"
    sink: ClassVar[bool] = True

    def build(self, site: Site) -> Operator:
        return _Forgetful(site)


class _Forgetful(Sink):
    def __init__(self, site: Site) -> None:
        self.site, self.rows = site, list[tuple[str, int]]()

    def consume(self, batch: Batch) -> None:
        self.rows += [(frame.stream.name, frame.index) for frame in batch.frames]

    def drain(self) -> None:
        with self.site.outputs.path("rows.csv").open("w") as file:
            csv.writer(file).writerows(self.rows[:-1])


class OfForgetful(SinkConformance):
    def sink(self, folder: Path) -> Element:
        return Forgetful()

    def written(self, folder: Path) -> Sequence[tuple[str, int]]:
        path = folder / "rows.csv"
        rows = list(csv.reader(path.read_text().splitlines())) if path.exists() else []
        return [(stream, int(index)) for stream, index in rows]


def test_a_sink_that_loses_frames_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="frames are missing"):
        OfForgetful().test_every_frame_is_written_once(tmp_path)
    with pytest.raises(AssertionError, match="missing after an early end"):
        OfForgetful().test_nothing_is_lost_when_the_run_ends_early(tmp_path)
