"""FCOS, CenterNet and DetectNet_v2: boxes at the cells of maps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sightline.errors import ModelError
from tests.unit.heads.decoding import Expected, Outputs, assert_found, read

SIZE_WH = (256, 128)
CLASSES = 3
THINGS: list[Expected] = [((10.0, 8.0, 42.0, 60.0), 2, 0.9), ((100.5, 20.25, 239.0, 110.0), 0, 0.6)]
FCOS_STRIDES = (8, 16, 32, 64, 128)


def fcos_levels(*, offset: float = 0.5, in_strides: bool = False, product: bool = False, raw: bool = True) -> Outputs:
    """Maps of classes of all levels, then of distances, then of centerness."""
    grids = [(math.ceil(SIZE_WH[0] / stride), math.ceil(SIZE_WH[1] / stride)) for stride in FCOS_STRIDES]
    scores = [np.full((1, CLASSES, h, w), 1e-3, np.float32) for w, h in grids]
    sides = [np.zeros((1, 4, h, w), np.float32) for w, h in grids]
    centres = [np.full((1, 1, h, w), 0.5, np.float32) for w, h in grids]
    for number, ((x1, y1, x2, y2), kind, score) in enumerate(THINGS):
        level = number + 1
        stride = FCOS_STRIDES[level]
        column, row = int((x1 + x2) / 2 / stride), int((y1 + y2) / 2 / stride)
        x, y = (column + offset) * stride, (row + offset) * stride
        distances = np.array([x - x1, y - y1, x2 - x, y2 - y])
        centerness = 0.95
        scores[level][0, kind, row, column] = (score if product else score**2) / centerness
        sides[level][0, :, row, column] = distances / stride if in_strides else distances
        centres[level][0, 0, row, column] = centerness
    if raw:
        scores, centres = ([np.log(m / (1 - m)) for m in maps] for maps in (scores, centres))
    return [*scores, *sides, *centres]


def as_tables(maps: Outputs) -> Outputs:
    rows = [m[0].transpose(1, 2, 0).reshape(-1, m.shape[1]) for m in maps]
    return [np.concatenate(rows[first : first + 5])[None] for first in (0, 5, 10)]


def test_fcos_reads_maps_of_five_levels() -> None:
    assert_found(read("fcos", fcos_levels(), size_wh=SIZE_WH), THINGS)


def test_fcos_reads_tables_of_all_levels() -> None:
    assert_found(read("fcos", as_tables(fcos_levels(raw=False)), size_wh=SIZE_WH), THINGS)


def test_fcos_of_other_trainings_is_known_by_options() -> None:
    outputs = as_tables(fcos_levels(offset=0.0, in_strides=True, product=True))

    assert_found(read("fcos", outputs, size_wh=SIZE_WH, offset=0.0, units="strides", score="product"), THINGS)


def test_fcos_without_centerness_is_refused() -> None:
    with pytest.raises(ModelError, match="a centerness"):
        read("fcos", fcos_levels()[:10], size_wh=SIZE_WH)


def centernet_maps(*, pixels: bool = False, raw: bool = False) -> Outputs:
    heat = np.full((1, CLASSES, 32, 64), 1e-3, np.float32)
    size, offset = np.zeros((1, 2, 32, 64), np.float32), np.zeros((1, 2, 32, 64), np.float32)
    for (x1, y1, x2, y2), kind, score in THINGS:
        x, y = (x1 + x2) / 2 / 4, (y1 + y2) / 2 / 4
        column, row = int(x), int(y)
        heat[0, kind, row, column] = score
        heat[0, kind, row, column + 1] = heat[0, kind, row - 1, column] = 0.8 * score
        size[0, :, row, column] = np.array([x2 - x1, y2 - y1]) / (1 if pixels else 4)
        offset[0, :, row, column] = [x - column, y - row]
    return [np.log(heat / (1 - heat)) if raw else heat, size, offset]


@pytest.mark.parametrize("raw", [False, True])
def test_centernet_finds_the_peaks(raw: bool) -> None:
    assert_found(read("centernet", centernet_maps(raw=raw), size_wh=SIZE_WH), THINGS)


def test_centernet_maps_are_known_by_their_names() -> None:
    heat, size, offset = centernet_maps()

    assert_found(read("centernet", [offset, heat, size], size_wh=SIZE_WH, names=("reg", "hm", "wh")), THINGS)


def test_centernet_sizes_may_be_in_pixels() -> None:
    assert_found(read("centernet", centernet_maps(pixels=True), size_wh=SIZE_WH, units="pixels"), THINGS)


def test_centernet_without_offsets_puts_centres_at_corners_of_cells() -> None:
    things: list[Expected] = [((16.0, 16.0, 48.0, 80.0), 1, 0.8)]
    heat = np.zeros((1, CLASSES, 32, 64), np.float32)
    heat[0, 1, 12, 8] = 0.8
    size = np.zeros((1, 2, 32, 64), np.float32)
    size[0, :, 12, 8] = [8, 16]

    assert_found(read("centernet", [heat, size], size_wh=SIZE_WH), things)


def test_a_peak_of_heat_that_is_no_number_is_none() -> None:
    heat, size, offset = centernet_maps()
    heat[:] = np.nan

    assert len(read("centernet", [heat, size, offset], size_wh=SIZE_WH)) == 0


def detectnet_maps() -> Outputs:
    """Coverage and boxes of DetectNet_v2 at stride 16."""
    coverage, boxes = np.zeros((1, CLASSES, 8, 16), np.float32), np.zeros((1, 4 * CLASSES, 8, 16), np.float32)
    for (x1, y1, x2, y2), kind, score in THINGS:
        column, row = int((x1 + x2) / 2 / 16), int((y1 + y2) / 2 / 16)
        c_x, c_y = (column * 16 + 0.5) / 35, (row * 16 + 0.5) / 35
        coverage[0, kind, row, column] = score
        boxes[0, 4 * kind : 4 * kind + 4, row, column] = [x1 / -35 + c_x, y1 / -35 + c_y, x2 / 35 - c_x, y2 / 35 - c_y]
    return [coverage, boxes]


@pytest.mark.parametrize("turned", [False, True])
def test_detectnet_reads_coverage_and_boxes_in_either_order(turned: bool) -> None:
    assert_found(read("detectnet_v2", detectnet_maps()[:: -1 if turned else 1], size_wh=SIZE_WH), THINGS)


def test_detectnet_maps_that_do_not_fit_are_refused() -> None:
    coverage, boxes = detectnet_maps()

    with pytest.raises(ModelError, match="maps of coverage"):
        read("detectnet_v2", [coverage, boxes[:, :5]], size_wh=SIZE_WH)
