"""Continuous recording: segments without a gap, and what of them is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.camera.clips import write_noise
from tests.integration.record.scenes import INTERVAL_NS, images, record

COUNT, KEY_EVERY = 200, 10
SECOND_NS = 1_000_000_000


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_noise(tmp_path_factory.mktemp("source") / "source.mp4", count=COUNT, key_every=KEY_EVERY, b_frames=2)


def test_segments_together_show_everything_once(source: Path, tmp_path: Path) -> None:
    segments, _, _ = record(source, outputs=tmp_path, segment="2s")

    whole = images(source)
    assert [one.look for segment in segments for one in segment.shown] == [one.look for one in whole]
    assert [one.pts_ns for segment in segments for one in segment.shown] == [one.pts_ns for one in whole]


def test_each_segment_begins_with_a_key_frame_and_is_as_long_as_wanted(source: Path, tmp_path: Path) -> None:
    segments, _, _ = record(source, outputs=tmp_path, segment="2s")

    assert [segment.first_pts_ns for segment in segments] == [number * 2 * SECOND_NS for number in range(4)]
    assert all(segment.shown[0].is_key for segment in segments)


def test_a_segment_ends_at_the_key_frame_after_its_time(source: Path, tmp_path: Path) -> None:
    segments, _, _ = record(source, outputs=tmp_path, segment="1s")

    lasting = KEY_EVERY * INTERVAL_NS * 3
    assert [segment.first_pts_ns for segment in segments] == [number * lasting for number in range(7)]


def test_the_oldest_segments_go_when_all_are_too_large(source: Path, tmp_path: Path) -> None:
    segments, _, report = record(source, outputs=tmp_path, segment="400ms", keep={"size": "500kB", "free": "0B"})

    there = [segment for segment in segments if segment.path.exists()]
    assert 0 < len(there) < len(segments)
    assert there == segments[-len(there) :]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 500_000
    assert report.totals["record-1"]["cam"]["files"] == len(segments)


def test_segments_of_an_earlier_run_count_too(source: Path, tmp_path: Path) -> None:
    first, _, _ = record(source, outputs=tmp_path, segment="2s", keep={"count": 4})
    second, _, _ = record(source, outputs=tmp_path, segment="2s", keep={"count": 4})

    assert [one.path.exists() for one in first] == [False] * 4
    assert [one.path.exists() for one in second] == [True] * 4


def test_several_streams_are_recorded_each_for_itself(source: Path, tmp_path: Path) -> None:
    from sightline import Pipeline
    from tests.integration.record.scenes import Told

    told = Told()
    pipeline = Pipeline(
        sources=dict.fromkeys(("gate", "yard", "door"), source),
        steps=[{"record": {"path": "{stream}/{time}.mp4", "segment": "1h", "streams": ["gate", "yard"]}}],
        outputs=tmp_path,
    )
    pipeline.on_message(told)
    pipeline.run()

    wanted = [one.look for one in images(source)]
    assert sorted(file.path.parent.name for file in told.recorded()) == ["gate", "yard"]
    assert all([one.look for one in file.shown] == wanted for file in told.recorded())
