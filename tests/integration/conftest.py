"""Tests that show a row of the fault table take down what they measured; models and kernels are compiled once."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.integration.figures import LONG, LONG_SECONDS, Figure, Outcome, Record, allowed, take_down


@pytest.fixture(scope="module", autouse=True)
def _compiled_once(compiled_once: None) -> None:
    """For all integration tests; those that are about compiling name a folder of their own."""


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Record:
    """Judges a figure of the row that the test is marked with: `figure("seen", 0.7, limit=1.0, unit="s")`."""
    row = _row(request.node)
    if row is None:
        raise pytest.UsageError(f"{request.node.nodeid} takes down figures but is marked with no row")

    def record(what: str, measured: float, *, limit: float, unit: str) -> None:
        take_down(Figure(row, what, round(float(measured), 3), limit, unit))
        most = allowed(limit, unit=unit)
        assert measured <= most, f"{what}: {measured:g} {unit}, more than {most:g}"

    return record


@pytest.fixture
def tmpfs() -> Iterator[Path]:
    """A real file system of one megabyte, in a folder that servers with a user of their own may enter: each pytest that
    starts on the machine closes the folder of all others to them.
    """
    folder = Path(tempfile.mkdtemp(prefix="sightline-small-"))
    try:
        folder.chmod(0o755)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True).returncode:
            pytest.skip("a small file system cannot be mounted here")
        yield folder
        subprocess.run(["umount", "-l", folder], check=True)
    finally:
        folder.rmdir()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long forms may take long."""
    for item in items:
        marker = item.get_closest_marker("row")
        if LONG and marker is not None and marker.kwargs.get("long"):
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    row = _row(item)
    if row is not None and (report.when == "call" or not report.passed):
        take_down(Outcome(row, item.nodeid, report.outcome))
    return report


def _row(node: pytest.Item) -> str | None:
    marker = node.get_closest_marker("row")
    return None if marker is None else str(marker.kwargs["id"])
