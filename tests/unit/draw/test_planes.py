"""Shapes in planes: the right samples change, at every format, and no others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline.media.convert import rgb_from_surface
from sightline_plugins.draw import cpu as cpu_draw
from sightline_plugins.draw.cpu import Color, Colors, Kind, Rect, Typesetter, color_from_rgb

GREY = 101
RED = (255, 0, 0)
FORMATS = list(PixelFormat)
COLORED = [item for item in FORMATS if item is not PixelFormat.GRAY8]
FULL_CHROMA = [item for item in COLORED if item.chroma_shift == (0, 0)]


def grey(pixel_format: PixelFormat, size_wh: tuple[int, int] = (24, 16)) -> Surface:
    surface = Surface.allocate(pixel_format, size_wh=size_wh)
    for plane in surface.planes:
        plane[:] = GREY
    return surface


def ink(surface: Surface) -> Color:
    return color_from_rgb(RED, Kind.of(surface))


def changed(surface: Surface, plane: int) -> npt.NDArray[np.bool_]:
    """Mask of the samples that are not as `grey` made them."""
    samples: npt.NDArray[np.bool_] = surface.planes[plane] != GREY
    return np.asarray(samples.any(axis=2)) if samples.ndim == 3 else samples


def inside(shape: tuple[int, ...], rect: Rect, shift: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Mask of a plane's samples that lie in a rectangle of the image."""
    rows, columns = np.indices(shape[:2])
    x, y = columns << shift[0], rows << shift[1]
    left, top, right, bottom = rect
    return np.asarray((x >= left) & (x < right) & (y >= top) & (y < bottom))


def shift_of(surface: Surface, plane: int) -> tuple[int, int]:
    return surface.format.chroma_shift if plane else (0, 0)


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize("rect", [(4, 2, 20, 14), (-6, -4, 8, 6), (16, 10, 40, 30), (-10, 4, 40, 8), (0, 0, 24, 16)])
def test_fill_changes_exactly_the_samples_of_the_rectangle(pixel_format: PixelFormat, rect: Rect) -> None:
    surface = grey(pixel_format)
    cpu_draw.fill(cpu_draw.layers_of(surface), rect, ink(surface))

    for index, plane in enumerate(surface.planes):
        np.testing.assert_array_equal(changed(surface, index), inside(plane.shape, rect, shift_of(surface, index)))


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize("rect", [(4, 2, 20, 14), (-6, -4, 12, 12), (12, 6, 40, 30), (-10, 4, 40, 12), (0, 0, 24, 16)])
def test_an_outline_is_a_frame_just_inside_the_rectangle(pixel_format: PixelFormat, rect: Rect) -> None:
    surface = grey(pixel_format)
    cpu_draw.outline(cpu_draw.layers_of(surface), rect, ink(surface), thickness=2)

    left, top, right, bottom = rect
    hole = (left + 2, top + 2, right - 2, bottom - 2)
    for index, plane in enumerate(surface.planes):
        shift = shift_of(surface, index)
        frame = inside(plane.shape, rect, shift) & ~inside(plane.shape, hole, shift)
        np.testing.assert_array_equal(changed(surface, index), frame)


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_an_outline_outside_the_image_changes_nothing(pixel_format: PixelFormat) -> None:
    for rect in ((-20, 2, -4, 8), (30, 2, 50, 8), (2, -20, 8, -2), (2, 20, 8, 40), (-9000, -9000, -8000, -8000)):
        surface = grey(pixel_format)
        cpu_draw.outline(cpu_draw.layers_of(surface), rect, ink(surface), thickness=2)

        assert not any(changed(surface, index).any() for index in range(len(surface.planes)))


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_an_outline_reaches_the_last_sample_of_an_odd_image(pixel_format: PixelFormat) -> None:
    surface = grey(pixel_format, (23, 15))
    cpu_draw.outline(cpu_draw.layers_of(surface), (0, 0, 24, 16), ink(surface), thickness=2)

    for index in range(len(surface.planes)):
        mask = changed(surface, index)
        assert mask[-1].all()
        assert mask[:, -1].all()


def test_a_box_too_small_for_a_frame_is_filled() -> None:
    surface = grey(PixelFormat.I420)
    cpu_draw.outline(cpu_draw.layers_of(surface), (4, 4, 8, 8), ink(surface), thickness=2)

    assert changed(surface, 0).sum() == 16
    assert changed(surface, 1).sum() == 4


def test_boxes_grow_outwards_to_even_pixels() -> None:
    boxes = np.array([[1.5, 3, 6.1, 8], [-0.5, 0, 1, 2], [np.nan, 0, np.inf, 9]], np.float32)

    assert cpu_draw.snap(boxes) == [(0, 2, 8, 8), (-2, 0, 2, 2), (0, 0, 30_000, 10)]


