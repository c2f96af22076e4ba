"""Tracking through the whole pipeline on public detections scores no lower than public ByteTrack implementations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from benchmarks.tracking.appearance import KINDS, seeing, vectors_of
from benchmarks.tracking.contestants import BEST_BYTETRACK, scores_of
from benchmarks.tracking.sequences import read_mot, read_sequence, score

from sightline import Pipeline
from sightline.testing import assert_accounted
from sightline_plugins.commands.evaluate.scores import TrackScores
from sightline_plugins.track.algorithms import TRACKERS


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


DEEP_OC_SORT = {
    ("TUD-Campus", "distinct"): (0.4806, 0.6451),
    ("TUD-Campus", "alike"): (0.4532, 0.5884),
    ("TUD-Campus", "noisy"): (0.4745, 0.6321),
    ("TUD-Stadtmitte", "distinct"): (0.5361, 0.7955),
    ("TUD-Stadtmitte", "alike"): (0.5349, 0.7945),
    ("TUD-Stadtmitte", "noisy"): (0.5356, 0.7945),
    ("KITTI-0012-car", "distinct"): (0.6700, 0.8375),
    ("KITTI-0012-car", "alike"): (0.6700, 0.8375),
    ("KITTI-0012-car", "noisy"): (0.6700, 0.8375),
}
"""HOTA and IDF1 of the authors' code (GerardMaggiolino/Deep-OC-SORT at 6bb51d0) with the same detections and made
vectors, without the motion of the camera, and with as many frames of patience as `max_lost` is here."""


@pytest.mark.parametrize(("name", "kind"), DEEP_OC_SORT)
def test_deepocsort_scores_as_the_code_of_its_authors(shared_data: Path, name: str, kind: str) -> None:
    sequence = read_sequence(shared_data / "truth" / "mot" / name)

    scores = scores_of(sequence, seeing(TRACKERS["deepocsort"](), vectors_of(sequence, KINDS[kind])))

    assert (scores.hota, scores.idf1) == pytest.approx(DEEP_OC_SORT[name, kind], abs=0.0001)


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
