"""Which frames images of events are taken of, and how many."""

from __future__ import annotations

from collections.abc import Iterator
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline import Pipeline
from sightline.media import Batch, Objects, Origin
from sightline.media.surface import PixelFormat, Surface
from sightline.server.event_images import EventImages, crop_of, last_change, steps_behind
from sightline.server.event_scenes import Trails
from sightline.server.history_store import HistoryLimits, HistoryStore
from sightline.testing import make_batches, make_frames
from tests.unit.server.test_feed import batch_of, line

HIDE = {"privacy": {"on": "car", "detector": "replay-1"}}
REPLAY = {"replay": {"path": "sample_videos/gate.mot.txt", "label": "car"}}
COUNT = {"lines": {"gate": {"from": [0, 0.5], "to": [1, 0.5]}}}


def behind(*steps: Any) -> tuple[str | None, list[str]]:
    """The last step that changes images, and those behind it."""
    description = Pipeline(sources={"gate": {"pattern": "bars", "frames": 1}}, steps=[REPLAY, *steps]).description
    point = last_change(description)
    return point, steps_behind(description, point)


def test_images_are_taken_behind_the_last_change() -> None:
    assert behind(COUNT) == (None, ["replay-1", "lines-1"])
    assert behind(COUNT, "draw") == ("draw-1", ["draw-1"])
    assert behind(HIDE, COUNT, "draw", COUNT) == ("draw-1", ["draw-1", "lines-2"])


def test_other_branches_are_not_behind_a_change() -> None:
    assert behind({"tee": {"shown": [HIDE, COUNT], "counted": [COUNT]}}, COUNT) == (
        "privacy-1",
        ["privacy-1", "lines-1"],
    )
    assert behind(HIDE, {"tee": {"shown": [COUNT], "counted": [COUNT]}}) == (
        "privacy-1",
        ["privacy-1", "lines-1", "lines-2"],
    )


@pytest.mark.parametrize("pixel_format", list(PixelFormat))
@pytest.mark.parametrize(
    "box", [(30, 20, 50, 40), (-50, -50, 3, 3), (95, 60, 400, 400), (0, 0, 99, 71), (40, 30, 40, 30)]
)
def test_a_crop_has_the_middle_of_its_box_and_stays_inside(
    pixel_format: PixelFormat, box: tuple[float, float, float, float]
) -> None:
    surface = Surface.allocate(pixel_format, size_wh=(99, 71))
    for plane in surface.planes:
        plane[:] = np.arange(plane.size).reshape(plane.shape) % 251
    crop = crop_of(surface, np.array(box, np.float32))

    width, height = crop.size_wh
    assert 1 <= width <= 99
    assert 1 <= height <= 71
    whole, part = surface.planes[0], crop.planes[0]
    starts = [
        (x, y)
        for y in range(71 - height + 1)
        for x in range(99 - width + 1)
        if np.array_equal(whole[y : y + height, x : x + width], part)
    ]
    middle = np.clip([(box[0] + box[2]) / 2, (box[1] + box[3]) / 2], 0, (98, 70))
    assert any(x <= middle[0] <= x + width and y <= middle[1] <= y + height for x, y in starts)


@pytest.fixture
def images(tmp_path: Path) -> Iterator[EventImages]:
    """Images of a pipeline that changes nothing; nothing makes them but the test."""
    description = Pipeline(sources={"gate": {"pattern": "bars", "frames": 1}}, steps=[REPLAY, COUNT]).description
    store = HistoryStore(tmp_path / "test.history")
    yield EventImages(lambda surface, *, largest_wh: b"jpeg", store=store, description=lambda: description, epoch=1)
    store.close()


def test_a_flood_of_events_takes_few_images(images: EventImages) -> None:
    for _ in range(100):
        batch = batch_of(line(1), frames=1)
        images.want(batch, batch.events)
    images.start()
    images.close()

    image = images.nearest(1, "gate", pts_ns=400_000_000)
    assert image is not None
    assert (image.later_ns, images.body(image)) == (-400_000_000, b"jpeg")
    assert images.nearest(1, "gate", pts_ns=600_000_000) is images.nearest(1, "yard", pts_ns=0) is None
    assert images.nearest(2, "gate", pts_ns=0) is None
    assert images.crop(1, "gate", frame=0, track=5) is None
    assert len(images._store.rows("SELECT 1 FROM images", ())) == 1


def test_images_make_way_for_newer_ones_within_the_size(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "test.history", limits=HistoryLimits(size_bytes=4_000_000))
    sql = "INSERT INTO images(time_ms, epoch, stream, frame, pts_ns, track, size, body) VALUES (?,1,'gate',?,0,-1,?,?)"
    for number in range(1_000):
        row = (number, number, 20_000, bytes(20_000))
        store.write(methodcaller("execute", sql, row))

    kept = [frame for (frame,) in store.rows("SELECT frame FROM images ORDER BY frame", ())]
    assert store.used_bytes() < 5_000_000
    assert kept[-1] == 999
    assert kept == list(range(kept[0], 1_000))
    store.close()


def walk(trails: Trails, *, frames: int, first: int = 0, stream: str = "gate", track_id: int = 5) -> None:
    """An object that walks to the right, one pixel a frame."""
    for frame in make_frames(first + frames, stream=stream)[first:]:
        (batch,) = make_batches([frame], size=1)
        box = np.array([[frame.index, 10, frame.index + 2, 20]], np.float32)
        objects = Objects.from_columns(
            frame=[0], xyxy=box, confidence=[1], class_id=[0], source=Origin("test", ("car",)), track_id=[track_id]
        )
        trails.look(Batch(batch.frames, objects))


def test_the_path_of_an_object_is_that_of_its_foot_in_the_last_seconds() -> None:
    trails = Trails()
    walk(trails, frames=500)
    (*_, last) = make_frames(500, stream="gate")
    path = trails.path("gate", 5, until_ns=last.pts_ns)

    assert path == sorted(path, reverse=True)
    assert 11 < path[0][0] < 12.2
    for seconds, x, y in path:
        assert x * last.size_wh[0] == pytest.approx((last.pts_ns / 1e9 - seconds) * 25 + 1, abs=0.1)
        assert y * last.size_wh[1] == pytest.approx(20, abs=0.1)
    assert trails.path("gate", 6, until_ns=last.pts_ns) == trails.path("yard", 5, until_ns=0) == []


def test_a_stream_that_begins_anew_has_new_paths() -> None:
    trails = Trails()
    walk(trails, frames=200)
    walk(trails, frames=10)

    newest_ns = trails.newest_pts_ns("gate")
    assert newest_ns is not None
    assert newest_ns < 400_000_000
    assert len(trails.path("gate", 5, until_ns=newest_ns)) == 3
