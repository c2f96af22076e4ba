"""The gallery: objects that were away get their ids back, and nobody gets the id of another one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from sightline.errors import ConfigurationError
from sightline_plugins.track.adaptive import AdaptiveTracker
from sightline_plugins.track.adaptive_options import AdaptiveOptions
from sightline_plugins.track.gallery import MOST_ENTRIES, Gallery
from sightline_plugins.track.track import Track

Floats = npt.NDArray[np.float32]
SECOND = 1_000_000_000
INTERVAL = SECOND // 10
SEEN_SECONDS = 8
LEFT, RIGHT, FAR = (20, 40), (300, 40), (500, 200)


def people(count: int, *, common: float = 0.6) -> Floats:
    """Vectors of people of whom strangers have a similarity of about `common`."""
    random = np.random.default_rng(3)
    own = random.normal(size=(count + 1, 64))
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    mixed = np.sqrt(common) * own[0] + np.sqrt(1 - common) * own[1:]
    vectors: Floats = (mixed / np.linalg.norm(mixed, axis=1, keepdims=True)).astype(np.float32)
    return vectors


class Camera:
    """One stream: people stand at places for some time, and the tracker gives them ids."""

    def __init__(self, vectors: Floats, *, reidentify_within: str = "60s", noise: float = 0.02) -> None:
        written = {"appearance": True, "reidentify_within": reidentify_within}
        self.tracker = AdaptiveTracker(AdaptiveOptions.model_validate(written))
        self.vectors, self.noise = vectors, noise
        self.random = np.random.default_rng(0)
        self.now_ns = 0

    def shows(
        self, places: Sequence[tuple[int, tuple[int, int]]], *, seconds: float, classes: Sequence[int] = ()
    ) -> list[int]:
        """Show the people (number, place) for some time; return the ids on the last frame."""
        boxes = np.array([[x, y, x + 40, y + 100] for _, (x, y) in places], np.float32).reshape(-1, 4)
        vectors = self.vectors[[person for person, _ in places]]
        last = np.empty(0, np.int64)
        for _ in range(round(seconds * SECOND / INTERVAL)):
            noisy = vectors + self.random.normal(0, self.noise, vectors.shape)
            length = np.linalg.norm(noisy, axis=1, keepdims=True)
            self.tracker.compare_by((noisy / length).astype(np.float32))
            confidence = np.full(len(boxes), 0.9, np.float32)
            class_id = np.array([*classes] or [0] * len(boxes), np.int64)
            last = self.tracker.update(boxes, confidence, class_id, pts_ns=self.now_ns)
            assert len(set(last[last >= 0].tolist())) == (last >= 0).sum(), "one id for two objects at once"
            self.now_ns += INTERVAL
        return last.tolist()

    def is_gone(self, seconds: float) -> None:
        """Let time pass without a frame."""
        self.now_ns += round(seconds * SECOND)


@pytest.mark.parametrize(("reidentify_within", "expected"), [("60s", [1, 2]), ("0s", [1, 3]), ("4s", [1, 3])])
def test_who_was_hidden_for_longer_than_max_lost_is_recognized(reidentify_within: str, expected: list[int]) -> None:
    camera = Camera(people(2), reidentify_within=reidentify_within)
    camera.shows([(0, LEFT), (1, RIGHT)], seconds=SEEN_SECONDS)
    camera.shows([(0, LEFT)], seconds=5)

    assert camera.shows([(0, LEFT), (1, FAR)], seconds=1) == expected


def test_everybody_is_recognized_elsewhere_when_the_camera_was_gone() -> None:
    camera = Camera(people(3))
    camera.shows([(0, LEFT), (1, RIGHT), (2, FAR)], seconds=SEEN_SECONDS)
    camera.is_gone(seconds=10)

    assert camera.shows([(1, LEFT), (2, RIGHT), (0, FAR)], seconds=1) == [2, 3, 1]


def test_a_stranger_gets_an_id_of_their_own() -> None:
    camera = Camera(people(3))
    camera.shows([(0, LEFT), (1, RIGHT)], seconds=SEEN_SECONDS)
    camera.shows([(0, LEFT)], seconds=5)

    assert camera.shows([(0, LEFT), (2, RIGHT)], seconds=1) == [1, 3]


def test_a_double_of_somebody_in_view_gets_an_id_of_their_own() -> None:
    camera = Camera(people(2))
    camera.shows([(0, LEFT), (1, RIGHT)], seconds=SEEN_SECONDS)

    assert camera.shows([(0, LEFT), (1, RIGHT), (1, FAR)], seconds=1) == [1, 2, 3]


def test_of_two_doubles_who_come_at_once_only_one_gets_the_id() -> None:
    camera = Camera(people(2))
    camera.shows([(0, LEFT), (1, RIGHT)], seconds=SEEN_SECONDS)
    camera.shows([(0, LEFT)], seconds=5)

    assert sorted(camera.shows([(0, LEFT), (1, RIGHT), (1, FAR)], seconds=1)) == [1, 2, 3]


def test_whom_two_known_people_resemble_is_neither() -> None:
    """Without evidence for the one or the other, a new id is right."""
    vectors = people(2)
    camera = Camera(np.concatenate([vectors, vectors[1:]]))
    camera.shows([(0, LEFT), (1, RIGHT), (2, FAR)], seconds=SEEN_SECONDS)
    camera.shows([(0, LEFT)], seconds=5)

    assert camera.shows([(0, LEFT), (1, RIGHT)], seconds=1) == [1, 4]


def test_an_object_of_another_class_is_another_object() -> None:
    camera = Camera(people(2))
    camera.shows([(0, LEFT), (1, RIGHT)], seconds=SEEN_SECONDS)
    camera.shows([(0, LEFT)], seconds=5)

    assert camera.shows([(0, LEFT), (1, RIGHT)], seconds=1, classes=[0, 7]) == [1, 3]


def test_vectors_that_tell_nothing_give_no_id_back() -> None:
    camera = Camera(np.repeat(people(1), 3, axis=0))
    camera.shows([(0, LEFT), (1, RIGHT)], seconds=SEEN_SECONDS)
    camera.shows([(0, LEFT)], seconds=5)

    assert camera.shows([(0, LEFT), (1, RIGHT)], seconds=1) == [1, 3]


def test_nobody_is_recognized_before_anything_was_measured() -> None:
    camera = Camera(people(2))
    camera.shows([(0, LEFT), (1, RIGHT)], seconds=0.3)
    camera.shows([(0, LEFT)], seconds=5)

    assert camera.shows([(0, LEFT), (1, RIGHT)], seconds=1) == [1, 3]


def test_new_ids_go_on_after_an_old_one_came_back() -> None:
    camera = Camera(people(3))
    camera.shows([(0, LEFT), (1, RIGHT)], seconds=SEEN_SECONDS)
    camera.is_gone(seconds=10)

    assert camera.shows([(1, LEFT), (2, FAR), (0, RIGHT)], seconds=1) == [2, 3, 1]


def taught(*, noise: float = 0.02, times: int = 21) -> tuple[Gallery, Floats]:
    """A gallery that knows the tracks 1 and 2, last seen at 10 s, and the vectors of five people."""
    gallery, vectors = Gallery(keep_ns=60 * SECOND), people(5)
    random = np.random.default_rng(0)
    for half_seconds in range(21 - times, 21):
        seen = vectors[:2] + random.normal(0, noise, (2, vectors.shape[1]))
        gallery.note(
            np.array([1, 2]),
            class_id=np.zeros(2, np.int64),
            vector=(seen / np.linalg.norm(seen, axis=1, keepdims=True)).astype(np.float32),
            next_number=9,
            now_ns=half_seconds * SECOND // 2,
        )
    return gallery, vectors


@pytest.mark.parametrize(("number", "expected"), [(8, -1), (9, 2)])
def test_a_track_that_began_beside_the_one_that_ended_is_another_object(number: int, expected: int) -> None:
    gallery, vectors = taught()

    found = gallery.recognize(
        vectors[1:2],
        class_id=np.zeros(1, np.int64),
        number=np.array([number]),
        in_view=np.array([1]),
        now_ns=13 * SECOND,
    )

    assert found.tolist() == [expected]


@pytest.mark.parametrize(
    ("similarity", "away", "expected"), [(0.92, 1, 2), (0.92, 50, -1), (0.97, 50, 2), (0.7, 1, -1)]
)
def test_the_longer_somebody_was_away_the_more_alike_they_must_look(
    similarity: float, away: int, expected: int
) -> None:
    gallery, vectors = taught(noise=0.06, times=6)
    other = vectors[2] - vectors[2] @ vectors[1] * vectors[1]
    seen = similarity * vectors[1] + np.sqrt(1 - similarity**2) * other / np.linalg.norm(other)

    found = gallery.recognize(
        seen[None].astype(np.float32),
        class_id=np.zeros(1, np.int64),
        number=np.array([9]),
        in_view=np.array([1]),
        now_ns=(10 + away) * SECOND,
    )

    assert found.tolist() == [expected]


@pytest.mark.parametrize(("in_view", "expected"), [([1], 2), ([1, 2], -1)])
def test_an_id_in_view_is_never_given_again(in_view: list[int], expected: int) -> None:
    gallery, vectors = taught()

    found = gallery.recognize(
        vectors[1:2],
        class_id=np.zeros(1, np.int64),
        number=np.array([9]),
        in_view=np.array(in_view),
        now_ns=11 * SECOND,
    )

    assert found.tolist() == [expected]


def test_who_looks_less_alike_than_one_object_usually_does_is_somebody_else() -> None:
    """A similarity of 0.9 is far above that of the strangers measured here, who may not include a double."""
    gallery, vectors = taught()
    other = vectors[2] - vectors[2] @ vectors[1] * vectors[1]
    seen = 0.9 * vectors[1] + np.sqrt(1 - 0.9**2) * other / np.linalg.norm(other)

    found = gallery.recognize(
        seen[None].astype(np.float32),
        class_id=np.zeros(1, np.int64),
        number=np.array([9]),
        in_view=np.array([1]),
        now_ns=11 * SECOND,
    )

    assert found.tolist() == [-1]


def test_people_who_come_one_by_one_teach_how_alike_strangers_are() -> None:
    """Nobody is seen beside another one; what tells them apart is learned when they come."""
    camera = Camera(people(8), noise=0.05)
    for person in range(7):
        assert camera.shows([(person, LEFT)], seconds=4) == [person + 1]
        camera.shows([], seconds=3)

    assert camera.shows([(6, RIGHT)], seconds=1) == [7]
    camera.shows([], seconds=3)
    assert camera.shows([(7, LEFT)], seconds=1) == [8]


def test_the_gallery_is_bounded_and_forgets_those_unseen_for_longest() -> None:
    gallery, vectors = Gallery(keep_ns=3600 * SECOND), people(2)
    for own in range(1, MOST_ENTRIES + 11):
        gallery.note(
            np.array([own]),
            class_id=np.zeros(1, np.int64),
            vector=vectors[:1],
            next_number=own,
            now_ns=own * SECOND,
        )

    assert len(gallery) == MOST_ENTRIES
    assert gallery._entries.track_id[0] == 11


def test_objects_without_embeddings_are_left_out() -> None:
    gallery = Gallery(keep_ns=SECOND)
    unknown = np.full((1, 64), np.nan, np.float32)

    gallery.note(np.array([1]), class_id=np.zeros(1, np.int64), vector=unknown, next_number=1, now_ns=0)

    assert len(gallery) == 0


def test_the_option_needs_appearance() -> None:
    with pytest.raises(ConfigurationError, match="reidentify_within compares embeddings: set appearance: true"):
        Track(reidentify_within="30s")
