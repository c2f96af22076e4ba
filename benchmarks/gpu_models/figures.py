"""Figures with their spread, measured in turn, and what they have to reach."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, one value for each round."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The value in the middle."""
        return statistics.median(self.values)

    def text(self, decimals: int = 0) -> str:
        """The median, and the least and the most."""
        return f"{self.median:.{decimals}f} ({min(self.values):.{decimals}f} to {max(self.values):.{decimals}f})"

    def over(self, other: Figure) -> Figure:
        """How many times the other it is, round by round."""
        return Figure(tuple(one / two for one, two in zip(self.values, other.values, strict=True)))

    def lower(self, other: Figure) -> Figure:
        """The lower of both, round by round."""
        return Figure(tuple(map(min, self.values, other.values)))

    def scaled(self, factor: float) -> Figure:
        """The same in another unit."""
        return Figure(tuple(factor * value for value in self.values))


def in_turn(works: Mapping[str, Callable[[], float]], *, rounds: int) -> dict[str, Figure]:
    """What each of them measures, one after the other in every round: what else happens hits all alike."""
    values: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            values[name].append(work())
    return {name: Figure(tuple(own)) for name, own in values.items()}


class Goals:
    """What had to be reached, and what was not."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def at_least(self, limit: float, value: float, *, what: str) -> str:
        """A cell that says whether a value is as large as it has to be."""
        return self._noted(value >= limit, what, f">= {limit:g}")

    def at_most(self, limit: float, value: float, *, what: str) -> str:
        """A cell that says whether a value is as small as it has to be."""
        return self._noted(value <= limit, what, f"<= {limit:g}")

    def _noted(self, is_met: object, what: str, wanted: str) -> str:
        said: Literal["yes", "no"] = "yes" if is_met else "no"
        if not is_met:
            self.missed.append(f"{what} {wanted}")
        return f"{wanted}: {said}"


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table in Markdown."""
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
    print(flush=True)
