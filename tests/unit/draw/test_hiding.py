"""Hidden parts of an image: nothing of them comes back, and nothing else changes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from sightline.media import PixelFormat, Surface
from sightline.media.shapes import Mask
from sightline_plugins.draw import hiding
from sightline_plugins.draw.cpu import Kind, Rect, color_from_rgb, layers_of

METHODS: tuple[hiding.Method, ...] = ("blur", "pixelate", "fill")
FORMATS = list(PixelFormat)
RECT = (32, 16, 96, 80)
CELLS = 4


def noise(pixel_format: PixelFormat, *, seed: int = 0, size_wh: tuple[int, int] = (128, 96)) -> Surface:
    random = np.random.default_rng(seed)
    surface = Surface.allocate(pixel_format, size_wh=size_wh)
    for plane in surface.planes:
        plane[:] = random.integers(0, 256, plane.shape)
    return surface


def hide(
    surface: Surface,
    *,
    rect: Rect = RECT,
    method: hiding.Method = "blur",
    cells: int = CELLS,
    cover: hiding.Cover | None = None,
) -> Surface:
    """A copy of the image with a hidden part."""
    copy = surface.shared().writable()
    ink = color_from_rgb((0, 0, 0), Kind.of(surface))
    hiding.hide(layers_of(copy), rect, method=method, cells=cells, ink=ink, cover=cover)
    return copy


def windows(surface: Surface, rect: Rect = RECT) -> list[npt.NDArray[np.uint8]]:
    return [layer.window(rect) for layer in layers_of(surface)]


def fine_energy(samples: npt.NDArray[np.uint8]) -> float:
    """The energy of everything finer than two cells (4 cycles across the part)."""
    spectrum = np.abs(np.fft.fft2(samples.astype(float) - samples.mean(), axes=(0, 1))) ** 2
    cycles = np.abs(np.fft.fftfreq(samples.shape[0], 1 / samples.shape[0]))
    coarse = (cycles[:, None] <= CELLS) & (cycles[None] <= CELLS)
    return float(spectrum[~coarse].sum())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("pixel_format", FORMATS)
def test_everything_outside_stays_to_the_bit(pixel_format: PixelFormat, method: hiding.Method) -> None:
    before = noise(pixel_format)
    after = hide(before, method=method)
    for old, new in zip(windows(before), windows(after), strict=True):
        assert (old != new).any()
        new[...] = old

    assert all(np.array_equal(old, new) for old, new in zip(before.planes, after.planes, strict=True))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("pixel_format", FORMATS)
def test_only_the_means_of_cells_are_left(pixel_format: PixelFormat, method: hiding.Method) -> None:
    """Two images whose cells have equal means, however their pixels lie in them, are indistinguishable."""
    one = noise(pixel_format)
    other = one.shared().writable()
    random = np.random.default_rng(1)
    for window in windows(other):
        side = window.shape[0] // CELLS, window.shape[1] // CELLS
        for row in range(CELLS):
            for column in range(CELLS):
                cell = window[row * side[0] : (row + 1) * side[0], column * side[1] : (column + 1) * side[1]]
                mixed = random.permutation(cell.reshape(side[0] * side[1], -1), axis=0)
                cell[...] = mixed.reshape(cell.shape)

    pairs = zip(windows(hide(one, method=method)), windows(hide(other, method=method)), strict=True)
    assert all(np.array_equal(first, second) for first, second in pairs)


@pytest.mark.parametrize(("method", "share"), [("blur", 1e-3), ("pixelate", 1e-2), ("fill", 0)])
def test_fine_detail_is_gone(method: hiding.Method, share: float) -> None:
    before = noise(PixelFormat.GRAY8)

    (old,), (new,) = windows(before), windows(hide(before, method=method))
    assert fine_energy(new) <= share * fine_energy(old)
    assert new.astype(float).var() < 0.02 * old.astype(float).var()


@pytest.mark.parametrize("side", [2, 4, 6, 10, 16])
def test_small_parts_keep_no_cell_smaller_than_four_pixels(side: int) -> None:
    rect = (8, 8, 8 + side, 8 + side)
    (hidden,) = windows(hide(noise(PixelFormat.GRAY8), rect=rect, method="pixelate", cells=8), rect)

    assert len(np.unique(hidden)) <= max(1, side // 4) ** 2


@pytest.mark.parametrize(("strength", "cells"), [(0, 8), (0.5, 4), (0.9, 2), (1, 1)])
def test_strength_decides_how_many_cells_are_left(strength: float, cells: int) -> None:
    assert hiding.cells_for(strength) == cells


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize("rect", [(-40, -20, 20, 30), (100, 80, 300, 200), (-10, -10, 999, 999), (400, 0, 500, 9)])
@pytest.mark.parametrize("size_wh", [(128, 96), (121, 91), (1, 1)])
def test_parts_beyond_the_image_are_cut(pixel_format: PixelFormat, rect: Rect, size_wh: tuple[int, int]) -> None:
    before = noise(pixel_format, size_wh=size_wh)
    after = hide(before, rect=rect, cover=hiding.ellipse_cover(rect, seen=hiding.inside(rect, size_wh=size_wh)))
    for old, new in zip(windows(before, rect), windows(after, rect), strict=True):
        new[...] = old

    assert all(np.array_equal(old, new) for old, new in zip(before.planes, after.planes, strict=True))


def test_an_ellipse_leaves_the_corners_alone() -> None:
    before = noise(PixelFormat.GRAY8)
    after = hide(before, cover=hiding.ellipse_cover(RECT, seen=RECT))

    (old,), (new,) = windows(before), windows(after)
    assert (old[:8, :8] == new[:8, :8]).all()
    assert (old != new).mean() == pytest.approx(np.pi / 4, abs=0.02)


@pytest.mark.parametrize("pixel_format", [item for item in FORMATS if item.is_yuv])
def test_a_mask_hides_itself_and_its_margin_in_every_plane(pixel_format: PixelFormat) -> None:
    before = noise(pixel_format)
    cover = hiding.mask_cover(Mask(50, 30, np.ones((21, 11), np.bool_)), margin=3, seen=RECT)
    after = hide(before, cover=cover, method="fill")

    changed = np.argwhere(before.planes[0] != after.planes[0])
    assert (changed.min(axis=0).tolist(), changed.max(axis=0).tolist()) == ([27, 47], [53, 63])
    if len(before.planes) > 1:
        right, down = pixel_format.chroma_shift
        samples = (before.planes[1] != after.planes[1]).reshape(*before.planes[1].shape[:2], -1).any(axis=2)
        covered = samples[27 >> down : (53 >> down) + 1, 50 >> right : (60 >> right) + 1]
        assert covered.mean() > 0.98


def test_a_box_grows_outwards_to_even_pixels() -> None:
    assert hiding.grown((10.5, 20, 30.5, 60), margin=0.1) == (8, 16, 34, 64)
    assert hiding.grown((10, 10, 10, 10), margin=0) == (8, 8, 12, 12)
