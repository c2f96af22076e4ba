"""Frames that show the same are found, and embeddings that are new."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline_plugins.harvest.selection import BY_CLOCK, Candidate, Content, Kept
from sightline_plugins.harvest.similarity import SIDE, KeptContents, perceptual_hash
from tests.unit.harvest.scenes import Box

RANDOM = np.random.default_rng(7)
SCENE = np.kron(RANDOM.integers(40, 200, (8, 8)), np.ones((4, 4))).astype(np.float64)


def luma(scene: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    return np.clip(np.rint(scene), 0, 255).astype(np.uint8)


def content(*boxes: Box, scene: npt.NDArray[np.float64] = SCENE, vectors: npt.ArrayLike = ()) -> Content:
    found = np.array(vectors, np.float32)
    return Content(
        perceptual_hash(luma(scene)),
        np.array(boxes, np.float32).reshape(-1, 4),
        np.zeros(len(boxes), np.int64),
        found.reshape(0, 0) if not found.size else found,
    )


def kept(of: Content, *, stream: str = "gate") -> Kept:
    return Kept("1.jpg", Candidate(stream, BY_CLOCK, 0, "event", 1.0), of)


def distance(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> int:
    return (perceptual_hash(luma(one)) ^ perceptual_hash(luma(other))).bit_count()


def test_noise_and_light_change_few_bits_of_the_hash_and_another_scene_half_of_them() -> None:
    noisy = SCENE + RANDOM.normal(0, 4, (SIDE, SIDE))
    brighter = SCENE * 1.1 + 12
    other = np.kron(RANDOM.integers(40, 200, (8, 8)), np.ones((4, 4))).astype(np.float64)

    assert distance(SCENE, noisy) <= 4
    assert distance(SCENE, brighter) <= 4
    assert distance(SCENE, other) >= 20


def test_a_frame_is_a_duplicate_when_image_and_objects_are_the_same() -> None:
    known = KeptContents(distance=8)
    one = kept(content((0.1, 0.1, 0.3, 0.3)))
    known.add(one)

    assert known.duplicates(content((0.11, 0.1, 0.31, 0.3)), stream="gate") == [one]
    assert known.duplicates(content((0.5, 0.1, 0.7, 0.3)), stream="gate") == []
    assert known.duplicates(content(), stream="gate") == []
    assert known.duplicates(content((0.1, 0.1, 0.3, 0.3), scene=SCENE.T[::-1]), stream="gate") == []
    assert known.duplicates(content((0.1, 0.1, 0.3, 0.3)), stream="yard") == []
    known.remove(one)
    assert known.duplicates(content((0.1, 0.1, 0.3, 0.3)), stream="gate") == []


def test_an_embedding_is_as_new_as_it_is_far_from_all_that_are_kept() -> None:
    known = KeptContents(distance=8)
    vectors = np.array([[1, 0, 0], [0, 0.6, 0.8]], np.float32)
    assert known.distances(vectors).tolist() == [1, 1]

    one = kept(content(vectors=[[1, 0, 0], [0, 1, 0]]))
    known.add(one)
    np.testing.assert_allclose(known.distances(vectors), [0, 0.4], atol=1e-6)
    assert known.distances(np.ones((1, 5), np.float32)).tolist() == [1]

    known.remove(one)
    assert known.distances(vectors).tolist() == [1, 1]
