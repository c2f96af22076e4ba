"""A program that ends while it still holds a loop over a pipeline."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """\
from sightline import Pipeline
from sightline_plugins import Jsonl, Pattern

frames = iter(Pipeline(sources={"gate": Pattern(frames=None)}, steps=[Jsonl(path="out.jsonl")]))
next(frames)
"""


@pytest.mark.parametrize(("last_line", "code"), [("raise ValueError('a mistake of the program')", 1), ("pass", 0)])
def test_it_ends_and_its_outputs_are_whole(last_line: str, code: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + last_line],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert ("a mistake of the program" in done.stderr) == bool(code)
    assert (tmp_path / "out.jsonl").read_text().endswith("}\n")
