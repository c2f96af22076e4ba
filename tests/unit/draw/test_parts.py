"""The small parts of drawing: text, colours, sizes, trails."""

from __future__ import annotations

import numpy as np
import pytest

from sightline_plugins.draw.cpu import Typesetter
from sightline_plugins.draw.shapes import BLACK, PALETTE, WHITE, Style, Trails, above, centred, text_color


@pytest.mark.parametrize("outline_font", [True, False])
@pytest.mark.parametrize("size", [9, 12, 21, 50])
def test_text_fits_into_its_mask_with_a_margin(outline_font: bool, size: int) -> None:
    coverage = Typesetter(outline_font=outline_font).mask("person #12 0.87", size=size).at(0, 0)

    assert coverage.shape[0] % 2 == coverage.shape[1] % 2 == 0
    assert coverage.max() == 255
    assert not coverage[:, 0].any()
    assert not coverage[:, -1].any()
    assert not coverage[0].any()


def test_masks_are_kept_and_bounded() -> None:
    typesetter = Typesetter()
    first = typesetter.mask("car", size=12)
    assert typesetter.mask("car", size=12) is first

    for number in range(2100):
        typesetter.mask(str(number), size=9)
    assert typesetter.mask("car", size=12) is not first


def test_letters_beyond_ascii_are_drawn() -> None:
    typesetter = Typesetter()
    masks = [typesetter.mask(letter, size=20).at(0, 0) for letter in ("é", "Ж", "东", "?")]

    assert all(not np.array_equal(mask, masks[-1]) for mask in masks[:-1])


def test_coverage_of_chroma_is_the_mean_of_its_pixels() -> None:
    mask = Typesetter().mask("car", size=14)
    full = mask.at(0, 0).astype(float)

    np.testing.assert_allclose(
        mask.at(1, 1), (full[::2] + full[1::2]).reshape(full.shape[0] // 2, -1, 2).sum(2) / 4, atol=0.5
    )
    assert mask.at(1, 0).shape == (mask.height, mask.width // 2)


def test_colors_differ_and_text_stands_out_on_each() -> None:
    assert len(set(PALETTE)) == len(PALETTE)
    assert text_color(WHITE) == BLACK
    assert text_color(BLACK) == WHITE


@pytest.mark.parametrize(("height", "thickness", "text_size"), [(48, 2, 9), (360, 2, 12), (1080, 4, 29), (2160, 6, 50)])
def test_sizes_follow_the_height_of_the_image(height: int, thickness: int, text_size: int) -> None:
    assert Style.for_height(height, thickness=None, text_size=None) == Style(thickness, text_size)


def test_labels_stay_in_the_image() -> None:
    size_wh, text_wh = (100, 60), (40, 16)

    assert above((20, 30, 40, 50), text_wh=text_wh, size_wh=size_wh) == (20, 14)
    assert above((20, 10, 40, 50), text_wh=text_wh, size_wh=size_wh) == (20, 10)
    assert above((90, 30, 99, 50), text_wh=text_wh, size_wh=size_wh) == (60, 14)
    assert above((-30, -8, 9, 50), text_wh=text_wh, size_wh=size_wh) == (0, 0)
    assert centred((99, 59), text_wh=text_wh, size_wh=size_wh) == (60, 44)


def test_a_way_keeps_points_that_lie_apart_and_always_the_newest() -> None:
    trails = Trails(1_000)
    ways = [trails.update(step, [(7, (float(step), 0.0))], spacing=4) for step in range(10)]

    assert ways[-1] == [(7, [(0.0, 0.0), (4.0, 0.0), (8.0, 0.0), (9.0, 0.0)])]


def test_what_does_not_move_has_no_way() -> None:
    trails = Trails(1_000)

    assert [trails.update(step, [(7, (3.0, 3.0))], spacing=4) for step in range(3)] == [[], [], []]


def test_tracks_that_are_gone_are_forgotten() -> None:
    trails = Trails(100)
    trails.update(0, [(1, (0.0, 0.0)), (2, (5.0, 5.0)), (-1, (9.0, 9.0))], spacing=4)
    assert len(trails) == 2

    trails.update(101, [(2, (6.0, 5.0))], spacing=4)
    assert len(trails) == 1
