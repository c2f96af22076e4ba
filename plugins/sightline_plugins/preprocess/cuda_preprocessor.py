"""Pre-processing on a GPU: the network inputs of a whole batch in one launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sightline.devices.gpu.gpu import Gpu
from sightline.media import Surface
from sightline.media.device_array import DeviceArray
from sightline_plugins.kernels.preprocess import SOURCE, pack, preprocess
from sightline_plugins.kernels.surfaces import SurfaceView
from sightline_plugins.kernels.tensor_form import TensorForm
from sightline_plugins.pixels.placement import Placement, SizeWh
from sightline_plugins.pixels.preprocess import Image, Part, Prepared, Preprocessing

_MOST_BYTES = 1 << 26
"""Of images that are made at once, and come down at once."""
_POOL_BYTES = 1 << 29


@dataclass(frozen=True, slots=True, eq=False)
class CudaInputs:
    """Network inputs of one size in GPU memory, one behind the other, in the layout and type of the image form.

    `numbers` are those of the parts that they show.
    """

    array: DeviceArray
    numbers: tuple[int, ...]


class CudaPreprocessor:
    """Makes network inputs on a GPU: a `Preprocessor`.

    Surfaces in host memory are copied to the GPU, once for all who ask for them there. What a batch looks at is made in
    one launch for each size of input (and for each 64 MiB), and comes down in one copy: its images are read-only
    views of pinned memory, which goes back when the last of them goes. Every copy is counted.
    """

    def __init__(self, definition: Preprocessing, *, gpu: Gpu) -> None:
        form = definition.image_form()
        self.device = str(gpu)
        self._levels = replace(definition, mean=(0.0,), scale=(1.0,))
        self._form = TensorForm(form.layout, np.dtype(form.dtype))
        self._gpu = gpu
        self._stream = gpu.stream("pre-processing")
        self._pool = gpu.pool("inputs of a model", limit_bytes=_POOL_BYTES)
        self._kernels = gpu.kernels(SOURCE)

    def prepare_all(self, parts: Sequence[Part]) -> Iterator[Prepared]:
        """See `Preprocessor.prepare_all`; waits for the GPU when the first image is asked for."""
        for portion in self._portions(parts):
            images = self._brought_down(portion)
            for image, (_, placement) in zip(images, portion, strict=True):
                yield Prepared(image, placement)

    def recycle(self, prepared: Prepared) -> None:
        """See `Preprocessor.recycle`: memory goes back by itself."""

    def on_device(self, parts: Sequence[Part]) -> list[CudaInputs]:
        """The network's input for each part, in GPU memory, for each size of input; returns before they are made."""
        surfaces = {id(surface): surface for surface, _ in parts}
        views = {key: self._view(surface) for key, surface in surfaces.items()}
        numbers: dict[SizeWh, list[int]] = {}
        for number, (_, placement) in enumerate(parts):
            numbers.setdefault(placement.size_wh, []).append(number)
        return [
            CudaInputs(self._made([(views[id(parts[n][0])], parts[n][1]) for n in own]), tuple(own))
            for own in numbers.values()
        ]

    def _portions(self, parts: Sequence[Part]) -> Iterator[Sequence[Part]]:
        """The parts, in order, in portions of limited size."""
        first = size = 0
        for number, (_, placement) in enumerate(parts):
            own = self._image_bytes(placement.size_wh)
            if number > first and size + own > _MOST_BYTES:
                yield parts[first:number]
                first, size = number, 0
            size += own
        if parts:
            yield parts[first:]

    def _brought_down(self, parts: Sequence[Part]) -> list[Image]:
        """The images of parts, in their order, in pinned memory."""
        made = self.on_device(parts)
        arrays = self._gpu.download([one.array for one in made]).wait()
        images = {
            number: array[row : row + 1]
            for one, array in zip(made, arrays, strict=True)
            for row, number in enumerate(one.numbers)
        }
        return [images[number] for number in range(len(parts))]

    def _image_bytes(self, size_wh: SizeWh) -> int:
        return size_wh[0] * size_wh[1] * self._levels.channels * self._form.dtype.itemsize

    def _view(self, surface: Surface) -> SurfaceView:
        there = surface.to_device(self._gpu, stream=self._stream)
        return SurfaceView.of(there, there.arrays_on(self._stream))

    def _made(self, parts: Sequence[tuple[SurfaceView, Placement]]) -> DeviceArray:
        """The inputs of one size: one launch."""
        stream = self._stream
        jobs = pack(parts, self._levels)
        [content] = self._gpu.upload([jobs.content], stream=stream)
        shape = self._form.shape(len(parts), channels=self._levels.channels, size_wh=parts[0][1].size_wh)
        out = self._gpu.empty(shape, self._form.dtype, stream=stream, pool=self._pool)
        preprocess(
            self._kernels, jobs, content=content, out=out, definition=self._levels, form=self._form, stream=stream
        )
        return out.written(stream.record())
