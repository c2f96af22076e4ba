"""Pre-processing: the one definition of how a surface becomes a network's input, and its implementation on the CPU.

Everything happens in 8 bits per sample; mean, scale, layout and element type of the network are folded into its
graph by the engine (`Preprocessing.image_form`). Colours are converted in one of two places:

`network`  the planes are resized to the network's size and converted there. Nothing touches every pixel of the picture
           but the resize, so the cost hardly grows with it.
`picture`  the whole picture is converted, then resized, exactly as training code does it (OpenCV's capture and resize).
           Networks that react to single levels need it: with FastestDet, 8 in 100 boxes move otherwise.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
import numpy.typing as npt

from sightline.errors import ConfigurationError
from sightline.media import Memory, PixelFormat, Surface
from sightline_plugins.infer.engines.protocol import ImageForm
from sightline_plugins.infer.placement import Align, Fit, Placement, place, region_in_pixels
from sightline_plugins.infer.plane_resize import PlaneResizer, Resize
from sightline_plugins.infer.surface_colors import ChannelOrder, PictureColors, colors_from_planes, cut_planes

Convert = Literal["network", "picture"]
Fractions = tuple[float, float, float, float]
Picture = npt.NDArray[np.uint8]

WHOLE: Fractions = (0.0, 0.0, 1.0, 1.0)
_SPARE = 64


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """How a picture becomes a network's input: `y = (x - mean) / scale` of what is resized, placed and padded.

    `mean`, `scale` and `pad` have one value, or one for each channel in the order `color`; `pad` is in levels of the
    picture (0..255), so it is normalised like everything else.
    """

    size_wh: tuple[int, int]
    fit: Fit = "letterbox"
    align: Align = "center"
    resize: Resize = "bilinear"
    convert: Convert = "network"
    color: ChannelOrder = "rgb"
    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (255.0,)
    pad: tuple[int, ...] = (114,)

    def image_form(self) -> ImageForm:
        """What the engine is opened with, so that it takes the pictures of `Preprocessor` as they are."""
        return ImageForm(
            layout="nhwc",
            dtype="uint8",
            mean=self.mean,
            scale=tuple(1 / value for value in self.scale),
            size_wh=self.size_wh,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A network's input: `picture` (1, height, width, 3) uint8, C-contiguous, and where it came from."""

    picture: Picture
    placement: Placement


class Preprocessor:
    """Makes network inputs from surfaces in host memory. One thread calls it; any thread may `recycle`."""

    def __init__(self, definition: Preprocessing) -> None:
        self.definition = definition
        self._resizer = PlaneResizer(definition.resize)
        self._colors = PictureColors()
        self._spare: dict[tuple[int, int, int, int], deque[Picture]] = {}

    def prepare(self, surface: Surface, *, region: Fractions = WHOLE) -> Prepared:
        """The network's input for a surface, or for a region of it in fractions of the picture.

        The picture belongs to the caller, who may give it back by `recycle` once nobody reads it any more.
        """
        if surface.memory is not Memory.HOST:
            raise ConfigurationError("pre-processing on the CPU needs surfaces in host memory: use surface.to_host()")
        wanted = self.definition
        pixels = region_in_pixels(region, size_wh=surface.size_wh, chroma_shift=surface.format.chroma_shift)
        placement = place(pixels, size_wh=wanted.size_wh, fit=wanted.fit, align=wanted.align)
        picture = self._canvas(placement)
        left, top, width, height = placement.inner_xywh
        self._fill(surface, placement, out=picture[0, top : top + height, left : left + width])
        return Prepared(picture, placement)

    def recycle(self, prepared: Prepared) -> None:
        """Take a picture back to use its memory again; its padding is kept as it is."""
        self._spare[prepared.placement.inner_xywh].append(prepared.picture)

    def _fill(self, surface: Surface, placement: Placement, *, out: Picture) -> None:
        size_wh = placement.inner_xywh[2:]
        order = self.definition.color
        if surface.format.is_yuv and (self.definition.convert == "network" or surface.format is PixelFormat.GRAY8):
            cut = cut_planes(surface, placement.region_xyxy)
            planes = tuple(self._resizer.resize(plane, size_wh=size_wh) for plane in cut)
            colors_from_planes(planes, surface, order=order, out=out)
            return
        channels = self._channels(surface, placement)
        resized = [self._resizer.resize(plane, size_wh=size_wh) for plane in channels]
        cv2.merge(resized if order == "rgb" else resized[::-1], dst=out)

    def _channels(self, surface: Surface, placement: Placement) -> tuple[Picture, ...]:
        if surface.format.is_yuv:
            return self._colors.planes(surface, placement.region_xyxy)
        left, top, right, bottom = placement.region_xyxy
        channels = cv2.split(surface.planes[0][top:bottom, left:right])
        return tuple(channels if surface.format is PixelFormat.RGB24 else channels[::-1])

    def _canvas(self, placement: Placement) -> Picture:
        spare = self._spare.get(placement.inner_xywh)
        if spare is None:
            spare = self._spare[placement.inner_xywh] = deque(maxlen=_SPARE)
        try:
            return spare.pop()
        except IndexError:
            width, height = self.definition.size_wh
            picture = np.empty((1, height, width, 3), np.uint8)
            picture[:] = self.definition.pad
            return picture
