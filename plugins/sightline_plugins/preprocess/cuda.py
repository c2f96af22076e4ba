"""Pre-processing on a CUDA device: one kernel launch for all parts of a batch. The twin of `cpu.py`.

The definition is the CPU's (`cpu.py`), and so is the arithmetic: inputs are equal to the last bit, where the CPU rounds
a product and a sum once, as with AVX2. `InputKernel` is the one way to the kernel: `CudaPreprocessor` uses it for
engines on host arrays, the CUDA predictor for batches that stay on the GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import Kernels, blocks_for
from sightline.devices.cuda.pools import CudaPool
from sightline.devices.cuda.streams import CudaStream
from sightline.media import ColorMatrix, ColorRange, PixelFormat
from sightline.media.device_array import DeviceArray, DeviceEvent, DeviceMemory
from sightline_plugins.cuda.records import (
    COLORS,
    SURFACE,
    Bytes,
    DeviceData,
    Packing,
    SurfaceView,
    check_array,
    colors_record,
    fill_planes,
    surface_record,
)
from sightline_plugins.preprocess.cpu import cut_for
from sightline_plugins.preprocess.cuda_maps import PLANE_MAP, PlaneMap, plane_map
from sightline_plugins.preprocess.definition import Image, Part, Prepared, Preprocessing
from sightline_plugins.preprocess.placement import Placement, SizeWh

Layout = Literal["nchw", "nhwc"]
_ELEMENTS: list[np.dtype[Any]] = [np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.uint8), np.dtype(np.int8)]
TENSOR = np.dtype(
    [
        ("size_wh", "<i4", (2,)),
        ("channels", "<i4"),
        ("element", "<i4"),
        ("is_interleaved", "<i4"),
        ("is_reversed", "<i4"),
        ("mean", "<f4", (3,)),
        ("factor", "<f4", (3,)),
        ("pad", "<i4", (3,)),
        ("zero_point", "<i4"),
    ],
    align=True,
)


@dataclass(frozen=True, slots=True)
class TensorForm:
    """What a network takes: `layout`, element type, and of whole numbers `y = quantum * (q - zero_point)`.

    Float elements are `(x - mean) / scale` of levels 0..255, as `Preprocessing` says; whole numbers the nearest `q` to
    that, at most what fits. Levels as they are: uint8, with mean 0 and scale 1 in the definition.
    """

    layout: Layout = "nchw"
    dtype: np.dtype[Any] = _ELEMENTS[0]
    quantum: float = 1.0
    zero_point: int = 0

    def __post_init__(self) -> None:
        if self.dtype not in _ELEMENTS:
            allowed = ", ".join(element.name for element in _ELEMENTS)
            raise ValueError(f"inputs of networks are made of {allowed}, not {self.dtype}")
        if self.dtype.kind == "f" and (self.quantum != 1.0 or self.zero_point != 0):
            raise ValueError("a quantum and a zero point are for whole numbers (uint8, int8) only")

    def shape(self, images: int, *, channels: int, size_wh: SizeWh) -> tuple[int, int, int, int]:
        """The shape of the input for so many images."""
        width, height = size_wh
        if self.layout == "nchw":
            return images, channels, height, width
        return images, height, width, channels

    def size_wh_of(self, array: DeviceData) -> SizeWh:
        """The size of the images in an input of this layout."""
        _, *sides = array.shape
        return (sides[2], sides[1]) if self.layout == "nchw" else (sides[1], sides[0])

    def record(self, array: DeviceData, definition: Preprocessing) -> np.void:
        """What kernels are told of that memory. Raises ValueError when it is no dense array of this form."""
        record = np.zeros((), TENSOR)
        size_wh = self.size_wh_of(array) if len(array.shape) == 4 else (0, 0)
        expected = self.shape(array.shape[0], channels=definition.channels, size_wh=size_wh)
        check_array(array, what="the network's input", dtype=self.dtype, shape=expected)
        record["size_wh"] = size_wh
        record["channels"] = definition.channels
        record["element"] = _ELEMENTS.index(self.dtype)
        record["is_interleaved"] = self.layout == "nhwc"
        record["is_reversed"] = definition.color == "bgr"
        record["mean"] = definition.mean
        record["factor"] = (1 / np.array(definition.scale) / self.quantum).astype(np.float32)
        record["pad"] = definition.pad
        record["zero_point"] = self.zero_point
        return cast("np.void", record[()])


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
PartJob: TypeAlias = tuple[SurfaceView, Placement]
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


def pack(parts: Sequence[PartJob], definition: Preprocessing, *, rows: int = 0) -> Jobs:
    """What is made of these parts. The surfaces may have any sizes and formats, and one may be there many times (crops
    of objects). The table is given at least so many `rows`; those without a part leave their images as they are.
    Raises ValueError for placements in images of different sizes.
    """
    sizes = {placement.size_wh for _, placement in parts}
    if len(sizes) > 1:
        raise ValueError(f"the images of an input have one size, not {' and '.join(map(str, sorted(sizes)))}")
    table, data = np.zeros(max(len(parts), rows), JOB), Packing()
    table["slot"] = _NOWHERE
    for slot, (view, placement) in enumerate(parts):
        job = _job(definition, placement, view.format, view.size_wh, view.is_wide, view.matrix, view.range)
        table[slot] = job.record
        for name, plane in job.maps:
            plane.write(table[name], slot, data)
    table["slot"][: len(parts)] = np.arange(len(parts))
    fill_planes(table["surface"]["planes"][: len(parts)], [view for view, _ in parts])
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


class InputKernel:
    """Pre-processing on one stream: makes network inputs of one definition and form from parts of surfaces."""

    def __init__(self, definition: Preprocessing, form: TensorForm, *, gpu: CudaDevice, stream: CudaStream) -> None:
        self._definition = definition
        self._form = form
        self._gpu = gpu
        self._stream = stream
        self._kernels = gpu.kernels(SOURCE)
        self._in_use: list[DeviceMemory] = []

    def empty(self, images: int, *, size_wh: SizeWh, pool: CudaPool | None = None) -> DeviceArray:
        """Return memory for inputs of this size."""
        shape = self._form.shape(images, channels=self._definition.channels, size_wh=size_wh)
        return self._gpu.empty(shape, self._form.dtype, stream=self._stream, pool=pool)

    def image_bytes(self, size_wh: SizeWh) -> int:
        """Return the size of one input."""
        return size_wh[0] * size_wh[1] * self._definition.channels * self._form.dtype.itemsize

    def pack(self, parts: Sequence[Part], *, rows: int = 0) -> Jobs:
        """Return how these parts become images; surfaces in host memory are copied to the GPU.

        The stream waits for the surfaces, which may be released when `launch` has returned. Call `used_until` then.
        """
        surfaces = {id(surface): surface for surface, _ in parts}
        views = {}
        for key, surface in surfaces.items():
            on_device = surface.to_device(self._gpu, stream=self._stream)
            arrays = on_device.arrays_on(self._stream)
            self._in_use += {id(array.owner): array.owner for array in arrays}.values()
            views[key] = SurfaceView.of(on_device, arrays)
        return pack([(views[id(surface)], placement) for surface, placement in parts], self._definition, rows=rows)

    def launch(self, jobs: Jobs, *, content: DeviceArray, out: DeviceArray) -> None:
        """Queue the kernel, for jobs whose `content` is on the GPU."""
        preprocess(
            self._kernels,
            jobs,
            content=content,
            out=out,
            definition=self._definition,
            form=self._form,
            stream=self._stream,
        )

    def used_until(self, event: DeviceEvent) -> None:
        """All launches for what was packed so far are behind that point of the stream: surfaces that are released later
        need no point of their own.
        """
        for memory in self._in_use:
            memory.used_until(event)
        self._in_use.clear()


_MAX_BYTES = 1 << 26
"""Images that are made by one launch, and copied to the host at once."""
_POOL_BYTES = 1 << 29


class CudaPreprocessor:
    """A `Preprocessor` on a GPU, for engines that take host arrays.

    Surfaces in host memory are copied to the GPU, once for all who need them there. The images of a batch are made in
    one launch per size of input (and per 64 MiB), and are copied back together: they are read-only views of pinned
    memory, which is released with the last of them. Every copy is counted.
    """

    def __init__(self, definition: Preprocessing, *, gpu: CudaDevice) -> None:
        form = definition.image_form()
        levels = replace(definition, mean=(0.0,), scale=(1.0,))
        self.device = str(gpu)
        self._gpu = gpu
        self._stream = gpu.stream("pre-processing")
        self._pool = gpu.pool("inputs of a model", limit_bytes=_POOL_BYTES)
        self._kernel = InputKernel(levels, TensorForm(form.layout, np.dtype(form.dtype)), gpu=gpu, stream=self._stream)

    def prepare_all(self, parts: Sequence[Part]) -> Iterator[Prepared]:
        """See `Preprocessor.prepare_all`; waits for the GPU when the first image is needed."""
        for portion in self._portions(parts):
            for image, (_, placement) in zip(self._images(portion), portion, strict=True):
                yield Prepared(image, placement)

    def recycle(self, prepared: Prepared) -> None:
        """See `Preprocessor.recycle`: pinned memory is released by itself."""

    def _portions(self, parts: Sequence[Part]) -> Iterator[Sequence[Part]]:
        """Split the parts, in order, into portions of limited size."""
        first = total = 0
        for number, (_, placement) in enumerate(parts):
            size = self._kernel.image_bytes(placement.size_wh)
            if number > first and total + size > _MAX_BYTES:
                yield parts[first:number]
                first, total = number, 0
            total += size
        if parts:
            yield parts[first:]

    def _images(self, parts: Sequence[Part]) -> list[Image]:
        """Return the images of parts, in order, in pinned memory.

        All work is queued on one stream, and the host waits for its last point. So the memory of the batch, and
        surfaces that are released later, are free without another point or a question.
        """
        numbers: dict[SizeWh, list[int]] = {}
        for number, (_, placement) in enumerate(parts):
            numbers.setdefault(placement.size_wh, []).append(number)
        with self._gpu.guard("making inputs of a model"):
            launched = [self._launched([parts[number] for number in own], size_wh) for size_wh, own in numbers.items()]
            copies = self._gpu.download([images for images, _ in launched], stream=self._stream)
            for array in (array for arrays in launched for array in arrays):
                array.owner.used_until(copies.event)
            self._kernel.used_until(copies.event)
        images = {
            number: array[row : row + 1]
            for own, array in zip(numbers.values(), copies.wait(), strict=True)
            for row, number in enumerate(own)
        }
        return [images[number] for number in range(len(parts))]

    def _launched(self, parts: Sequence[Part], size_wh: SizeWh) -> tuple[DeviceArray, DeviceArray]:
        """Return the inputs of one size, made by one launch, and the table that the launch reads."""
        jobs = self._kernel.pack(parts)
        [content] = self._gpu.upload([jobs.content], stream=self._stream)
        out = self._kernel.empty(len(parts), size_wh=size_wh, pool=self._pool)
        self._kernel.launch(jobs, content=content, out=out)
        return out, content
