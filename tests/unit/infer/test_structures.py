"""Masks, keypoints and vectors of two models are compared, object by object."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline.media import Batch, Objects, Origin
from sightline.media.shapes import Mask
from sightline.testing import make_frames
from sightline_plugins.infer.comparison import Comparisons, compare
from sightline_plugins.infer.structures import cosines, keypoint_similarities, mask_ious

BOXES = np.array([[10, 10, 50, 50], [60, 10, 100, 50]], np.float32)


def square(left: int, top: int, side: int = 40) -> Mask:
    return Mask(left, top, np.ones((side, side), np.bool_))


def masks(*found: Mask | None) -> npt.NDArray[Any]:
    column = np.empty(len(found), object)
    column[:] = found
    return column


def batch(*, step: str = "segment-1", **extra: npt.NDArray[Any]) -> Batch:
    found = Objects.from_columns(
        frame=[0, 0], xyxy=BOXES, confidence=[0.9, 0.8], class_id=[0, 0], source=Origin(step, ("car",)), extra=extra
    )
    return Batch(tuple(make_frames(1)), found).with_search(step, {0})


def report(first: Batch, second: Batch, *, searches: bool = True) -> dict[str, Any]:
    found = Comparisons()
    for one in compare(first, second, element="segment-1", searches=searches):
        found.add(one)
    return dict(found.report())


def test_masks_are_compared_pixel_by_pixel_wherever_they_lie() -> None:
    found = mask_ious(
        [square(0, 0), square(0, 0), square(0, 0), None, None, square(0, 0, 0)],
        [square(0, 0), square(20, 0), square(90, 0), square(0, 0), None, square(9, 9, 0)],
    )
    assert found[:4].tolist() == [1, pytest.approx(800 / 2400), 0, 0]
    assert np.isnan(found[4])
    assert found[5] == 1


def test_random_masks_have_the_overlap_of_whole_images() -> None:
    random = np.random.default_rng(1)
    for _ in range(50):
        places, sizes = random.integers(-10, 40, (2, 2)).tolist(), random.integers(1, 40, (2, 2)).tolist()
        one, other = (
            Mask(left, top, random.random(size) < 0.6) for (left, top), size in zip(places, sizes, strict=True)
        )
        images = [Mask(mask.left + 10, mask.top + 10, mask.bits).in_image((100, 100)) for mask in (one, other)]
        both, either = (images[0] & images[1]).sum(), (images[0] | images[1]).sum()
        assert mask_ious([one], [other])[0] == pytest.approx(both / either if either else 1)


def test_keypoints_are_near_by_the_size_of_the_object() -> None:
    points = np.array([[[10, 10, 1], [30, 30, 1]], [[10, 10, 1], [np.nan] * 3], [[np.nan] * 3] * 2], np.float32)
    moved = points + np.array([4, 0, 0], np.float32)
    moved[1, 1] = (20, 20, 1)
    small, large = (
        keypoint_similarities(points, moved, areas=np.full(3, area, np.float32)) for area in (40**2, 400**2)
    )
    assert small[0] == pytest.approx(np.exp(-0.5))
    assert large[0] > 0.99
    assert small[1] == pytest.approx(np.exp(-0.5) / 2)  # the other model has found one point more
    assert np.isnan(small[2])
    assert keypoint_similarities(points, moved[:, :1], areas=np.ones(3, np.float32))[:2].tolist() == [0, 0]


def test_vectors_are_compared_by_their_angle() -> None:
    first = np.array([[1, 0], [1, 0], [1, 0], [np.nan, np.nan]], np.float32)
    second = np.array([[2, 0], [0, 1], [np.nan, np.nan], [np.nan, np.nan]], np.float32)
    assert cosines(first, second)[:3].tolist() == [1, 0, 0]
    assert np.isnan(cosines(first, second)[3])
    assert cosines(first, np.ones((4, 3), np.float32))[0] == 0


def test_objects_whose_masks_differ_do_not_agree() -> None:
    first = batch(mask=masks(square(10, 10), square(60, 10)))
    second = batch(mask=masks(square(10, 12), square(90, 10)))
    found = report(first, second)
    assert (found["disagreement"], found["mean_iou"], found["other_labels"]) == (0.5, 1, 0)
    assert found["mean_mask_iou"] == pytest.approx((38 / 42 + 10 / 70) / 2, abs=1e-4)


def test_what_is_said_of_known_objects_counts_and_what_steps_before_said_does_not() -> None:
    points = np.full((2, 5, 3), 30, np.float32)
    before = masks(square(10, 10), square(60, 10))
    first = batch(step="detect-1", keypoints=points, mask=before)
    second = batch(step="detect-1", keypoints=points + np.array([[[0]], [[90]]], np.float32), mask=before)
    found = report(first, second, searches=False)
    assert found["disagreement"] == 0.5
    assert found["mean_keypoint_similarity"] == 0.5
    assert "mean_mask_iou" not in found


def test_vectors_of_models_that_were_trained_apart_disagree() -> None:
    random = np.random.default_rng(2)
    first, second = (
        batch(step="detect-1", embedding=(random.normal(size=(2, 128)) / 11).astype(np.float32)) for _ in range(2)
    )
    found = report(first, second, searches=False)
    assert found["disagreement"] == 1
    assert found["mean_cosine"] < 0.3
