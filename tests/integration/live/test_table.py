"""The fault table: it holds every row, whether or not it was measured, and what is beyond its limit is marked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from benchmarks.fault_table import ROWS, Taken, block, lines_of, merged, table, write_block
from benchmarks.live import PAGE, main

WANTED = [
    *(f"A{number}" for number in range(1, 15)),
    *(f"C{number}" for number in range(1, 9)),
    *("D1", "D2", "D4", "D5", "D8", "E1"),
]
TESTS = Path(__file__).parents[1]
MARK = re.compile(r'mark\.row\(id="(\w+)"')


def taken(*lines: dict[str, object]) -> Taken:
    return Taken.of(map(json.dumps, lines))


def measured(row: str, what: str, value: float, *, limit: float = 1.0) -> dict[str, object]:
    return {"row": row, "what": what, "measured": value, "limit": limit, "unit": "s"}


def rows_in(lines: list[str]) -> list[str]:
    return list(dict.fromkeys(line.split("|")[1].strip() for line in lines if re.match(r"\| [A-E]\d+ \|", line)))


def test_the_table_holds_every_row_in_order() -> None:
    assert list(ROWS) == WANTED
    assert rows_in(table(lines_of(taken()))) == WANTED


def test_every_row_has_tests_and_every_marked_test_a_row() -> None:
    marked = {row for path in TESTS.rglob("test_*.py") for row in MARK.findall(path.read_text())}

    assert marked == {*WANTED}


def test_the_page_holds_every_row_as_measured() -> None:
    page = block(PAGE.read_text(), "short forms")

    assert rows_in(page) == WANTED
    assert "not measured" not in "".join(page)


def test_figures_of_one_name_are_one_line_with_the_worst() -> None:
    (line,) = lines_of(taken(*(measured("A1", "back after", value) for value in (0.2, 0.7, 0.4))), rows=["A1"])

    assert (line.what, line.measured, line.allowed) == ("back after (worst of 3)", "0.7 s", "1 s")


def test_a_fault_is_named_once() -> None:
    figures = (measured("A1", "back after", 0.2), measured("A1", "grown", 0.3), measured("A2", "seen after", 0.4))

    _, _, *shown = table(lines_of(taken(*figures), rows=["A1", "A2"]))

    assert [line.split(" | ")[1] for line in shown] == [ROWS["A1"], "", ROWS["A2"]]


def test_what_is_beyond_its_limit_is_marked() -> None:
    (line,) = lines_of(taken(measured("A1", "back after", 1.2)), rows=["A1"])

    assert line.measured == "1.2 s **beyond**"


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_tests_that_did_not_pass_are_named(outcome: str) -> None:
    ended: dict[str, object] = {"row": "A1", "test": "live/test_a.py::test_it[x]", "outcome": outcome}

    lines = lines_of(taken(measured("A1", "back after", 0.2), ended), rows=["A1"])

    assert [(line.what, line.measured) for line in lines] == [
        ("back after", "0.2 s"),
        ("test_it[x]", f"**{outcome}**"),
    ]


def test_a_row_of_which_nothing_was_taken_down_says_so() -> None:
    (line,) = lines_of(taken(), rows=["A1"])

    assert line.measured == "**not measured**"


def test_longer_forms_take_the_place_of_earlier_ones_of_their_rows() -> None:
    earlier = table(lines_of(taken(measured("A6", "grown", 0.1), measured("E1", "grown", 0.2)), rows=["A6", "E1"]))
    later = table(lines_of(taken(measured("A11", "told", 0.3), measured("E1", "grown", 0.4)), rows=["A11", "E1"]))

    both = merged(earlier, later)

    assert rows_in(both) == ["A6", "A11", "E1"]
    assert both[-1].endswith("| 0.4 s | 1 s |")


def test_a_block_of_a_page_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n\n<!-- a: begin -->\n\nold\n\n<!-- a: end -->\n\nafter\n")

    write_block(page, "a", ["new", "lines"])

    assert page.read_text() == "before\n\n<!-- a: begin -->\n\nnew\nlines\n\n<!-- a: end -->\n\nafter\n"


def test_some_rows_alone_are_not_written_as_the_whole_table(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--rows", "A1,A2", "--write"])

    assert "the page holds every row" in capsys.readouterr().err


def test_a_row_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--rows", "A1,A99"])

    assert "no such row: A99" in capsys.readouterr().err
