"""Pre-processing on the device: parts of surfaces become the input of a network, all in one launch.

The definition is the CPU's (`infer/pixels/preprocess.py`), and so is the arithmetic: bilinear inputs are equal to the
last bit (where the CPU rounds a product and a sum once, as AVX2 does), averages differ by one level in a few of a
hundred values. No GPU has run this yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from sightline.devices.gpu.launching import Kernels, blocks_for
from sightline.media import ColorMatrix, ColorRange, PixelFormat
from sightline_plugins.infer.pixels.placement import Placement, SizeWh
from sightline_plugins.infer.pixels.preprocess import Preprocessing
from sightline_plugins.infer.pixels.resizing import cut_for
from sightline_plugins.kernels.colors import COARSE_BITS, COLORS, FINE_BITS, colors_record
from sightline_plugins.kernels.device_data import DeviceData, check_array
from sightline_plugins.kernels.plane_maps import PLANE_MAP, plane_map
from sightline_plugins.kernels.surfaces import SURFACE, SurfaceView, surface_record
from sightline_plugins.kernels.tensor_form import TensorForm

SOURCE = Path(__file__).with_suffix(".cu")
JOB = np.dtype(
    [
        ("surface", SURFACE),
        ("luma", PLANE_MAP),
        ("chroma", PLANE_MAP),
        ("colors", COLORS),
        ("rectangle_xyxy", "<i4", (4,)),
        ("slot", "<i4"),
        ("conversion", "<i4"),
    ],
    align=True,
)
Part: TypeAlias = tuple[SurfaceView, Placement]
"""A part of a surface and where it goes in a picture of the input."""
_PLANES, _STEPWISE, _ROUNDED, _LUMA, _COLORS = range(5)
_BLOCK = (32, 8)
_ROWS_OF_A_THREAD = 4


def job_table(parts: Sequence[Part], definition: Preprocessing) -> npt.NDArray[Any]:
    """The table of JOBs for these parts: part number n goes to picture number n of the input.

    The surfaces may have any sizes and formats, and one may be there many times (crops of objects). The table holds
    their addresses, so they have to stay where they are until the kernel is done. Raises ValueError for placements in
    pictures of different sizes.
    """
    sizes = {placement.size_wh for _, placement in parts}
    if len(sizes) > 1:
        raise ValueError(f"the pictures of an input have one size, not {' and '.join(map(str, sorted(sizes)))}")
    table = np.empty(len(parts), JOB)
    for slot, (view, placement) in enumerate(parts):
        table[slot] = _job(definition, placement, view.format, view.size_wh, view.is_wide, view.matrix, view.range)
        table[slot]["slot"] = slot
        view.fill_planes(table[slot]["surface"]["planes"])
    return table


def preprocess(
    kernels: Kernels,
    table: DeviceData,
    *,
    out: DeviceData,
    definition: Preprocessing,
    form: TensorForm,
    stream: object = None,
) -> None:
    """Write the network's input: the pictures of a `job_table` that was copied to the device, padding included.

    `out` is dense, of `form`'s type and shape, with at least as many pictures as the table has parts; others are left
    as they are. The placements must have been made for pictures of its size. The caller sees to it that the stream
    waits for the surfaces (`arrays_on`).
    """
    check_array(table, what="the table of parts", dtype=JOB, shape=(None,))
    if table.shape[0] > out.shape[0]:
        raise ValueError(f"{table.shape[0]} parts do not fit into an input of {out.shape[0]} pictures")
    if table.shape[0] == 0:
        return
    tensor = form.record(out, definition)
    width, height = form.size_wh_of(out)
    rows = _BLOCK[1] * _ROWS_OF_A_THREAD
    kernels["preprocess"](
        table,
        out,
        tensor,
        grid=(blocks_for(width, block=_BLOCK[0]), blocks_for(height, block=rows), table.shape[0]),
        block=_BLOCK,
        stream=stream,
    )


@lru_cache(maxsize=1024)
def _job(
    definition: Preprocessing,
    placement: Placement,
    pixel_format: PixelFormat,
    size_wh: SizeWh,
    is_wide: bool,
    matrix: ColorMatrix,
    color_range: ColorRange,
) -> np.void:
    """One JOB without addresses; `slot` is 0."""
    shift = pixel_format.chroma_shift
    samples = definition.resize in ("bilinear", "nearest")
    cut = cut_for(placement, size_wh=size_wh, chroma_shift=shift, averages=not samples)
    left, top, width, height = placement.inner_xywh
    conversion = _conversion(definition, pixel_format)
    job = np.zeros((), JOB)
    job["surface"] = surface_record(pixel_format, size_wh, is_wide=is_wide)
    job["luma"] = plane_map(cut, placement, shift=(0, 0), resize=definition.resize)
    job["chroma"] = plane_map(cut, placement, shift=shift, resize=definition.resize)
    job["colors"] = colors_record(matrix, color_range, bits=FINE_BITS if conversion == _ROUNDED else COARSE_BITS)
    job["rectangle_xyxy"] = left, top, left + width, top + height
    job["conversion"] = conversion
    return cast("np.void", job[()])


def _conversion(definition: Preprocessing, pixel_format: PixelFormat) -> int:
    """Where the colours of that format are converted, and how."""
    if not pixel_format.is_yuv:
        return _COLORS
    if pixel_format is PixelFormat.GRAY8 or definition.color == "gray":
        return _LUMA
    if definition.convert == "network":
        return _PLANES
    return _ROUNDED if pixel_format is PixelFormat.I444 else _STEPWISE
