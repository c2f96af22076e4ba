"""Rerun itself reads what `rerun` writes: images, boxes, tracks, rules and events, at their times."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from tests.conftest import missing
from tests.disks import SmallDisk
from tests.unit.sinks.test_full_disk import StepClock

from sightline import Pipeline
from sightline.devices import Device
from sightline.errors import ConfigurationError
from sightline.graph import Message, MessageKind, Site
from sightline.testing import make_batches, make_frames
from sightline_plugins import Lines, Replay, Rerun, Track

FRAMES = 30
SIZE_WH = (320, 180)
RECORDED = "".join(f"{frame},-1,{10 + 4 * frame},40,60,50,0.9,-1,-1,-1\n" for frame in range(1, 21))


@pytest.fixture(scope="module", autouse=True)
def rr() -> Any:
    try:
        import rerun
    except ImportError:
        missing("the package rerun is not installed")
    return rerun


def rerun(path: str, **options: object) -> Rerun:
    return Rerun.model_validate({"path": path, **options})


def pipeline(folder: Path, step: Rerun, *, streams: int = 1) -> Pipeline:
    (folder / "det.txt").write_text(RECORDED)
    source = {"pattern": "bars", "size": list(SIZE_WH), "frames": FRAMES, "fps": 10}
    return Pipeline(
        sources={f"gate {number}": source for number in range(streams)},
        steps=[
            Replay(path=folder / "det.txt", label="car"),
            Track(),
            Lines.model_validate({"door": {"from": [0.3, 0], "to": [0.3, 1]}}),
            step,
        ],
        outputs=folder,
    )


def rows(path: Path, entity: str) -> list[dict[str, Any]]:
    """The rows of an entity in a recording, by frame: components by their short names."""
    from rerun.chunk import RrdReader

    found: list[dict[str, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a file without an index is called old
        for chunk in RrdReader(path).stream():
            if str(chunk.entity_path).replace("\\", "") == entity:
                found += chunk.to_record_batch().to_pylist()
    return sorted(
        ({name.rpartition(":")[2]: value for name, value in row.items()} for row in found),
        key=lambda row: -1 if row.get("frame") is None else row["frame"],
    )


def test_rerun_reads_boxes_images_and_events_as_they_were(tmp_path: Path) -> None:
    run = pipeline(tmp_path, rerun("{stream}.rrd", images="500ms"))
    seen = [(view.index, view.objects.xyxy.tolist(), view.rgb(), len(view.events)) for view in run]
    path = tmp_path / "gate_0.rrd"

    boxes = rows(path, "/gate 0/image/objects")
    images = rows(path, "/gate 0/image")
    events = rows(path, "/gate 0/events")

    assert [row["frame"] for row in boxes] == list(range(FRAMES))
    for row, (_, xyxy, _, _) in zip(boxes, seen, strict=True):
        centers, halves = (np.array(row[name] or ()).reshape(-1, 2) for name in ("centers", "half_sizes"))
        assert np.allclose(np.concatenate([centers - halves, centers + halves], axis=1), np.reshape(xyxy, (-1, 4)))
    assert boxes[3]["labels"] == ["car #1 0.90"]
    assert [row["frame"] for row in images] == [0, 5, 10, 15, 20, 25]
    image = cv2.imdecode(np.array(images[0]["blob"][0], np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    assert np.abs(image[..., ::-1].astype(int) - seen[0][2]).mean() < 3
    assert [row["frame"] for row in events] == [index for index, _, _, count in seen for _ in range(count)]
    assert events[0]["text"][0].startswith("door: line direction")


def test_tracks_and_rules_grow_along_the_way(tmp_path: Path) -> None:
    run = pipeline(tmp_path, rerun("{stream}.rrd", images=None, trail="500ms"))
    feet = {view.index: [(one.xyxy[0] + one.xyxy[2]) / 2 for one in view.objects] for view in run}
    path = tmp_path / "gate_0.rrd"

    trails = {row["frame"]: row["strips"] for row in rows(path, "/gate 0/image/tracks")}
    rules = rows(path, "/gate 0/image/rules")
    counts = {row["frame"]: row["scalars"] for row in rows(path, "/gate 0/count/car")}

    assert len(trails[10]) == 1
    assert [x for x, _ in trails[10][0]] == pytest.approx([feet[frame][0] for frame in range(5, 11)], abs=0.01)
    assert not trails[max(trails)]
    assert [row["labels"][0].split()[0] for row in rules] == ["door", "door"]
    assert rules[0]["strips"] == [[[96.0, 0.0], [96.0, 180.0]]]
    assert (counts[3], counts[29]) == ([1.0], [0.0])
    assert rows(path, "/gate 0/image") == []


def test_several_streams_share_one_file(tmp_path: Path) -> None:
    pipeline(tmp_path, Rerun(path="all.rrd", images=None), streams=2).run()

    for number in range(2):
        frames = [row["frame"] for row in rows(tmp_path / "all.rrd", f"/gate {number}/image/objects")]
        assert frames == list(range(FRAMES))


def test_the_file_must_have_the_suffix_of_the_viewer(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"must end in \.rrd"):
        pipeline(tmp_path, Rerun(path="gate.bin")).check()


def test_a_full_disk_costs_frames_that_are_counted_and_writing_resumes(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity=20_000)
    clock, messages = StepClock(), list[Message]()
    site = Site(device=Device(), element_id="rerun-1", outputs=disk, clock=clock, post=messages.append)
    sink = Rerun.model_validate({"path": "cam.rrd", "images": None, "on_error": "skip"}).build(site)

    for index, batch in enumerate(make_batches(make_frames(40))):
        clock.now_ns += 500_000_000
        if index == 20:
            disk.capacity = 10_000_000
        sink.process(batch)
    sink.close()

    kept = [row["frame"] for row in rows(tmp_path / "cam.rrd", "/cam/image/objects")]
    assert sink.totals() == {"cam": {"lost_frames": {"the disk is full": 40 - len(kept)}}}
    assert kept == sorted(kept)
    assert 0 < len(kept) < 40
    assert kept[-1] == 39
    assert [message.kind for message in messages] == [MessageKind.SINK_DEGRADED, MessageKind.SINK_RECOVERED]
