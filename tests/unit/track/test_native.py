"""The C functions of trackers under sanitizers, with random and odd input."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.fakes import run_sanitized
from tests.fakes.native_build import build_sanitized, has_compiler, sanitized_arguments

from sightline_plugins.track.adaptive_memory import _Adaptive
from sightline_plugins.track.kalman import FILTER
from sightline_plugins.track.tracks import DETECTION, TRACK


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not has_compiler():
        missing("gcc is not installed (Debian: gcc)")
    built = tmp_path_factory.mktemp("sanitized") / "libsightline.so"
    build_sanitized(built)
    return built


def test_nothing_outside_of_an_array_is_touched_whatever_comes(library: Path, repository: Path) -> None:
    done = run_sanitized(sanitized_arguments(library, "tests.unit.track.sanitized"), cwd=repository)

    assert done.returncode == 0, done.stderr


def test_the_sanitizers_see_these_functions(library: Path, repository: Path) -> None:
    done = run_sanitized(sanitized_arguments(library, "tests.unit.track.sanitized", "--wrong"), cwd=repository)

    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
    assert "detections.c" in done.stderr


def test_python_and_c_have_the_same_records() -> None:
    sizes = [FILTER.itemsize, TRACK.itemsize, DETECTION.itemsize, ctypes.sizeof(_Adaptive)]

    assert sizes == [56, 144, 104, 344]
