"""Every kernel compiles for every GPU."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import sightline_plugins
from sightline.devices.cuda.driver import KernelSource
from sightline.devices.cuda.nvrtc import ARCHITECTURES, compile_cubin

FOLDER = Path(sightline_plugins.__file__).parent
ELF = b"\x7fELF"


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.cu")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_source_compiles_for_all_architectures(path: Path) -> None:
    source = KernelSource.read(path)

    with ThreadPoolExecutor() as pool:
        images = list(pool.map(lambda architecture: compile_cubin(source, architecture=architecture), ARCHITECTURES))

    assert source.kernels
    for image in images:
        assert image.startswith(ELF)
        assert all(name.encode() in image for name in source.kernels)


def test_turing_to_blackwell_are_meant() -> None:
    assert ARCHITECTURES == (75, 80, 86, 89, 90, 100, 120)
