"""Whole planes in one call of C, against the same steps by OpenCV and swscale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.definition import WHOLE, Convert, Image, Preprocessing, Resize
from sightline_plugins.preprocess.fused import FusedPlan, Job, fused_plan
from tests.fakes import run_sanitized
from tests.fakes.native_build import build_sanitized, sanitized_arguments
from tests.unit.preprocess.images import WITH_CHROMA, by_libraries, noise
from tests.unit.preprocess.random_images import check

SIZES = [(640, 360), (768, 432), (1280, 720), (1920, 1080), (705, 575)]
RESIZES: list[Resize] = ["bilinear", "area", "nearest", "antialias"]
CONVERTS: list[Convert] = ["network", "image"]


def whole(surface: Surface, definition: Preprocessing) -> Image:
    """The second image of its kind: the first is no reason to make a plan."""
    preprocessor = HostPreprocessor(definition)
    preprocessor.prepare(surface)
    return preprocessor.prepare(surface).image


def expected(surface: Surface, definition: Preprocessing) -> Image:
    image = by_libraries(surface, definition.place_fractions(WHOLE, surface), definition)
    assert image is not None
    return image


def plan_for(pixel_format: PixelFormat, size_wh: tuple[int, int], definition: Preprocessing) -> FusedPlan | None:
    assert definition.size_wh is not None
    job = Job(
        format=pixel_format,
        size_wh=size_wh,
        matrix=ColorMatrix.BT601,
        range=ColorRange.LIMITED,
        region_xyxy=(0, 0, *size_wh),
        resized_wh=definition.size_wh,
        window_xywh=(0, 0, *definition.size_wh),
        place_xy=(0, 0),
        network_wh=definition.size_wh,
    )
    return fused_plan(job, definition)


@pytest.mark.parametrize("convert", CONVERTS)
@pytest.mark.parametrize("resize", RESIZES)
@pytest.mark.parametrize("size_wh", SIZES)
def test_frames_of_usual_sizes_are_equal_to_the_bit(size_wh: tuple[int, int], resize: Resize, convert: Convert) -> None:
    definition = Preprocessing((352, 352), resize=resize, convert=convert, color="bgr")
    surface = noise(PixelFormat.I420, size_wh, gap_bytes=32)

    image = whole(surface, definition)

    np.testing.assert_array_equal(image, expected(surface, definition))


@pytest.mark.parametrize("convert", CONVERTS)
@pytest.mark.parametrize("color_range", list(ColorRange))
@pytest.mark.parametrize("matrix", list(ColorMatrix))
def test_every_matrix_and_range_is_equal_to_the_bit(
    matrix: ColorMatrix, color_range: ColorRange, convert: Convert
) -> None:
    definition = Preprocessing((160, 96), fit="stretch", convert=convert)
    for pixel_format in WITH_CHROMA:
        surface = noise(pixel_format, (321, 181), matrix=matrix, color_range=color_range)

        image = whole(surface, definition)

        np.testing.assert_array_equal(image, expected(surface, definition))


@pytest.mark.parametrize("first", range(0, 240, 60))
def test_random_images_are_equal_to_the_bit(first: int) -> None:
    compared = [check(seed) for seed in range(first, first + 60)]

    assert sum(compared) > 30


@pytest.mark.parametrize("size_wh", [(1, 1), (2, 9), (15, 40), (29, 2), (31, 31), (33, 3)])
@pytest.mark.parametrize("pixel_format", WITH_CHROMA)
def test_planes_narrower_than_a_vector_are_equal_to_the_bit(
    pixel_format: PixelFormat, size_wh: tuple[int, int]
) -> None:
    for convert in CONVERTS:
        definition = Preprocessing((20, 12), fit="stretch", convert=convert)
        surface = noise(pixel_format, size_wh)

        image = whole(surface, definition)

        np.testing.assert_array_equal(image, expected(surface, definition))


@pytest.mark.parametrize("size_wh", [(64, 48), (2, 48), (1, 1)])
def test_planes_whose_samples_do_not_lie_side_by_side_are_read_right(size_wh: tuple[int, int]) -> None:
    dense = noise(PixelFormat.NV12, size_wh)
    apart = Surface(dense.format, dense.size_wh, tuple(np.asfortranarray(plane) for plane in dense.planes))
    definition = Preprocessing((32, 24))

    image = whole(apart, definition)

    np.testing.assert_array_equal(image, whole(dense, definition))


def test_planes_that_begin_with_their_last_row_are_read_right() -> None:
    upright = noise(PixelFormat.I420, (64, 48))
    flipped = Surface(upright.format, upright.size_wh, tuple(plane[::-1].copy()[::-1] for plane in upright.planes))
    definition = Preprocessing((32, 24), convert="image")

    image = whole(flipped, definition)

    np.testing.assert_array_equal(image, whole(upright, definition))


def test_images_of_several_sizes_take_turns() -> None:
    preprocessor = HostPreprocessor(Preprocessing((96, 96), convert="image", resize="area"))
    surfaces = [noise(kind, size_wh) for kind in WITH_CHROMA for size_wh in ((64, 48), (640, 360), (300, 301))]

    images = [preprocessor.prepare(surface).image for _ in range(2) for surface in surfaces]

    for image, surface in zip(images, 2 * surfaces, strict=True):
        np.testing.assert_array_equal(image, expected(surface, preprocessor.definition))


@pytest.mark.parametrize("resize", RESIZES)
@pytest.mark.parametrize("convert", CONVERTS)
@pytest.mark.parametrize("pixel_format", [PixelFormat.I420, PixelFormat.NV12, PixelFormat.I422])
def test_decoded_frames_have_a_plan_for_every_filter(
    pixel_format: PixelFormat, convert: Convert, resize: Resize
) -> None:
    definition = Preprocessing((64, 64), convert=convert, resize=resize)

    plan = plan_for(pixel_format, (768, 432), definition)

    assert plan is not None


def test_images_that_opencv_resizes_have_no_plan() -> None:
    definition = Preprocessing((64, 64), convert="image", resize="area")

    assert plan_for(PixelFormat.I444, (768, 432), definition) is None
    assert plan_for(PixelFormat.GRAY8, (768, 432), definition) is None
    assert plan_for(PixelFormat.RGB24, (768, 432), definition) is None
    assert plan_for(PixelFormat.I420, (768, 432), Preprocessing((64, 64), color="gray")) is None
    assert plan_for(PixelFormat.I420, (30, 40), Preprocessing((12, 9), resize="area")) is None


@pytest.fixture(scope="module", params=["vectors", "plain"])
def sanitized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    built: Path = request.getfixturevalue("sanitized_library")
    if request.param == "vectors":
        return built
    library = tmp_path_factory.mktemp("plain") / built.name
    build_sanitized(library, flags=["-DPLAIN"])
    return library


def test_sanitizers_find_nothing_and_any_processor_computes_the_same(sanitized: Path, repository: Path) -> None:
    arguments = sanitized_arguments(sanitized, "tests.unit.preprocess.random_images", "60")

    done = run_sanitized(arguments, cwd=repository)

    assert done.returncode == 0, done.stderr


def test_sanitizers_find_a_read_beyond_a_plane(sanitized: Path, repository: Path) -> None:
    arguments = sanitized_arguments(sanitized, "tests.unit.preprocess.random_images", "0", "--wrong")

    done = run_sanitized(arguments, cwd=repository)

    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
    assert "preprocess/native.c" in done.stderr


def test_regions_that_come_once_get_no_plan() -> None:
    """Crops of objects are a region after another; a plan takes as long as hundreds of images."""
    preprocessor = HostPreprocessor(Preprocessing((32, 32), fit="stretch"))
    surface = noise(PixelFormat.I420, (640, 360))

    for left in range(0, 400, 2):
        preprocessor.prepare(surface, preprocessor.definition.place((left, 0, left + 100, 100)))

    assert not preprocessor._plans
    preprocessor.prepare(surface)
    preprocessor.prepare(surface)
    assert len(preprocessor._plans) == 1
