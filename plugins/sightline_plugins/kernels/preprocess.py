"""Pre-processing on the device: parts of surfaces become the input of a network, all in one launch.

The definition is the CPU's (`infer/pixels/preprocess.py`), and so is the arithmetic: inputs are equal to the last bit,
where the CPU rounds a product and a sum once, as with AVX2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np

from sightline.devices.gpu.launching import Kernels, blocks_for
from sightline.media import ColorMatrix, ColorRange, PixelFormat
from sightline_plugins.kernels.colors import COLORS, colors_record
from sightline_plugins.kernels.device_data import DeviceData, check_array
from sightline_plugins.kernels.packing import Bytes, Packing
from sightline_plugins.kernels.plane_maps import PLANE_MAP, PlaneMap, plane_map
from sightline_plugins.kernels.surfaces import SURFACE, SurfaceView, surface_record
from sightline_plugins.kernels.tensor_form import TensorForm
from sightline_plugins.pixels.placement import Placement, SizeWh
from sightline_plugins.pixels.preprocess import Preprocessing
from sightline_plugins.pixels.resizing import cut_for

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
"""A part of a surface and where it goes in an image of the input."""
_PLANES, _STEPWISE, _SUMMED, _LUMA, _COLORS = range(5)
_NOWHERE = -1
_BLOCK = (32, 8)
_ROWS_OF_A_THREAD = 4


@dataclass(frozen=True, slots=True, eq=False)
class Jobs:
    """Parts of surfaces that become network inputs, number n image number n: `content` is to be copied to the device.

    It holds the surfaces' addresses, so they have to stay where they are until the kernel is done. `count` is how many
    rows the table of parts has; `data` says where in the content their filters begin, which depends on that alone.
    """

    content: Bytes
    count: int
    data: int


def pack(parts: Sequence[Part], definition: Preprocessing, *, rows: int = 0) -> Jobs:
    """What is made of these parts. The surfaces may have any sizes and formats, and one may be there many times (crops
    of objects). The table is given at least so many `rows`; those without a part leave their images as they are.
    Raises ValueError for placements in images of different sizes.
    """
    sizes = {placement.size_wh for _, placement in parts}
    if len(sizes) > 1:
        raise ValueError(f"the images of an input have one size, not {' and '.join(map(str, sorted(sizes)))}")
    table, data = np.zeros(max(len(parts), rows), JOB), Packing()
    table[len(parts) :]["slot"] = _NOWHERE
    for slot, (view, placement) in enumerate(parts):
        job = _job(definition, placement, view.format, view.size_wh, view.is_wide, view.matrix, view.range)
        table[slot] = job.record
        table[slot]["slot"] = slot
        view.fill_planes(table[slot]["surface"]["planes"])
        for name, plane in job.maps:
            plane.write(table[name], slot, data)
    content = Packing()
    content.place(table)
    start = content.nest(data)
    return Jobs(content.joined(), len(table), start)


def preprocess(
    kernels: Kernels,
    jobs: Jobs,
    *,
    content: DeviceData,
    out: DeviceData,
    definition: Preprocessing,
    form: TensorForm,
    stream: object = None,
) -> None:
    """Write the network's input: the images of `jobs`, whose `content` is on the device, padding included.

    `out` is dense, of `form`'s type and shape, with at least as many images as there are jobs; others are left as
    they are. The placements must have been made for images of its size. The caller sees to it that the stream waits
    for the surfaces (`arrays_on`).
    """
    check_array(content, what="the content of jobs", dtype=np.dtype(np.uint8), shape=jobs.content.shape)
    if jobs.count > out.shape[0]:
        raise ValueError(f"{jobs.count} parts do not fit into an input of {out.shape[0]} images")
    if jobs.count == 0:
        return
    tensor = form.record(out, definition)
    width, height = form.size_wh_of(out)
    rows = _BLOCK[1] * _ROWS_OF_A_THREAD
    kernels["preprocess"](
        content,
        jobs.data,
        out,
        tensor,
        grid=(blocks_for(width, block=_BLOCK[0]), blocks_for(height, block=rows), jobs.count),
        block=_BLOCK,
        stream=stream,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """One JOB without addresses, `slot` 0, and the maps of its planes."""

    record: np.void
    maps: tuple[tuple[str, PlaneMap], ...]


@lru_cache(maxsize=1024)
def _job(
    definition: Preprocessing,
    placement: Placement,
    pixel_format: PixelFormat,
    size_wh: SizeWh,
    is_wide: bool,
    matrix: ColorMatrix,
    color_range: ColorRange,
) -> _Job:
    shift = pixel_format.chroma_shift
    samples = definition.resize in ("bilinear", "nearest")
    cut = cut_for(placement, size_wh=size_wh, chroma_shift=shift, averages=not samples)
    left, top, width, height = placement.inner_xywh
    conversion = _conversion(definition, pixel_format)
    job = np.zeros((), JOB)
    job["surface"] = surface_record(pixel_format, size_wh, is_wide=is_wide)
    job["colors"] = colors_record(matrix, color_range)
    job["rectangle_xyxy"] = left, top, left + width, top + height
    job["conversion"] = conversion
    maps = (
        ("luma", plane_map(cut, placement, shift=(0, 0), resize=definition.resize)),
        ("chroma", plane_map(cut, placement, shift=shift, resize=definition.resize)),
    )
    return _Job(cast("np.void", job[()]), maps)


def _conversion(definition: Preprocessing, pixel_format: PixelFormat) -> int:
    """Where the colours of that format are converted, and how."""
    if not pixel_format.is_yuv:
        return _COLORS
    if pixel_format is PixelFormat.GRAY8 or definition.color == "gray":
        return _LUMA
    if definition.convert == "network":
        return _PLANES
    return _SUMMED if pixel_format is PixelFormat.I444 else _STEPWISE
