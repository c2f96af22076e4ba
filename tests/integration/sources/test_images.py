from __future__ import annotations

import struct
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from sightline.devices import Device
from sightline.errors import StreamUnreadable
from sightline.graph import Site
from sightline.graph.messages import Message
from sightline.media import PixelFormat, Stream
from sightline.media.convert import rgb_from_surface
from sightline.testing import run_source
from sightline_plugins.sources.images.element import Images


def image(value: int, size_wh: tuple[int, int] = (16, 8)) -> npt.NDArray[np.uint8]:
    return np.full((size_wh[1], size_wh[0], 3), value, np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in (1, 2, 10, 9):
        cv2.imwrite(str(tmp_path / f"frame{number}.png"), image(number))
    (tmp_path / "notes.txt").write_text("no image")
    return tmp_path


def values(uri: str) -> list[int]:
    return [int(frame.surface.planes[0].ravel()[0]) for frame in run_source(Images(uri=uri))]


@pytest.mark.parametrize("pattern", ["", "/*.png", "/frame*", "/frame%d.png"])
def test_a_folder_or_glob_is_read_in_natural_order(folder: Path, pattern: str) -> None:
    assert values(f"{folder}{pattern}") == [1, 2, 9, 10]


def test_a_single_image_is_a_stream_of_one_frame(folder: Path) -> None:
    assert values(f"{folder}/frame9.png") == [9]


def test_times_follow_fps_and_go_on_when_it_loops(folder: Path) -> None:
    frames = run_source(Images(uri=str(folder), fps=10, loop=2))
    assert [frame.pts_ns // 1_000_000 for frame in frames] == list(range(0, 800, 100))
    assert [frame.index for frame in frames] == list(range(8))


def test_an_image_that_can_not_be_read_is_left_out_counted_and_reported(folder: Path) -> None:
    (folder / "frame2.png").write_bytes(b"no image at all")
    messages: list[Message] = []
    reader = Images(uri=str(folder)).build(Site(device=Device(), post=messages.append), stream=Stream("cam"))
    frames = list(reader.frames())
    assert [frame.pts_ns // 1_000_000 for frame in frames] == [0, 80, 120]
    assert [frame.index for frame in frames] == [0, 1, 2]
    assert reader.damaged_packets == 1
    assert "frame2.png" in messages[0].text


def test_a_folder_without_images_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StreamUnreadable, match="no images"):
        run_source(Images(uri=str(tmp_path)))


def test_a_folder_of_unreadable_images_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8\xff")
    with pytest.raises(StreamUnreadable, match="none of its images"):
        run_source(Images(uri=str(tmp_path), loop=True))


def test_images_may_have_different_sizes(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "1.png"), image(0, (16, 8)))
    cv2.imwrite(str(tmp_path / "2.png"), image(0, (5, 33)))
    assert [frame.size_wh for frame in run_source(Images(uri=str(tmp_path)))] == [(16, 8), (5, 33)]


@pytest.mark.parametrize(
    "sampling",
    [
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422,
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    ],
)
def test_jpeg_has_the_very_pixels_that_opencv_reads(tmp_path: Path, sampling: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (33, 47, 3), np.uint8)
    path = tmp_path / "a.jpg"
    cv2.imwrite(str(path), pixels, [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, sampling])

    surface = run_source(Images(uri=str(path)))[0].surface

    assert surface.format is PixelFormat.BGR24
    assert np.array_equal(surface.planes[0], np.asarray(cv2.imread(str(path))))


def test_a_jpeg_with_too_many_pixels_is_left_out_before_it_is_decoded(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "large.jpg"), image(9, (64, 64)))
    cv2.imwrite(str(tmp_path / "small.jpg"), image(9, (8, 8)))

    assert [frame.size_wh for frame in run_source(Images(uri=str(tmp_path), max_pixels=1000))] == [(8, 8)]


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tiff", ".ppm", ".webp"])
def test_colours_are_those_that_opencv_reads(tmp_path: Path, suffix: str) -> None:
    rows, columns = np.mgrid[0:40, 0:60]
    pixels = np.stack([rows * 6, columns * 4, rows + columns], axis=-1).astype(np.uint8)
    path = tmp_path / f"a{suffix}"
    cv2.imwrite(str(path), pixels)
    difference = np.abs(
        rgb_from_surface(run_source(Images(uri=str(path)))[0].surface)[..., ::-1].astype(int) - cv2.imread(str(path))
    )
    # WebP is lossy and stores 4:2:0, which the two enlarge differently.
    assert difference.mean() <= (2 if suffix == ".webp" else 0)


def test_alpha_and_sixteen_bits_are_read_as_opencv_reads_them(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    cv2.imwrite(str(tmp_path / "1.png"), random.integers(0, 256, (20, 30, 4), np.uint8))
    cv2.imwrite(str(tmp_path / "2.png"), random.integers(0, 65536, (20, 30, 3), np.uint16))
    for frame, name in zip(run_source(Images(uri=str(tmp_path))), ("1.png", "2.png"), strict=True):
        expected = cv2.imread(str(tmp_path / name))
        assert np.abs(rgb_from_surface(frame.surface)[..., ::-1].astype(int) - expected).max() <= 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_as_opencv_does(tmp_path: Path, orientation: int) -> None:
    pixels = np.zeros((32, 48, 3), np.uint8)
    pixels[:16, :16] = 255
    pixels[:16, 32:] = 90
    encoded = cv2.imencode(".jpg", pixels)[1].tobytes()
    tiff = b"II*\x00" + struct.pack("<IH", 8, 1) + struct.pack("<HHIHHI", 0x0112, 3, 1, orientation, 0, 0)
    segment = b"Exif\x00\x00" + tiff
    path = tmp_path / "turned.jpg"
    path.write_bytes(encoded[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + encoded[2:])
    ours = rgb_from_surface(run_source(Images(uri=str(path)))[0].surface)
    expected = np.asarray(cv2.imread(str(path)))
    assert ours.shape == expected.shape
    assert np.array_equal(ours[..., ::-1], expected)
