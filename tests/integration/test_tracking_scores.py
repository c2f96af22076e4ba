"""Tracking through the whole pipeline on public detections scores no lower than public ByteTrack implementations."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.tracking.contestants import BEST_BYTETRACK
from benchmarks.tracking.sequences import read_mot, read_sequence, score

from sightline import Pipeline
from sightline.testing import assert_accounted


@pytest.mark.parametrize("name", BEST_BYTETRACK)
def test_public_detections_through_replay_track_and_mot(shared_data: Path, tmp_path: Path, name: str) -> None:
    folder = shared_data / "truth" / "mot" / name
    sequence = read_sequence(folder)
    image = {"pattern": "solid", "size": [1280, 720], "frames": sequence.frame_count, "fps": sequence.fps}

    report = Pipeline(
        sources={"seq": image},
        steps=[
            {"replay": {"path": str(folder / "det.txt"), "format": "mot", "label": "thing"}},
            "track",
            {"mot": {"path": "tracks.txt"}},
        ],
        outputs=tmp_path,
    ).run()
    assert_accounted(report)

    tracks = read_mot(tmp_path / "tracks.txt")
    scores = score(tracks, truth=sequence.truth, frames=range(1, sequence.frame_count + 1))
    hota, idf1 = BEST_BYTETRACK[name]
    assert scores.hota >= hota
    assert scores.idf1 >= idf1
