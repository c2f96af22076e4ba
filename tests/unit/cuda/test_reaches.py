"""Lists of samples and weights, summed up in NumPy, against the CPU's resize of the same plane."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline_plugins.preprocess.colors import PlaneResizer
from sightline_plugins.preprocess.definition import Resize
from sightline_plugins.preprocess.filters import ACROSS_ONE, DOWN_ONE, Kind, averages, enlarged, nearest

SIZES = [(33, 33), (352, 640), (100, 101), (64, 3840), (64, 65), (33, 64)]


def summed(line: npt.NDArray[np.uint8], reaches: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    taps = reaches["weights"].shape[1]
    places = np.minimum(reaches["first"][:, None] + np.arange(taps), len(line) - 1)
    sums: npt.NDArray[np.int64] = (line[places].astype(np.int64) * reaches["weights"]).sum(axis=1)
    return sums


@pytest.mark.parametrize("kind", ["area", "triangle"])
@pytest.mark.parametrize(("target", "size"), SIZES)
def test_averages_along_rows_are_those_of_swscale(kind: Kind, target: int, size: int) -> None:
    line = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)
    plane = np.tile(line, (8, 1))

    ours = (summed(line, averages(size, target=target, kind=kind, is_across=True)) + ACROSS_ONE // 2) // ACROSS_ONE

    method: Resize = "area" if kind == "area" else "antialias"
    expected = PlaneResizer(method).resize(plane, size_wh=(target, 8))[0]
    assert np.abs(ours - expected).max() <= 1
    assert np.mean(ours == expected) > 0.9


@pytest.mark.parametrize("kind", ["area", "triangle"])
@pytest.mark.parametrize("is_across", [True, False])
@pytest.mark.parametrize(("target", "size"), [*SIZES, (1, 1), (1, 7), (2, 3), (3, 4)])
def test_weights_add_up_to_one_and_stay_inside(kind: Kind, is_across: bool, target: int, size: int) -> None:
    reaches = averages(size, target=target, kind=kind, is_across=is_across)

    one = ACROSS_ONE if is_across else DOWN_ONE
    used = reaches["first"][:, None] + np.where(reaches["weights"] != 0, np.arange(reaches["weights"].shape[1]), 0)
    assert (reaches["weights"].sum(axis=1) == one).all()
    assert (used >= 0).all()
    assert (used < size).all()


@pytest.mark.parametrize(("target", "size"), [(48, 64), (224, 640), (99, 33), (1, 5)])
def test_nearest_samples_are_those_of_opencv(target: int, size: int) -> None:
    line = (np.arange(size) % 256).astype(np.uint8)

    ours = line[nearest(size, target=target)["first"]]

    expected = PlaneResizer("nearest").resize(np.tile(line, (2, 1)), size_wh=(target, 2))[0]
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize(("target", "size"), [(96, 64), (224, 33), (640, 352)])
def test_areas_that_grow_are_those_of_opencv(target: int, size: int) -> None:
    line = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)

    ours = (summed(line, enlarged(size, target=target)) + 1024) >> 11

    expected = PlaneResizer("area").resize(np.tile(line, (4, 1)), size_wh=(target, 8))[0]
    assert np.abs(ours - expected).max() <= 1
