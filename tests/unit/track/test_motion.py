"""The filters in C against the equations of a Kalman filter in NumPy, whose results are the same to the bit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from sightline_plugins.track.motion import SMALLEST_SIDE, AreaMotion, CornerMotion, Motion, SizeMotion

Doubles = npt.NDArray[np.float64]
STANDING = CornerMotion(initial=(1.0, 0.0), process=(1.0, 0.0), measurement=0.0)
MOTIONS = [CornerMotion(), STANDING, AreaMotion(), SizeMotion()]


def tracks_of(motion: Motion, count: int) -> tuple[npt.NDArray[np.void], Doubles]:
    """Return records of tracks that have moved for a frame, with gaps between them, and boxes (N, 4) that are seen."""
    random = np.random.default_rng(5)
    corner = random.uniform(0, 400, (count, 2))
    xyxy = np.concatenate([corner, corner + random.uniform(4, 90, (count, 2))], axis=1).astype(np.float32)
    covariance = ("covariance", np.float64, (3, motion.noise_columns))
    records = np.zeros(count, [("mean", np.float64, (2, 4)), covariance, ("other", np.int64)])
    records["mean"], records["covariance"] = motion.initiate(xyxy)
    records["mean"][:, 1] = random.normal(0, 0.5, (count, 4))
    records["covariance"][:, 1] = random.uniform(0, 1, (count, motion.noise_columns))
    return records, motion.measured(xyxy + random.normal(0, 2, (count, 4)).astype(np.float32))


def moved(motion: Motion, mean: Doubles, covariance: Doubles) -> tuple[Doubles, Doubles]:
    """Return means and covariances after a frame."""
    mean, covariance, gained = mean.copy(), covariance.copy(), motion.process_noise(mean[:, 0])
    mean[:, 0] += mean[:, 1]
    covariance[:, 0] += 2 * covariance[:, 1] + covariance[:, 2] + gained[:, 0]
    covariance[:, 1] += covariance[:, 2]
    covariance[:, 2] += gained[:, 1]
    return mean, covariance


def corrected(motion: Motion, mean: Doubles, covariance: Doubles, position: Doubles) -> tuple[Doubles, Doubles]:
    """Return means and covariances after detections at these positions."""
    gain = covariance[:, :2] / (covariance[:, 0] + motion.measurement_noise(mean[:, 0]))[:, None]
    narrowed = covariance.copy()
    narrowed[:, 0] -= gain[:, 0] * covariance[:, 0]
    narrowed[:, 1:] -= gain * covariance[:, 1:2]
    return mean + gain * (position - mean[:, 0])[:, None], narrowed


@pytest.mark.parametrize("motion", MOTIONS)
def test_a_frame_moves_filters_as_the_equations_say(motion: Motion) -> None:
    records, _ = tracks_of(motion, 30)
    mean, covariance = moved(motion, records["mean"], records["covariance"])

    motion.predict(records["mean"], records["covariance"])

    assert records["mean"].tobytes() == mean.tobytes()
    assert records["covariance"].tobytes() == covariance.tobytes()
    assert not records["other"].any()


@pytest.mark.parametrize("motion", MOTIONS)
def test_detections_correct_their_filters_as_the_equations_say(motion: Motion) -> None:
    records, position = tracks_of(motion, 30)
    rows = np.array([29, 3, 4, 17])
    before = records.copy()
    mean, covariance = corrected(motion, before["mean"][rows], before["covariance"][rows], position[rows])

    motion.correct(records["mean"], records["covariance"], rows, position[rows])

    assert records["mean"][rows].tobytes() == mean.tobytes()
    assert records["covariance"][rows].tobytes() == covariance.tobytes()
    others = np.delete(np.arange(30), rows)
    assert records[others].tobytes() == before[others].tobytes()


def test_only_the_rows_that_are_named_move() -> None:
    motion = AreaMotion()
    records, _ = tracks_of(motion, 6)
    before, rows = records.copy(), np.array([1, 4])

    motion.predict(records["mean"], records["covariance"], rows)

    assert (records["mean"][rows, 0] != before["mean"][rows, 0]).any(axis=1).all()
    assert records[[0, 2, 3, 5]].tobytes() == before[[0, 2, 3, 5]].tobytes()


def test_sides_that_shrink_away_keep_a_little() -> None:
    motion = SizeMotion()
    records, _ = tracks_of(motion, 4)
    records["mean"][:, 1, 2:] = -1000

    motion.predict(records["mean"], records["covariance"])

    assert (records["mean"][:, 0, 2:] == SMALLEST_SIDE).all()
