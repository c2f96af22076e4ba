"""Images of noise in memory with nothing behind it, and kernels of the host build that work on them."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from sightline.devices.cuda.driver import Kernels, KernelSource
from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline.media.surface import Plane
from sightline_plugins.cuda.records import SurfaceView
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.cuda import SOURCE, TensorForm, pack, preprocess
from sightline_plugins.preprocess.definition import Preprocessing
from sightline_plugins.preprocess.placement import Placement
from tests.fakes import HostKernels
from tests.unit.cuda.host_arrays import HostArray, dense, unset

LEVELS = TensorForm("nhwc", np.dtype(np.uint8))
"""Levels as they are, as `HostPreprocessor` gives them."""
GAP_BYTES = 12
ROUNDS_ONCE = "*AVX2" in cv2.getCPUFeaturesLine().split()
"""Whether OpenCV rounds a product and a sum at once here, as GPUs do."""


def padded(shape: tuple[int, ...], dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[np.generic]:
    """An array with gaps between its rows and none behind the last; not initialised."""
    item = np.dtype(dtype).itemsize
    row_bytes = int(np.prod(shape[1:])) * item
    pitch = row_bytes + GAP_BYTES
    memory = np.empty(pitch * (shape[0] - 1) + row_bytes, np.uint8)
    strides = (pitch, *(int(np.prod(shape[axis + 1 :])) * item for axis in range(1, len(shape))))
    return np.ndarray(shape, dtype, memory, strides=strides)


def noise(
    pixel_format: PixelFormat,
    size_wh: tuple[int, int],
    *,
    matrix: ColorMatrix = ColorMatrix.BT601,
    color_range: ColorRange = ColorRange.LIMITED,
    seed: int = 1,
) -> Surface:
    """An image of noise, to be drawn on; its luma and chroma are such that no colour leaves the range by much."""
    random = np.random.default_rng(seed)
    planes: list[Plane] = []
    for shape in pixel_format.plane_shapes(size_wh):
        plane = padded(shape).view(np.uint8)
        is_chroma = bool(planes)
        plane[...] = random.integers(64 if is_chroma else 0, 192 if is_chroma else 256, shape, np.uint8)
        planes.append(plane)
    return Surface(pixel_format, size_wh, tuple(planes), matrix, color_range, exclusive=True)


def view(surface: Surface) -> SurfaceView:
    """What a kernel of the host build is given of a surface."""
    planes = tuple(HostArray(plane) for plane in surface.planes)
    return SurfaceView(surface.format, surface.size_wh, planes, surface.matrix, surface.range)


def wide_view(surface: Surface, *, bits: int) -> SurfaceView:
    """The same image with samples of so many bits in the upper ones of 16."""
    planes = []
    for plane in surface.planes:
        wide = padded(plane.shape, np.uint16).view(np.uint16)
        wide[...] = plane.astype(np.uint16) << 8
        wide[...] |= np.uint16((1 << (16 - bits)) & 0x7F)
        planes.append(HostArray(wide))
    return SurfaceView(surface.format, surface.size_wh, tuple(planes), surface.matrix, surface.range)


def inputs(
    parts: Sequence[tuple[Surface | SurfaceView, Placement]],
    definition: Preprocessing,
    *,
    form: TensorForm = LEVELS,
    kernels: Kernels | None = None,
    source: KernelSource | None = None,
) -> npt.NDArray[np.generic]:
    """The network's input that the kernel makes of these parts, in one launch."""
    views = [(view(one) if isinstance(one, Surface) else one, placement) for one, placement in parts]
    shape = form.shape(len(parts), channels=definition.channels, size_wh=parts[0][1].size_wh)
    out = unset(*shape, dtype=form.dtype)
    jobs = pack(views, definition)
    content = dense(jobs.content)
    preprocess(
        kernels or HostKernels(source or SOURCE), jobs, content=content, out=out, definition=definition, form=form
    )
    return out.values


def placements(surface: Surface, definition: Preprocessing) -> dict[str, Placement]:
    """Every way in which a part of an image can lie: whole, on whole samples, between them, beyond, turned."""
    width, height = surface.size_wh
    whole = definition.place_fractions((0.0, 0.0, 1.0, 1.0), surface)
    turned = Placement(whole.region_xyxy, (0, 0, *whole.size_wh), whole.size_wh, ((0.6, 0.2, 3.3), (-0.2, 0.6, 9.7)))
    return {
        "whole": whole,
        "whole samples": definition.place((8, 4, 10 + width // 8 * 2, 6 + height // 8 * 2)),
        "fractions": definition.place((5.3, 2.2, width * 0.7, height * 0.8)),
        "beyond": definition.place((-7.25, 3.5, width * 0.6, height + 6.0)),
        "turned": turned,
    }


def on_the_cpu(surface: Surface, placement: Placement, definition: Preprocessing) -> npt.NDArray[np.uint8]:
    """What pre-processing on the CPU makes of a part: levels (height, width, channels)."""
    prepared = HostPreprocessor(definition).prepare(surface, placement)
    return np.squeeze(prepared.image, axis=0)


def assert_equal_levels(ours: npt.NDArray[np.generic], theirs: npt.NDArray[np.generic]) -> None:
    """The same to the bit; where this processor rounds twice what others round once, a few are beside by little."""
    if ROUNDS_ONCE:
        np.testing.assert_array_equal(ours, theirs)
    error = np.abs(ours.astype(float) - theirs.astype(float))
    assert error.max() <= 3
    assert np.mean(error > 0) < 0.05
