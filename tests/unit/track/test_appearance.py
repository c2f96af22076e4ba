"""Appearance in tracking: vectors that tell objects apart keep ids, and useless ones do no harm."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from sightline.errors import ConfigurationError
from sightline.graph import Capability
from sightline.media import Batch, Objects, Origin
from sightline.testing import make_frames, run_element
from sightline_plugins.track.adaptive import AdaptiveTracker
from sightline_plugins.track.adaptive_options import AdaptiveOptions
from sightline_plugins.track.appearance import AppearanceScale, blended
from sightline_plugins.track.deepocsort import DeepOCSortOptions
from sightline_plugins.track.ocsort import OCSortOptions
from sightline_plugins.track.track import Track

Floats = npt.NDArray[np.float32]
DETECTOR = Origin("detect-1", ("person",))
FPS = 10


def people(count: int, *, common: float = 0.6) -> Floats:
    """Vectors of people of whom strangers have a similarity of about `common`."""
    random = np.random.default_rng(3)
    own = random.normal(size=(count + 1, 32))
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    mixed = np.sqrt(common) * own[0] + np.sqrt(1 - common) * own[1:]
    vectors: Floats = (mixed / np.linalg.norm(mixed, axis=1, keepdims=True)).astype(np.float32)
    return vectors


def meeting(*, turns_back: bool) -> Iterator[tuple[Floats, list[int]]]:
    """Boxes and people of each frame: two come from the sides, meet behind a pillar, and go on or turn back."""
    for frame in range(60):
        way = frame if frame < 30 or not turns_back else 60 - frame
        left, right = 20 + 8 * way, 500 - 8 * way
        seen = [] if 25 <= frame < 36 else [0, 1]
        yield np.array([[left, 40, left + 40, 140], [right, 40, right + 40, 140]], np.float32)[seen], seen


def ids_of(options: AdaptiveOptions, vectors: Floats | None, *, turns_back: bool) -> list[list[int]]:
    tracker, found = AdaptiveTracker(options), []
    random = np.random.default_rng(0)
    for frame, (xyxy, seen) in enumerate(meeting(turns_back=turns_back)):
        if vectors is not None:
            noisy = vectors[seen] + random.normal(0, 0.03, (len(seen), vectors.shape[1])).astype(np.float32)
            tracker.compare_by(noisy / np.maximum(np.linalg.norm(noisy, axis=1, keepdims=True), np.float32(1e-6)))
        confidence, classes = np.full(len(seen), 0.9, np.float32), np.zeros(len(seen), np.int64)
        found.append(tracker.update(xyxy, confidence, classes, pts_ns=frame * 1_000_000_000 // FPS).tolist())
    return found


def test_people_who_turn_back_behind_a_pillar_keep_their_ids() -> None:
    without = ids_of(AdaptiveOptions(), None, turns_back=True)
    by_appearance = ids_of(AdaptiveOptions(appearance=True), people(2), turns_back=True)

    assert without[-1] != without[20]
    assert by_appearance[-1] == by_appearance[20] == [1, 2]


def test_people_who_go_on_keep_their_ids_too() -> None:
    assert ids_of(AdaptiveOptions(appearance=True), people(2), turns_back=False)[-1] == [1, 2]


@pytest.mark.parametrize("turns_back", [False, True])
def test_vectors_that_tell_nothing_change_nothing(turns_back: bool) -> None:
    same = np.repeat(people(1), 2, axis=0)
    unknown = np.full((2, 32), np.nan, np.float32)
    expected = ids_of(AdaptiveOptions(), None, turns_back=turns_back)

    assert ids_of(AdaptiveOptions(appearance=True), unknown, turns_back=turns_back) == expected
    assert ids_of(AdaptiveOptions(appearance=True), same, turns_back=turns_back) == expected


def test_a_stranger_in_reach_does_not_take_the_id_of_who_is_gone() -> None:
    vectors, tracker = people(6), AdaptiveTracker(AdaptiveOptions(appearance=True))
    last = np.empty(0, np.int64)
    for frame in range(60):
        # The second person leaves; another one comes near that place a second later.
        who = [0, 1] if frame < 30 else [0] if frame < 40 else [0, 5]
        boxes = {0: [20, 40, 60, 140], 1: [200, 40, 240, 140], 5: [235, 40, 275, 140]}
        tracker.compare_by(vectors[who])
        last = tracker.update(
            np.array([boxes[one] for one in who], np.float32),
            np.full(len(who), 0.9, np.float32),
            np.zeros(len(who), np.int64),
            pts_ns=frame * 1_000_000_000 // FPS,
        )
    assert last.tolist() == [1, 3]


def test_two_tracks_of_one_object_do_not_take_turns() -> None:
    """A second box on a person begins a track of its own; when it is gone, the first one goes on."""
    vectors, tracker, found = people(2), AdaptiveTracker(AdaptiveOptions(appearance=True)), []
    for frame in range(40):
        boxes = [[20, 40, 60, 140], [300, 40, 340, 140], *([[30, 60, 80, 165]] if 10 <= frame < 14 else [])]
        tracker.compare_by(vectors[[0, 1, 0][: len(boxes)]])
        ids = tracker.update(
            np.array(boxes, np.float32),
            np.full(len(boxes), 0.9, np.float32),
            np.zeros(len(boxes), np.int64),
            pts_ns=frame * 1_000_000_000 // FPS,
        )
        found.append(ids[:2].tolist())
    assert found[1:] == [[1, 2]] * 39


def test_the_scale_is_that_of_the_model() -> None:
    scale = AppearanceScale()
    assert scale.log_ratio(np.array([0.2, 0.9], np.float32)).tolist() == [0, 0]
    random = np.random.default_rng(0)
    for _ in range(50):
        similarity = random.normal(0.7, 0.03, (4, 4)).astype(np.float32)
        np.fill_diagonal(similarity, random.normal(0.95, 0.02, 4))
        scale.learn(similarity)

    stranger, between, same, unknown = scale.log_ratio(np.array([0.7, 0.825, 0.95, np.nan], np.float32)).tolist()
    assert stranger < -3
    assert abs(between) < 1
    assert same > 3
    assert unknown == 0


def test_a_vector_follows_sure_detections_and_ignores_missing_ones() -> None:
    old, seen = people(2)
    sure, unsure = blended(np.stack([old, old]), np.stack([seen, seen]), certainty=np.array([1, 0.3], np.float32))
    missing = np.full_like(old, np.nan)

    assert old @ sure < old @ unsure < 1
    assert np.isclose(np.linalg.norm(sure), 1, atol=1e-5)
    assert blended(old[None], missing[None], certainty=np.ones(1, np.float32))[0].tolist() == old.tolist()
    assert blended(missing[None], seen[None], certainty=np.ones(1, np.float32))[0].tolist() == seen.tolist()


@pytest.mark.parametrize("size", [1, 4])
def test_the_element_passes_embeddings_on(size: int) -> None:
    vectors, frames = people(2), make_frames(60, size_wh=(640, 200), fps=FPS)
    scenes = list(meeting(turns_back=True))

    def batch(first: int) -> Batch:
        group = frames[first : first + size]
        seen = [
            (row, one, box) for row, frame in enumerate(group) for box, one in zip(*scenes[frame.index], strict=True)
        ]
        objects = Objects.from_columns(
            frame=[row for row, _, _ in seen],
            xyxy=[box for _, _, box in seen],
            confidence=np.full(len(seen), 0.9),
            class_id=np.zeros(len(seen)),
            source=DETECTOR,
            extra={"embedding": vectors[[one for _, one, _ in seen]]} if seen else {},
        )
        return Batch(tuple(group), objects)

    results = run_element(Track(appearance=True), [batch(first) for first in range(0, 60, size)])
    found = [view.objects.track_id.tolist() for one in results for view in one]

    assert found[20] == found[-1] == [1, 2]


@pytest.mark.parametrize("options", [{"appearance": True}, {"algorithm": "deepocsort"}])
def test_embeddings_must_come_before(options: dict[str, object]) -> None:
    step = Track.model_validate(options)
    objects, vectors = frozenset({Capability.OBJECTS}), frozenset({Capability.OBJECTS, Capability.EMBEDDINGS})

    assert list(step.check_given({"gate": vectors})) == []
    (nowhere,) = step.check_given({"gate": objects, "yard": objects})
    assert "no step before it gives any: put embed: {model: ..., on: ...} before track" in nowhere.message
    (lacking,) = step.check_given({"gate": vectors, "yard": objects})
    assert "gives any on the stream 'yard'" in lacking.message
    assert list(Track().check_given({"gate": objects})) == []


def test_deepocsort_knows_who_turned_back_from_whom() -> None:
    """Two people walk up to each other until their boxes are nearly one, and turn back."""

    def ids(options: OCSortOptions, vectors: Floats) -> list[int]:
        tracker, last = options.build(), np.empty(0, np.int64)
        for frame in range(40):
            away = 8 * abs(frame - 20) + 4
            boxes = np.array([[200 - away, 40, 260 - away, 200], [200 + away, 40, 260 + away, 200]], np.float32)
            tracker.compare_by(vectors)
            last = tracker.update(boxes, np.full(2, 0.95, np.float32), np.zeros(2, np.int64), pts_ns=frame * 25_000_000)
        return last.tolist()

    assert ids(DeepOCSortOptions(), people(2)) == [1, 2]
    assert ids(DeepOCSortOptions(), np.repeat(people(1), 2, axis=0)) == [2, 1]
    assert ids(OCSortOptions(), people(2)) == [2, 1]


def test_the_option_belongs_to_trackers_that_compare() -> None:
    with pytest.raises(ConfigurationError, match="appearance: is an option of adaptive, not of sort"):
        Track(algorithm="sort", appearance=True)
