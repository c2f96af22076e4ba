"""The rounds of the default tracker against the plain definition in NumPy: every round in full, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from sightline.media.boxes import iou_matrix
from sightline_plugins.track.adaptive_memory import AdaptiveMemory
from sightline_plugins.track.adaptive_options import AdaptiveOptions, MatchingThresholds
from sightline_plugins.track.association import assign
from sightline_plugins.track.cascade import overlap_matrix
from sightline_plugins.track.kalman import MotionModel
from sightline_plugins.track.tracks import HIGH, LOW, Detections, TrackColumns, TrackState

Floats = npt.NDArray[np.float32]
OPTIONS, THRESHOLDS = AdaptiveOptions(new_track_threshold=0.4), MatchingThresholds()
INTERVAL = 0.2
ROUNDS = np.array([[0, 0, 3, 3], [0, 2, 2, 0], [0, 0, 2, 0], [0, 2, 1, 0], [0, 0, 1, 0]])
"""By kind of track and band; pairs that never match have a similarity to reach that no pair has."""


def wide_similarity(tracks: TrackColumns, seen: Detections, *, way: Floats) -> Floats:
    """Return (N, M) the IoU of boxes that are enlarged on each side, times how alike their sizes are."""
    one, other = tracks.expected[:, None], seen.xyxy[None]
    sizes = [box[..., 2:] - box[..., :2] for box in (one, other)]
    margin = np.maximum(way[:, None, None], np.float32(THRESHOLDS.least_margin) * sizes[0])
    near = np.maximum(one[..., :2], other[..., :2]) - margin
    far = np.minimum(one[..., 2:], other[..., 2:]) + margin
    shared = np.maximum(far - near, 0).prod(axis=2)
    areas = [(size + 2 * margin).prod(axis=2) for size in sizes]
    alike = (np.minimum(*sizes) / np.maximum(*sizes)).prod(axis=2)
    similarity: Floats = alike**4 * shared / (areas[0] + areas[1] - shared)
    return similarity


def plain_rounds(tracks: TrackColumns, seen: Detections, support: Floats) -> dict[int, int]:
    """Return the detection of each track that has one."""
    is_fair = (tracks.mean_certainty < OPTIONS.high_confidence) & (tracks.state != TrackState.TENTATIVE)
    kind = tracks.state + 2 * is_fair
    same_class = tracks.class_id[:, None] == seen.class_id
    weight = seen.weight * np.where(same_class, 1, OPTIONS.class_mismatch_weight)
    overlap = iou_matrix(tracks.expected, seen.xyxy)
    margin = overlap * weight - THRESHOLDS.floors()[kind[:, None], seen.band] + np.where(overlap > 0, support, 0)
    pairs: dict[int, int] = {}
    for this in range(4):
        left = np.where(ROUNDS[kind[:, None], seen.band] == this, margin, 0)
        left[list(pairs)] = 0
        left[:, list(pairs.values())] = 0
        pairs |= dict(zip(*(found.tolist() for found in assign(left)), strict=True))
    way = np.float32(THRESHOLDS.way_margin * INTERVAL) * np.sqrt(tracks.covariance[:, 2, 0])
    similarity = wide_similarity(tracks, seen, way=way) * weight
    similarity += np.where(similarity > 0, support, 0)
    least = THRESHOLDS.least_margin * (tracks.expected[:, 2:] - tracks.expected[:, :2]).min(axis=1)
    similarity[(tracks.state == TrackState.TENTATIVE) & (way <= least)] = 0
    similarity[list(pairs)] = 0
    similarity[:, list(pairs.values())] = 0
    similarity[:, seen.band < HIGH] = 0
    wide = assign((similarity - THRESHOLDS.min_similarity_wide).astype(np.float32))
    return pairs | dict(zip(*(found.tolist() for found in wide), strict=True))


def memory_of_a_stream() -> AdaptiveMemory:
    return AdaptiveMemory(OPTIONS, THRESHOLDS, MotionModel(), first_id=1)


def crowd(count: int, *, seed: int) -> Iterator[tuple[Floats, Floats]]:
    """Yield boxes and confidences of objects that wander through each other, with misses and false alarms."""
    random = np.random.default_rng(seed)
    corner, velocity = random.uniform(0, 400, (20, 2)), random.normal(0, 12, (20, 2))
    size, usual = random.uniform(30, 90, (20, 2)), random.uniform(0.3, 1, 20)
    for _ in range(count):
        corner += velocity
        seen = random.random(20) > 0.2
        xyxy = np.concatenate([corner, corner + size], axis=1)[seen] + random.normal(0, 2, (int(seen.sum()), 4))
        false = random.uniform(0, 400, (3, 2))
        boxes = np.concatenate([xyxy, np.concatenate([false, false + 50], axis=1)]).astype(np.float32)
        confidence = np.concatenate([usual[seen] + random.normal(0, 0.1, len(xyxy)), random.uniform(0, 0.8, 3)])
        yield boxes, np.clip(confidence, 0, 1).astype(np.float32)


def begin(memory: AdaptiveMemory, frame: tuple[Floats, Floats], *, number: int) -> None:
    """Begin a frame with these boxes and confidences, of two classes in turn."""
    xyxy, confidence = frame
    memory.take(xyxy, confidence, np.arange(len(xyxy)) % 2)
    memory.begin(pts_ns=round(number * INTERVAL * 1e9))


def finish(memory: AdaptiveMemory) -> None:
    """Do what follows the matching."""
    memory.correct()
    memory.end()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("has_support", [False, True])
def test_rounds_find_the_pairs_of_the_plain_definition(seed: int, has_support: bool) -> None:
    random, memory = np.random.default_rng(seed), memory_of_a_stream()
    rounds: set[int] = set()
    for number, frame in enumerate(crowd(80, seed=seed)):
        begin(memory, frame, number=number)
        tracks, seen = memory.tracks, memory.detections
        support = random.normal(0, 0.05, (len(tracks), len(seen))).astype(np.float32) * has_support
        memory.match(support=support if has_support else None)
        found = {row: column for row, column in enumerate(tracks.detection.tolist()) if column >= 0}

        assert found == plain_rounds(tracks, seen, support)
        assert found == {row: column for column, row in enumerate(seen.track.tolist()) if row >= 0}
        rounds |= set(seen.round.tolist())
        finish(memory)

    assert rounds == {-1, 0, 1, 2, 3, 4}


def test_an_earlier_round_takes_first_even_at_a_worse_match() -> None:
    memory = memory_of_a_stream()
    box = np.array([[0, 0, 100, 100]], np.float32)
    for number in range(2):
        begin(memory, (box, np.array([1], np.float32)), number=number)
        memory.match()
        finish(memory)
    both = np.concatenate([box + 25, box]).astype(np.float32)
    begin(memory, (both, np.array([0.9, 0.3], np.float32)), number=2)
    memory.match()

    assert memory.detections.band.tolist() == [HIGH, LOW]
    assert memory.tracks.detection.tolist() == [0]


def test_support_of_another_shape_is_refused() -> None:
    memory = memory_of_a_stream()

    with pytest.raises(ValueError, match="support has the shape"):
        memory.match(support=np.zeros((1, 1), np.float32))


@pytest.mark.parametrize(("rows", "columns"), [(0, 3), (3, 0), (1, 1), (40, 30)])
def test_overlaps_are_those_of_numpy_to_the_bit(rows: int, columns: int) -> None:
    """Also of boxes that are empty, touch, lie in each other, or have their corners exchanged."""
    random = np.random.default_rng(rows)
    one, other = ((random.integers(0, 60, (count, 4)) / 7).astype(np.float32) for count in (rows, columns))
    one[: rows // 3, 2:] += 6
    other[: columns // 2, 2:] += 6

    found = overlap_matrix(one, other)

    assert found.shape == (rows, columns)
    assert found.tobytes() == iou_matrix(one, other).tobytes()
