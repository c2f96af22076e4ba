"""The list of batch sizes: what a number of images is rounded to, and what a model is compiled for."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sightline_plugins.engines.batch_sizes import (
    ANY_BATCH,
    BATCH_SIZES,
    MAX_BATCH_SIZE,
    BatchRange,
    rounded_down,
    rounded_up,
)


def test_the_sizes_are_those_that_the_guide_names() -> None:
    assert BATCH_SIZES == (1, 2, 4, 6, 8, 12, 16, 24, 32)
    assert MAX_BATCH_SIZE == 32


@pytest.mark.parametrize("images", range(1, 33))
def test_a_batch_is_rounded_up_to_the_next_size_and_wastes_less_than_a_third(images: int) -> None:
    size = rounded_up(images)

    assert size in BATCH_SIZES
    assert size - images < max(size / 3, 1)
    assert all(other < images for other in BATCH_SIZES if other < size)


def test_a_limit_between_two_sizes_is_a_size_itself() -> None:
    assert [rounded_up(images, limit=5) for images in (1, 3, 4, 5)] == [1, 4, 4, 5]


@pytest.mark.parametrize("images", [0, 9])
def test_a_number_outside_the_limit_is_refused(images: int) -> None:
    with pytest.raises(ValueError, match=f"1 to 8 images, not {images}"):
        rounded_up(images, limit=8)


def test_rounding_down_finds_the_largest_size_that_fits() -> None:
    assert [rounded_down(images) for images in (1, 3, 5, 8, 11, 23, 31, 1000)] == [1, 2, 4, 8, 8, 16, 24, 32]


def test_a_range_is_tuned_for_its_images_and_reaches_to_the_next_size() -> None:
    for size, above in pairwise(BATCH_SIZES):
        assert BatchRange.around(size) == BatchRange(size, above)
    assert BatchRange.around(5) == BatchRange(6, 8)
    assert BatchRange.around(32) == BatchRange.around(1024) == BatchRange(32, 32)


def test_a_range_of_any_batch_reaches_to_the_largest() -> None:
    assert BatchRange(8, 32) == ANY_BATCH


@pytest.mark.parametrize(("usual", "most"), [(0, 8), (9, 8)])
def test_a_range_whose_sizes_are_not_in_order_is_refused(usual: int, most: int) -> None:
    with pytest.raises(ValueError, match=f"1 to {most} images"):
        BatchRange(usual, most)
