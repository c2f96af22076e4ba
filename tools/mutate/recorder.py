"""A plugin of pytest (`-p tools.mutate.recorder`): write how long each test took, and whether it passed, as JSON.

Tests are named without their parameters, and the file is the one in `MUTATE_TESTS`.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

_seconds: dict[str, float] = defaultdict(float)
_failed: set[str] = set()
_passed: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A step of a test is over: its set-up, the test itself, or what comes after it."""
    name = without_parameters(report.nodeid)
    _seconds[name] += report.duration
    if report.failed:
        _failed.add(name)
    elif report.passed and report.when == "call":
        _passed.add(name)


def pytest_sessionfinish() -> None:
    """Keep those that can notice something: they ran and passed."""
    passed = {name: round(_seconds[name], 3) for name in sorted(_passed - _failed)}
    Path(os.environ["MUTATE_TESTS"]).write_text(json.dumps({"passed": passed, "failed": sorted(_failed)}, indent=1))


def without_parameters(node_id: str) -> str:
    """`test_file.py::test_name` of `test_file.py::test_name[first-2]`."""
    return node_id.partition("[")[0]
