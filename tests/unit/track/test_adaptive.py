"""What becomes of ids: when they begin, last and end."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pytest

from sightline_plugins.track.adaptive import AdaptiveTracker
from sightline_plugins.track.adaptive_options import AdaptiveOptions, MatchingThresholds
from sightline_plugins.track.tracks import TrackState

Row = tuple[float, float, float, float]
CAR, TRUCK, PERSON = 2, 7, 0
ELSEWHERE = (900.0, 700.0, 940.0, 780.0)


def box(x: float, y: float = 100, width: float = 40, height: float = 80) -> Row:
    return (x, y, x + width, y + height)


def feed(
    tracker: AdaptiveTracker,
    *rows: Row,
    seconds: float,
    confidence: float | Iterable[float] = 0.9,
    class_id: int | Iterable[int] = PERSON,
) -> list[int]:
    """Ids for these boxes."""
    xyxy = np.array(rows, np.float32).reshape(-1, 4)
    track_id = tracker.update(
        xyxy,
        np.broadcast_to(np.asarray(confidence, np.float32), len(rows)),
        np.broadcast_to(np.asarray(class_id, np.int64), len(rows)),
        pts_ns=round(seconds * 1e9),
    )
    ids: list[int] = track_id.tolist()
    return ids


@pytest.fixture
def tracker() -> AdaptiveTracker:
    return AdaptiveTracker(AdaptiveOptions())


@pytest.fixture
def literal() -> AdaptiveTracker:
    """Takes confidences as they are."""
    return AdaptiveTracker(AdaptiveOptions(calibrate=False))


def test_objects_of_the_first_frame_have_ids_at_once(tracker: AdaptiveTracker) -> None:
    assert feed(tracker, box(0), box(200), seconds=0) == [1, 2]


def test_empty_frames_before_the_first_objects_do_not_delay_their_ids(tracker: AdaptiveTracker) -> None:
    feed(tracker, seconds=0)

    assert feed(tracker, box(0), box(200), seconds=0.1) == [1, 2]


def test_an_object_that_comes_later_gets_its_id_when_seen_again(tracker: AdaptiveTracker) -> None:
    feed(tracker, ELSEWHERE, seconds=0)

    assert [feed(tracker, box(0), seconds=0.1), feed(tracker, box(2), seconds=0.2)] == [[-1], [2]]


def test_a_detection_seen_once_never_gets_an_id(tracker: AdaptiveTracker) -> None:
    feed(tracker, ELSEWHERE, seconds=0)
    feed(tracker, box(0), seconds=0.1)
    feed(tracker, seconds=0.2)

    assert feed(tracker, box(0), seconds=0.3) == [-1]


def test_one_hit_is_enough_when_asked_for() -> None:
    tracker = AdaptiveTracker(AdaptiveOptions(min_hits=1))
    feed(tracker, ELSEWHERE, seconds=0)

    assert feed(tracker, box(0), seconds=0.1) == [2]


def hits_until_the_id(tracker: AdaptiveTracker, *, confidence: float) -> int:
    """How many detections a standing object needs that comes when another is already followed."""
    feed(tracker, ELSEWHERE, seconds=0)
    ids = [feed(tracker, box(0), seconds=0.1 * n, confidence=confidence) for n in range(1, 11)]
    return ids.index([2]) + 1


@pytest.mark.parametrize(("confidence", "hits"), [(0.9, 2), (0.8, 2), (0.7, 3), (0.61, 3)])
def test_the_less_sure_an_object_is_the_more_hits_it_needs(
    literal: AdaptiveTracker, confidence: float, hits: int
) -> None:
    assert hits_until_the_id(literal, confidence=confidence) == hits


def test_what_counts_as_sure_can_be_set() -> None:
    assert (
        hits_until_the_id(AdaptiveTracker(AdaptiveOptions(high_threshold=0.6, calibrate=False)), confidence=0.61) == 2
    )


def test_a_miss_ends_a_track_that_is_not_confirmed(literal: AdaptiveTracker) -> None:
    feed(literal, ELSEWHERE, seconds=0)
    seen = [True, True, False] * 4
    ids = [feed(literal, *[box(0)] * there, seconds=0.1 * n, confidence=0.65) for n, there in enumerate(seen, 1)]

    assert ids == [[-1], [-1], []] * 4


def test_doubtful_objects_of_the_first_frame_need_one_hit_less(literal: AdaptiveTracker) -> None:
    assert [feed(literal, box(0), seconds=0.1 * n, confidence=0.65) for n in range(3)] == [[-1], [1], [1]]


def test_a_weak_detector_s_objects_are_tracked_as_a_sure_one_s() -> None:
    frames = [(xyxy, (0.9 * confidence).astype(np.float32)) for xyxy, confidence in random_frames(100, seed=3)]
    weak = [(xyxy, (confidence / 2).astype(np.float32)) for xyxy, confidence in frames]

    assert ids_of(weak) == ids_of(frames)
    assert ids_of(weak, calibrate=False) != ids_of(frames, calibrate=False)


def test_what_is_usual_is_learned_again_when_it_changes(tracker: AdaptiveTracker) -> None:
    for frame in range(20):
        feed(tracker, box(0), seconds=frame / 10, confidence=0.9)
    found = [feed(tracker, box(0), box(300), seconds=2 + frame / 10, confidence=0.4) for frame in range(60)]

    assert found[0] == [1, -1]
    assert found[-1] == [1, 2]


def test_noise_is_not_made_sure() -> None:
    tracker = AdaptiveTracker(AdaptiveOptions())

    assert [feed(tracker, box(0), seconds=frame / 10, confidence=0.1) for frame in range(20)] == [[-1]] * 20


def test_crossing_objects_keep_their_ids(tracker: AdaptiveTracker) -> None:
    for frame in range(60):
        ids = feed(tracker, box(6 * frame), box(300 - 6 * frame, y=110), seconds=frame / 25)

    assert ids == [1, 2]


def test_a_doubtful_detection_keeps_a_track_alive(tracker: AdaptiveTracker) -> None:
    for frame in range(5):
        feed(tracker, box(0), seconds=frame / 10)

    assert [feed(tracker, box(0), seconds=0.5 + frame / 10, confidence=0.3) for frame in range(20)] == [[1]] * 20


def test_a_detection_below_new_track_threshold_starts_no_track(literal: AdaptiveTracker) -> None:
    assert [feed(literal, box(0), seconds=frame / 10, confidence=0.59) for frame in range(9)] == [[-1]] * 9


@pytest.mark.parametrize(("confidence", "expected"), [(0.75, -1), (0.85, 1)])
def test_new_track_threshold_may_be_above_high_confidence(confidence: float, expected: int) -> None:
    tracker = AdaptiveTracker(AdaptiveOptions(new_track_threshold=0.8, calibrate=False))

    assert feed(tracker, box(0), seconds=0, confidence=confidence) == [expected]


def test_an_object_always_seen_doubtfully_is_found_again_after_a_miss(tracker: AdaptiveTracker) -> None:
    for frame in range(6):
        feed(tracker, box(0), seconds=frame / 10, confidence=0.45)
    feed(tracker, seconds=0.6)

    assert feed(tracker, box(12), seconds=0.7, confidence=0.45) == [1]


def test_an_object_seen_surely_does_not_jump_to_a_doubtful_detection_beside_it(tracker: AdaptiveTracker) -> None:
    for frame in range(6):
        feed(tracker, box(0), seconds=frame / 10, confidence=0.9)
    feed(tracker, seconds=0.6)

    assert feed(tracker, box(12), seconds=0.7, confidence=0.45) == [-1]


def test_a_detection_below_the_low_threshold_is_ignored(tracker: AdaptiveTracker) -> None:
    feed(tracker, box(0), seconds=0)

    assert feed(tracker, box(0), seconds=0.1, confidence=0.05) == [-1]


@pytest.mark.parametrize("fps", [10, 30])
@pytest.mark.parametrize(("away_seconds", "expected"), [(1.9, 1), (2.2, 2)])
def test_a_lost_object_is_recognised_within_max_lost_only(fps: int, away_seconds: float, expected: int) -> None:
    tracker = AdaptiveTracker(AdaptiveOptions())
    frames = range(round((1 + away_seconds) * fps) + 3)
    for frame in frames:
        visible = frame <= fps or frame >= fps + away_seconds * fps
        ids = feed(tracker, *[box(0)] * visible, seconds=frame / fps)

    assert ids == [expected]


def test_a_track_given_up_is_reported_as_ended(tracker: AdaptiveTracker) -> None:
    feed(tracker, box(0), seconds=0)
    feed(tracker, seconds=1.9)

    tracker.update(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int64), pts_ns=3_900_000_000)

    assert tracker.ended_ids.tolist() == [1]


def test_an_object_out_of_sight_is_found_where_it_was_heading(tracker: AdaptiveTracker) -> None:
    for frame in range(20):
        feed(tracker, box(8 * frame), seconds=frame / 25)
    for frame in range(20, 35):
        feed(tracker, seconds=frame / 25)

    assert feed(tracker, box(8 * 35), seconds=35 / 25) == [1]


def test_a_sudden_turn_is_followed_by_the_round_with_grown_boxes(tracker: AdaptiveTracker) -> None:
    for frame in range(5):
        feed(tracker, box(0), seconds=frame / 10)

    assert feed(tracker, box(36), seconds=0.5) == [1]


def test_without_grown_boxes_a_sudden_turn_ends_the_track() -> None:
    tracker = AdaptiveTracker(AdaptiveOptions(), thresholds=MatchingThresholds(way_margin=0, least_margin=0))
    for frame in range(5):
        feed(tracker, box(0), seconds=frame / 10)

    assert feed(tracker, box(36), seconds=0.5) == [-1]


@pytest.mark.parametrize("seconds_a_frame", [1 / 30, 1 / 10, 2.0])
def test_a_standing_object_keeps_its_id_at_any_frame_rate(tracker: AdaptiveTracker, seconds_a_frame: float) -> None:
    for frame in range(8):
        ids = feed(tracker, box(0), seconds=frame * seconds_a_frame)

    assert ids == feed(tracker, box(0), seconds=8 * seconds_a_frame) != [-1]


def test_the_same_motion_gives_the_same_ids_at_10_and_30_fps() -> None:
    ids = {}
    for fps in (10, 30):
        tracker = AdaptiveTracker(AdaptiveOptions())
        ids[fps] = [
            feed(tracker, box(90 * t), box(400 - 90 * t, y=120), box(200, y=30 * t), seconds=t)
            for t in (frame / fps for frame in range(4 * fps))
        ][:: fps // 10]

    assert ids[10] == ids[30] == [[1, 2, 3]] * 40


def test_a_flip_between_alike_classes_keeps_the_id(tracker: AdaptiveTracker) -> None:
    ids = [
        feed(tracker, box(0, width=100), seconds=n / 10, class_id=kind)
        for n, kind in enumerate([CAR, TRUCK, CAR, TRUCK])
    ]

    assert ids == [[1]] * 4


def test_a_person_in_front_of_a_car_does_not_take_its_id(tracker: AdaptiveTracker) -> None:
    car = box(0, width=160)
    for frame in range(3):
        feed(tracker, car, seconds=frame / 10, class_id=CAR)

    assert feed(tracker, box(60, width=50), seconds=0.3, class_id=PERSON) == [-1]


def test_a_mismatch_weight_of_0_separates_classes() -> None:
    tracker = AdaptiveTracker(AdaptiveOptions(class_mismatch_weight=0))
    feed(tracker, box(0), seconds=0, class_id=CAR)

    assert feed(tracker, box(0), seconds=0.1, class_id=TRUCK) == [-1]


def test_a_mismatch_weight_of_1_ignores_classes() -> None:
    tracker = AdaptiveTracker(AdaptiveOptions(class_mismatch_weight=1))
    feed(tracker, box(0), seconds=0, class_id=CAR)

    assert feed(tracker, box(20), seconds=0.1, class_id=PERSON) == [1]


def test_states_follow_a_track_from_tentative_to_lost(literal: AdaptiveTracker) -> None:
    states: list[int] = []
    for second, rows in enumerate([[box(0)], [box(0)], [], [box(0)]]):
        feed(literal, *rows, seconds=0.1 * second, confidence=0.65)
        states += literal.tracks.state.tolist()

    assert states == [TrackState.TENTATIVE, TrackState.TRACKED, TrackState.LOST, TrackState.TRACKED]


def random_frames(count: int, *, seed: int) -> list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
    """A crowd that wanders, with misses, false alarms and changing confidence."""
    random = np.random.default_rng(seed)
    corner, step = random.uniform(0, 400, (15, 2)), random.uniform(-6, 6, (15, 2))
    frames = []
    for _ in range(count):
        corner += step
        seen = corner[random.random(15) > 0.2] + random.normal(0, 2, (1, 2))
        corners = np.concatenate([seen, random.uniform(0, 400, (3, 2))])
        xyxy = np.concatenate([corners, corners + np.array([40, 80])], axis=1).astype(np.float32)
        frames.append((xyxy, random.uniform(0.2, 1, len(xyxy)).astype(np.float32)))
    return frames


def ids_of(
    frames: list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]], *, calibrate: bool = True
) -> list[list[int]]:
    tracker = AdaptiveTracker(AdaptiveOptions(calibrate=calibrate))
    return [
        feed(tracker, *xyxy.tolist(), seconds=n / 10, confidence=confidence)
        for n, (xyxy, confidence) in enumerate(frames)
    ]


def test_an_id_is_never_used_twice_in_a_frame_nor_again_after_its_end() -> None:
    tracker, ended, greatest = AdaptiveTracker(AdaptiveOptions()), set[int](), 0
    for n, (xyxy, confidence) in enumerate(random_frames(300, seed=1)):
        track_id = tracker.update(xyxy, confidence, np.zeros(len(xyxy), np.int64), pts_ns=n * 100_000_000)
        ids = track_id[track_id > 0].tolist()
        ended.update(tracker.ended_ids.tolist())
        fresh = sorted(one for one in ids if one > greatest)
        assert len(set(ids)) == len(ids)
        assert not ended.intersection(ids)
        assert fresh == list(range(greatest + 1, greatest + 1 + len(fresh)))
        greatest += len(fresh)
    assert ended


def test_the_same_detections_give_the_same_ids_again() -> None:
    frames = random_frames(100, seed=2)

    assert ids_of(frames) == ids_of(frames)


def test_the_order_of_detections_does_not_change_who_is_who() -> None:
    frames = random_frames(100, seed=3)
    orders = [np.random.default_rng(n).permutation(len(xyxy)) for n, (xyxy, _) in enumerate(frames)]
    shuffled = ids_of(
        [(xyxy[order], confidence[order]) for (xyxy, confidence), order in zip(frames, orders, strict=True)]
    )
    pairs = {
        (one, other)
        for ids, order, others in zip(ids_of(frames), orders, shuffled, strict=True)
        for one, other in zip(np.array(ids)[order].tolist(), others, strict=True)
    }

    assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})
