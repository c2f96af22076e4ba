"""Masks from prototypes, against the plain method: all at the image's size, then cut to the box."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from sightline.media import Mask
from sightline_plugins.heads.head import Candidates
from sightline_plugins.infer.masks import cut_masks, moved_mask
from sightline_plugins.preprocess.placement import Align, Fit, Placement, place

ONE = np.ones(1)
Bits = npt.NDArray[np.bool_]
SIZE_WH = (160, 96)


def plain_mask(
    coefficients: npt.NDArray[np.float32], prototypes: npt.NDArray[np.float32], placement: Placement, box: list[float]
) -> Bits:
    """The whole logits without the padding, resized to the image, above 0 inside the box (pixel centres)."""
    width, height = SIZE_WH
    logits = np.einsum("c,chw->hw", coefficients, prototypes)
    scale = prototypes.shape[2] / placement.size_wh[0]
    left, top, wide, high = (round(side * scale) for side in placement.inner_xywh)
    image = cv2.resize(logits[top : top + high, left : left + wide], SIZE_WH, interpolation=cv2.INTER_LINEAR)
    inside = np.zeros((height, width), np.bool_)
    for y in range(height):
        for x in range(width):
            inside[y, x] = box[0] <= x + 0.5 < box[2] and box[1] <= y + 0.5 < box[3]
    bits: Bits = inside & (image > 0)
    return bits


@pytest.mark.parametrize(("fit", "align"), [("letterbox", "center"), ("letterbox", "top_left"), ("stretch", "center")])
def test_masks_of_kept_objects_equal_those_of_whole_prototypes(fit: Fit, align: Align) -> None:
    random = np.random.default_rng(3)
    placement = place((0, 0, *SIZE_WH), size_wh=(320, 320), fit=fit, align=align)
    coarse = random.normal(size=(4, 10, 10)).astype(np.float32)
    prototypes = np.stack([cv2.resize(one, (80, 80), interpolation=cv2.INTER_CUBIC) for one in coarse])
    coefficients = random.normal(size=(3, 4)).astype(np.float32)
    boxes = [[0.0, 0.0, 160.0, 96.0], [10.3, 20.7, 70.2, 60.6], [100.5, 3.5, 159.9, 40.0]]
    found = Candidates.from_arrays(np.array(boxes), np.ones(3), np.zeros(3), masks=coefficients, prototypes=prototypes)

    masks = cut_masks(found, placement)

    assert masks is not None
    for row, box in enumerate(boxes):
        expected = plain_mask(coefficients[row], prototypes, placement, box)
        given = masks[row].in_image(SIZE_WH)
        assert expected.sum() > 50
        assert (expected & given).sum() / (expected | given).sum() >= 0.999


def test_a_mask_is_turned_with_an_image_that_was_turned() -> None:
    quarter = ((0.0, -1.0, 64.0), (1.0, 0.0, 0.0))
    placement = Placement((0, 0, 64, 64), (0, 0, 64, 64), (64, 64), quarter)
    prototypes = np.full((1, 16, 16), -1, np.float32)
    prototypes[0, :4] = 1
    found = Candidates.from_arrays(np.array([[0, 0, 64, 64]]), ONE, ONE, masks=np.ones((1, 1)), prototypes=prototypes)

    masks = cut_masks(found, placement)

    assert masks is not None
    assert masks[0].bits[:, 50:].all()
    assert not masks[0].bits[:, :46].any()


def test_objects_without_prototypes_have_no_masks() -> None:
    found = Candidates.from_arrays(np.zeros((1, 4)), ONE, ONE)

    assert cut_masks(found, place((0, 0, 64, 64), size_wh=(64, 64))) is None


def test_a_box_smaller_than_a_pixel_has_a_mask_of_one() -> None:
    found = Candidates.from_arrays(
        np.array([[10.1, 10.1, 10.2, 10.2]]), ONE, ONE, masks=np.ones((1, 1)), prototypes=np.ones((1, 16, 16))
    )

    masks = cut_masks(found, place((0, 0, 64, 64), size_wh=(64, 64)))

    assert masks is not None
    assert masks[0].bits.shape == (1, 1)


def test_a_mask_that_only_moved_keeps_its_bits() -> None:
    mask = Mask(4, 6, np.eye(3, dtype=np.bool_))

    moved = moved_mask(mask, scale=np.ones(2, np.float32), shift=np.array([10, 20], np.float32))

    assert (moved.left, moved.top) == (14, 26)
    assert moved.bits is mask.bits


def test_a_mask_grows_with_its_object() -> None:
    mask = Mask(0, 0, np.array([[True, False]]))

    moved = moved_mask(mask, scale=np.array([2, 2], np.float32), shift=np.zeros(2, np.float32))

    assert moved.bits.tolist() == [[True, True, False, False]] * 2
