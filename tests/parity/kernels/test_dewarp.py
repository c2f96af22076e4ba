from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from sightline.devices.gpu.kernel_source import KernelSource
from sightline.media import PixelFormat, Surface
from sightline.testing.gpu import HostKernels
from sightline_plugins.kernels import dewarp
from tests.parity.kernels.images import noise, view
from tests.unit.kernels.host_arrays import dense

Floats = npt.NDArray[np.float32]
BORDER: dict[PixelFormat, tuple[int, ...]] = dict.fromkeys(PixelFormat, (16, 120, 130))
BORDER[PixelFormat.GRAY8] = (16,)


def positions(size_wh: tuple[int, int], *, of: tuple[int, int], seed: int = 1) -> Floats:
    """A map that bends, and some of whose positions are anywhere, far outside or no numbers."""
    random = np.random.default_rng(seed)
    x, y = np.meshgrid(np.linspace(-0.1, 1.1, size_wh[0]) * of[0], np.linspace(-0.1, 1.1, size_wh[1]) * of[1])
    xy = np.stack([x + 3 * np.sin(y / 7), y + 2 * np.cos(x / 9)], axis=-1).astype(np.float32)
    anywhere = random.random(xy.shape[:2]) < 0.3
    xy[anywhere] = random.uniform(-4, max(of) + 4, (np.count_nonzero(anywhere), 2))
    xy[0, 0], xy[-1, -1] = (1e30, -1e30), (-3e9, 0)
    return xy


def dewarped(
    source: Surface, xy: Floats, *, size_wh: tuple[int, int], code: KernelSource | Path = dewarp.SOURCE
) -> Surface:
    target = noise(source.format, size_wh, seed=9)
    border = BORDER[source.format]
    dewarp.dewarp(HostKernels(code), view(source), target=view(target), xy=dense(xy), border=border)
    return target


def remapped(plane: npt.NDArray[np.uint8], xy: Floats, *, border: int) -> npt.NDArray[np.uint8]:
    own = np.ascontiguousarray(plane)
    kind, x, y = cv2.INTER_LINEAR, np.ascontiguousarray(xy[..., 0]), np.ascontiguousarray(xy[..., 1])
    seen: npt.NDArray[np.uint8] = cv2.remap(own, x, y, kind, borderMode=cv2.BORDER_CONSTANT, borderValue=border)
    return seen


def of_chroma(xy: Floats, shift: tuple[int, int]) -> Floats:
    """The map of subsampled planes: the mean of the pixels of a sample, in samples."""
    across, down = 1 << shift[0], 1 << shift[1]
    rows, columns = -xy.shape[0] % down, -xy.shape[1] % across
    whole = np.pad(xy, ((0, rows), (0, columns), (0, 0)), mode="edge")
    blocks = whole.reshape(whole.shape[0] // down, down, whole.shape[1] // across, across, 2)
    sums = np.zeros((len(blocks), blocks.shape[2], 2), np.float32)
    for j in range(down):
        for i in range(across):
            sums = sums + blocks[:, j, :, i]
    size = np.array([across, down], np.float32)
    middle: Floats = (sums / np.float32(across * down) + np.float32(0.5)) / size - np.float32(0.5)
    return middle


@pytest.mark.parametrize("pixel_format", BORDER)
def test_every_plane_is_as_opencv_remaps_it(pixel_format: PixelFormat) -> None:
    for source_wh, size_wh in [((64, 48), (64, 48)), ((71, 43), (33, 57)), ((1, 1), (5, 3))]:
        source = noise(pixel_format, source_wh)
        xy = positions(size_wh, of=source_wh)

        target = dewarped(source, xy, size_wh=size_wh)

        borders = list(BORDER[pixel_format])
        for index, (before, after) in enumerate(zip(source.planes, target.planes, strict=True)):
            shift = pixel_format.chroma_shift if index else (0, 0)
            maps = xy if shift == (0, 0) else of_chroma(xy, shift)
            channels = before.shape[2] if before.ndim == 3 else 1
            for number in range(channels):
                one, other = (plane if plane.ndim == 2 else plane[..., number] for plane in (before, after))
                np.testing.assert_array_equal(other, remapped(one, maps, border=borders.pop(0)))


def test_positions_that_are_no_numbers_show_the_border() -> None:
    xy = np.full((6, 8, 2), np.nan, np.float32)

    target = dewarped(noise(PixelFormat.NV12, (16, 16)), xy, size_wh=(8, 6))

    assert [np.unique(plane.reshape(-1, plane[0, 0].size), axis=0).tolist() for plane in target.planes] == [
        [[16]],
        [[120, 130]],
    ]


def test_a_map_of_every_pixel_to_itself_changes_nothing() -> None:
    source = noise(PixelFormat.NV12, (66, 34))
    xy = np.stack(np.meshgrid(np.arange(66), np.arange(34)), axis=-1).astype(np.float32)

    target = dewarped(source, xy, size_wh=(66, 34))

    for before, after in zip(source.planes, target.planes, strict=True):
        np.testing.assert_array_equal(after, before)


def test_a_map_of_another_size_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"the map for 8x6 is float32 \(height, width, 2\), not float32 of \(8, 8, 2\)"
    ):
        dewarped(noise(PixelFormat.NV12, (16, 16)), np.zeros((8, 8, 2), np.float32), size_wh=(8, 6))


def test_a_border_of_other_samples_than_the_format_has_is_refused() -> None:
    source = view(noise(PixelFormat.NV12, (8, 8)))
    xy = dense(np.zeros((8, 8, 2), np.float32))

    with pytest.raises(ValueError, match="nv12 has 3 samples around it, not 1"):
        dewarp.dewarp(HostKernels(dewarp.SOURCE), source, target=source, xy=xy, border=(16,))


def test_a_shifted_index_is_caught() -> None:
    source = noise(PixelFormat.NV12, (64, 48))
    xy = positions((64, 48), of=(64, 48))
    broken = KernelSource.read(dewarp.SOURCE).replaced("x * sheet.across + i", "x * sheet.across + i + 1")

    target = dewarped(source, xy, size_wh=(64, 48), code=broken)

    assert (target.planes[1] != dewarped(source, xy, size_wh=(64, 48)).planes[1]).any()
