"""Input that is empty, broken, out of order or very large."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from sightline_plugins.track.adaptive import AdaptiveTracker
from sightline_plugins.track.adaptive_options import AdaptiveOptions, MatchingThresholds
from sightline_plugins.track.kalman import MotionModel

ONE = np.array([[10, 20, 50, 100]], np.float32)
NO_BOX = np.zeros((0, 4), np.float32)
FRAME_NS = 40_000_000


@pytest.fixture
def tracker() -> AdaptiveTracker:
    return AdaptiveTracker(AdaptiveOptions())


def ids(tracker: AdaptiveTracker, xyxy: npt.NDArray[np.float32], *, pts_ns: int, confidence: float = 0.9) -> list[int]:
    count = len(xyxy)
    track_id = tracker.update(xyxy, np.full(count, confidence, np.float32), np.zeros(count, np.int64), pts_ns=pts_ns)
    result: list[int] = track_id.tolist()
    return result


def test_empty_frames_give_no_ids(tracker: AdaptiveTracker) -> None:
    assert [ids(tracker, NO_BOX, pts_ns=n * FRAME_NS) for n in range(3)] == [[]] * 3


def test_equal_timestamps_keep_the_id(tracker: AdaptiveTracker) -> None:
    assert [ids(tracker, ONE, pts_ns=7) for _ in range(5)] == [[1]] * 5


def test_time_that_jumps_back_keeps_the_id_and_goes_on_from_there(tracker: AdaptiveTracker) -> None:
    times = [0, 40, 80, 10, 50, 90]

    assert [ids(tracker, ONE, pts_ns=ms * 1_000_000) for ms in times] == [[1]] * 6


def test_a_stall_longer_than_max_lost_ends_all_tracks(tracker: AdaptiveTracker) -> None:
    for n in range(3):
        ids(tracker, ONE, pts_ns=n * FRAME_NS)

    assert ids(tracker, ONE, pts_ns=10_000_000_000) == [-1]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_a_box_that_is_not_finite_is_ignored_and_harms_no_other(tracker: AdaptiveTracker, bad: float) -> None:
    ids(tracker, ONE, pts_ns=0)
    both = np.concatenate([ONE, [[0, 0, 10, bad]]]).astype(np.float32)

    assert [ids(tracker, both, pts_ns=FRAME_NS), ids(tracker, ONE, pts_ns=2 * FRAME_NS)] == [[1, -1], [1]]


def test_a_confidence_that_is_not_a_number_is_ignored(tracker: AdaptiveTracker) -> None:
    assert ids(tracker, ONE, pts_ns=0, confidence=np.nan) == [-1]


def test_a_confidence_above_1_counts_as_1(tracker: AdaptiveTracker) -> None:
    assert [ids(tracker, ONE, pts_ns=n * FRAME_NS, confidence=37.0) for n in range(3)] == [[1]] * 3


@pytest.mark.parametrize("box", [[5, 5, 5, 5], [50, 50, 10, 10], [0, 0, 1e6, 1e6], [3, 3, 3.001, 90]])
def test_predictions_stay_finite_for_odd_boxes(tracker: AdaptiveTracker, box: list[float]) -> None:
    for n in range(50):
        ids(tracker, np.array([box, *ONE.tolist()], np.float32), pts_ns=n // 2)

    assert np.isfinite(tracker.predict(pts_ns=900_000_000).xyxy).all()


def test_thousands_of_boxes_keep_their_ids(tracker: AdaptiveTracker) -> None:
    x, y = np.meshgrid(np.arange(50) * 30.0, np.arange(40) * 30.0)
    corners = np.stack([x.ravel(), y.ravel()], axis=1)
    crowd = np.concatenate([corners, corners + 40], axis=1).astype(np.float32)
    for n in range(3):
        found = ids(tracker, crowd + n, pts_ns=n * FRAME_NS)

    assert found == list(range(1, 2001))


def test_the_caller_s_arrays_are_not_changed(tracker: AdaptiveTracker) -> None:
    xyxy, confidence, class_id = ONE.copy(), np.array([0.9], np.float32), np.array([3])
    for column in (xyxy, confidence, class_id):
        column.flags.writeable = False

    for n in range(3):
        tracker.update(xyxy, confidence, class_id, pts_ns=n * FRAME_NS)

    assert (xyxy == ONE).all()


def test_columns_of_different_length_are_refused(tracker: AdaptiveTracker) -> None:
    with pytest.raises(ValueError, match=r"must have shapes \(N, 4\), \(N,\) and \(N,\)"):
        tracker.update(ONE, np.ones(2, np.float32), np.zeros(1, np.int64), pts_ns=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"low_confidence": 0.58}, "low_confidence must not be above high_confidence or new_track_threshold"),
        ({"new_track_threshold": 1.2}, r"new_track_threshold\s+Input should be less than or equal to 1"),
        ({"high_threshold": -0.5}, r"high_threshold\s+Input should be greater than or equal to 0"),
        ({"class_mismatch_weight": 2.0}, r"class_mismatch_weight\s+Input should be less than or equal to 1"),
        ({"min_hits": 0}, r"min_hits\s+Input should be greater than or equal to 1"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AdaptiveOptions.model_validate(options)


@pytest.mark.parametrize("name", ["min_similarity_low", "way_margin", "least_margin"])
def test_impossible_thresholds_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be from 0 to 1"):
        MatchingThresholds(**{name: -0.1})


def test_a_motion_model_without_measurement_noise_is_refused() -> None:
    with pytest.raises(ValueError, match="measurement must be above 0"):
        MotionModel(measurement=(0.1, 0))
