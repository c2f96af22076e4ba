"""Drawing and hiding in a GPU's memory: what is to be done is noted down, and done for a whole batch at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.streams import GpuStream
from sightline.graph import RunsOn
from sightline.media import Memory, Surface
from sightline.media.device_array import DeviceArray
from sightline_plugins.draw.canvas import Canvas, Easel, HostCanvas, OnSurface, Veil
from sightline_plugins.kernels import draw, hide
from sightline_plugins.kernels.draw_list import DrawList
from sightline_plugins.kernels.hide import HideList


class DeviceCanvas(DrawList):
    """What is drawn on an image in GPU memory: a `Canvas`."""

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface.format, size_wh=surface.size_wh)
        self.surface = surface


class DeviceVeil(HideList):
    """What is hidden of an image in GPU memory: a `Veil`."""

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface.format, size_wh=surface.size_wh)
        self.surface = surface


Noted = TypeVar("Noted", DeviceCanvas, DeviceVeil)
Changes: TypeAlias = Sequence[tuple[tuple[DeviceArray, ...], Noted]]
"""The planes of images, and what is done to each."""
Change: TypeAlias = Callable[[Changes[Noted], GpuStream], None]
"""Queues the changes on a stream, which waits for the planes."""


def drawing_easel(gpu: Gpu) -> Easel[Canvas]:
    """For drawing on images wherever they lie: one launch for all of a batch that lie in the GPU's memory."""
    kernels = gpu.kernels(draw.SOURCE)

    def change(images: Changes[DeviceCanvas], stream: GpuStream) -> None:
        drawing = draw.pack(images)
        if drawing is not None:
            [content] = gpu.upload([drawing.content], stream=stream)
            draw.draw(kernels, drawing, content=content, stream=stream)

    return _DeviceEasel(gpu, note=DeviceCanvas, change=change, name="drawing")


def hiding_easel(gpu: Gpu) -> Easel[Veil]:
    """For hiding parts of images wherever they lie; two launches for all of a batch that lie in the GPU's memory, and
    two more for each time that parts lie over others.
    """
    kernels = gpu.kernels(hide.SOURCE)

    def change(images: Changes[DeviceVeil], stream: GpuStream) -> None:
        hidden = hide.pack(images)
        if hidden is not None:
            [content] = gpu.upload([hidden.content], stream=stream)
            hide.hide(kernels, hidden, content=content, stream=stream)

    return _DeviceEasel(gpu, note=DeviceVeil, change=change, name="hiding")


class _DeviceEasel(Generic[Noted]):
    """Notes down what is done to images in GPU memory; those in host memory are changed there, at once."""

    def __init__(self, gpu: Gpu, *, note: type[Noted], change: Change[Noted], name: str) -> None:
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
