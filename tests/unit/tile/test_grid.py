"""Where tiles lie."""

from __future__ import annotations

import numpy as np
import pytest

from sightline_plugins.tile.grid import cells_of, grid_for, placed


@pytest.mark.parametrize(
    ("count", "columns", "rows", "grid"),
    [
        (1, None, None, (1, 1)),
        (2, None, None, (2, 1)),
        (5, None, None, (3, 2)),
        (16, None, None, (4, 4)),
        (17, None, None, (5, 4)),
        (5, 2, None, (2, 3)),
        (5, None, 1, (5, 1)),
        (5, 2, 2, (2, 2)),
        (0, None, None, (1, 1)),
    ],
)
def test_a_grid_is_as_square_as_fits_or_as_it_is_asked_for(
    count: int, columns: int | None, rows: int | None, grid: tuple[int, int]
) -> None:
    assert grid_for(count, columns=columns, rows=rows) == grid


@pytest.mark.parametrize(("size_wh", "columns", "rows"), [((1920, 1080), 4, 4), ((1366, 770), 5, 3), ((64, 66), 3, 3)])
def test_cells_have_even_edges_and_are_the_whole_image(size_wh: tuple[int, int], columns: int, rows: int) -> None:
    covered = np.zeros(size_wh[::-1], int)

    for left, top, right, bottom in cells_of(size_wh, columns=columns, rows=rows):
        assert {edge % 2 for edge in (left, top, right, bottom)} == {0}
        covered[top:bottom, left:right] += 1

    assert (covered == 1).all()


@pytest.mark.parametrize("frame_wh", [(640, 360), (360, 640), (333, 999), (4000, 2), (1, 1)])
def test_a_frame_lies_in_the_middle_of_its_cell_with_its_proportions(frame_wh: tuple[int, int]) -> None:
    cell = (100, 50, 420, 250)

    left, top, right, bottom = placed(frame_wh, cell, keep_aspect=True)

    assert {edge % 2 for edge in (left, top, right, bottom)} == {0}
    assert abs((left - cell[0]) - (cell[2] - right)) <= 2
    assert abs((top - cell[1]) - (cell[3] - bottom)) <= 2
    assert right - left == 320 or bottom - top == 200
    scale = min(320 / frame_wh[0], 200 / frame_wh[1])
    assert abs(right - left - frame_wh[0] * scale) <= 2
    assert abs(bottom - top - frame_wh[1] * scale) <= 2


def test_a_frame_fills_its_cell_when_proportions_do_not_count() -> None:
    assert placed((360, 640), (100, 50, 420, 250), keep_aspect=False) == (100, 50, 420, 250)
