"""The C functions of trackers under sanitizers, with random and odd input."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.fakes import run_sanitized

from sightline_plugins.track.adaptive_memory import _Adaptive
from sightline_plugins.track.kalman import FILTER
from sightline_plugins.track.tracks import DETECTION, TRACK

FLAGS = ("-std=c11", "-O1", "-g1", "-shared", "-fPIC", "-ffp-contract=off", "-fvisibility=hidden", "-Wall", "-Wextra")
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer")


@pytest.fixture(scope="module")
def library(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C sources of trackers, built with sanitizers."""
    if shutil.which("gcc") is None or shutil.which("g++") is None:
        missing("no gcc with its sanitizers")
    sources = repository / "plugins" / "sightline_plugins"
    built = tmp_path_factory.mktemp("sanitized") / "libtrack.so"
    files = sorted(str(path) for path in (sources / "track").glob("*.c"))
    subprocess.run(
        ["gcc", *FLAGS, "-Werror", *SANITIZED, "-I", str(sources), *files, "-o", str(built), "-lm"], check=True
    )
    return built


def test_nothing_outside_of_an_array_is_touched_whatever_comes(library: Path, repository: Path) -> None:
    done = run_sanitized(["-m", "tests.unit.track.sanitized", str(library)], cwd=repository)

    assert done.returncode == 0, done.stderr


def test_the_sanitizers_see_these_functions(library: Path, repository: Path) -> None:
    done = run_sanitized(["-m", "tests.unit.track.sanitized", str(library), "--wrong"], cwd=repository)

    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
    assert "detections.c" in done.stderr


def test_python_and_c_have_the_same_records() -> None:
    sizes = [FILTER.itemsize, TRACK.itemsize, DETECTION.itemsize, ctypes.sizeof(_Adaptive)]

    assert sizes == [56, 144, 104, 344]
