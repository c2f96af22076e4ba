"""Masks as run lengths: equal to COCO's own, and back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from pycocotools import mask as coco

from sightline.media.shapes import Mask
from sightline_plugins.sinks.records import decode_mask, encode_mask


def by_coco(image: npt.NDArray[np.bool_]) -> str:
    text: bytes = coco.encode(np.asfortranarray(image.astype(np.uint8)))["counts"]
    return text.decode()


def noise(*, seed: int, count: int) -> list[tuple[Mask, tuple[int, int]]]:
    """Masks of any density, within and beyond images of any size."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        size_wh = (int(random.integers(1, 40)), int(random.integers(1, 40)))
        bits = random.random(random.integers(0, 30, 2).tolist()) < random.choice([0, 0.1, 0.5, 0.9, 1])
        found.append((Mask(int(random.integers(-35, 45)), int(random.integers(-35, 45)), bits), size_wh))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_text_is_that_of_coco(seed: int) -> None:
    for mask, size_wh in noise(seed=seed, count=200):
        assert encode_mask(mask, size_wh=size_wh) == by_coco(mask.in_image(size_wh))


def test_a_large_mask_is_that_of_coco() -> None:
    rows, columns = np.indices((900, 1500))
    mask = Mask(300, 100, (rows - 450) ** 2 / 450**2 + (columns - 750) ** 2 / 750**2 < 1)

    assert encode_mask(mask, size_wh=(1920, 1080)) == by_coco(mask.in_image((1920, 1080)))


def test_masks_come_back() -> None:
    for mask, size_wh in noise(seed=9, count=300):
        again = decode_mask(encode_mask(mask, size_wh=size_wh), size_wh=size_wh)
        np.testing.assert_array_equal(again.in_image(size_wh), mask.in_image(size_wh))


def test_a_mask_comes_back_no_larger_than_what_it_covers() -> None:
    bits = np.zeros((20, 30), np.bool_)
    bits[4:9, 10:13] = True
    again = decode_mask(encode_mask(Mask(5, 6, bits), size_wh=(64, 48)), size_wh=(64, 48))

    assert (again.left, again.top, again.bits.shape) == (15, 10, (5, 3))


@pytest.mark.parametrize("text", ["", "é", " ", "P", "0", "ooooooooo0", "999"])
def test_what_is_no_mask_of_the_image_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="mask"):
        decode_mask(text, size_wh=(8, 6))


@pytest.mark.parametrize("size_wh", [(0, 5), (-1, -1), (1 << 20, 1 << 20)])
def test_a_size_of_no_image_is_refused(size_wh: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="size"):
        decode_mask("0", size_wh=size_wh)
