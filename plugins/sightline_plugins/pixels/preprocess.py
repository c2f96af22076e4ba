"""Pre-processing: the one definition of how a surface becomes a network's input, and its implementation on the CPU.

That on a GPU is `preprocess/cuda_preprocessor.py`.

Everything happens in 8 bits per sample; mean, scale, layout and element type of the network are folded into its
graph by the engine (`Preprocessing.image_form`). Colours are converted in one of two places:

`network`  the planes are resized to the network's size and converted there. Nothing touches every pixel of the image
           but the resize, so the cost hardly grows with it.
`image`  the whole image is converted, then resized, exactly as training code does it (OpenCV's capture and resize).
           Networks that react to single levels need it: with FastestDet, 8 in 100 boxes move otherwise.

Regions that lie on whole chroma samples inside the image are views of its planes. Others (crops of objects to a
fraction of a pixel, beyond the image, or turned) are sampled where they lie; the image's edge is repeated.
Filters that average do not sample: `resizing.py` says what they resize instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from sightline.errors import ConfigurationError
from sightline.media import Memory, PixelFormat, Surface
from sightline_plugins.pixels.image_form import ImageForm
from sightline_plugins.pixels.placement import (
    Align,
    Fit,
    Placement,
    Region,
    place,
    region_in_pixels,
)
from sightline_plugins.pixels.plane_resize import PlaneResizer, Resize
from sightline_plugins.pixels.resizing import Cut, cut_for
from sightline_plugins.pixels.sampling import sample_plane
from sightline_plugins.pixels.surface_colors import (
    ChannelOrder,
    ImageColors,
    WholeRegion,
    colors_from_planes,
    cut_planes,
)

Convert = Literal["network", "image"]
Image = npt.NDArray[np.uint8]

WHOLE: Region = (0.0, 0.0, 1.0, 1.0)
_SPARE = 64
_SHAPES = 64
_MARGIN = 4
"""Pixels around a region that sampling may look at: half a chroma sample, and the next one."""


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


class HostPreprocessor:
    """Makes network inputs on the CPU: a `Preprocessor`."""

    device = "cpu"

    def __init__(self, definition: Preprocessing) -> None:
        self.definition = definition
        self._resizer = PlaneResizer(definition.resize)
        self._colors = ImageColors()
        self._samples = definition.resize in ("bilinear", "nearest")
        self._spare: dict[tuple[int, ...], deque[Image]] = {}

    def prepare_all(self, parts: Sequence[Part]) -> Iterator[Prepared]:
        """See `Preprocessor.prepare_all`; each is made when it is asked for."""
        for surface, placement in parts:
            yield self.prepare(surface.to_host(), placement)

    def prepare(self, surface: Surface, placement: Placement | None = None) -> Prepared:
        """The network's input for the part of a surface in host memory that `placement` names; for all of it when none
        is given.
        """
        if surface.memory is not Memory.HOST:
            raise ConfigurationError("pre-processing on the CPU needs surfaces in host memory: use surface.to_host()")
        placement = placement or self.definition.place_fractions(WHOLE, surface)
        image = self._canvas(placement)
        left, top, width, height = placement.inner_xywh
        self._fill(surface, placement, out=image[0, top : top + height, left : left + width])
        return Prepared(image, placement)

    def recycle(self, prepared: Prepared) -> None:
        """See `Preprocessor.recycle`; its padding is kept as it is."""
        spare = self._spare.get(_shape_of(prepared.placement))
        if spare is not None:
            spare.append(prepared.image)

    def _fill(self, surface: Surface, placement: Placement, *, out: Image) -> None:
        order = self.definition.color
        kind = surface.format
        where = cut_for(placement, size_wh=surface.size_wh, chroma_shift=kind.chroma_shift, averages=not self._samples)
        at_network_size = self.definition.convert == "network" or order == "gray"
        if kind.is_yuv and (at_network_size or kind is PixelFormat.GRAY8):
            cut = cut_planes(surface, where.part, luma_only=order == "gray")
            shift = kind.chroma_shift
            planes = tuple(
                self._placed(plane, where, shift=shift if number else (0, 0)) for number, plane in enumerate(cut)
            )
            colors_from_planes(planes, surface, order=order, out=out)
            return
        channels = self._channels(surface, where.part)
        resized = [self._placed(channel, where, shift=(0, 0)) for channel in channels]
        if order == "gray":
            out[..., 0] = cv2.cvtColor(cv2.merge(resized), cv2.COLOR_RGB2GRAY)
        else:
            cv2.merge(resized if order == "rgb" else resized[::-1], dst=out)

    def _placed(self, plane: Image, where: Cut, *, shift: tuple[int, int]) -> Image:
        """A plane at the size of the inner rectangle: resized when it was cut for that, else sampled."""
        resizing, placement = where.resizing, where.inside
        if resizing is not None:
            (left, top), (width, height) = resizing.first_xy, placement.inner_xywh[2:]
            return self._resizer.resize(plane, size_wh=resizing.size_wh)[top : top + height, left : left + width]
        return sample_plane(plane, placement, shift=shift, nearest=self.definition.resize == "nearest")

    def _channels(self, surface: Surface, region: WholeRegion) -> tuple[Image, ...]:
        """Red, green and blue of a region at the image's size."""
        if surface.format.is_yuv:
            return self._colors.planes(surface, region)
        left, top, right, bottom = region
        channels = cv2.split(surface.planes[0][top:bottom, left:right])
        return tuple(channels if surface.format is PixelFormat.RGB24 else channels[::-1])

    def _canvas(self, placement: Placement) -> Image:
        key = _shape_of(placement)
        spare = self._spare.get(key)
        if spare is None:
            if len(self._spare) >= _SHAPES:
                self._spare.clear()
            spare = self._spare[key] = deque(maxlen=_SPARE)
        try:
            return spare.pop()
        except IndexError:
            width, height = placement.size_wh
            image = np.empty((1, height, width, self.definition.channels), np.uint8)
            image[:] = self.definition.pad if self.definition.channels > 1 else self.definition.pad[0]
            return image


def _shape_of(placement: Placement) -> tuple[int, ...]:
    return (*placement.inner_xywh, *placement.size_wh)
