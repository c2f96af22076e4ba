"""The brightness of frames at the size at which motion is looked for, wherever the frames lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sightline.graph.tracker import Luma
from sightline.media import Memory, Surface
from sightline.media.convert import luma_from_surface

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice
    from sightline_plugins.flow.cuda import CudaLumaReducer
    from sightline_plugins.preprocess.colors import PlaneResizer

SizeWh: TypeAlias = tuple[int, int]
_AVERAGED_BEYOND = 2
"""Beyond this factor both ways samples are averaged: bilinear filters would leave some of them out."""


def is_far(size_wh: SizeWh, target_wh: SizeWh) -> bool:
    """Whether samples are averaged when an image is made so small; else the two nearest each way are mixed."""
    return all(size > _AVERAGED_BEYOND * target for size, target in zip(size_wh, target_wh, strict=True))


class LumaReducer:
    """Reduces images in host memory; it keeps what it needs for each pair of sizes, so one belongs to one thread.

    OpenCV is imported with the first image.
    """

    def __init__(self) -> None:
        self._averages: PlaneResizer | None = None

    def reduced(self, image: Luma, size_wh: SizeWh) -> Luma:
        """Return a new image of that size from one (H, W): interpolated, or averaged below half its size both ways.
        Releases the GIL.
        """
        from sightline_plugins.opencv import cv2
        from sightline_plugins.preprocess.colors import PlaneResizer

        height, width = image.shape
        if is_far((width, height), size_wh):
            self._averages = self._averages or PlaneResizer("area")
            return self._averages.resize(image, size_wh=size_wh)
        small = np.asarray(cv2.resize(image, size_wh, interpolation=cv2.INTER_LINEAR), np.uint8)
        return small.copy() if small is image else small


class HalvedLuma:
    """An image in host memory, and halves, quarters and so on of it, each made once, when it is asked for.

    Halving takes a tenth of the time of other factors. The image is that of a frame, which is read while it is there:
    ask for what is to be kept before it goes. One thread uses it.
    """

    def __init__(self, image: Luma) -> None:
        self.size_wh: SizeWh = image.shape[1], image.shape[0]
        """Of the image itself."""
        self._levels = [image]

    def below(self, longest: int) -> tuple[Luma, int]:
        """Return the first of the images whose longer side is below `longest`, a copy that nobody changes (h, w), and
        the pixels of the image along each side of one of its pixels: 1, 2, 4, ... A last odd row or column is left out.
        """
        level = 0
        while max(self.size_wh) >> level >= longest:
            level += 1
        return self.halved(level), 1 << level

    def halved(self, times: int) -> Luma:
        """Return the image, halved so many times: a copy that nobody changes (h, w)."""
        from sightline_plugins.opencv import cv2

        if not times:
            return self._levels[0].copy()
        while len(self._levels) <= times:
            larger = self._levels[-1]
            height, width = (max(1, side // 2) for side in larger.shape)
            halved = cv2.resize(larger[: 2 * height, : 2 * width], (width, height), interpolation=cv2.INTER_AREA)
            self._levels.append(np.asarray(halved, np.uint8))
        return self._levels[times]


class FrameLuma:
    """The brightness of frames of a step, in host memory; used by one thread.

    Frames in the memory of `gpu` are reduced there, and only what is made of them is copied.
    """

    def __init__(self, gpu: CudaDevice | None) -> None:
        self._on_host = LumaReducer()
        self._on_gpu: CudaLumaReducer | None = None
        self._reduced_there = self._copied = 0
        if gpu is not None:
            from sightline_plugins.flow.cuda import CudaLumaReducer

            self._on_gpu = CudaLumaReducer(gpu)

    @property
    def reason(self) -> str:
        """What became of frames in a GPU's memory, for `RunsOn`; empty where there were none."""
        told = [f"{self._reduced_there} images were reduced on {self._on_gpu}"] if self._reduced_there else []
        told += [f"{self._copied} images were copied from a GPU"] if self._copied else []
        return ", ".join(told)

    def reduced(self, frames: Sequence[tuple[Surface, SizeWh]]) -> list[Luma]:
        """Return the brightness of each frame at its size: new images (h, w), in the range of the frame."""
        gpu = self._on_gpu
        there = [] if gpu is None else [row for row, (surface, _) in enumerate(frames) if gpu.takes(surface)]
        made: dict[int, Luma] = {}
        if gpu is not None and there:
            made = dict(zip(there, gpu.reduced([frames[row] for row in there]), strict=True))
        self._reduced_there += len(made)
        for row, (surface, size_wh) in enumerate(frames):
            if row not in made:
                self._copied += surface.memory is Memory.CUDA
                made[row] = self._on_host.reduced(luma_from_surface(surface), size_wh)
        return [made[row] for row in range(len(frames))]
