"""Clips that fake cameras show, and the figures that the tests measure."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from sightline.testing.camera import Clip
from tests.integration.camera.clips import noise_clip

FIGURES_VARIABLE = "SIGHTLINE_FIGURES"
"""The file to which figures are written, as JSON lines."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure of a row of the fault table: `measured` in `unit`, which must not pass `limit`."""

    row: str
    what: str
    measured: float
    limit: float
    unit: str


Record = Callable[..., None]


@pytest.fixture(scope="session")
def figure() -> Iterator[Record]:
    """Takes down a figure: `figure("A1", "frames again", 0.7, limit=1.0, unit="s")`."""
    figures: list[Figure] = []

    def record(row: str, what: str, measured: float, *, limit: float, unit: str) -> None:
        figures.append(Figure(row, what, round(measured, 3), limit, unit))

    yield record
    path = os.environ.get(FIGURES_VARIABLE)
    if path and figures:
        with Path(path).open("a") as file:
            file.writelines(json.dumps(asdict(one)) + "\n" for one in figures)


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Clip:
    """Two seconds of noise at 25 fps, a key frame every ten, in several packets each."""
    return noise_clip(tmp_path_factory.mktemp("clips"))
