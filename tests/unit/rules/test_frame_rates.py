"""Totals of rules do not depend on the frame rate, on gaps, or on how even frames and boxes are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.rules.walkers import NANOSECONDS, Walker, crossings, edges, sampled, stays, wander

from sightline.media import Batch
from sightline.testing import run_element
from sightline_plugins.rules.lines import Lines
from sightline_plugins.rules.zones import Zones

GATES = {"across": ((640.0, 0.0), (640.0, 720.0)), "short": ((300.0, 500.0), (900.0, 300.0))}
YARDS = {
    "hall": ((300.0, 200.0), (900.0, 260.0), (820.0, 620.0), (260.0, 560.0)),
    "corner": ((700.0, 150.0), (1200.0, 150.0), (1200.0, 650.0), (950.0, 400.0), (700.0, 650.0)),
}
SHAPES = [*([gate] for gate in GATES.values()), *(edges(yard) for yard in YARDS.values())]

rates = st.one_of(st.sampled_from([1.0, 2.0, 5.0, 12.5, 25.0, 30.0, 60.0]), st.floats(1, 60))


def lines(**options: object) -> Lines:
    gates = {name: {"from": start, "to": end, **options} for name, (start, end) in GATES.items()}
    return Lines.model_validate({"pixels": True, **gates})


def zones(**options: object) -> Zones:
    yards = {name: {"polygon": yard, **options} for name, yard in YARDS.items()}
    return Zones.model_validate({"pixels": True, "gone": "4s", **yards})


def totals(element: Lines | Zones, batches: Sequence[Batch]) -> dict[str, Counter[str]]:
    """Count the events of each rule by direction."""
    found = {name: Counter[str]() for name in element.rule_names()}
    for batch in run_element(element, batches):
        for event in batch.events:
            found[event.rule][str(event.data["direction"])] += 1
    return found


def true_crossings(walkers: Sequence[Walker]) -> dict[str, Counter[str]]:
    return {
        name: Counter(direction for one in walkers for _, direction in crossings(one, *gate))
        for name, gate in GATES.items()
    }


def true_stays(walkers: Sequence[Walker]) -> dict[str, Counter[str]]:
    """Count who enters and leaves; a stay that lasts until nobody sees the walker any more ends as one."""
    found = {name: [stay for one in walkers for stay in stays(one, yard)] for name, yard in YARDS.items()}
    return {name: Counter(enter=len(own), leave=len(own)) for name, own in found.items()}


@settings(max_examples=12)
@given(seed=st.integers(0, 999), fps=rates, uneven=st.floats(0, 0.9), longest_hidden=st.sampled_from([0.0, 1.5]))
def test_totals_are_the_true_ones_at_every_frame_rate(
    seed: int, fps: float, uneven: float, longest_hidden: float
) -> None:
    walkers = wander(seed, shapes=SHAPES, interval=2.0, longest_hidden=longest_hidden, count=5)
    batches = sampled(walkers, fps=fps, uneven=uneven, seed=seed)

    assert totals(lines(), batches) == true_crossings(walkers)
    assert totals(zones(), batches) == true_stays(walkers)


@settings(max_examples=8)
@given(seed=st.integers(0, 999), fps=rates, uneven=st.floats(0, 0.9))
def test_boxes_that_tremble_give_the_true_totals(seed: int, fps: float, uneven: float) -> None:
    shapes = [[GATES["across"]], edges(YARDS["hall"])]
    walkers = wander(seed, shapes=shapes, interval=2.0, count=4, clearance=20)
    batches = sampled(walkers, fps=fps, uneven=uneven, noise=3, seed=seed)

    for options in ({}, {"margin": 10}):
        assert totals(lines(**options), batches)["across"] == true_crossings(walkers)["across"]
        assert totals(zones(**options), batches)["hall"] == true_stays(walkers)["hall"]


@settings(max_examples=12)
@given(seed=st.integers(0, 999), fps=rates, uneven=st.floats(0, 0.9), longest_hidden=st.sampled_from([0.0, 1.5]))
def test_who_crosses_and_returns_between_two_frames_has_not_crossed(
    seed: int, fps: float, uneven: float, longest_hidden: float
) -> None:
    walkers = wander(seed, shapes=SHAPES, interval=0, longest_hidden=longest_hidden, count=5, seconds=40)
    batches = sampled(walkers, fps=fps, uneven=uneven, seed=seed)
    times = np.array([frame.pts_ns for batch in batches for frame in batch.frames]) / NANOSECONDS
    turned, entered = Counter[str](), dict.fromkeys(YARDS, 0)
    for one in walkers:
        places = one.at(times)
        seen = ~np.isnan(places[:, 0])
        turned.update(
            "in" if after < before else "out" for before, after in pairwise(places[seen, 0] > 640) if before != after
        )
        for name, yard in YARDS.items():
            within = np.array(stays(one, yard)).reshape(-1, 2)
            inside = ((within[:, :1] <= times[seen]) & (times[seen] <= within[:, 1:])).any(axis=0)
            entered[name] += int(np.diff(inside.astype(int), prepend=0).clip(0).sum())

    assert totals(lines(margin=0), batches)["across"] == turned
    assert {name: own["enter"] for name, own in totals(zones(margin=0), batches).items()} == entered
