"""What pre-processing is: its definition, the form of its results, and the contract of those that do it.

`cpu.py` and `cuda.py` are the two implementations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.media import Surface
from sightline_plugins.preprocess.placement import Align, Fit, Placement, Region, Rounding, place, region_in_pixels

Resize = Literal["bilinear", "area", "nearest", "antialias"]
ChannelOrder = Literal["rgb", "bgr", "gray"]
Convert = Literal["network", "image"]
Image = npt.NDArray[np.uint8]

WHOLE: Region = (0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class ImageForm:
    """The form in which pre-processing hands images over; the engine folds the rest into the graph.

    The network sees ``(image - mean) * scale``, channel by channel, in the layout and element type that it was
    exported with. So pre-processing may hand over ``uint8`` rows as they come, with ``scale=(1 / 255,)``, and the
    layout change, the conversion and the normalisation cost (nearly) nothing.

    ``mean`` and ``scale`` have one value, or one for each channel in the order of the image's channels.
    ``size_wh`` fixes the image's size for a model whose height and width are dynamic; models of a fixed size
    refuse another one. Channel order (RGB or BGR) is never changed.
    """

    layout: Literal["nhwc", "nchw"] = "nhwc"
    dtype: Literal["uint8", "float32"] = "uint8"
    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    size_wh: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """How an image becomes a network's input: `y = (x - mean) / scale` of what is resized, placed and padded.

    `size_wh` None is an input as large as the image (`fit: native`), rounded up to a `multiple`; `crop` is for
    `fit: cover`. `mean`, `scale` and `pad` have one value, or one for each channel in the order `color`; `pad` is in
    levels of the image (0..255), so it is normalised like everything else.
    """

    size_wh: tuple[int, int] | None
    fit: Fit = "letterbox"
    align: Align = "center"
    resize: Resize = "bilinear"
    convert: Convert = "network"
    color: ChannelOrder = "rgb"
    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (255.0,)
    pad: tuple[int, ...] = (114,)
    crop: float = 1.0
    multiple: int = 32
    rounding: Rounding = "nearest"
    """How the sides of a centred letterbox are rounded."""

    @property
    def channels(self) -> int:
        """Channels of the network's input."""
        return 1 if self.color == "gray" else 3

    @property
    def value_range(self) -> tuple[float, float]:
        """The least and the largest value of the network's input, of all channels."""
        levels = [(level - mean) / scale for level in (0, 255) for mean, scale in self._steps()]
        return min(levels), max(levels)

    def place(self, region_xyxy: Region) -> Placement:
        """Where a region of the image, in its pixels, lies in the network's input."""
        return place(
            region_xyxy,
            size_wh=self.size_wh,
            fit=self.fit,
            align=self.align,
            crop=self.crop,
            multiple=self.multiple,
            rounding=self.rounding,
        )

    def place_fractions(self, fractions: Region, surface: Surface) -> Placement:
        """Where a region in fractions of the image lies in the network's input; grown to whole chroma samples."""
        size_wh, chroma_shift = surface.size_wh, surface.format.chroma_shift
        return self.place(region_in_pixels(fractions, size_wh=size_wh, chroma_shift=chroma_shift))

    def _steps(self) -> list[tuple[float, float]]:
        """Mean and scale of each channel."""
        count = max(len(self.mean), len(self.scale))
        return list(zip(self.mean * (count // len(self.mean)), self.scale * (count // len(self.scale)), strict=True))

    def image_form(self) -> ImageForm:
        """What the engine is opened with, so that it takes the images of a `Preprocessor` as they are."""
        return ImageForm(
            layout="nhwc",
            dtype="uint8",
            mean=self.mean,
            scale=tuple(1 / value for value in self.scale),
            size_wh=self.size_wh,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A network's input: `image` (1, height, width, channels) uint8, C-contiguous, and where it came from."""

    image: Image
    placement: Placement


Part: TypeAlias = tuple[Surface, Placement]
"""A part of a surface, and where it lies in a network's input."""


class Preprocessor(Protocol):
    """Makes network inputs of parts of surfaces, in whatever memory these lie. One thread calls it; any thread may
    `recycle`.
    """

    @property
    def device(self) -> str:
        """Where it works: `cpu` or `cuda:N`."""
        ...

    def prepare_all(self, parts: Sequence[Part]) -> Iterator[Prepared]:
        """The network's input for each part, in their order.

        The images belong to the caller, who may give them back by `recycle` once nobody reads them any more.
        """
        ...

    def recycle(self, prepared: Prepared) -> None:
        """Take an image back to use its memory again."""
        ...
