from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline.errors import ModelError
from tests.unit.heads.decoding import Expected, Outputs, assert_found, read

SIZE_WH = (160, 96)
CLASSES = 3
THINGS: list[Expected] = [
    ((10.0, 8.0, 42.0, 60.0), 2, 0.9),
    ((90.5, 20.25, 139.0, 90.0), 0, 0.6),
    ((60.0, 40.0, 75.0, 52.0), 1, 0.45),
]
OTHER_SIZE = (160, 160)


def sides_as_distributions(distances: list[float], bins: int) -> npt.NDArray[np.float32]:
    """Raw scores of four distributions, each over the two whole numbers around its distance."""
    scores = np.full((4, bins), -30.0, np.float32)
    for side, distance in enumerate(distances):
        low = min(int(distance), bins - 2)
        share = distance - low
        scores[side, low] = math.log(max(1 - share, 1e-9))
        scores[side, low + 1] = math.log(max(share, 1e-9))
    return scores.reshape(-1)


def levels(strides: tuple[int, ...], *, offset: float, bins: int = 8) -> list[tuple[Any, Any]]:
    """Scores and distributions of each level; every thing stands in the first cell of a level that can hold it."""
    grids = [(math.ceil(SIZE_WH[0] / stride), math.ceil(SIZE_WH[1] / stride)) for stride in strides]
    made = [(np.full((w * h, CLASSES), 1e-3, np.float32), np.zeros((w * h, 4 * bins), np.float32)) for w, h in grids]
    for (x1, y1, x2, y2), kind, score in THINGS:
        for (scores, sides), stride, (columns, _) in zip(made, strides, grids, strict=True):
            column, row = int((x1 + x2) / 2 / stride), int((y1 + y2) / 2 / stride)
            x, y = (column + offset) * stride, (row + offset) * stride
            distances = [(x - x1) / stride, (y - y1) / stride, (x2 - x) / stride, (y2 - y) / stride]
            if min(distances) >= 0 and max(distances) <= bins - 1:
                scores[row * columns + column, kind] = score
                sides[row * columns + column] = sides_as_distributions(distances, bins)
                break
        else:
            raise AssertionError("no level holds the thing")
    return made


def in_one(made: list[tuple[Any, Any]]) -> Outputs:
    return [np.concatenate([np.concatenate(level, axis=1) for level in made])[None]]


def apart(made: list[tuple[Any, Any]]) -> Outputs:
    return [scores[None] for scores, _ in made] + [sides[None] for _, sides in made]


THREE, FOUR = (8, 16, 32), (8, 16, 32, 64)


def test_nanodet_reads_one_table_from_the_middles_of_cells() -> None:
    assert_found(read("nanodet", in_one(levels(THREE, offset=0.5)), size_wh=SIZE_WH), THINGS)


def test_nanodet_plus_reads_one_table_from_the_corners_of_cells() -> None:
    assert_found(read("nanodet_plus", in_one(levels(FOUR, offset=0.0)), size_wh=SIZE_WH), THINGS)


def test_picodet_reads_scores_and_distributions_of_each_level() -> None:
    assert_found(read("picodet", apart(levels(FOUR, offset=0.5)), size_wh=SIZE_WH), THINGS)


def test_levels_may_come_by_turns_and_in_any_order() -> None:
    made = levels(THREE, offset=0.5)
    turns = [output[None] for level in reversed(made) for output in level]

    assert_found(read("nanodet", turns, size_wh=SIZE_WH), THINGS)


def test_the_number_of_labels_tells_how_far_distances_reach() -> None:
    outputs = in_one(levels(THREE, offset=0.5, bins=17))

    assert_found(read("nanodet", outputs, size_wh=SIZE_WH, labels=("a", "b", "c")), THINGS)
    assert_found(read("nanodet", outputs, size_wh=SIZE_WH, reg_max=16), THINGS)


def test_raw_scores_are_taken_through_the_logistic_function() -> None:
    made = [(np.log(scores / (1 - scores)), sides) for scores, sides in levels(FOUR, offset=0.5)]

    assert_found(read("picodet", apart(made), size_wh=SIZE_WH), THINGS)


def test_a_cell_that_may_be_two_things_is_there_twice() -> None:
    made = levels(THREE, offset=0.5)
    place = int(made[0][0].max(axis=1).argmax())
    kind = int(made[0][0][place].argmax())
    made[0][0][place, (kind + 1) % CLASSES] = 0.4

    found = read("nanodet", in_one(made), size_wh=SIZE_WH)

    assert len(found) == len(THINGS) + 1


def test_another_input_size_is_refused() -> None:
    with pytest.raises(
        ModelError, match=r"head nanodet: an input of 160x160 has 525 boxes, the model's outputs have 315"
    ):
        read("nanodet", in_one(levels(THREE, offset=0.5)), size_wh=OTHER_SIZE)


def test_outputs_without_distributions_are_refused() -> None:
    with pytest.raises(ModelError, match="scores and distances of 32 values"):
        read("picodet", [np.zeros((1, 4, 3), np.float32)] * 8, size_wh=SIZE_WH)
