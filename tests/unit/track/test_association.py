"""Assignment in rounds against the plain definition: every round in full."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from sightline_plugins.track.association import assign, assign_in_rounds

ROUNDS = np.array([[0, 0, 2], [0, 1, 0], [2, 0, 1]], np.int8)


def in_full_rounds(margin: npt.NDArray[np.float32], round_of: npt.NDArray[np.int8]) -> set[tuple[int, int]]:
    pairs: set[tuple[int, int]] = set()
    for this in range(3):
        left = np.where(round_of == this, margin, 0)
        for row, column in pairs:
            left[row, :] = 0
            left[:, column] = 0
        pairs |= set(zip(*(indices.tolist() for indices in assign(left)), strict=True))
    return pairs


def random_margin(seed: int) -> npt.NDArray[np.float32]:
    random = np.random.default_rng(seed)
    shape = random.integers(1, 6, 2)
    margin: npt.NDArray[np.float32] = random.uniform(-1 - seed % 3, 1, shape).astype(np.float32)
    return margin


@pytest.mark.parametrize("seed", range(150))
def test_rounds_give_the_same_with_and_without_the_short_cuts(seed: int) -> None:
    margin = random_margin(seed)
    random = np.random.default_rng(seed + 1000)
    row_kind, column_kind = (random.integers(0, 3, size=(count,)) for count in margin.shape)
    rows, columns = assign_in_rounds(margin, rounds=ROUNDS, row_kind=row_kind, column_kind=column_kind)

    expected = in_full_rounds(margin, ROUNDS[row_kind[:, None], column_kind])
    assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == expected
    assert len(rows) == len(expected)


def test_an_earlier_round_takes_first_even_at_a_worse_match() -> None:
    margin = np.array([[0.1], [0.9]], np.float32)
    rounds = np.array([[0], [1]], np.int8)
    rows, columns = assign_in_rounds(margin, rounds=rounds, row_kind=np.array([0, 1]), column_kind=np.array([0]))

    assert (rows.tolist(), columns.tolist()) == ([0], [0])
