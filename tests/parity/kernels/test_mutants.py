"""Kernels that are wrong on purpose are noticed: by the comparisons, or by the sanitizers."""

from __future__ import annotations

import pytest

from sightline.devices.cuda.driver import KernelSource
from sightline.media import PixelFormat
from sightline_plugins.preprocess import cuda as cuda_preprocess
from sightline_plugins.preprocess.definition import Preprocessing
from tests.fakes import run_sanitized
from tests.parity.kernels.images import assert_equal_levels, inputs, noise, on_the_cpu, placements

DEFINITIONS = Preprocessing((67, 51), scale=(1.0,)), Preprocessing((37, 21), resize="area", scale=(1.0,))


def compare_with_the_cpu(source: KernelSource) -> None:
    surface = noise(PixelFormat.NV12, (131, 77))
    for definition in DEFINITIONS:
        parts = [(surface, placement) for placement in placements(surface, definition).values()]
        for image, part in zip(inputs(parts, definition, source=source), parts, strict=True):
            assert_equal_levels(image, on_the_cpu(*part, definition))


def test_the_kernel_as_it_is_passes() -> None:
    compare_with_the_cpu(KernelSource.read(cuda_preprocess.SOURCE))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("map.inside_x(x + 1)", "map.inside_x(x + 2)"),
        ("y * pitch_bytes + x", "y * pitch_bytes + x + 1"),
        ("min(max(y, top), bottom - 1)", "min(max(y, 0), bottom - 1)"),
        ("both.x, both.y", "both.y, both.x"),
        ("y < job.bottom", "y <= job.bottom"),
        ("row - first_row", "column - first_row"),
        ("across.first + i", "across.first + i + 1"),
        ("down.weights[j] *", "down.weights[0] *"),
        ("number * (4 + 2 * taps)", "number * 2 * taps"),
    ],
    ids=[
        *("a shifted tap", "a shifted sample", "an edge of its own", "swapped chroma", "a row too many", "a turn"),
        *("a shifted average", "another row's weight", "another column's list"),
    ],
)
def test_a_wrong_index_is_noticed(old: str, new: str) -> None:
    mutant = KernelSource.read(cuda_preprocess.SOURCE).replaced(old, new)

    with pytest.raises(AssertionError):
        compare_with_the_cpu(mutant)


def test_all_kernels_stay_inside_their_memory() -> None:
    done = run_sanitized(["-m", "tests.parity.kernels.sanitized"])

    assert done.returncode == 0, done.stderr


def test_a_read_beyond_the_image_is_noticed() -> None:
    done = run_sanitized(["-m", "tests.parity.kernels.sanitized", "--wrong"])

    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
    assert "surface.cuh" in done.stderr
