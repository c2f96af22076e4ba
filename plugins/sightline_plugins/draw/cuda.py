"""Canvases and redactors on a CUDA device, the twins of those in `canvas.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.streams import CudaStream
from sightline.graph import RunsOn
from sightline.media import Memory, Surface
from sightline.media.device_array import DeviceArray
from sightline_plugins.draw import cuda_draw, cuda_hide
from sightline_plugins.draw.canvas import Canvas, CanvasFactory, HostCanvas, OnSurface, Redactor
from sightline_plugins.draw.cuda_hide import HideList
from sightline_plugins.draw.cuda_list import DrawList


class CudaCanvas(DrawList):
    """What is drawn on an image in GPU memory: a `Canvas`."""

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface.format, size_wh=surface.size_wh)
        self.surface = surface


class CudaRedactor(HideList):
    """What is hidden of an image in GPU memory: a `Veil`."""

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface.format, size_wh=surface.size_wh)
        self.surface = surface


Noted = TypeVar("Noted", CudaCanvas, CudaRedactor)
Changes: TypeAlias = Sequence[tuple[tuple[DeviceArray, ...], Noted]]
"""The planes of images, and what is done to each."""
Change: TypeAlias = Callable[[Changes[Noted], CudaStream], None]
"""Queues the changes on a stream, which waits for the planes."""


def drawing_canvases(gpu: CudaDevice) -> CanvasFactory[Canvas]:
    """For drawing on images wherever they lie: one launch for all of a batch that lie in the GPU's memory."""
    kernels = gpu.kernels(cuda_draw.SOURCE)

    def change(images: Changes[CudaCanvas], stream: CudaStream) -> None:
        drawing = cuda_draw.pack(images)
        if drawing is not None:
            [content] = gpu.upload([drawing.content], stream=stream)
            cuda_draw.draw(kernels, drawing, content=content, stream=stream)

    return _CudaCanvasFactory(gpu, note=CudaCanvas, change=change, name="drawing")


def hiding_canvases(gpu: CudaDevice) -> CanvasFactory[Redactor]:
    """For hiding parts of images wherever they lie; two launches for all of a batch that lie in the GPU's memory, and
    two more for each time that parts lie over others.
    """
    kernels = gpu.kernels(cuda_hide.SOURCE)

    def change(images: Changes[CudaRedactor], stream: CudaStream) -> None:
        hidden = cuda_hide.pack(images)
        if hidden is not None:
            [content] = gpu.upload([hidden.content], stream=stream)
            cuda_hide.hide(kernels, hidden, content=content, stream=stream)

    return _CudaCanvasFactory(gpu, note=CudaRedactor, change=change, name="hiding")


class _CudaCanvasFactory(Generic[Noted]):
    """Notes down what is done to images in GPU memory; those in host memory are changed there, at once."""

    def __init__(self, gpu: CudaDevice, *, note: type[Noted], change: Change[Noted], name: str) -> None:
        self._gpu = gpu
        self._note: type[Noted] = note
        self._change: Change[Noted] = change
        self._stream = gpu.stream(name)
        self._on_gpu = self._on_host = 0

    def put(self, surface: Surface) -> Noted | HostCanvas:
        """See `Easel.put`. Samples of 16 bits are drawn on in host memory, where they have 8."""
        if surface.memory is Memory.CUDA and not surface.is_wide:
            self._on_gpu += 1
            return self._note(surface)
        self._on_host += 1
        return HostCanvas(surface)

    def take(self, canvases: Sequence[OnSurface]) -> list[Surface]:
        """See `Easel.take`. Returns before it is done: whoever takes the pixels waits for them."""
        noted = [canvas for canvas in canvases if isinstance(canvas, self._note)]
        changed = iter(self._changed(noted) if noted else ())
        return [next(changed) if isinstance(canvas, self._note) else canvas.surface for canvas in canvases]

    def runs_on(self) -> RunsOn:
        """See `Easel.runs_on`."""
        everything = self._on_gpu + self._on_host
        if not self._on_host:
            return RunsOn(str(self._gpu))
        reason = f"{self._on_host} of {everything} images lay in host memory, or had more than 8 bits"
        return RunsOn(str(self._gpu) if self._on_gpu else "cpu", reason)

    def _changed(self, noted: Sequence[Noted]) -> list[Surface]:
        stream = self._stream
        targets = [canvas.surface.writable(stream=stream) for canvas in noted]
        self._change([(target.arrays_on(stream), own) for target, own in zip(targets, noted, strict=True)], stream)
        done = stream.record()
        return [target.written(done) for target in targets]
