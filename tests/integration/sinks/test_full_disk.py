"""A real full disk under sinks with `on_error: skip`: the run goes on, and so does writing."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from tests.disks import fill
from tests.integration.encode.clips import read_back
from tests.integration.figures import Record
from tests.integration.record.scenes import Told

from sightline import Pipeline
from sightline.graph import Element, MessageKind
from sightline.media import Batch, FrameView, Objects, Origin
from sightline.runtime.stats.report import Report
from sightline_plugins import Apply, Callback, Coco, Csv, Jsonl, Parquet, Sqlite, Video

FIRST, AFTER = 100, 100
PATIENCE_SECONDS = 300.0


class Disk:
    """Fills a disk when so many frames have come, and frees it when all writers have noticed; done is it when they
    have gone on for a while. `seconds` is how long that took from when there was room.
    """

    def __init__(self, filler: Path, told: Told, *, writers: set[str]) -> None:
        self._filler = filler
        self._told = told
        self._writers = writers
        self._freed_at: float | None = None
        self._ends_at: int | None = None
        self._is_full = False
        self.seconds = 0.0
        self.is_done = threading.Event()

    def __call__(self, view: FrameView) -> None:
        if not self._is_full:
            if view.index >= FIRST:
                fill(self._filler)
                self._is_full = True
        elif self._freed_at is None:
            if self._told.elements(MessageKind.SINK_DEGRADED) == self._writers:
                self._filler.unlink()
                self._freed_at = time.monotonic()
        elif self._ends_at is None:
            if self._told.elements(MessageKind.SINK_RECOVERED) == self._writers:
                self.seconds = time.monotonic() - self._freed_at
                self._ends_at = view.index + AFTER
        elif view.index >= self._ends_at:
            self.is_done.set()


def with_a_car(batch: Batch) -> Batch:
    """A car on each frame."""
    count = len(batch)
    return batch.with_objects(
        Objects.from_columns(
            frame=list(range(count)),
            xyxy=[[1, 2, 30, 40]] * count,
            confidence=[0.9] * count,
            class_id=[0] * count,
            source=Origin("apply-1", ("car",)),
        )
    )


@pytest.mark.row(id="C4")
def test_lines_are_whole_or_counted_and_go_on_when_there_is_room(tmpfs: Path, figure: Record) -> None:
    told = Told()
    disk = Disk(tmpfs / "filler", told, writers={"jsonl-1", "csv-1"})
    report = run(
        disk,
        told,
        [Jsonl(path="{stream}.jsonl", on_error="skip"), Csv(path="{stream}.csv", on_error="skip")],
        outputs=tmpfs,
    )

    text = (tmpfs / "cam.jsonl").read_text()
    frames = [json.loads(line)["frame"] for line in text.splitlines()]
    header, *rows = (tmpfs / "cam.csv").read_text().splitlines()
    uncounted = max(
        report.frames - len(kept) - lost(report, step) for kept, step in ((frames, "jsonl-1"), (rows, "csv-1"))
    )
    figure(
        "`jsonl`, `csv` with `on_error: skip` write again, once there is room, after",
        disk.seconds,
        limit=10.0,
        unit="s",
    )
    figure("of their lines, neither written whole nor counted as lost", uncounted, limit=0, unit="lines")
    assert uncounted == 0
    assert text.endswith("\n")
    assert frames == sorted(set(frames))
    assert len(frames) > FIRST
    assert header.startswith("stream,frame,")
    assert all(row.count(",") == header.count(",") for row in rows)
    assert not any(stream.error for stream in report.streams)


@pytest.mark.row(id="C4")
@pytest.mark.parametrize("element", [Sqlite(path="out/all.db", on_error="skip"), Parquet(path="out", on_error="skip")])
def test_rows_are_whole_or_counted_and_go_on_when_there_is_room(tmpfs: Path, figure: Record, element: Element) -> None:
    told = Told()
    step = f"{element.name}-1"
    disk = Disk(tmpfs / "filler", told, writers={step})
    report = run(disk, told, [element], outputs=tmpfs)

    frames = rows_in(tmpfs / "out")
    figure(
        f"`{element.name}` with `on_error: skip` writes again, once there is room, after",
        disk.seconds,
        limit=10.0,
        unit="s",
    )
    assert frames == sorted(set(frames))
    assert len(frames) > FIRST
    assert report.frames - len(frames) == lost(report, step, "lost_rows")
    assert not any(stream.error for stream in report.streams)


def rows_in(folder: Path) -> list[int]:
    """The frames of the rows that were written."""
    if (folder / "all.db").exists():
        with closing(sqlite3.connect(folder / "all.db")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            return [frame for (frame,) in connection.execute("SELECT frame FROM objects ORDER BY rowid")]
    found = duckdb.execute(f"SELECT frame FROM '{folder}/objects/**/*.parquet' ORDER BY frame").fetchall()
    return [frame for (frame,) in found]


def test_videos_and_documents_go_on_when_there_is_room(tmpfs: Path) -> None:
    told = Told()
    disk = Disk(tmpfs / "filler", told, writers={"video-1", "coco-1"})
    report = run(
        disk,
        told,
        [Video(path="{stream}.mp4", gop="200ms", on_error="skip"), Coco(path="{stream}.json", on_error="skip")],
        outputs=tmpfs,
    )

    before, after = (read_back(tmpfs / name).times_ns() for name in ("cam.mp4", "cam-2.mp4"))
    document = json.loads((tmpfs / "cam.json").read_text())
    files = [image["file_name"] for image in document["images"]]
    assert sorted(path.name for path in tmpfs.iterdir()) == ["cam-2.mp4", "cam.json", "cam.mp4"]
    assert 0 < len(before) < len(before) + len(after) == report.frames - lost(report, "video-1", "lost_frames")
    assert before[-1] < after[0]
    assert FIRST < len(files) == report.frames - lost(report, "coco-1", "lost_frames")
    assert files == sorted(set(files))
    assert [image["id"] for image in document["images"]] == list(range(1, len(files) + 1))
    assert [(one["id"], one["image_id"]) for one in document["annotations"]] == [
        (number, number) for number in range(1, len(files) + 1)
    ]
    assert set(report.lost_outputs) == {"video-1", "coco-1"}
    assert not any(stream.error for stream in report.streams)


def test_documents_that_cannot_be_joined_stay_apart(tmpfs: Path) -> None:
    told = Told()
    pipeline = Pipeline(
        sources={"cam": {"pattern": "bars", "size": [64, 48], "frames": 3000}},
        steps=[
            Apply(function="tests.integration.sinks.test_full_disk:with_a_car"),
            Coco(path="{stream}.json", on_error="skip"),
        ],
        outputs=tmpfs,
    )
    pipeline.on_message(told)
    fill(tmpfs / "filler")
    with (tmpfs / "filler").open("rb+") as filler:
        filler.truncate(filler.seek(0, 2) - 700_000)

    report = pipeline.run()

    assert set(report.lost_outputs) == {"coco-1"}
    assert "the disk is full" in report.lost_outputs["coco-1"]
    assert not (tmpfs / "cam.json").exists()
    images = (tmpfs / "cam.json.images.part").read_bytes()
    annotations = (tmpfs / "cam.json.part").read_bytes()
    assert len(json.loads(b"[" + images + b"]")) == 3000
    assert len(json.loads(annotations + b"]}")["annotations"]) == 3000


def run(disk: Disk, told: Told, steps: Sequence[Element], *, outputs: Path) -> Report:
    """Run up to 200 frames a second until the disk was full and has been written again for a while."""
    pipeline = Pipeline(
        sources={"cam": {"pattern": "bars", "size": [64, 48], "fps": 200, "frames": None, "realtime": True}},
        steps=[Callback(function=disk), Apply(function="tests.integration.sinks.test_full_disk:with_a_car"), *steps],
        outputs=outputs,
    )
    pipeline.on_message(told)
    with pipeline:
        assert disk.is_done.wait(PATIENCE_SECONDS)
        pipeline.stop()
    assert pipeline.report is not None
    return pipeline.report


def lost(report: Report, step: str, what: str = "lost_lines") -> int:
    """How many lines a step has lost on the full disk, and for no other reason."""
    told: dict[str, int] = report.totals[step]["cam"][what]
    assert list(told) == ["the disk is full"]
    return told["the disk is full"]
