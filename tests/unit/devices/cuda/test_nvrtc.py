"""Kernels compiled for GPUs, without one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sightline.devices.cuda import nvrtc
from sightline.devices.cuda.driver import KernelSource
from sightline.devices.cuda.nvrtc import compile_cubin
from sightline.errors import KernelError, MissingExtra

TWICE = """#include "twice.cuh"
extern "C" __global__ void twice(float *x) {
    x[threadIdx.x] = doubled(x[threadIdx.x]);
}
"""
HEADER = """__device__ inline float doubled(float x) {
    return 2 * x;
}
"""
SOURCE = KernelSource("twice.cu", TWICE, {"twice.cuh": HEADER})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path))
    return tmp_path / "kernels"


def test_machine_code_differs_by_architecture() -> None:
    images = {compile_cubin(SOURCE, architecture=architecture) for architecture in (75, 90)}

    assert len(images) == 2
    assert all(image.startswith(b"\x7fELF") for image in images)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("threadIdx.x]);", "thread]);", r"twice\.cu\(3\): error: identifier \"thread\""),
        ("2 * x", "2 * y", r"twice\.cuh\(2\)"),
    ],
)
def test_a_mistake_is_told_in_the_compilers_words_with_its_line(old: str, new: str, place: str) -> None:
    with pytest.raises(KernelError, match=rf"twice\.cu does not compile for sm_75:\n{place}"):
        compile_cubin(SOURCE.replaced(old, new), architecture=75)


def test_what_was_compiled_is_kept(cache: Path) -> None:
    compile_cubin(SOURCE, architecture=75)
    (kept,) = cache.iterdir()
    kept.write_bytes(b"kept")

    assert compile_cubin(SOURCE, architecture=75) == b"kept"


def test_another_header_or_architecture_is_compiled_anew(cache: Path) -> None:
    compile_cubin(SOURCE, architecture=75)
    compile_cubin(SOURCE, architecture=80)
    compile_cubin(SOURCE.replaced("2 * x", "3 * x"), architecture=75)

    assert len(list(cache.iterdir())) == 3


def test_a_cache_that_can_not_be_written_harms_nothing(cache: Path) -> None:
    cache.write_text("no folder")

    assert compile_cubin(SOURCE, architecture=75).startswith(b"\x7fELF")


def test_without_the_bindings_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)

    with pytest.raises(MissingExtra, match=r"'cuda-bindings': pip install 'sightline\[gpu\]'"):
        nvrtc.nvrtc_version()
