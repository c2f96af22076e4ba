"""Builds of kernels, made once for all tests and the processes that they start."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("builds")


@pytest.fixture(autouse=True)
def _keep_builds(builds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(builds))