@pytest.mark.parametrize("pixel_format", COLORED)
@pytest.mark.parametrize("matrix", list(ColorMatrix))
@pytest.mark.parametrize("color_range", list(ColorRange))
def test_a_color_looks_the_same_in_every_matrix_and_range(
    pixel_format: PixelFormat, matrix: ColorMatrix, color_range: ColorRange
) -> None:
    surface = Surface.allocate(pixel_format, size_wh=(8, 8), matrix=matrix, color_range=color_range)
    color = (200, 60, 90)
    cpu_draw.fill(cpu_draw.layers_of(surface), (0, 0, 8, 8), color_from_rgb(color, Kind.of(surface)))

    assert np.abs(rgb_from_surface(surface).astype(int) - color).max() <= 2


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_a_line_covers_its_points_and_nothing_far_from_it(pixel_format: PixelFormat) -> None:
    surface = grey(pixel_format)
    cpu_draw.polyline(cpu_draw.layers_of(surface), np.array([[2.0, 8.0], [21.0, 8.0]]), ink(surface), thickness=2)

    for index in range(len(surface.planes)):
        mask = changed(surface, index)
        right, down = shift_of(surface, index)
        assert mask[8 >> down, 4 >> right : 20 >> right].all()
        assert not mask[: 4 >> down].any()
        assert not mask[12 >> down :].any()


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_lines_that_leave_the_image_are_cut(pixel_format: PixelFormat) -> None:
    surface = grey(pixel_format)
    far = np.array([[-1e9, 8.0], [1e9, 8.0]])
    cpu_draw.polyline(cpu_draw.layers_of(surface), far, ink(surface), thickness=2)

    assert changed(surface, 0)[8].all()
    assert not changed(surface, 0)[12:].any()


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_a_polygon_lets_the_image_shine_through(pixel_format: PixelFormat) -> None:
    surface = grey(pixel_format)
    cpu_draw.polygon(
        cpu_draw.layers_of(surface), np.array([[4, 4], [19, 4], [19, 11], [4, 11]]), ink(surface), opacity=0.25
    )

    for index, plane in enumerate(surface.planes):
        right, down = shift_of(surface, index)
        full = np.array(ink(surface).scalar(index))
        middle = np.atleast_1d(plane[8 >> down, 12 >> right])
        np.testing.assert_array_equal(middle, np.rint(GREY * 0.75 + full * 0.25))
        mask = changed(surface, index)
        assert not mask[: 3 >> down].any()
        assert not mask[-(3 >> down) :].any()


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_a_polygon_outside_the_image_changes_nothing(pixel_format: PixelFormat) -> None:
    surface = grey(pixel_format)
    for start in ((-50, 2), (60, 2), (2, -50), (2, 60)):
        corners = np.array([[0, 0], [10, 0], [10, 10]]) + start
        cpu_draw.polygon(cpu_draw.layers_of(surface), corners, ink(surface), opacity=0.5)

    assert not any(changed(surface, index).any() for index in range(len(surface.planes)))


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize(("left", "top"), [(4, 2), (-8, 2), (4, -6), (50, 10), (64, 2), (-200, 0)])
def test_text_is_cut_at_the_edges_of_the_image(pixel_format: PixelFormat, left: int, top: int) -> None:
    mask = Typesetter().mask("car #5", size=12)
    surface, canvas = grey(pixel_format, (64, 24)), grey(pixel_format, (320, 96))
    tables = Colors(Kind.of(surface)).tables(RED, (255, 255, 255))
    cpu_draw.text(cpu_draw.layers_of(surface), mask, left=left, top=top, tables=tables)
    cpu_draw.text(cpu_draw.layers_of(canvas), mask, left=left + 200, top=top + 24, tables=tables)

    for index, plane in enumerate(surface.planes):
        right, down = shift_of(surface, index)
        height, width = plane.shape[:2]
        x, y = 200 >> right, 24 >> down
        np.testing.assert_array_equal(plane, canvas.planes[index][y : y + height, x : x + width])


@pytest.mark.parametrize("pixel_format", FULL_CHROMA)
def test_text_stands_on_a_filled_background(pixel_format: PixelFormat) -> None:
    mask = Typesetter().mask("car", size=14)
    surface = grey(pixel_format, (mask.width, mask.height))
    tables = Colors(Kind.of(surface)).tables(RED, (255, 255, 255))
    cpu_draw.text(cpu_draw.layers_of(surface), mask, left=0, top=0, tables=tables)

    rgb = rgb_from_surface(surface).astype(int)
    assert np.abs(rgb[0, 0] - RED).max() <= 2
    assert rgb.sum(axis=2).max() >= 3 * 250
