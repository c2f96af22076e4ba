"""Scores on public sequences with the defaults: no lower than the best public ByteTrack on the same detections."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.tracking.contestants import BEST_BYTETRACK, noted, ours, scores_of, tracks_of
from benchmarks.tracking.sequences import SEQUENCES, Boxes, Sequence, read_mot, read_sequence, score
from benchmarks.tracking.weak import as_tall_as_the_truth, seen_by_fastestdet, squeezed

from sightline_plugins.track.adaptive_options import AdaptiveOptions, MatchingThresholds

HOTA, IDF1 = 0, 1
MARGIN = 0.005
ROUNDING = 0.0005
"""The figures noted have three digits."""
CHANGED = {
    "high 10 % lower": ours(AdaptiveOptions(high_confidence=0.5)),
    "high 10 % higher": ours(AdaptiveOptions(high_confidence=0.62)),
    "new 10 % lower": ours(AdaptiveOptions(new_track_threshold=0.54)),
    "new 20 % higher": ours(AdaptiveOptions(new_track_threshold=0.72)),
    "sure 10 % lower": ours(AdaptiveOptions(high_threshold=0.72)),
    "sure 10 % higher": ours(AdaptiveOptions(high_threshold=0.88)),
    "fair similarity 20 % lower": ours(thresholds=MatchingThresholds(min_similarity_fair=0.22)),
    "fair similarity 20 % higher": ours(thresholds=MatchingThresholds(min_similarity_fair=0.32)),
    "similarity 20 % lower": ours(thresholds=MatchingThresholds(min_similarity=0.25)),
    "similarity 20 % higher": ours(thresholds=MatchingThresholds(min_similarity=0.36)),
    "low similarity 20 % lower": ours(thresholds=MatchingThresholds(min_similarity_low=0.4)),
    "low similarity 20 % higher": ours(thresholds=MatchingThresholds(min_similarity_low=0.6)),
    "wide similarity 20 % lower": ours(thresholds=MatchingThresholds(min_similarity_wide=0.09)),
    "wide similarity 20 % higher": ours(thresholds=MatchingThresholds(min_similarity_wide=0.13)),
    "way 20 % lower": ours(thresholds=MatchingThresholds(way_margin=1.0)),
    "way 20 % higher": ours(thresholds=MatchingThresholds(way_margin=1.6)),
    "max_lost half as long": ours(AdaptiveOptions.model_validate({"max_lost": "1s"})),
    "max_lost 20 % higher": ours(AdaptiveOptions.model_validate({"max_lost": "2400ms"})),
}


@pytest.fixture(scope="module", params=SEQUENCES)
def sequence(request: pytest.FixtureRequest, shared_data: Path) -> Sequence:
    return read_sequence(shared_data / "truth" / "mot" / request.param)


def best_public(sequence: Sequence, figure: int) -> float:
    return BEST_BYTETRACK[sequence.name][figure]


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
    scores = scores_of(sequence, CHANGED[change])

    assert scores.hota >= best_public(sequence, HOTA) - ROUNDING
    assert scores.idf1 >= best_public(sequence, IDF1) - ROUNDING


def test_a_weak_detector_s_objects_are_followed_nearly_as_well_as_a_sure_one_s(sequence: Sequence) -> None:
    sure, weak = scores_of(sequence, ours()), scores_of(squeezed(sequence), ours())

    assert weak.hota >= sure.hota - 0.03
    assert weak.idf1 >= sure.idf1 - 0.04


def test_with_fastestdet_doubtful_births_follow_more_of_the_people_of_the_truth(shared_data: Path) -> None:
    folder = shared_data / "truth" / "mot" / "TUD-Campus"
    sequence = as_tall_as_the_truth(
        seen_by_fastestdet(
            read_sequence(folder), images=folder / "img1", model=shared_data / "models" / "FastestDet.onnx"
        )
    )
    doubtful, sure = scores_of(sequence, ours()), scores_of(sequence, ours(AdaptiveOptions(new_track_threshold=0.7)))

    assert doubtful.hota >= sure.hota + 0.01
    assert doubtful.idf1 >= sure.idf1 + 0.01


@pytest.mark.parametrize("step", [3, 6])
def test_at_low_frame_rates_defaults_are_better_than_every_public_tracker(sequence: Sequence, step: int) -> None:
    scores = scores_of(sequence.thinned(step), ours())

    for public in noted()["scores"].values():
        hota, _, idf1, _ = public[f"{sequence.name}/{step}"]
        assert scores.hota > hota
        assert scores.idf1 > idf1


def test_half_the_frames_score_as_well_as_the_best_public_bytetrack_on_all(sequence: Sequence) -> None:
    scores = scores_of(sequence.thinned(2), ours())

    assert scores.hota >= best_public(sequence, HOTA)
    assert scores.idf1 >= best_public(sequence, IDF1)


def test_tracks_are_the_detections_own_boxes(sequence: Sequence) -> None:
    tracks = tracks_of(sequence, ours())
    given = {
        (frame, *box) for frame, box in zip(sequence.detections.frame, sequence.detections.xyxy.tolist(), strict=True)
    }

    assert all((frame, *box) in given for frame, box in zip(tracks.frame, tracks.xyxy.tolist(), strict=True))
