from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from av.video.frame import VideoFrame

from sightline.media import ColorMatrix, ColorRange, PixelFormat
from sightline.media.convert import rgb_from_surface
from sightline.testing import run_source
from sightline_plugins import Media
from sightline_plugins.decode.orientation import orientation_from_degrees
from sightline_plugins.decode.surfaces import FrameSurfaces

WIDTH, HEIGHT = 66, 50


def smooth_rgb() -> npt.NDArray[np.uint8]:
    """An image whose colours change slowly, so that coarse chroma loses little."""
    x, y = np.meshgrid(np.linspace(0, 1, WIDTH), np.linspace(0, 1, HEIGHT))
    return (np.stack([x, y, (x + y) / 2], axis=-1) * 160 + 40).astype(np.uint8)


def frame_of(pixel_format: str) -> VideoFrame:
    return VideoFrame.from_ndarray(smooth_rgb(), "rgb24").reformat(format=pixel_format)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("yuv420p", PixelFormat.I420),
        ("nv12", PixelFormat.NV12),
        ("yuv422p", PixelFormat.I422),
        ("yuv444p", PixelFormat.I444),
        ("gray", PixelFormat.GRAY8),
        ("rgb24", PixelFormat.RGB24),
        ("bgr24", PixelFormat.BGR24),
    ],
)
def test_eight_bit_formats_are_viewed_where_they_lie(name: str, expected: PixelFormat) -> None:
    frame = frame_of(name)
    surface = FrameSurfaces().surface(frame)
    assert surface.format is expected
    assert [plane.ctypes.data for plane in surface.planes] == [plane.buffer_ptr for plane in frame.planes]


def test_views_of_a_decoder_s_planes_can_not_be_written_to() -> None:
    surface = FrameSurfaces().surface(frame_of("yuv420p"))
    with pytest.raises(ValueError, match="read-only"):
        surface.planes[0][0, 0] = 1


def test_planes_stay_valid_when_the_frame_is_let_go() -> None:
    plane = FrameSurfaces().surface(frame_of("yuv420p")).planes[0]
    assert np.array_equal(plane, FrameSurfaces().surface(frame_of("yuv420p")).planes[0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("yuv420p10le", PixelFormat.I420),
        ("yuv420p12le", PixelFormat.I420),
        ("p010le", PixelFormat.I420),
        ("yuva420p", PixelFormat.I420),
        ("nv21", PixelFormat.I420),
        ("yuv410p", PixelFormat.I420),
        ("yuv422p10le", PixelFormat.I422),
        ("yuyv422", PixelFormat.I422),
        ("yuv411p", PixelFormat.I422),
        ("yuv440p", PixelFormat.I444),
        ("yuvj440p", PixelFormat.I444),
        ("yuv444p12le", PixelFormat.I444),
        ("yuva444p10le", PixelFormat.I444),
        ("gbrp", PixelFormat.RGB24),
        ("gbrp10le", PixelFormat.RGB24),
        ("rgba", PixelFormat.RGB24),
        ("rgb48le", PixelFormat.RGB24),
    ],
)
def test_other_formats_become_the_nearest_of_eight_bits_with_their_colours(name: str, expected: PixelFormat) -> None:
    surface = FrameSurfaces().surface(frame_of(name))
    assert surface.format is expected
    difference = np.abs(rgb_from_surface(surface).astype(int) - smooth_rgb())
    assert difference.mean() < 2


def test_a_sixteen_bit_gray_image_becomes_eight_bit_gray() -> None:
    samples = np.linspace(0, 65535, WIDTH * HEIGHT).astype(np.uint16).reshape(HEIGHT, WIDTH)
    surface = FrameSurfaces().surface(VideoFrame.from_ndarray(samples, "gray16le"))
    assert surface.format is PixelFormat.GRAY8
    assert np.abs(surface.planes[0].astype(int) - samples // 257).max() <= 1


@pytest.mark.parametrize(
    ("number", "matrix"),
    [
        (1, ColorMatrix.BT709),
        (2, ColorMatrix.BT601),
        (5, ColorMatrix.BT601),
        (6, ColorMatrix.BT601),
        (9, ColorMatrix.BT2020),
    ],
)
def test_the_matrix_is_the_frame_s_own_and_bt601_when_it_has_none(number: int, matrix: ColorMatrix) -> None:
    frame = VideoFrame(1280, 720, "yuv420p")
    frame.colorspace = number
    assert FrameSurfaces().surface(frame).matrix is matrix


@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        ("yuv420p", 0, ColorRange.LIMITED),
        ("yuv420p", 1, ColorRange.LIMITED),
        ("yuv420p", 2, ColorRange.FULL),
        ("yuvj420p", 0, ColorRange.FULL),
        ("yuv420p10le", 2, ColorRange.FULL),
    ],
)
def test_the_range_is_the_frame_s_own_and_limited_when_it_has_none(
    name: str, number: int, expected: ColorRange
) -> None:
    frame = VideoFrame(64, 48, name)
    frame.color_range = number
    assert FrameSurfaces().surface(frame).range is expected


def test_conversion_to_eight_bits_keeps_the_samples() -> None:
    luma = np.tile(np.arange(64, 940, dtype=np.uint16), (4, 1))[:, :864]
    frame = VideoFrame(864, 4, "yuv420p10le")
    for plane, samples in zip(frame.planes, (luma, np.full((2, 432), 512), np.full((2, 432), 512)), strict=True):
        rows = np.zeros((samples.shape[0], plane.line_size // 2), np.uint16)
        rows[:, : samples.shape[1]] = samples
        plane.update(rows.tobytes())
    surface = FrameSurfaces().surface(frame)
    assert np.abs(surface.planes[0].astype(float) - luma / 4).max() <= 1


def test_a_quarter_turn_of_422_keeps_all_its_chroma() -> None:
    surface = FrameSurfaces(orientation=orientation_from_degrees(90)).surface(frame_of("yuv422p"))
    assert (surface.format, surface.size_wh) == (PixelFormat.I444, (HEIGHT, WIDTH))
    assert np.abs(rgb_from_surface(surface).astype(int) - np.rot90(smooth_rgb(), -1)).mean() < 2


def test_a_change_of_size_is_followed() -> None:
    surfaces = FrameSurfaces()
    sizes = [surfaces.surface(VideoFrame(width, 48, "yuv420p")).size_wh for width in (64, 32, 64)]
    assert sizes == [(64, 48), (32, 48), (64, 48)]


def test_frames_are_let_go_of_without_the_garbage_collector(repository: Path) -> None:
    source = Media(uri=str(repository / "sample_videos" / "street.mp4"), duration=6_000_000_000)
    gc.collect()
    gc.disable()
    try:
        frames = len(run_source(source))
        alive = sum(isinstance(thing, VideoFrame) and thing.width > 16 for thing in gc.get_objects())
    finally:
        gc.enable()

    assert frames > 100
    assert alive == 0  # but small copies
