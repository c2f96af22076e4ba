"""The C functions of trackers under sanitizers, with random and odd input."""

from __future__ import annotations

import ctypes
from pathlib import Path

from tests.fakes import run_sanitized
from tests.fakes.native_build import sanitized_arguments

from sightline_plugins.track.adaptive_memory import _Adaptive
from sightline_plugins.track.class_votes import VOTE, _Votes
from sightline_plugins.track.kalman import FILTER
from sightline_plugins.track.tracks import DETECTION, TRACK


def test_nothing_outside_of_an_array_is_touched_whatever_comes(sanitized_library: Path, repository: Path) -> None:
    done = run_sanitized(sanitized_arguments(sanitized_library, "tests.unit.track.sanitized"), cwd=repository)

    assert done.returncode == 0, done.stderr


def test_the_sanitizers_see_these_functions(sanitized_library: Path, repository: Path) -> None:
    done = run_sanitized(
        sanitized_arguments(sanitized_library, "tests.unit.track.sanitized", "--wrong"), cwd=repository
    )

    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
    assert "detections.c" in done.stderr


def test_python_and_c_have_the_same_records() -> None:
    sizes = [FILTER.itemsize, TRACK.itemsize, DETECTION.itemsize, ctypes.sizeof(_Adaptive)]
    votes = [VOTE.itemsize, ctypes.sizeof(_Votes)]

    assert sizes == [56, 144, 104, 408]
    assert votes == [32, 24]
