"""Placement and balancing of streams: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sightline.cluster.placement import Fleet, Held, balance, place


def fleet(
    capacity: Sequence[float],
    *,
    eligible: Sequence[Sequence[bool]] | None = None,
    limit: int = 1_000,
    is_open: Sequence[bool] | None = None,
) -> Fleet:
    count = len(capacity)
    return Fleet(
        np.array(capacity, float),
        np.zeros(count),
        np.zeros(count, np.int64),
        np.full(count, limit, np.int64),
        np.array(eligible if eligible is not None else [[True] * count]),
        np.array(is_open if is_open is not None else [True] * count),
    )


def held(
    load: Sequence[float],
    *,
    worker: Sequence[int] | None = None,
    kind: Sequence[int] | None = None,
    group: Sequence[int] | None = None,
) -> Held:
    count = len(load)
    return Held(
        np.array(load, float),
        np.array(kind if kind is not None else [0] * count, np.int32),
        np.array(group if group is not None else [-1] * count, np.int32),
        np.array(worker if worker is not None else [-1] * count, np.int32),
    )


def placed(streams: Held, workers: Fleet, *, fill: float = 1.0, spread: float = 1.0) -> list[int]:
    rows = np.arange(len(streams.load))
    return [int(worker) for worker in place(rows, held=streams, fleet=workers, fill=fill, spread=spread)]


def test_streams_are_shared_by_capacity() -> None:
    chosen = placed(held([10] * 30), fleet([100, 200]))

    assert (chosen.count(0), chosen.count(1)) == (10, 20)


def test_a_worker_is_filled_to_its_share_and_the_rest_waits() -> None:
    assert sorted(placed(held([10] * 12), fleet([100]), fill=0.9)) == [-1] * 3 + [0] * 9


def test_a_smaller_stream_still_fits_when_a_larger_one_does_not() -> None:
    assert placed(held([30, 5]), fleet([10])) == [-1, 0]


def test_a_worker_has_no_more_streams_than_its_limit() -> None:
    assert placed(held([1] * 5), fleet([100], limit=3)).count(0) == 3


def test_streams_go_only_where_their_labels_are() -> None:
    chosen = placed(held([10] * 4, kind=[0, 1, 1, 0]), fleet([100, 100], eligible=[[True, False], [False, True]]))

    assert chosen == [0, 1, 1, 0]


def test_streams_with_less_choice_are_placed_first() -> None:
    everywhere, north = [0] * 10, [1] * 10
    chosen = placed(held([10] * 20, kind=everywhere + north), fleet([100, 100], eligible=[[True] * 2, [True, False]]))

    assert chosen == [1] * 10 + [0] * 10


def test_a_group_is_spread_while_others_have_room() -> None:
    chosen = placed(held([1] * 8, group=[0] * 8), fleet([1000, 10, 10, 10]), spread=0.25)

    assert [chosen.count(worker) for worker in range(4)] == [2, 2, 2, 2]


def test_a_group_is_crowded_rather_than_left_out() -> None:
    assert placed(held([1] * 8, group=[0] * 8), fleet([1000]), spread=0.25) == [0] * 8


def test_workers_that_are_closed_get_nothing() -> None:
    assert placed(held([1, 1]), fleet([9, 9], is_open=[False, True])) == [1, 1]


def balanced(streams: Held, workers: Fleet, *, most: int = 1_000, tolerance: float = 0.1) -> list[tuple[int, int]]:
    for worker in range(len(workers.capacity)):
        own = streams.worker == worker
        workers.used[worker], workers.count[worker] = streams.load[own].sum(), own.sum()
    rows = np.arange(len(streams.load))
    return balance(rows, held=streams, fleet=workers, fill=1.0, tolerance=tolerance, spread=1.0, most=most)


def test_a_worker_that_joins_gets_its_share_and_nothing_else_moves() -> None:
    streams = held([10] * 40, worker=[row % 4 for row in range(40)])

    moves = balanced(streams, fleet([200] * 5), tolerance=0.02)

    assert len(moves) == 8
    assert {target for _, target in moves} == {4}
    assert len({row for row, _ in moves}) == 8


def test_two_workers_become_equal_where_they_can() -> None:
    streams = held([20] * 6, worker=[0, 0, 0, 1, 1, 1])

    moves = balanced(streams, fleet([400] * 3))

    assert [int((streams.worker == worker).sum()) for worker in range(3)] == [2, 2, 2]
    assert len(moves) == 2


def test_moves_are_limited() -> None:
    assert len(balanced(held([10] * 40, worker=[0] * 40), fleet([500] * 5), most=3)) == 3


def test_workers_within_the_tolerance_keep_their_streams() -> None:
    assert balanced(held([10] * 21, worker=[row % 2 for row in range(21)]), fleet([200] * 2)) == []


def test_one_stream_too_many_does_not_go_back_and_forth() -> None:
    assert balanced(held([10], worker=[0]), fleet([100, 100])) == []


def test_streams_are_not_moved_where_they_may_not_run() -> None:
    streams = held([10] * 10, worker=[0] * 10, kind=[0] * 8 + [1] * 2)

    moves = balanced(streams, fleet([200] * 2, eligible=[[True, False], [True, True]]))

    assert {row for row, _ in moves} == {8, 9}


@given(
    loads=st.lists(st.floats(1, 30), min_size=1, max_size=60),
    capacities=st.lists(st.floats(50, 500), min_size=1, max_size=8),
    seed=st.integers(0, 1_000),
)
def test_balancing_never_fills_the_fullest_worker_and_comes_to_rest(
    loads: list[float], capacities: list[float], seed: int
) -> None:
    where = np.random.default_rng(seed).integers(len(capacities), size=len(loads)).tolist()
    streams, workers = held(loads, worker=where), fleet(capacities)
    before = max(
        sum(load for load, own in zip(loads, where, strict=True) if own == worker) / capacity
        for worker, capacity in enumerate(capacities)
    )

    moves = balanced(streams, workers)

    assert workers.utilisation.max() <= before + 1e-9
    assert len({row for row, _ in moves}) == len(moves)
    rounds = [len(balanced(streams, workers)) for _ in range(4)]
    assert rounds[-1] == 0
