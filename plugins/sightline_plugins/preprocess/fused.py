"""Whole planes of luma and chroma to a network's input in one call of C (`native.c`), row by row.

A plan holds what is known before the pixels are: the tables of both filters, the colours, and where everything lies.
Its results are those of `PlaneResizer`, `colors_from_planes` and `ImageColors`, to the bit.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline.media.surface import Plane
from sightline_plugins.cuda.records import colors_record
from sightline_plugins.native import INT, POINTER, SIZE, described, description, function, pointer
from sightline_plugins.preprocess.colors import is_averaged
from sightline_plugins.preprocess.definition import Convert, Image, Preprocessing, Resize
from sightline_plugins.preprocess.filters import Numbers, averages, enlarged, linear, nearest
from sightline_plugins.preprocess.placement import SizeWh

Weighted: TypeAlias = tuple[Numbers, Numbers]
"""For each sample of an axis which ones of the plane count (n, taps), and their weights (n, taps)."""
_UNIT, _GROUP, _WINDOW = 16, 4, 16
_ORDER = (0, 2, 1, 3)
"""In which order the groups of a unit lie, so that two vectors of AVX2 are packed without a permutation."""
_NOTHING = 0x80
_MOST_TAPS = 170
"""From so many on, swscale resizes in two steps."""


class _Filter(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("starts", "picks", "across", "rows", "down")),
        *((name, ctypes.c_int32) for name in ("units", "steps", "taps", "ring", "averages", "row_bytes")),
    )


class _Colors(ctypes.Structure):
    _fields_ = (
        ("luma", ctypes.c_int32),
        ("rgb", ctypes.c_int32 * 9),
        *((name, ctypes.c_int16) for name in ("image_luma", "black", "red_v", "green_u", "green_v", "blue_u")),
    )


class _Plan(ctypes.Structure):
    _fields_ = (
        ("luma", _Filter),
        ("chroma", _Filter),
        ("colors", _Colors),
        *((name, ctypes.c_int32) for name in ("left", "top", "chroma_left", "chroma_top", "chroma_step")),
        *((name, ctypes.c_int32) for name in ("down_shift", "image_width", "width", "height", "is_bgr")),
        ("start", ctypes.c_ssize_t),
        ("pitch", ctypes.c_ssize_t),
    )


_FUNCTIONS = {
    "network": function("preprocess_planes", *[POINTER] * 6, result=INT, long=True),
    "image": function("preprocess_image", *[POINTER] * 6, result=INT, long=True),
}
_scratch_bytes = function("preprocess_scratch_bytes", POINTER, result=SIZE)


@dataclass(frozen=True, slots=True)
class Job:
    """What to do with images of one size and format: resize `region_xyxy`, whole samples of an image, to `resized_wh`.

    `window_xywh` of that goes to `place_xy` of the network's input of `network_wh`.
    """

    format: PixelFormat
    size_wh: SizeWh
    matrix: ColorMatrix
    range: ColorRange
    region_xyxy: tuple[int, int, int, int]
    resized_wh: SizeWh
    window_xywh: tuple[int, int, int, int]
    place_xy: tuple[int, int]
    network_wh: SizeWh


class FusedPlan:
    """Makes the input of images of one size and format, whose planes and network's input the caller has checked.

    Several threads may share it when each brings scratch space of `scratch_bytes`.
    """

    __slots__ = ("_address", "_function", "_kept", "scratch_bytes")

    def __init__(self, plan: _Plan, *, convert: Convert, kept: tuple[object, ...]) -> None:
        self._kept = plan, kept
        self._address = ctypes.addressof(plan)
        self._function = _FUNCTIONS[convert]
        self.scratch_bytes: int = _scratch_bytes(self._address)

    def run(self, surface: Surface, *, out: Image, scratch: npt.NDArray[np.uint8]) -> None:
        """Write the part of the network's input `out` (1, h, w, 3) that the image fills. Releases the GIL."""
        planes = surface.planes
        if not self._filled(planes, out, scratch):
            self._filled(tuple(np.array(plane, np.uint8, order="C") for plane in planes), out, scratch)

    def _filled(self, planes: tuple[Plane, ...], out: Image, scratch: npt.NDArray[np.uint8]) -> bool:
        """Whether the samples of each row lie side by side; nothing is done where they do not."""
        all_described = [described(plane) for plane in planes]
        y, u, *v = map(description, all_described)
        filled: int = self._function(self._address, y, u, v[0] if v else None, pointer(out), pointer(scratch))
        return filled != 0


def fused_plan(job: Job, definition: Preprocessing) -> FusedPlan | None:
    """The plan for such images; None where OpenCV has to be used.

    That is for images without chroma or in grey, for chroma of every pixel that is converted at the image's size, and
    for averages of planes that are narrower than swscale's vectors.
    """
    kind, is_image = job.format, definition.convert == "image"
    if not kind.is_yuv or kind is PixelFormat.GRAY8 or definition.color == "gray":
        return None
    if is_image and kind is PixelFormat.I444:
        return None
    step = 2 if kind is PixelFormat.NV12 else 1
    across, down = kind.chroma_shift
    left, top, right, bottom = job.region_xyxy
    width, height = job.window_xywh[2:]
    size_wh = right - left, bottom - top
    chroma_wh = -(-right >> across) - (left >> across), -(-bottom >> down) - (top >> down)
    asked = {"target_wh": job.resized_wh, "window_xywh": job.window_xywh, "resize": definition.resize}
    luma = _plane_filter(size_wh, step=1, **asked)
    chroma = luma if is_image else _plane_filter(chroma_wh, step=step, **asked)
    if luma is None or chroma is None:
        return None
    network_width = job.network_wh[0]
    place_x, place_y = job.place_xy
    plan = _Plan(
        luma=luma.record,
        chroma=chroma.record,
        colors=_colors(job.matrix, job.range),
        left=left,
        top=top,
        chroma_left=(left >> across) * step,
        chroma_top=top >> down,
        chroma_step=step,
        down_shift=down,
        image_width=size_wh[0],
        width=width,
        height=height,
        is_bgr=definition.color == "bgr",
        start=3 * (place_y * network_width + place_x),
        pitch=3 * network_width,
    )
    return FusedPlan(plan, convert=definition.convert, kept=(luma, chroma))


