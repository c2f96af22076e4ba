"""Correlation filters find the patches that they learned, and say when they do not."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from sightline_plugins.track.correlation import Peaks, Pyramid, learned, peaks, responses, spectra, vertex

Image = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
CENTRE, SIZE = np.array([[160, 120]], np.float32), np.array([[40, 60]], np.float32)


def texture(*, seed: int = 0, size_wh: tuple[int, int] = (320, 240)) -> Image:
    """An image of blobs of a few pixels."""
    noise = np.random.default_rng(seed).normal(0, 1, (size_wh[1], size_wh[0])).astype(np.float32)
    blobs = cv2.GaussianBlur(noise, (0, 0), 3)
    return np.asarray(cv2.normalize(blobs, None, 0, 255, cv2.NORM_MINMAX), np.uint8)


def moved(image: Image, *, shift: tuple[float, float] = (0, 0), scale: float = 1.0) -> Image:
    """The image enlarged around the middle of the patch, and shifted by pixels."""
    x, y = CENTRE[0]
    matrix = np.array([[scale, 0, x - scale * x + shift[0]], [0, scale, y - scale * y + shift[1]]], np.float32)
    return np.asarray(cv2.warpAffine(image, matrix, image.shape[::-1], borderMode=cv2.BORDER_REFLECT), np.uint8)


def seen(before: Image, now: Image, *, centre: Floats = CENTRE, size: Floats = SIZE) -> Peaks:
    """The peaks, around the same boxes, of filters that learned them before."""
    filters = learned(spectra(Pyramid(before), centre, size))
    return peaks(responses(*filters, spectra(Pyramid(now), centre, size)))


@pytest.mark.parametrize("shift", [(0.0, 0.0), (3.0, -2.0), (-9.5, 6.25), (14.0, 20.0)])
def test_a_shift_is_found_to_a_pixel(shift: tuple[float, float]) -> None:
    found = seen(texture(), moved(texture(), shift=shift))

    np.testing.assert_allclose(found.offset[0] * SIZE[0], shift, atol=0.6)


@pytest.mark.parametrize("scale", [0.9, 1.1])
def test_a_patch_that_grows_or_shrinks_is_found(scale: float) -> None:
    found = seen(texture(), moved(texture(), shift=(5, 3), scale=scale))

    np.testing.assert_allclose(found.offset[0] * SIZE[0], (5, 3), atol=2)
    assert found.height[0] > 0.3


def test_the_patch_that_was_learned_has_a_peak_of_height_one() -> None:
    found = seen(texture(), texture())

    assert found.height[0] == pytest.approx(1, abs=0.05)
    assert found.ratio[0] > 20


def test_another_patch_has_a_low_peak() -> None:
    found = seen(texture(), texture(seed=1))

    assert found.height[0] < 0.4
    assert found.ratio[0] < 10


def test_light_and_contrast_do_not_count() -> None:
    dark = (texture() * 0.4 + 20).astype(np.uint8)
    found = seen(texture(), moved(dark, shift=(4, 0)))

    np.testing.assert_allclose(found.offset[0] * SIZE[0], (4, 0), atol=0.6)
    assert found.height[0] > 0.7


def test_an_even_image_gives_no_peak() -> None:
    even = np.full((240, 320), 128, np.uint8)

    for before, now in ((even, even), (texture(), even), (even, texture())):
        found = seen(before, now)
        assert np.isfinite(found.offset).all()
        assert abs(found.height[0]) < 0.1


def test_many_patches_are_found_as_each_alone() -> None:
    random = np.random.default_rng(2)
    centre = random.uniform(0, 320, (50, 2)).astype(np.float32)
    size = random.uniform(6, 300, (50, 2)).astype(np.float32)
    now = moved(texture(), shift=(2, 1))
    together = seen(texture(), now, centre=centre, size=size)

    for row in range(50):
        alone = seen(texture(), now, centre=centre[row : row + 1], size=size[row : row + 1])
        np.testing.assert_allclose(alone.offset[0], together.offset[row], atol=1e-3)
        np.testing.assert_allclose(alone.height[0], together.height[row], atol=1e-3)


def test_windows_far_outside_and_images_of_one_pixel_are_taken() -> None:
    centre, size = np.array([[-500, 9000]], np.float32), np.array([[1e6, 3]], np.float32)

    for image in (texture(), texture()[:1, :1]):
        assert np.isfinite(seen(image, image, centre=centre, size=size).height).all()


def test_large_windows_are_sampled_from_smaller_images() -> None:
    stripes = np.tile(np.array([0, 255], np.uint8), (512, 256))
    windows = Pyramid(stripes).windows(np.array([[256, 256]], np.float32), np.array([[500, 500]], np.float32))

    np.testing.assert_allclose(windows, 127.5, atol=1)


def test_a_parabola_has_its_vertex_between_its_values() -> None:
    before, peak, after = (np.array([-((place - 0.3) ** 2)], np.float32) for place in (-1, 0, 1))

    assert vertex(before, peak, after) == pytest.approx([0.3])
    assert vertex(peak * 0, peak * 0, peak * 0) == pytest.approx([0])
