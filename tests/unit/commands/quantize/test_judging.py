"""What a quantised model lost: against truth, against what the original is sure of, or by agreement."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.errors import ModelError
from sightline_plugins.commands.evaluate.annotations import Annotations
from sightline_plugins.commands.quantize.judging import Findings, Judgement, judge
from sightline_plugins.heads.head import Scores, Text, Vector


def boxes(*confidences: float, label: str | list[str] = "car", shift: float = 0.0) -> Annotations:
    """Boxes on one frame each."""
    count = len(confidences)
    return Annotations.from_rows(
        frame=np.arange(count),
        xyxy=np.tile([10.0 + shift, 10.0, 50.0 + shift, 50.0], (count, 1)),
        confidence=np.array(confidences),
        label=[label] * count if isinstance(label, str) else label,
        identity=np.full(count, -1),
    )


def judged(fp32: Annotations, int8: Annotations, truth: Annotations | None = None) -> Judgement:
    return judge("engine", Findings(fp32, ()), Findings(int8, ()), truth=truth, mean_confidence=0.3)


def agreement(own: object, other: object) -> float:
    return judge("engine", Findings(None, (other,)), Findings(None, (own,)), truth=None, mean_confidence=0).int8_points


def test_against_truth_both_are_scored() -> None:
    lost = judged(boxes(0.9, 0.8, 0.7, 0.6), boxes(0.9, 0.8), truth=boxes(1, 1, 1, 1))

    assert (lost.measure, round(lost.fp32_points), round(lost.int8_points)) == ("AP", 100, 50)


def test_truth_without_labels_is_compared_without_regard_to_them() -> None:
    lost = judged(boxes(0.9, 0.8), boxes(0.9, 0.8), truth=boxes(1, 1, label="object"))

    assert (round(lost.fp32_points), round(lost.int8_points)) == (100, 100)


def test_without_truth_what_the_original_is_sure_of_counts() -> None:
    lost = judged(boxes(0.9, 0.8, 0.7, 0.6), boxes(0.9, 0.8, 0.7))

    assert lost.measure == "AP50 against fp32"
    assert lost.lost_points == pytest.approx(25, abs=1)


def test_without_truth_what_the_original_doubts_counts_neither_way() -> None:
    lost = judged(boxes(0.9, 0.8, 0.4, 0.35), boxes(0.9, 0.8))

    assert lost.lost_points == pytest.approx(0, abs=1e-6)


def test_without_truth_another_class_is_a_loss() -> None:
    lost = judged(boxes(0.9, 0.8), boxes(0.9, 0.8, label=["car", "bus"]))

    assert lost.lost_points > 30


def test_without_truth_a_class_that_was_found_once_counts_no_more_than_one_box() -> None:
    found = boxes(*[0.9] * 20, label=["car"] * 19 + ["bus"])

    lost = judged(found, found.select(found.label == "car"))

    assert lost.lost_points == pytest.approx(5, abs=1)


def test_a_model_that_finds_nothing_there_can_not_be_judged() -> None:
    with pytest.raises(ModelError, match="nothing can be said of what it loses; give --frames"):
        judged(boxes(0.1, 0.05), boxes(0.1))


@pytest.mark.parametrize(
    ("own", "other", "points"),
    [
        (Scores((np.array([0.2, 0.8], np.float32),)), Scores((np.array([0.4, 0.6], np.float32),)), 100),
        (Scores((np.array([0.8, 0.2], np.float32),)), Scores((np.array([0.4, 0.6], np.float32),)), 0),
        (Text("AB1", 0.9), Text("AB1", 0.8), 100),
        (Text("AB1", 0.9), Text("AB7", 0.8), 0),
        (Vector(np.array([1, 1], np.float32)), Vector(np.array([2, 2], np.float32)), 100),
        (Vector(np.array([1, 0], np.float32)), Vector(np.array([0, 1], np.float32)), 0),
    ],
)
def test_other_answers_agree_or_not(own: object, other: object, points: float) -> None:
    assert agreement(own, other) == pytest.approx(points, abs=1e-3)
