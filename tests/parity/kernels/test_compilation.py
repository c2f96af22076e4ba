"""Every kernel compiles for the oldest and the newest GPU, and one for those between.

No source asks which GPU it is compiled for, so that each has one PTX: what the oldest takes, newer ones take.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import sightline_plugins
from sightline.devices.cuda.driver import KernelSource
from sightline.devices.cuda.nvrtc import ARCHITECTURES, compile_cubin

FOLDER = Path(sightline_plugins.__file__).parent
ELF = b"\x7fELF"


SOURCES = sorted(FOLDER.rglob("*.cu"))
ENDS = (ARCHITECTURES[0], ARCHITECTURES[-1])


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_source_compiles_for_the_oldest_and_the_newest_gpu(path: Path) -> None:
    check(path, ENDS)


def test_a_source_compiles_for_all_architectures() -> None:
    check(min(SOURCES, key=lambda path: path.stat().st_size), ARCHITECTURES)


def test_no_source_asks_which_gpu_it_is_compiled_for() -> None:
    asking = [
        f"{path.name}: {line}"
        for path in sorted(FOLDER.rglob("*.cu*"))
        for line in path.read_text().splitlines()
        if "__CUDA_ARCH" in line and line != "#ifdef __CUDA_ARCH__"
    ]

    assert asking == []


def check(path: Path, architectures: Sequence[int]) -> None:
    source = KernelSource.read(path)

    with ThreadPoolExecutor() as pool:
        images = list(pool.map(lambda architecture: compile_cubin(source, architecture=architecture), architectures))

    assert source.kernels
    for image in images:
        assert image.startswith(ELF)
        assert all(name.encode() in image for name in source.kernels)


def test_turing_to_blackwell_are_meant() -> None:
    assert ARCHITECTURES == (75, 80, 86, 89, 90, 100, 120)
