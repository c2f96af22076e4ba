"""Pre-processing by the kernel: as on the CPU, and as the definition says."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline_plugins.cuda.records import SurfaceView
from sightline_plugins.preprocess.definition import ChannelOrder, Convert, Preprocessing, Resize
from sightline_plugins.preprocess.placement import Fit, Region
from tests.parity.kernels.images import assert_equal_levels, inputs, noise, on_the_cpu, padded, placements, view
from tests.parity.kernels.plain import plain_input
from tests.unit.cuda.host_arrays import HostArray

SIZES = [(96, 64), (131, 77), (45, 33)]
FORMATS = list(PixelFormat)
NETWORK = (64, 48)


def random_boxes(size_wh: tuple[int, int]) -> list[Region]:
    random = np.random.default_rng(3)
    corners = np.sort(random.uniform(-10, 10 + max(size_wh), (12, 2, 2)), axis=1).astype(np.float32)
    return [(x1, y1, x2 + 4, y2 + 4) for (x1, y1), (x2, y2) in corners.tolist()]


@pytest.mark.parametrize("convert", ["network", "image"])
@pytest.mark.parametrize("pixel_format", FORMATS)
def test_every_part_of_every_format_is_as_on_the_cpu(pixel_format: PixelFormat, convert: Convert) -> None:
    definition = Preprocessing((67, 51), convert=convert, scale=(1.0,))
    for size_wh in SIZES:
        surface = noise(pixel_format, size_wh)
        parts = [(surface, placement) for placement in placements(surface, definition).values()]

        prepared = inputs(parts, definition)

        for image, part in zip(prepared, parts, strict=True):
            assert_equal_levels(image, on_the_cpu(*part, definition))


@pytest.mark.parametrize("resize", ["bilinear", "nearest", "area", "antialias"])
def test_crops_of_objects_by_any_filter_are_as_on_the_cpu(resize: Resize) -> None:
    definition = Preprocessing((67, 51), resize=resize, convert="image", scale=(1.0,))
    surface = noise(PixelFormat.NV12, (640, 360))
    parts = [(surface, definition.place(box)) for box in random_boxes(surface.size_wh)]

    prepared = inputs(parts, definition)

    for image, part in zip(prepared, parts, strict=True):
        assert_equal_levels(image, on_the_cpu(*part, definition))


@pytest.mark.parametrize("convert", ["network", "image"])
@pytest.mark.parametrize("pixel_format", FORMATS)
def test_the_nearest_samples_are_as_on_the_cpu(pixel_format: PixelFormat, convert: Convert) -> None:
    definition = Preprocessing((64, 32), fit="stretch", resize="nearest", convert=convert, scale=(1.0,))
    for size_wh in SIZES:
        surface = noise(pixel_format, size_wh)
        parts = [(surface, placement) for placement in placements(surface, definition).values()]

        prepared = inputs(parts, definition)

        for image, part in zip(prepared, parts, strict=True):
            assert_equal_levels(image, on_the_cpu(*part, definition))


def test_of_two_samples_that_are_equally_near_the_cpus_is_taken() -> None:
    definition = Preprocessing((48, 32), fit="stretch", resize="nearest", color="gray", scale=(1.0,))
    columns = np.broadcast_to(np.arange(64, dtype=np.uint8), (32, 64))
    surface = Surface(PixelFormat.GRAY8, (64, 32), (columns,), range=ColorRange.FULL)
    placement = definition.place_fractions((0.0, 0.0, 1.0, 1.0), surface)

    prepared = inputs([(surface, placement)], definition)

    np.testing.assert_array_equal(prepared[0], on_the_cpu(surface, placement, definition))


@pytest.mark.parametrize("convert", ["network", "image"])
@pytest.mark.parametrize("resize", ["area", "antialias"])
@pytest.mark.parametrize("pixel_format", [PixelFormat.NV12, PixelFormat.I422, PixelFormat.BGR24])
def test_filters_that_average_are_as_on_the_cpu(pixel_format: PixelFormat, resize: Resize, convert: Convert) -> None:
    definition = Preprocessing((32, 24), resize=resize, convert=convert, scale=(1.0,))
    surface = noise(pixel_format, (241, 181))
    parts = [(surface, placement) for placement in placements(surface, definition).values()]

    prepared = inputs(parts, definition)

    for image, part in zip(prepared, parts, strict=True):
        assert_equal_levels(image, on_the_cpu(*part, definition))


@pytest.mark.parametrize("size_wh", [(96, 96), (33, 300), (640, 64)])
@pytest.mark.parametrize("resize", ["area", "antialias"])
def test_averages_that_hardly_shrink_are_as_on_the_cpu(resize: Resize, size_wh: tuple[int, int]) -> None:
    definition = Preprocessing((32, 64), fit="stretch", resize=resize, scale=(1.0,))
    surface = noise(PixelFormat.RGB24, size_wh)
    placement = definition.place_fractions((0.0, 0.0, 1.0, 1.0), surface)

    prepared = inputs([(surface, placement)], definition)

    assert_equal_levels(prepared[0], on_the_cpu(surface, placement, definition))


def test_averages_of_narrow_planes_are_within_a_level_of_opencvs() -> None:
    definition = Preprocessing((12, 9), fit="stretch", resize="area", color="gray", scale=(1.0,))
    surface = noise(PixelFormat.GRAY8, (31, 40), color_range=ColorRange.FULL)
    placement = definition.place_fractions((0.0, 0.0, 1.0, 1.0), surface)

    prepared = inputs([(surface, placement)], definition)

    assert np.abs(prepared[0].astype(int) - on_the_cpu(surface, placement, definition)).max() <= 1


@pytest.mark.parametrize("target_wh", [(96, 40), (40, 96), (96, 96)])
def test_averages_are_as_on_the_cpu_where_a_plane_grows(target_wh: tuple[int, int]) -> None:
    surface = noise(PixelFormat.NV12, (64, 64))
    definition = Preprocessing(target_wh, fit="stretch", resize="area", scale=(1.0,))
    placement = definition.place_fractions((0.0, 0.0, 1.0, 1.0), surface)

    prepared = inputs([(surface, placement)], definition)

    assert_equal_levels(prepared[0], on_the_cpu(surface, placement, definition))


@pytest.mark.parametrize("convert", ["network", "image"])
@pytest.mark.parametrize("color_range", list(ColorRange))
@pytest.mark.parametrize("matrix", list(ColorMatrix))
def test_every_matrix_and_range_is_as_on_the_cpu(
    matrix: ColorMatrix, color_range: ColorRange, convert: Convert
) -> None:
    definition = Preprocessing(NETWORK, convert=convert, scale=(1.0,))
    for pixel_format in (PixelFormat.NV12, PixelFormat.I422, PixelFormat.GRAY8):
        surface = noise(pixel_format, (131, 77), matrix=matrix, color_range=color_range)
        placement = definition.place_fractions((0.0, 0.0, 1.0, 1.0), surface)

        prepared = inputs([(surface, placement)], definition)

        assert_equal_levels(prepared[0], on_the_cpu(surface, placement, definition))


@pytest.mark.parametrize("fit", ["letterbox", "stretch", "expand", "cover", "height", "native"])
@pytest.mark.parametrize("color", ["rgb", "bgr", "gray"])
def test_every_fit_and_order_of_colors_is_as_on_the_cpu(fit: Fit, color: ChannelOrder) -> None:
    pad = (3,) if color == "gray" else (3, 141, 77)
    definition = Preprocessing(
        None if fit == "native" else NETWORK, fit=fit, color=color, pad=pad, crop=0.875, scale=(1.0,)
    )
    for pixel_format in (PixelFormat.NV12, PixelFormat.RGB24, PixelFormat.GRAY8):
        surface = noise(pixel_format, (131, 77))
        placement = definition.place_fractions((0.0, 0.0, 1.0, 1.0), surface)

        prepared = inputs([(surface, placement)], definition)

        assert_equal_levels(prepared[0], on_the_cpu(surface, placement, definition))


@pytest.mark.parametrize("resize", ["bilinear", "nearest"])
@pytest.mark.parametrize("seed", range(6))
def test_random_images_follow_the_plain_definition(seed: int, resize: Resize) -> None:
    random = np.random.default_rng(seed)
    size_wh = 2 * int(random.integers(20, 60)), 2 * int(random.integers(20, 60))
    network_wh = (64, 64) if resize == "nearest" else (int(random.integers(20, 90)), int(random.integers(20, 90)))
    matrix, color_range = random.choice(list(ColorMatrix)), random.choice(list(ColorRange))
    definition = Preprocessing(network_wh, fit="stretch", resize=resize, scale=(1.0,))
    for pixel_format in FORMATS:
        surface = noise(
            pixel_format, size_wh, matrix=ColorMatrix(matrix), color_range=ColorRange(color_range), seed=seed
        )
        parts = [(surface, placement) for placement in placements(surface, definition).values()]

        prepared = inputs(parts, definition)

        for image, part in zip(prepared, parts, strict=True):
            error = np.abs(image - plain_input(*part, definition))
            assert error.mean() < 0.5
            assert error.max() <= 4


@pytest.mark.parametrize("color_range", list(ColorRange))
def test_converting_the_image_first_follows_the_plain_definition_within_ffmpegs_rounding(
    color_range: ColorRange,
) -> None:
    definition = Preprocessing(NETWORK, convert="image", scale=(1.0,))
    surface = noise(PixelFormat.NV12, (130, 78), color_range=color_range)
    parts = [(surface, placement) for placement in placements(surface, definition).values()]

    prepared = inputs(parts, definition)

    for image, part in zip(prepared, parts, strict=True):
        error = np.abs(image - plain_input(*part, definition))
        assert error.mean() < 1.2
        assert error.max() <= 4


def test_surfaces_of_any_size_and_format_share_a_launch() -> None:
    definition = Preprocessing(NETWORK, scale=(1.0,))
    surfaces = [noise(kind, (40 + 17 * n, 90 - 9 * n), seed=n) for n, kind in enumerate(FORMATS)]
    parts = [(one, definition.place_fractions((0.0, 0.0, 1.0, 1.0), one)) for one in surfaces]

    together = inputs(parts, definition)

    alone = [inputs([part], definition)[0] for part in parts]
    assert np.array_equal(together, np.stack(alone))


def test_crops_of_objects_are_parts_of_the_same_surface() -> None:
    definition = Preprocessing((32, 64), fit="stretch", scale=(1.0,))
    surface = noise(PixelFormat.NV12, (131, 77))
    boxes = [(3.7, 5.1, 44.2, 70.9), (60.0, 10.0, 92.0, 76.0), (100.5, -4.0, 140.0, 33.3)]
    parts = [(surface, definition.place(box)) for box in boxes]

    crops = inputs(parts, definition)

    for crop, part in zip(crops, parts, strict=True):
        assert_equal_levels(crop, on_the_cpu(*part, definition))


@pytest.mark.parametrize("bits", [10, 12, 16])
def test_samples_of_16_bits_are_levels_rounded_to_8(bits: int) -> None:
    definition = Preprocessing(NETWORK, scale=(1.0,))
    narrow = noise(PixelFormat.NV12, (131, 77))
    random = np.random.default_rng(2)
    planes = []
    for plane in narrow.planes:
        wide = padded(plane.shape, np.uint16).view(np.uint16)
        wide[...] = random.integers(0, 1 << bits, plane.shape) << (16 - bits)
        plane[...] = np.minimum((wide.astype(int) + 128) >> 8, 255)
        planes.append(HostArray(wide))
    placement = definition.place_fractions((0.0, 0.0, 1.0, 1.0), narrow)

    prepared = inputs([(SurfaceView(PixelFormat.NV12, (131, 77), tuple(planes)), placement)], definition)

    assert np.array_equal(prepared, inputs([(narrow, placement)], definition))


def test_a_view_of_other_planes_than_the_formats_is_refused() -> None:
    whole = view(noise(PixelFormat.NV12, (64, 48)))

    with pytest.raises(ValueError, match=r"nv12 of \(62, 48\) needs planes of"):
        dataclasses.replace(whole, size_wh=(62, 48))


def test_rows_of_chroma_that_no_gpu_can_read_in_pairs_are_refused() -> None:
    whole = view(noise(PixelFormat.NV12, (64, 48)))
    odd = np.ndarray((24, 32, 2), np.uint8, np.zeros(24 * 65, np.uint8), strides=(65, 2, 1))

    with pytest.raises(ValueError, match="must begin at multiples of 2 bytes"):
        dataclasses.replace(whole, planes=(whole.planes[0], HostArray(odd)))