def _colors(matrix: ColorMatrix, color_range: ColorRange) -> _Colors:
    record = colors_record(matrix, color_range)
    rounded = record["rounded"].tolist()
    return _Colors(
        luma=rounded[0][0],
        rgb=(ctypes.c_int32 * 9)(*(value for row in rounded for value in row[1:])),
        image_luma=int(record["luma"]),
        **{name: int(record[name]) for name in ("black", "red_v", "green_u", "green_v", "blue_u")},
    )


@dataclass(frozen=True, slots=True, eq=False)
class _PlaneFilter:
    """The tables for planes of one size, and the record that points to them."""

    record: _Filter
    tables: tuple[npt.NDArray[Any], ...]


@lru_cache(maxsize=256)
def _plane_filter(
    size_wh: SizeWh, *, target_wh: SizeWh, window_xywh: tuple[int, int, int, int], step: int, resize: Resize
) -> _PlaneFilter | None:
    axes = list(zip(size_wh, target_wh, strict=True))
    is_average = resize in ("area", "antialias") and size_wh != target_wh and is_averaged(size_wh, target_wh=target_wh)
    if is_average:
        kind = "area" if resize == "area" else "triangle"
        across, down = (
            _listed(averages(size, target=target, kind=kind, is_across=way), size=size)
            for (size, target), way in zip(axes, (True, False), strict=True)
        )
        if max(across[0].shape[1], down[0].shape[1]) >= _MOST_TAPS:
            return None
    elif size_wh == target_wh or resize in ("bilinear", "antialias"):
        across, down = (linear(size, target=target) for size, target in axes)
    elif resize == "nearest":
        across, down = (_listed(nearest(size, target=target), size=size) for size, target in axes)
    elif all(size >= target for size, target in axes):
        return None
    else:
        across, down = (_listed(enlarged(size, target=target), size=size) for size, target in axes)
    x, y, width, height = window_xywh
    rows, weights = (np.ascontiguousarray(table[y : y + height]) for table in down)
    row_bytes = step * size_wh[0] - (step - 1)
    columns = across[0][x : x + width] * step, across[1][x : x + width]
    starts, picks, factors = _in_steps(columns, row_bytes=row_bytes)
    tables = starts, picks, factors, rows.astype(np.int32), weights.astype(np.int16)
    units, steps = starts.shape[:2]
    addresses = [table.ctypes.data for table in tables]
    taps = rows.shape[1]
    ring = 1 << (taps - 1).bit_length()
    return _PlaneFilter(_Filter(*addresses, units, steps, taps, ring, is_average, row_bytes), tables)


def _listed(table: npt.NDArray[Any], *, size: int) -> Weighted:
    """Samples and weights of a table of `filters`, no sample beyond the plane."""
    weights = table["weights"].astype(np.int64)
    return np.minimum(table["first"][:, None] + np.arange(weights.shape[1], dtype=np.int64), size - 1), weights


def _in_steps(
    columns: Weighted, *, row_bytes: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8], npt.NDArray[np.int16]]:
    """The columns of a filter as `native.c` takes them: `starts`, `picks` and `across`."""
    places, weights = columns[0].tolist(), columns[1].tolist()
    units = -(-len(places) // _UNIT)
    groups = [
        _group_in_steps(places[at : at + _GROUP], weights[at : at + _GROUP], last=max(row_bytes - _WINDOW, 0))
        for at in range(0, units * _UNIT, _GROUP)
    ]
    steps = max(len(group) for group in groups)
    starts = np.zeros((units, steps, _GROUP), np.int32)
    picks = np.full((units, steps, _GROUP, _WINDOW), _NOTHING, np.uint8)
    across = np.zeros((units, steps, _GROUP, _WINDOW // 2), np.int16)
    for number, group in enumerate(groups):
        unit, place = number // _GROUP, _ORDER[number % _GROUP]
        for step, (start, taps) in enumerate(group):
            starts[unit, step, place] = start
            for slot, offset, weight in taps:
                picks[unit, step, place, 2 * slot] = offset
                across[unit, step, place, slot] = weight
    return starts, picks, across


_Step: TypeAlias = tuple[int, list[tuple[int, int, int]]]
"""Where a window of 16 bytes begins, and of each tap in it the slot, the byte of the window and the weight."""


def _group_in_steps(places: list[list[int]], weights: list[list[int]], *, last: int) -> list[_Step]:
    """The steps for a group of columns: windows from the left to the right, two taps of each column in each."""
    left = [
        [(place, weight) for place, weight in zip(*column, strict=True) if weight]
        for column in zip(places, weights, strict=True)
    ]
    steps: list[_Step] = []
    while any(left):
        start = min(min(column[0][0] for column in left if column), last)
        taps: list[tuple[int, int, int]] = []
        for number, column in enumerate(left):
            for half in (0, 1):
                if column and column[0][0] < start + _WINDOW:
                    place, weight = column.pop(0)
                    taps.append((2 * number + half, place - start, weight))
        steps.append((start, taps))
    return steps
