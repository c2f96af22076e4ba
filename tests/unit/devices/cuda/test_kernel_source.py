"""What is read of a `.cu` file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sightline.devices.cuda.driver import KernelSource, Parameter
from sightline.errors import KernelError

TEXT = """
#include "outer.cuh"
// extern "C" __global__ void in_a_comment(int a) {
/* extern "C" __global__ void in_another(int a) { */
struct Pair { int a; float b; };
__device__ float helper(float x) { return x; }
extern "C" __global__ void first(const unsigned char *__restrict__ source, unsigned int count, const Pair pair) {
}
extern "C" __global__ void __launch_bounds__(256) second(
    float *target,
    long long place) {
}
extern "C" __global__ void nothing(void) {
}
"""


def written(folder: Path, **headers: str) -> Path:
    (folder / "work.cu").write_text(TEXT)
    for name, text in {"outer": '#include "inner.cuh"\n', "inner": "#pragma once\n", **headers}.items():
        (folder / f"{name}.cuh").write_text(text)
    return folder / "work.cu"


def test_kernels_are_found_with_their_parameters(tmp_path: Path) -> None:
    source = KernelSource.read(written(tmp_path))

    assert source.kernels == {
        "first": (
            Parameter("source", "unsigned char*"),
            Parameter("count", "unsigned int"),
            Parameter("pair", "Pair"),
        ),
        "second": (Parameter("target", "float*"), Parameter("place", "long long")),
        "nothing": (),
    }


def test_headers_are_read_with_those_that_they_include(tmp_path: Path) -> None:
    source = KernelSource.read(written(tmp_path))

    assert source.headers == {"outer.cuh": '#include "inner.cuh"\n', "inner.cuh": "#pragma once\n"}


def test_a_missing_header_is_told_with_the_line_that_includes_it(tmp_path: Path) -> None:
    path = written(tmp_path, outer='\n\n  # include "gone.cuh"\n')

    with pytest.raises(
        KernelError, match=rf"no file {re.escape(str(tmp_path))}/gone\.cuh, which outer\.cuh:3 includes"
    ):
        KernelSource.read(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=re.escape(f"no file {tmp_path / 'gone.cu'}")):
        KernelSource.read(tmp_path / "gone.cu")


def test_the_same_content_is_the_same_source_wherever_it_lies(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()

    one, two = (KernelSource.read(written(folder)) for folder in folders)

    assert one == two
    assert one.digest == two.digest


def test_another_header_is_another_source(tmp_path: Path) -> None:
    before = KernelSource.read(written(tmp_path))

    after = KernelSource.read(written(tmp_path, inner="#pragma once\n\n"))

    assert before.digest != after.digest


def test_a_mutant_replaces_text_in_headers_as_well(tmp_path: Path) -> None:
    mutant = KernelSource.read(written(tmp_path)).replaced("inner", "other")

    assert mutant.headers["outer.cuh"] == '#include "other.cuh"\n'


def test_a_mutant_of_text_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"work\.cu and its headers do not contain '__syncthreads\(\);'"):
        KernelSource.read(written(tmp_path)).replaced("__syncthreads();", "")
