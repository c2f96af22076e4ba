"""The fault table: its rows, what tests measured of them, and the page that holds it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROWS: Mapping[str, str] = {
    "A1": "a camera is killed and starts again",
    "A2": "a camera stalls: connected, and nothing comes",
    "A3": "a camera cannot be reached: refused, black hole, no answer, a resolver that hangs",
    "A4": "wrong password, unknown path",
    "A5": "1, 5 and 30 % of packets lost, TCP and UDP",
    "A6": "random bytes in packets",
    "A7": "size, frame rate, codec, profile change in mid-stream",
    "A8": "timestamps jump by an hour, wrap, stand still, are doubled; B-frames",
    "A9": "sender reports lie: 1970, ten years ahead",
    "A10": "the host's clock is set an hour ahead and back",
    "A11": "the first key frame comes late; 1,500 frames between two",
    "A12": "a camera of very few frames a second, a source of 1,000",
    "A13": "1x1, odd sizes, 4:2:2, 4:4:4, 10 bit, gray, interlaced",
    "A14": "cameras are added and removed all the time",
    "C1": "a broker, database or web service is killed or hangs, at 200 records a second",
    "C2": "the program is killed while its destination is away",
    "C3": "a destination is slow, hangs, refuses us, or refuses one record",
    "C4": "the disk is full",
    "C5": "the program is killed while it writes",
    "C6": "SIGTERM, SIGINT; twice",
    "C7": "a consumer ten times too slow",
    "C8": "the program is killed while it counts",
    "D1": "a step raises, on every tenth frame or on all",
    "D2": "a step does not return",
    "D4": "64 live streams on two cores",
    "D5": "one of several pipelines crashes or leaks",
    "D8": "poor surroundings: ports, homes, files, locales, terminals, users",
    "E1": "four cameras, a fault every few seconds",
}
"""In the order of the table; `docs/reliability.md` and the tests' marker `row` use the same names."""

_ORDER = {row: number for number, row in enumerate(ROWS)}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table. `measured` and `allowed` are texts with their units."""

    row: str
    what: str
    measured: str
    allowed: str

    def markdown(self, *, names_fault: bool, more: Sequence[str] = ()) -> str:
        """As a row of a Markdown table, with more cells at its end."""
        fault = ROWS[self.row] if names_fault else ""
        return "| " + " | ".join((self.row, fault, self.what, self.measured, self.allowed, *more)) + " |"


@dataclass(frozen=True, slots=True)
class Taken:
    """What tests took down: figures, and how each test of a row ended."""

    figures: Sequence[Mapping[str, Any]]
    outcomes: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, lines: Iterable[str]) -> Taken:
        """Read what tests wrote, JSON lines."""
        read = [json.loads(line) for line in lines]
        return cls([one for one in read if "measured" in one], [one for one in read if "outcome" in one])


def lines_of(taken: Taken, *, rows: Iterable[str] = ROWS) -> list[Line]:
    """The lines of these rows. Figures of the same name are one line, with the worst of them; a row that was not
    measured has a line that says so, and so has every test that failed or was skipped.
    """
    return [line for row in rows for line in _lines_of_row(taken, row)]


def _lines_of_row(taken: Taken, row: str) -> Iterator[Line]:
    named: dict[str, list[Mapping[str, Any]]] = {}
    for one in taken.figures:
        if one["row"] == row:
            named.setdefault(one["what"], []).append(one)
    for what, figures in named.items():
        yield _line(row, what, figures)
    wrong = [one for one in taken.outcomes if one["row"] == row and one["outcome"] != "passed"]
    for one in wrong:
        yield Line(row, one["test"].partition("::")[2].replace("|", "/"), f"**{one['outcome']}**", "")
    if not named and not wrong:
        yield Line(row, "", "**not measured**", "")


def _line(row: str, what: str, figures: Sequence[Mapping[str, Any]]) -> Line:
    worst = max(figures, key=lambda one: float(one["measured"]))
    unit, limit = worst["unit"], worst["limit"]
    mark = " **beyond**" if worst["measured"] > limit else ""
    times = f" (worst of {len(figures)})" if len(figures) > 1 else ""
    return Line(row, what + times, f"{worst['measured']:g} {unit}".strip() + mark, f"{limit:g} {unit}".strip())


def table(lines: Iterable[Line], *, more: Mapping[str, str] | None = None) -> list[str]:
    """A Markdown table, which names each fault once; `more` are columns that hold the same in every line."""
    more = more or {}
    head = ("row", "fault", "figure", "measured", "allowed", *more)
    shown, before = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"], ""
    for line in lines:
        shown.append(line.markdown(names_fault=line.row != before, more=tuple(more.values())))
        before = line.row
    return shown


def merged(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """A table in which the rows of a new one take the place of those of an old one."""
    rows = {_row_of(line) for line in new[2:]}
    kept = [line for line in old[2:] if _row_of(line) not in rows]
    return [*new[:2], *sorted([*kept, *new[2:]], key=lambda line: _ORDER.get(_row_of(line), len(_ORDER)))]


def _row_of(line: str) -> str:
    return line.split("|")[1].strip()


def block(page: str, name: str) -> list[str]:
    """What stands between two comments of a page."""
    begin, end = _comments(name)
    return page.partition(begin)[2].partition(end)[0].strip().splitlines()


def write_block(path: Path, name: str, lines: Sequence[str]) -> None:
    """Replace what stands between two comments of a page. Raises ValueError when they are not there."""
    page = path.read_text()
    begin, end = _comments(name)
    before, found_begin, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"{path} lacks the comments {begin} and {end}")
    path.write_text("\n".join((f"{before}{begin}", "", *lines, "", f"{end}{after}")))


def _comments(name: str) -> tuple[str, str]:
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
