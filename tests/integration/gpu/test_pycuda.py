"""A program of pycuda that embeds Sightline, over the null driver: `examples/pycuda_kernel.py` as it stands."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.null_driver import build_null_driver


def test_a_kernel_of_pycuda_is_an_element_in_the_program_s_own_context(repository: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("pycuda") is None:
        pytest.skip("pycuda is not installed: pip compiles it, with the CUDA toolkit")
    build_null_driver(tmp_path)
    program = repository / "examples" / "pycuda_kernel.py"

    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.integration.gpu.pycuda_over_null", str(program), str(tmp_path)],
        cwd=repository,
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    calls = json.loads(last)
    assert lines == [f"{frame} cuda 164.1" for frame in range(3)]  # 124.1 of the test pattern, and 40
    assert calls["counts"]["cuLaunchKernel"] == 3
    assert calls["counts"]["cuCtxCreate"] == 1
    assert "cuDevicePrimaryCtxRetain" not in calls["counts"]
    assert calls["live"] == {"contexts": 1}  # the program's, to its end
    assert calls["orphans"] == {}
