"""Scores on public sequences with the defaults: no lower than the best public ByteTrack on the same detections."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.mot_scores import SEQUENCES, Boxes, Sequence, read_mot, read_sequence, score
from benchmarks.tracking import MEASURED, ours, scores_of, tracks_of

from sightline_plugins.track.options import TrackerOptions

PUBLIC_BYTETRACKS = [name for name in MEASURED if "byte" in name.lower()]
HOTA, IDF1 = 0, 2
MARGIN = 0.005
DEFAULTS = TrackerOptions()
CHANGED = {
    "high 20 % lower": replace(DEFAULTS, high_confidence=0.48),
    "new 15 % lower": replace(DEFAULTS, new_confidence=0.6),
    "new 20 % higher": replace(DEFAULTS, new_confidence=0.84),
    "similarity 20 % lower": replace(DEFAULTS, min_similarity=0.16),
    "similarity 20 % higher": replace(DEFAULTS, min_similarity=0.24),
    "low similarity 20 % lower": replace(DEFAULTS, min_similarity_low=0.4),
    "low similarity 20 % higher": replace(DEFAULTS, min_similarity_low=0.6),
    "max_lost 20 % lower": replace(DEFAULTS, max_lost_ns=800_000_000),
    "max_lost 20 % higher": replace(DEFAULTS, max_lost_ns=1_200_000_000),
}


@pytest.fixture(scope="module", params=SEQUENCES)
def sequence(request: pytest.FixtureRequest, shared_data: Path) -> Sequence:
    return read_sequence(shared_data / "truth" / "mot" / request.param)


def best_public(sequence: Sequence, figure: int) -> float:
    return max(MEASURED[name][SEQUENCES.index(sequence.name)][figure] for name in PUBLIC_BYTETRACKS)


@pytest.mark.parametrize(("name", "mota", "idf1"), [("TUD-Campus", 0.526, 0.558), ("TUD-Stadtmitte", 0.564, 0.645)])
def test_the_evaluator_gives_the_official_scores(shared_data: Path, name: str, mota: float, idf1: float) -> None:
    folder = shared_data / "truth" / "mot" / name
    sequence = read_sequence(folder)
    official: Boxes = read_mot(folder / "cem.txt")
    scores = score(official, truth=sequence.truth, frames=range(1, sequence.frame_count + 1))

    assert (round(scores.mota, 3), round(scores.idf1, 3), scores.switches) == (mota, idf1, 7)


def test_defaults_are_better_than_the_best_public_bytetrack(sequence: Sequence) -> None:
    scores = scores_of(sequence, ours())

    assert scores.hota >= best_public(sequence, HOTA) + MARGIN
    assert scores.idf1 >= best_public(sequence, IDF1) + MARGIN


@pytest.mark.parametrize("change", CHANGED)
def test_scores_do_not_hang_on_one_threshold(sequence: Sequence, change: str) -> None:
    scores = scores_of(sequence, ours(CHANGED[change]))

    assert scores.hota >= best_public(sequence, HOTA)
    assert scores.idf1 >= best_public(sequence, IDF1)


def test_half_the_frames_score_as_well_as_the_best_public_bytetrack_on_all(sequence: Sequence) -> None:
    scores = scores_of(sequence, ours(), every=2)

    assert scores.hota >= best_public(sequence, HOTA)
    assert scores.idf1 >= best_public(sequence, IDF1)


def test_tracks_are_the_detections_own_boxes(sequence: Sequence) -> None:
    tracks = tracks_of(sequence, ours())
    given = {
        (frame, *box) for frame, box in zip(sequence.detections.frame, sequence.detections.xyxy.tolist(), strict=True)
    }

    assert all((frame, *box) in given for frame, box in zip(tracks.frame, tracks.xyxy.tolist(), strict=True))
