"""Tracking through the whole pipeline on public detections scores no lower than public ByteTrack implementations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from benchmarks.tracking.contestants import BEST_BYTETRACK
from benchmarks.tracking.sequences import read_mot, read_sequence, score

from sightline import Pipeline
from sightline.testing import assert_accounted
from sightline_plugins.commands.evaluate.scores import TrackScores


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


def test_appearance_of_real_people_keeps_their_ids(shared_data: Path, tmp_path: Path) -> None:
    """The detections of TUD-Campus with embeddings of its images, by a model that was trained elsewhere."""
    folder = shared_data / "truth" / "mot" / "TUD-Campus"
    sequence = read_sequence(folder)
    embed = {"embed": {"model": str(shared_data / "models" / "osnet_x0_25_msmt17.onnx"), "on": "person"}}

    def scores(name: str, *steps: str | Mapping[str, object]) -> TrackScores:
        replay = {"replay": {"path": str(folder / "det.txt"), "format": "mot", "label": "person"}}
        Pipeline(
            sources={"seq": {"uri": str(folder / "img1"), "fps": sequence.fps}},
            steps=[replay, *steps, {"mot": {"path": f"{name}.txt"}}],
            outputs=tmp_path,
        ).run()
        tracks = read_mot(tmp_path / f"{name}.txt")
        return score(tracks, truth=sequence.truth, frames=range(1, sequence.frame_count + 1))

    without = scores("without", "track")
    appearance = scores("appearance", embed, {"track": {"appearance": True}})

    assert appearance.hota > without.hota + 0.01
    assert appearance.idf1 > without.idf1 + 0.01
    assert appearance.switches <= without.switches + 2
