"""The plan for the first minutes on a GPU, over the null driver, so that it still works when there is a GPU.

Kernels are compiled and not run there, so tests fail that look at what a kernel computed or how long it took.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import missing
from tests.fakes.native_build import has_compiler
from tests.null_driver import GPUS_VARIABLE, build_null_driver

STAGES = ("env", "doctor", "test_decode", "test_encode", "test_device")


@pytest.fixture(scope="module")
def null_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process whose `libcuda.so.1` is the null driver, with a home of its own."""
    if not has_compiler():
        missing("gcc is not installed (Debian: gcc)")
    folder = tmp_path_factory.mktemp("null_driver")
    library = build_null_driver(folder)
    return {**os.environ, "LD_LIBRARY_PATH": str(library.parent), GPUS_VARIABLE: "2", "HOME": str(folder)}


@pytest.fixture(scope="module")
def stages(
    repository: Path, null_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """What `first_light.py` reports of each stage."""
    data = Path(os.environ.get("SIGHTLINE_SHARED_DATA", repository.parent / "shared" / "data"))
    program = data.parent / "gpu" / "first_light.py"
    if not program.is_file():
        missing(f"no {program}")
    out = tmp_path_factory.mktemp("first_light")
    arguments = ["--project", str(repository), "--out", str(out), "--only", ",".join(STAGES)]
    subprocess.run([sys.executable, str(program), *arguments], env=null_environment, capture_output=True, check=False)
    found: dict[str, dict[str, Any]] = json.loads((out / "first_light.json").read_text())["stages"]
    return found


def test_all_stages_end_by_themselves(stages: dict[str, dict[str, Any]]) -> None:
    assert {name: stages[name]["status"] for name in STAGES} == {
        "env": "ok",
        "doctor": "ok",
        "test_decode": "skipped",
        "test_encode": "ok",
        "test_device": "failed",
    }


def test_it_finds_the_driver_and_its_gpus(stages: dict[str, dict[str, Any]]) -> None:
    assert '"libcuda.so.1": true' in stages["env"]["tail"]
    assert "Null GPU 1, compute capability" in stages["doctor"]["tail"]


def test_no_test_of_gpus_fails_for_a_call_of_cuda(stages: dict[str, dict[str, Any]]) -> None:
    device = stages["test_device"]

    assert device["passed"] > device["tests"] / 2
    assert not [failed for failed in device["failed"] if "Cuda" in failed["why"] or "CUDA" in failed["why"]]
    for name in ("test_decode", "test_encode"):
        assert stages[name]["tests"] == stages[name]["passed"] + stages[name]["skipped"]
        assert {reason for reason, _ in stages[name]["skips"]} <= {
            "the driver brings no video decoder (libnvcuvid.so.1 is missing)",
            "this GPU has no NVENC",
        }


def test_a_test_of_gpus_that_takes_too_long_ends_alone(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.gpu import conftest\n"
        "conftest.LIMIT_SECONDS = 1\n"
        "pytest_itemcollected = conftest.pytest_itemcollected\n"
    )
    (tmp_path / "test_limits.py").write_text(
        "import threading\ndef test_hangs():\n    threading.Event().wait()\ndef test_works():\n    pass\n"
    )
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "--import-mode=importlib", "-o", "addopts=", "-rA", "-q"]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "1 failed, 1 passed" in done.stdout
    assert "Timeout" in done.stdout
