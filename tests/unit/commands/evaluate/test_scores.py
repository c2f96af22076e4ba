from __future__ import annotations

import sys

import numpy as np
import pytest

from sightline.errors import ConfigurationError
from sightline_plugins.commands.evaluate.annotations import Annotations
from sightline_plugins.commands.evaluate.scores import score_counts, score_detections, score_tracks

FRAMES = 10


def walk(*, identity: int = 1, shift: float = 0.0, label: str = "car") -> Annotations:
    """One object that moves to the right for ten frames."""
    left = np.arange(FRAMES) * 10.0 + shift
    return Annotations.from_rows(
        frame=np.arange(FRAMES),
        xyxy=np.stack([left, np.zeros(FRAMES), left + 40, np.full(FRAMES, 40.0)], axis=1),
        confidence=np.ones(FRAMES),
        label=np.full(FRAMES, label),
        identity=np.full(FRAMES, identity),
    )


def test_what_equals_the_truth_scores_1() -> None:
    tracks = score_tracks(walk(identity=4), truth=walk())

    assert (tracks.hota, tracks.mota, tracks.idf1, tracks.switches) == (1, 1, 1, 0)
    assert score_detections(walk(), truth=walk()).ap == pytest.approx(1)


def test_a_change_of_identity_costs_idf1_and_is_counted() -> None:
    found = walk()
    found.identity[FRAMES // 2 :] = 9

    scores = score_tracks(found, truth=walk())

    assert (scores.switches, scores.idf1) == (1, 0.5)


def test_boxes_on_ignored_truth_count_neither_way() -> None:
    ignored = walk(identity=2, shift=500)
    ignored.ignored[:] = True
    truth = Annotations.from_rows(
        frame=np.concatenate([walk().frame, ignored.frame]),
        xyxy=np.concatenate([walk().xyxy, ignored.xyxy]),
        confidence=np.ones(2 * FRAMES),
        label=np.full(2 * FRAMES, "car"),
        identity=np.concatenate([walk().identity, ignored.identity]),
        ignored=np.concatenate([walk().ignored, ignored.ignored]),
    )

    scores = score_tracks(truth.select(np.ones(2 * FRAMES, np.bool_)), truth=truth)

    assert (scores.mota, scores.false) == (1, 0)


def test_what_is_found_where_nothing_is_true_is_wrong() -> None:
    found = walk()
    found.confidence[: FRAMES // 2] = 0.5

    scores = score_detections(found, truth=walk().select(walk().frame < FRAMES // 2))

    assert 0 < scores.ap < 0.7


def test_a_wrong_label_finds_nothing() -> None:
    scores = score_detections(walk(label="van"), truth=walk())

    assert (scores.ap, scores.by_label) == (0, {"car": 0})


def test_a_shift_costs_precision_at_the_strict_overlap_only() -> None:
    scores = score_detections(walk(shift=10), truth=walk())

    assert scores.ap50 == pytest.approx(1)
    assert scores.ap75 == 0


def test_counts_are_compared_as_tracks_and_frame_by_frame() -> None:
    scores = score_counts(walk().select(np.arange(FRAMES) < 5), truth=walk())

    assert (scores.tracks, scores.true_tracks, scores.error_per_frame) == (1, 1, 0.5)


def test_without_trackeval_the_commands_that_keep_opencv_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trackeval.metrics", None)

    with pytest.raises(ConfigurationError, match="pip install --no-deps trackeval"):
        score_tracks(walk(), truth=walk())
