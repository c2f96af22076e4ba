"""What live streams survive, measured on the fake camera: the rows of the fault table with a figure each.

    python -m benchmarks.live [--json FILE] [-k EXPRESSION]

Runs the tests of `tests/integration/live` and prints what they measured beside what is allowed. Exits with the code of
the tests; a figure beyond its limit is marked even where a test leaves a margin for busy machines.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TESTS = "tests/integration/live"
FIGURES_VARIABLE = "SIGHTLINE_FIGURES"


def measure(expression: str | None) -> tuple[int, list[dict[str, Any]]]:
    """The exit code of the tests, and the figures that they took down."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.jsonl"
        selection = [] if expression is None else ["-k", expression]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", TESTS, "-q", *selection],
            cwd=ROOT,
            env={**os.environ, FIGURES_VARIABLE: str(path)},
            stdout=sys.stderr,
            check=False,
        )
        lines = path.read_text().splitlines() if path.exists() else []
    return done.returncode, sorted(map(json.loads, lines), key=lambda one: int(one["row"][1:]))


def table(figures: Sequence[dict[str, Any]]) -> str:
    """The figures as a table in Markdown."""
    rows = ["| row | what | measured | allowed |", "|---|---|---|---|"]
    for one in figures:
        mark, unit = " **beyond**" if one["measured"] > one["limit"] else "", one["unit"]
        rows.append(f"| {one['row']} | {one['what']} | {one['measured']:g} {unit}{mark} | {one['limit']:g} {unit} |")
    return "\n".join(rows)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument("-k", metavar="EXPRESSION", help="only tests whose names match, as with pytest")
    arguments = parser.parse_args()
    code, figures = measure(arguments.k)
    print(table(figures))
    if arguments.json is not None:
        machine = {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
        arguments.json.write_text(json.dumps({"machine": machine, "figures": figures}, indent=2) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
