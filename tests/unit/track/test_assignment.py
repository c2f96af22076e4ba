"""The assignment in C against all assignments of small tables, and against SciPy on larger ones."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import numpy.typing as npt
import pytest
from tests.unit.track.rounds import matched

from sightline_plugins.track.association import assign

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]


def random_table(seed: int, *, largest: int) -> Floats:
    """Values (N, M) between -3 and 1; every second table has few different ones, so that many sums are equal."""
    random = np.random.default_rng(seed)
    table = random.uniform(-1 - seed % 3, 1, random.integers(0, largest + 1, 2)).astype(np.float32)
    return np.round(table * 3) if seed % 2 else table


def assign_all(table: Floats) -> tuple[Indices, Indices]:
    """Return rows and columns of as many pairs as there can be, as rounds match where all are alike enough."""
    return matched(np.ones_like(table), least=0.5, preference=table)


def best_total(table: Floats) -> float:
    """Return the largest sum of a one-to-one assignment of as many pairs as there can be, by trying all."""
    if len(table) > table.shape[1]:
        table = table.T
    rows = np.arange(len(table))
    return max(float(table[rows, list(places)].sum()) for places in permutations(range(table.shape[1]), len(rows)))


@pytest.mark.parametrize("seed", range(80))
def test_positive_margins_have_the_largest_sum(seed: int) -> None:
    margin = random_table(seed, largest=6)
    rows, columns = assign(margin)

    assert float(margin[rows, columns].sum()) == pytest.approx(best_total(np.maximum(margin, 0)), abs=1e-5)
    assert (margin[rows, columns] > 0).all()
    assert len(set(rows.tolist())) == len(set(columns.tolist())) == len(rows)


@pytest.mark.parametrize("seed", range(80))
def test_all_pairs_have_the_largest_sum_also_below_zero(seed: int) -> None:
    table = random_table(seed, largest=6)
    rows, columns = assign_all(table)

    assert len(set(rows.tolist())) == len(set(columns.tolist())) == min(table.shape)
    assert float(table[rows, columns].sum()) == pytest.approx(best_total(table), abs=1e-5)


@pytest.mark.parametrize("seed", range(40))
def test_larger_tables_have_the_sums_that_scipy_finds(seed: int) -> None:
    from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]

    table = random_table(seed, largest=60)

    for found, expected in ((assign(table), np.maximum(table, 0)), (assign_all(table), table)):
        best = float(expected[linear_sum_assignment(expected, maximize=True)].sum())
        assert float(table[found].sum()) == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_an_empty_table_has_no_pairs(shape: tuple[int, int]) -> None:
    table = np.empty(shape, np.float32)

    assert [len(column) for column in (*assign(table), *assign_all(table))] == [0, 0, 0, 0]


def test_a_single_pair_matches_above_zero_only() -> None:
    assert [len(assign(np.array([[value]], np.float32))[0]) for value in (0.1, 0.0, -0.1)] == [1, 0, 0]


def test_pairs_that_cannot_match_cost_nothing() -> None:
    rows, columns = assign(np.array([[0.9, 0.3], [0.3, -1.0]], np.float32))

    assert (rows.tolist(), columns.tolist()) == ([0], [0])


def test_a_row_gives_its_column_to_one_that_gains_more() -> None:
    rows, columns = assign(np.array([[0.4, 0.1], [0.9, -1.0]], np.float32))

    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_odd_values_end_and_give_no_column_twice(odd: float) -> None:
    random = np.random.default_rng(7)
    for _ in range(50):
        table = random.uniform(-1, 1, random.integers(1, 8, 2)).astype(np.float32)
        table[random.random(table.shape) < 0.3] = odd
        for rows, columns in (assign(table), assign_all(table)):
            assert len(set(columns.tolist())) == len(rows)
            assert not np.isnan(table[rows, columns]).any()
