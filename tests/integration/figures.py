"""Figures of the fault table: which row a test shows, what it measured, and how long its form is.

    @pytest.mark.row(id="A2")
    def test_a_stall_is_seen(figure: Record) -> None:
        figure("stall seen", seconds, limit=5.0, unit="s")

`python -m benchmarks.live` runs these tests and prints what they measured; docs/reliability.md holds it.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, TypeVar

FIGURES_VARIABLE = "SIGHTLINE_FIGURES"
"""The file to which figures and outcomes are written, as JSON lines."""
MEASURING = FIGURES_VARIABLE in os.environ
"""Whether figures are taken down: then limits of times are strict, and the machine has nothing else to do."""
BUSY = 20.0
"""Factor on limits of times in every other run: the tests pass on a slow machine that is busy with other work."""
TIMES = ("s", "ms", "x")
"""Units of times and of their ratios."""
DROPS = "drops"
"""Unit of frames of live streams that were dropped for lack of time: a busy machine drops some by design, so only a
run that takes figures down judges them."""
LONG = os.environ.get("SIGHTLINE_LONG") == "1"
"""Whether tests that have a longer form run in it."""
LONG_SECONDS = 3 * 3600.0
"""Time limit of a test in its long form."""

_T = TypeVar("_T")


def allowed(limit: float, *, unit: str) -> float:
    """What a figure may be in this run: times and drops depend on what else the machine does."""
    if MEASURING:
        return limit
    return {DROPS: math.inf, **dict.fromkeys(TIMES, limit * BUSY)}.get(unit, limit)


def form(short: _T, *, long: _T) -> _T:
    """One value in every run, another with SIGHTLINE_LONG=1."""
    return long if LONG else short


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure of a row of the fault table: `measured` in `unit`, which must not pass `limit`."""

    row: str
    what: str
    measured: float
    limit: float
    unit: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a test of a row ended: `passed`, `failed` or `skipped`."""

    row: str
    test: str
    outcome: str


class Record(Protocol):
    """Takes down a figure of the test's row."""

    def __call__(self, what: str, measured: float, *, limit: float, unit: str) -> None:
        """Fail when it is more than `limit`; a time or ratio of times only by far, unless figures are taken down."""


def take_down(line: Figure | Outcome) -> None:
    """Append it to the file, if one is asked for."""
    if path := os.environ.get(FIGURES_VARIABLE):
        with Path(path).open("a") as file:
            file.write(json.dumps(asdict(line)) + "\n")
