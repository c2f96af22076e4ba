"""What the sanitizers notice in kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import run_sanitized

PROGRAM = '''
import sys
import numpy as np
from sightline.devices.cuda.driver import KernelSource
from tests.fakes import HostKernels

TEXT = """
extern "C" __global__ void copied(const float *source, float *target, int count) {
    __shared__ float kept[16];
    const int place = threadIdx.x;
    if (place >= count) return;
    kept[place] = source[place];
    __syncthreads();
    target[place] = kept[place];
}
"""
count, offset, block = map(int, sys.argv[1:])
source, target = np.zeros(12 * 4, np.uint8), np.zeros(12 * 4 if count <= 12 else 80, np.uint8)
address = np.uint64(source.ctypes.data + offset)
kernels = HostKernels(KernelSource("copied.cu", TEXT, {}))
kernels["copied"](address, np.uint64(target.ctypes.data), count, grid=1, block=block)
print("done")
'''


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("builds")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(("13", "0", "32"), "heap-buffer-overflow"), (("8", "2", "32"), "misaligned address")],
    ids=["beyond the end", "misaligned"],
)
def test_wrong_reads_end_the_process_and_name_the_line(
    arguments: tuple[str, ...], told: str, builds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(builds))

    done = run_sanitized(["-c", PROGRAM, *arguments])

    assert done.returncode != 0
    assert done.stdout == ""
    assert told in done.stderr
    assert "copied.cu:6" in done.stderr
