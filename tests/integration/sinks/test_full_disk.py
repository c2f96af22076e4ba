"""A real full disk under sinks that write lines, with `on_error: skip`: the run goes on, and so does writing."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from tests.disks import fill
from tests.integration.figures import Record
from tests.integration.record.scenes import Told

from sightline import Pipeline
from sightline.graph import MessageKind
from sightline.media import Batch, FrameView, Objects, Origin
from sightline.runtime.stats.report import Report
from sightline_plugins import Apply, Callback, Csv, Jsonl

FIRST, AFTER = 100, 100
PATIENCE_SECONDS = 60.0


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
        self.seconds = 0.0
        self.is_done = threading.Event()

    def __call__(self, view: FrameView) -> None:
        if view.index == FIRST:
            fill(self._filler)
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
    pipeline = Pipeline(
        sources={"cam": {"pattern": "bars", "size": [64, 48], "fps": 200, "frames": None, "realtime": True}},
        steps=[
            Callback(function=disk),
            Apply(function="tests.integration.sinks.test_full_disk:with_a_car"),
            Jsonl(path="{stream}.jsonl", on_error="skip"),
            Csv(path="{stream}.csv", on_error="skip"),
        ],
        outputs=tmpfs,
    )
    pipeline.on_message(told)
    with pipeline:
        assert disk.is_done.wait(PATIENCE_SECONDS)
        pipeline.stop()

    report = pipeline.report
    assert report is not None
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
    assert all(stream.dropped == {} and not stream.error for stream in report.streams)


def lost(report: Report, step: str) -> int:
    """How many lines a step has lost on the full disk, and for no other reason."""
    told: dict[str, int] = report.totals[step]["cam"]["lost_lines"]
    assert list(told) == ["the disk is full"]
    return told["the disk is full"]
