from __future__ import annotations

import numpy as np
import pytest

from sightline_plugins.preprocess.placement import Align, place, region_in_pixels


@pytest.mark.parametrize(("align", "inner_xywh"), [("center", (0, 91, 416, 234)), ("top_left", (0, 0, 416, 234))])
def test_a_letterbox_keeps_the_shape(align: Align, inner_xywh: tuple[int, int, int, int]) -> None:
    placement = place((0, 0, 768, 432), size_wh=(416, 416), fit="letterbox", align=align)

    assert placement.inner_xywh == inner_xywh


@pytest.mark.parametrize(("align", "rows"), [("center", 277), ("top_left", 276)])
def test_a_letterbox_is_rounded_as_its_families_do(align: Align, rows: int) -> None:
    placement = place((0, 0, 640, 426), size_wh=(416, 416), fit="letterbox", align=align)

    assert placement.inner_xywh[2:] == (416, rows)


def test_the_side_that_fits_is_filled_whatever_the_division_leaves() -> None:
    placement = place((0, 0, 360, 90), size_wh=(416, 416), fit="letterbox", align="top_left")

    assert placement.inner_xywh == (0, 0, 416, 104)


def test_a_stretched_image_fills_the_input() -> None:
    placement = place((0, 0, 768, 432), size_wh=(352, 352), fit="stretch", align="center")

    assert placement.inner_xywh == (0, 0, 352, 352)


def test_a_tall_image_is_padded_at_the_sides() -> None:
    placement = place((0, 0, 100, 400), size_wh=(64, 64), fit="letterbox", align="center")

    assert placement.inner_xywh == (24, 0, 16, 64)


def test_a_region_is_expanded_by_what_is_around_it_to_the_shape_of_the_input() -> None:
    placement = place((100, 50, 140, 210), size_wh=(192, 256), fit="expand")

    assert placement.region_xyxy == pytest.approx((60, 50, 180, 210))
    assert placement.inner_xywh == (0, 0, 192, 256)


def test_an_extreme_shape_keeps_at_least_a_pixel() -> None:
    placement = place((0, 0, 8000, 2), size_wh=(64, 64), fit="letterbox", align="center")

    assert placement.inner_xywh[2:] == (64, 1)


def test_boxes_go_back_to_the_image() -> None:
    placement = place((100, 50, 300, 150), size_wh=(100, 100), fit="letterbox", align="center")

    boxes = placement.boxes_in_image(np.array([[0, 25, 100, 75], [10, 30, 20, 40]], np.float32))

    assert boxes.tolist() == [[100, 50, 300, 150], [120, 60, 140, 80]]


def test_a_region_grows_to_whole_chroma_samples() -> None:
    pixels = region_in_pixels((0.335, 0.335, 0.665, 0.665), size_wh=(100, 100), chroma_shift=(1, 1))

    assert pixels == (32, 32, 68, 68)


def test_a_region_ends_with_an_odd_image() -> None:
    assert region_in_pixels((0, 0, 1, 1), size_wh=(101, 51), chroma_shift=(1, 1)) == (0, 0, 101, 51)


def test_a_region_smaller_than_a_pixel_is_a_pixel() -> None:
    left, top, right, bottom = region_in_pixels((0.9999, 0.9999, 1, 1), size_wh=(64, 64), chroma_shift=(0, 0))

    assert (right - left, bottom - top) == (1, 1)


@pytest.mark.parametrize(("wide", "width"), [(100, 32), (101, 33), (138, 45), (4000, 320)])
def test_a_line_of_text_is_as_high_as_the_input_and_its_width_is_rounded_up(wide: int, width: int) -> None:
    placement = place((0, 0, wide, 100), size_wh=(320, 32), fit="height")

    assert placement.inner_xywh == (0, 0, width, 32)


@pytest.mark.parametrize(
    ("wide", "high", "resized", "first"),
    [(640, 480, (341, 256), (58, 16)), (302, 500, (256, 423), (16, 100)), (512, 512, (256, 256), (16, 16))],
)
def test_the_middle_of_an_image_is_what_resizing_and_cutting_in_whole_pixels_leave(
    wide: int, high: int, resized: tuple[int, int], first: tuple[int, int]
) -> None:
    placement = place((0, 0, wide, high), size_wh=(224, 224), fit="cover", crop=0.875)

    across, down = wide / resized[0], high / resized[1]
    left, top = first[0] * across, first[1] * down
    assert placement.region_xyxy == pytest.approx((left, top, left + 224 * across, top + 224 * down))
    assert placement.inner_xywh == (0, 0, 224, 224)


def test_the_middle_lies_within_regions_smaller_than_the_input_too() -> None:
    placement = place((10, 20, 15, 60), size_wh=(64, 64), fit="cover")

    left, top, right, bottom = placement.region_xyxy
    assert (left, right) == (10, 15)
    assert 20 <= top < bottom <= 60
