"""Predictions for frames that no detector saw."""

from __future__ import annotations

import numpy as np
import pytest

from sightline_plugins.track.adaptive import AdaptiveTracker
from sightline_plugins.track.adaptive_options import AdaptiveOptions

FRAME_NS = 100_000_000
STEP = np.array([10, 0, 10, 0], np.float32)
BOX = np.array([10, 20, 50, 100], np.float32)


@pytest.fixture
def moving() -> AdaptiveTracker:
    """A tracker that saw a box move 100 pixels a second to the right until 1.9 s."""
    tracker = AdaptiveTracker(AdaptiveOptions())
    for n in range(20):
        tracker.update((BOX + n * STEP)[None], np.array([0.8]), np.array([2]), pts_ns=n * FRAME_NS)
    return tracker


def test_a_prediction_moves_the_box_on(moving: AdaptiveTracker) -> None:
    assert moving.predict(pts_ns=1_950_000_000).xyxy == pytest.approx((BOX + 19.5 * STEP)[None], abs=0.5)


def test_a_prediction_names_the_track_and_what_was_seen_last(moving: AdaptiveTracker) -> None:
    predictions = moving.predict(pts_ns=1_950_000_000)

    assert (predictions.track_id.tolist(), predictions.class_id.tolist()) == ([1], [2])
    assert predictions.confidence == pytest.approx([0.8])


def test_predicting_does_not_change_what_follows() -> None:
    trackers = AdaptiveTracker(AdaptiveOptions()), AdaptiveTracker(AdaptiveOptions())
    for n in range(20):
        for tracker in trackers:
            tracker.update((BOX + n * STEP)[None], np.array([0.8]), np.array([2]), pts_ns=n * FRAME_NS)
        trackers[0].predict(pts_ns=n * FRAME_NS + 50_000_000)

    assert (trackers[0].tracks.mean == trackers[1].tracks.mean).all()


def test_lost_tracks_are_not_predicted(moving: AdaptiveTracker) -> None:
    moving.update(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int64), pts_ns=2_000_000_000)

    assert len(moving.predict(pts_ns=2_050_000_000).track_id) == 0


def test_tentative_tracks_are_not_predicted(moving: AdaptiveTracker) -> None:
    both = np.stack([BOX + 20 * STEP, BOX + 400])
    moving.update(both, np.array([0.9, 0.9]), np.array([2, 2]), pts_ns=2_000_000_000)

    assert moving.predict(pts_ns=2_050_000_000).track_id.tolist() == [1]


def test_nothing_is_predicted_beyond_max_lost(moving: AdaptiveTracker) -> None:
    assert len(moving.predict(pts_ns=4_000_000_000).track_id) == 0


def test_a_time_before_the_last_update_predicts_the_last_place(moving: AdaptiveTracker) -> None:
    assert (moving.predict(pts_ns=0).xyxy == moving.predict(pts_ns=19 * FRAME_NS).xyxy).all()


def test_a_tracker_that_saw_nothing_predicts_nothing() -> None:
    assert AdaptiveTracker(AdaptiveOptions()).predict(pts_ns=0).xyxy.shape == (0, 4)
