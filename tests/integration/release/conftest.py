"""The wheel of the working tree, and an environment that it is installed in."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.release.environments import Environment, new_environment


@pytest.fixture(scope="session")
def wheel(run_folder: Path, repository: Path) -> Path:
    """The wheel of the working tree, built once for all processes of the run."""
    folder = run_folder / "wheel"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not any(folder.glob("*.whl")):
            command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
            subprocess.run(command, cwd=repository, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """An environment with Sightline from the wheel."""
    return new_environment(tmp_path_factory.mktemp("installed") / "venv", wheel)
