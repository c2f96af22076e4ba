"""What live streams and their outputs survive: the rows of the fault table, each with its figures.

    python -m benchmarks.live [--rows A1,C5] [--long] [--write] [--json FILE]

Runs the tests that are marked with a row (`tests/integration`) and prints the table of what they measured beside what
is allowed; `--write` puts it into docs/reliability.md, with date and machine. `--long` runs the longer forms, of those
that have one, which takes hours for all rows together. Exits with the code of the tests. A figure beyond its limit is
marked even where a test leaves a margin for busy machines, and a row that was not measured says so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.fault_table import ROWS, Taken, block, lines_of, merged, table, write_block
from benchmarks.pipelines.document import machine

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reliability.md"
TESTS = "tests/integration"


def measure(rows: Sequence[str], *, long: bool) -> tuple[int, Taken]:
    """The exit code of the tests of these rows, and what they took down."""
    wanted = " or ".join(f'row(id="{row}", long=True)' if long else f'row(id="{row}")' for row in rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.jsonl"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", TESTS, "-m", wanted],
            cwd=ROOT,
            env={**os.environ, "SIGHTLINE_FIGURES": str(path), "SIGHTLINE_LONG": "1" if long else "0"},
            stdout=sys.stderr,
            check=False,
        )
        lines = path.read_text().splitlines() if path.exists() else []
    return done.returncode, Taken.of(lines)


def write_short(lines: Sequence[str], *, minutes: float) -> None:
    """The table of all rows into the page."""
    when = f"Measured on {datetime.now(tz=UTC):%Y-%m-%d} in {minutes:.0f} minutes, on {machine()}."
    write_block(PAGE, "short forms", [when, "", *lines])


def write_long(lines: Sequence[str]) -> None:
    """The rows that were measured in their long form into the page; those of earlier runs stay."""
    write_block(PAGE, "long forms", merged(block(PAGE.read_text(), "long forms"), lines))


def write_json(path: Path, taken: Taken) -> None:
    """All figures, for programs."""
    facts = {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
    path.write_text(json.dumps({"machine": facts, "figures": taken.figures, "tests": taken.outcomes}, indent=2) + "\n")


def _rows(text: str) -> list[str]:
    rows = text.split(",")
    if unknown := [row for row in rows if row not in ROWS]:
        raise argparse.ArgumentTypeError(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=_rows, default=list(ROWS), metavar="ROW,ROW", help="only these")
    parser.add_argument("--long", action="store_true", help="the longer forms")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reliability.md")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    given = parser.parse_args(arguments)
    if given.write and not given.long and given.rows != list(ROWS):
        parser.error("the page holds every row: --write without --rows, or with --long")
    begun = time.monotonic()
    code, taken = measure(given.rows, long=given.long)
    measured = {one["row"] for one in (*taken.figures, *taken.outcomes)}
    lines = lines_of(taken, rows=[row for row in given.rows if row in measured or not given.long])
    shown = table(lines, more={"on": f"{datetime.now(tz=UTC):%Y-%m-%d}, {machine()}"} if given.long else None)
    print("\n".join(shown))
    if given.write:
        write_long(shown) if given.long else write_short(shown, minutes=(time.monotonic() - begun) / 60)
    if given.json is not None:
        write_json(given.json, taken)
    return code


if __name__ == "__main__":
    sys.exit(main())
