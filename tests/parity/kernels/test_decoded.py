"""Decoded images become, on the device, what the CPU decoder's images become: to the level."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from av.video.frame import VideoFrame

from sightline.media import PixelFormat, Surface
from sightline.media.surface import Plane
from sightline_plugins.cuda.decoded import SOURCE, Turn, place_decoded
from sightline_plugins.decode.orientation import Orientation
from sightline_plugins.decode.surfaces import FrameSurfaces
from tests.fakes import HostKernels, run_sanitized
from tests.parity.kernels.images import padded
from tests.unit.cuda.host_arrays import HostArray

LIMITED, FULL = 1, 2
ORIENTATIONS = [Orientation(*bits) for bits in product((False, True), repeat=3)]
SIZES = [(64, 48), (63, 31), (13, 9), (2, 1)]
FORMATS = {"yuv420p": PixelFormat.NV12, "yuv444p": PixelFormat.I444, "gray": PixelFormat.GRAY8}


def noise(name: str, size_wh: tuple[int, int], *, bits: int, color_range: int = LIMITED) -> VideoFrame:
    """An image of noise as FFmpeg's decoders give it."""
    frame = VideoFrame(*size_wh, name if bits == 8 else f"{name}{bits}le")
    frame.color_range = color_range
    random = np.random.default_rng(1)
    for samples in samples_of(frame, bits=bits):
        samples[...] = random.integers(0, 1 << bits, samples.shape)
    return frame


def samples_of(frame: VideoFrame, *, bits: int) -> list[npt.NDArray[np.generic]]:
    dtype = np.dtype(np.uint8 if bits == 8 else "<u2")
    return [
        np.ndarray((plane.height, plane.width), dtype, plane, 0, (plane.line_size, dtype.itemsize))  # type: ignore[arg-type]
        for plane in frame.planes
    ]


def as_nvdec_gives_it(frame: VideoFrame, *, bits: int) -> list[HostArray]:
    """The planes with the value in the upper bits, chroma of 4:2:0 interleaved."""
    planes = samples_of(frame, bits=bits)
    if frame.format.name.startswith("yuv420p"):
        planes = [planes[0], np.stack(planes[1:], axis=-1)]
    given = []
    for plane in planes:
        copy = padded(plane.shape, plane.dtype).view(plane.dtype)
        copy[...] = plane if bits == 8 else np.left_shift(plane, 16 - bits)
        given.append(HostArray(copy))
    return given


def placed(frame: VideoFrame, name: str, *, bits: int, orientation: Orientation, color_range: int) -> list[Plane]:
    width, height = frame.width, frame.height
    size_wh = (height, width) if orientation.transposed else (width, height)
    targets = [padded(shape).view(np.uint8) for shape in FORMATS[name].plane_shapes(size_wh)]
    place_decoded(
        HostKernels(SOURCE),
        as_nvdec_gives_it(frame, bits=bits),
        targets=[HostArray(target) for target in targets],
        bits=bits,
        turn=Turn(orientation.transposed | orientation.flip_x << 1 | orientation.flip_y << 2),
        is_luma_scaled=color_range == FULL or name == "gray",
    )
    return targets


def interleaved(surface: Surface) -> list[npt.NDArray[np.uint8]]:
    """The planes of the CPU's surface in the order in which the device has them."""
    if surface.format is PixelFormat.I420:
        return [surface.planes[0], np.stack(surface.planes[1:], axis=-1)]
    return list(surface.planes)


def assert_as_on_the_cpu(name: str, size_wh: tuple[int, int], bits: int, orientation: Orientation, full: int) -> None:
    frame = noise(name, size_wh, bits=bits, color_range=full)

    planes = placed(frame, name, bits=bits, orientation=orientation, color_range=full)

    expected = interleaved(FrameSurfaces(orientation=orientation).surface(frame))
    assert len(planes) == len(expected)
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(planes, expected, strict=True))


@pytest.mark.parametrize("bits", [8, 10, 12])
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("color_range", [LIMITED, FULL])
def test_samples_of_every_depth_become_the_levels_of_the_cpu(name: str, bits: int, color_range: int) -> None:
    for size_wh in SIZES:
        assert_as_on_the_cpu(name, size_wh, bits, Orientation(), color_range)


@pytest.mark.parametrize("bits", [8, 10])
@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_images_are_turned_as_on_the_cpu(orientation: Orientation, bits: int) -> None:
    for name, size_wh in product(FORMATS, SIZES[:3]):
        assert_as_on_the_cpu(name, size_wh, bits, orientation, LIMITED)


def test_planes_that_do_not_fit_are_refused() -> None:
    narrow, wide = HostArray(np.zeros((4, 4), np.uint8)), HostArray(np.zeros((4, 4), np.uint16))

    with pytest.raises(ValueError, match=r"made of one of uint16, \(4, 4\), not of uint8, \(4, 4\)"):
        place_decoded(HostKernels(SOURCE), [narrow], targets=[narrow], bits=10)
    with pytest.raises(ValueError, match=r"made of one of uint8, \(4, 4\), not of uint16, \(4, 4\)"):
        place_decoded(HostKernels(SOURCE), [wide], targets=[narrow], bits=8)
    with pytest.raises(ValueError, match="samples have 8, 10, 12 bits, not 9"):
        place_decoded(HostKernels(SOURCE), [wide], targets=[narrow], bits=9)


def test_under_the_sanitizers_only_the_planes_are_touched(repository: Path) -> None:
    done = run_sanitized(["-m", "tests.parity.kernels.sanitized_decoded"], cwd=repository)

    assert done.returncode == 0, done.stderr


def test_the_sanitizers_find_an_image_that_is_taken_to_be_too_wide(repository: Path) -> None:
    done = run_sanitized(["-m", "tests.parity.kernels.sanitized_decoded", "--wrong"], cwd=repository)

    assert done.returncode != 0
    assert "decoded.cu" in done.stderr
