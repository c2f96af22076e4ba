"""Whole images between formats: as `sightline.media.convert` has them."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pytest

from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline.media.convert import rgb_from_surface, surface_from_rgb
from sightline.testing.gpu import HostKernels
from sightline_plugins.kernels.convert import SOURCE, convert
from tests.parity.kernels.images import noise, view, wide_view

COLORS = [PixelFormat.RGB24, PixelFormat.BGR24]
PLANES = [one for one in PixelFormat if one.is_yuv]
SIZES = [(64, 48), (131, 77), (2, 1)]


def converted(surface: Surface, target_format: PixelFormat) -> Surface:
    """The image in another format, made by the kernel."""
    target = dataclasses.replace(
        noise(target_format, surface.size_wh, seed=9), matrix=surface.matrix, range=surface.range
    )
    convert(HostKernels(SOURCE), view(surface), target=view(target))
    return target


def assert_rounded_alike(ours: npt.NDArray[np.uint8], theirs: npt.NDArray[np.uint8]) -> None:
    error = np.abs(ours.astype(int) - theirs)
    assert error.max() <= 1
    assert np.mean(error > 0) < 0.001


@pytest.mark.parametrize("color_range", list(ColorRange))
@pytest.mark.parametrize("matrix", list(ColorMatrix))
def test_every_format_to_colors_and_back_is_as_on_the_host(matrix: ColorMatrix, color_range: ColorRange) -> None:
    for size_wh in SIZES:
        for pixel_format in PLANES:
            surface = noise(pixel_format, size_wh, matrix=matrix, color_range=color_range)
            rgb = rgb_from_surface(surface)

            there = converted(surface, PixelFormat.RGB24)
            back = converted(Surface(PixelFormat.RGB24, size_wh, (rgb,), matrix, color_range), pixel_format)

            assert_rounded_alike(there.planes[0], rgb)
            expected = surface_from_rgb(rgb, pixel_format=pixel_format, matrix=matrix, color_range=color_range)
            for plane, other in zip(back.planes, expected.planes, strict=True):
                assert_rounded_alike(plane, other)


@pytest.mark.parametrize("target", COLORS)
@pytest.mark.parametrize("source", COLORS)
def test_orders_of_colors(source: PixelFormat, target: PixelFormat) -> None:
    surface = noise(source, (131, 77))

    pixels = converted(surface, target).planes[0]

    assert np.array_equal(pixels, surface.planes[0] if source is target else surface.planes[0][..., ::-1])


@pytest.mark.parametrize("size_wh", SIZES)
def test_nv12_and_i420_hold_the_same_samples(size_wh: tuple[int, int]) -> None:
    surface = noise(PixelFormat.NV12, size_wh)

    planar = converted(surface, PixelFormat.I420)
    again = converted(planar, PixelFormat.NV12)

    assert np.array_equal(planar.planes[0], surface.planes[0])
    assert np.array_equal(np.stack(planar.planes[1:], axis=-1), surface.planes[1])
    assert all(np.array_equal(one, other) for one, other in zip(again.planes, surface.planes, strict=True))


@pytest.mark.parametrize("bits", [10, 12])
def test_samples_of_16_bits_become_levels_of_8(bits: int) -> None:
    surface = noise(PixelFormat.NV12, (131, 77))
    target = noise(PixelFormat.NV12, (131, 77), seed=9)

    convert(HostKernels(SOURCE), wide_view(surface, bits=bits), target=view(target))

    assert all(np.array_equal(one, other) for one, other in zip(target.planes, surface.planes, strict=True))


def test_colors_of_wide_samples_are_those_of_their_levels() -> None:
    surface = noise(PixelFormat.NV12, (131, 77))
    target = noise(PixelFormat.RGB24, (131, 77), seed=9)

    convert(HostKernels(SOURCE), wide_view(surface, bits=10), target=view(target))

    assert_rounded_alike(target.planes[0], rgb_from_surface(surface))


def test_levels_become_samples_of_16_bits() -> None:
    surface = noise(PixelFormat.NV12, (131, 77))
    target = wide_view(noise(PixelFormat.NV12, (131, 77), seed=9), bits=10)

    convert(HostKernels(SOURCE), view(surface), target=target)

    again = noise(PixelFormat.NV12, (131, 77), seed=9)
    convert(HostKernels(SOURCE), target, target=view(again))
    assert all(np.array_equal(one, other) for one, other in zip(again.planes, surface.planes, strict=True))


@pytest.mark.parametrize("target", [PixelFormat.I422, PixelFormat.I444, PixelFormat.GRAY8])
def test_other_numbers_of_chroma_samples_are_refused(target: PixelFormat) -> None:
    with pytest.raises(ValueError, match="have different chroma samples: convert to rgb24 first"):
        converted(noise(PixelFormat.NV12, (64, 48)), target)


def test_samples_are_not_converted_to_another_range() -> None:
    source = noise(PixelFormat.NV12, (64, 48))
    target = noise(PixelFormat.I420, (64, 48), color_range=ColorRange.FULL)

    with pytest.raises(ValueError, match="matrix and range must be the same"):
        convert(HostKernels(SOURCE), view(source), target=view(target))


def test_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"an image of \(64, 48\) does not fit into one of \(48, 64\)"):
        convert(
            HostKernels(SOURCE), view(noise(PixelFormat.NV12, (64, 48))), target=view(noise(PixelFormat.NV12, (48, 64)))
        )
