"""What predicting costs, from disagreements after gaps of several lengths."""

from __future__ import annotations

import pytest

from sightline_plugins.infer.adaptive.loss import PredictionLoss


def measured(slope: float, *, tremble: float = 0.1) -> PredictionLoss:
    loss = PredictionLoss()
    for number in range(500):
        gap = 0.04 * (1 + number % 6)
        loss.add(gap, tremble + slope * gap, frame_seconds=0.04, objects=4)
    return loss


@pytest.mark.parametrize("slope", [0.2, 0.5, 1.0])
def test_the_slope_is_what_predictions_lose_and_not_how_boxes_tremble(slope: float) -> None:
    assert measured(slope).slope == pytest.approx(slope, rel=0.2)


def test_the_mean_frame_loses_what_is_allowed() -> None:
    interval = measured(0.5).interval_seconds(0.02, frame_seconds=0.04)
    losses = [0.5 * 0.04 * number for number in range(round(interval / 0.04))]

    assert sum(losses) / len(losses) == pytest.approx(0.02, abs=0.01)


def test_worse_predictions_shorten_the_interval_again() -> None:
    loss = measured(0.1)
    before = loss.interval_seconds(0.01, frame_seconds=0.04)
    for number in range(200):
        gap = 0.04 * (1 + number % 3)
        loss.add(gap, 0.1 + 2 * gap, frame_seconds=0.04, objects=4)

    assert loss.interval_seconds(0.01, frame_seconds=0.04) < before / 2


def test_nothing_measured_is_taken_as_usual() -> None:
    assert PredictionLoss().slope == 0.5


def test_a_loss_that_was_high_is_tried_again_when_it_is_forgotten() -> None:
    loss = measured(3.0)
    for _ in range(5000):
        loss.add(0.04, 0.1, frame_seconds=0.04)

    assert loss.slope == pytest.approx(0.5, abs=0.1)
