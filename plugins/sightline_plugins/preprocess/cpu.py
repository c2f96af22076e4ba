"""Pre-processing on the CPU: surfaces become a network's input. This defines the results; `cuda.py` is its twin.

That on a GPU is `preprocess/cuda_preprocessor.py`.

Everything happens in 8 bits per sample; mean, scale, layout and element type of the network are folded into its
graph by the engine (`Preprocessing.image_form`). Colours are converted in one of two places:

`network`  the planes are resized to the network's size and converted there. Nothing touches every pixel of the image
           but the resize, so the cost hardly grows with it.
`image`  the whole image is converted, then resized, exactly as training code does it (OpenCV's capture and resize).
           Networks that react to single levels need it: with FastestDet, 8 in 100 boxes move otherwise.

Regions that lie on whole chroma samples inside the image are views of its planes; those of frames with chroma go
through one call of C with a plan that is kept (`fused.py`). Others (crops of objects to a fraction of a pixel, beyond
the image, or turned) are sampled where they lie; the image's edge is repeated.
Filters that average do not sample: `resizing.py` says what they resize instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.errors import ConfigurationError
from sightline.media import ColorMatrix, ColorRange, Memory, PixelFormat, Surface
from sightline.media.surface import Plane
from sightline_plugins.opencv import cv2
from sightline_plugins.preprocess.colors import ImageColors, PlaneResizer, WholeRegion, colors_from_planes, cut_planes
from sightline_plugins.preprocess.definition import WHOLE, Image, Part, Prepared, Preprocessing
from sightline_plugins.preprocess.fused import FusedPlan, Job, fused_plan
from sightline_plugins.preprocess.placement import (
    Placement,
    SizeWh,
    whole_samples,
)


def sample_plane(plane: Plane, placement: Placement, *, shift: tuple[int, int], nearest: bool = False) -> Plane:
    """The part of a plane that `placement` names, at the size of its inner rectangle (height, width).

    `shift` says by how many bits the plane is narrower and lower than the image (chroma); samples stand at the middle
    of what they cover. Bilinear with half-pixel centres, as a resize of the same region would do; outside the image
    its edge is repeated. Lets go of the GIL.
    """
    width, height = placement.inner_xywh[2:]
    how = (cv2.INTER_NEAREST if nearest else cv2.INTER_LINEAR) | cv2.WARP_INVERSE_MAP
    matrix = warp_matrix(placement, shift=shift)
    sampled: Plane = cv2.warpAffine(plane, matrix, (width, height), flags=how, borderMode=cv2.BORDER_REPLICATE)
    return sampled


def warp_matrix(placement: Placement, *, shift: tuple[int, int]) -> npt.NDArray[np.float64]:
    """Positions in a plane (2, 3) from columns and rows of the inner rectangle, whole numbers being middles of both."""
    (a, b, x), (c, d, y) = placement.image_from_network
    across, down = 1 << shift[0], 1 << shift[1]
    middle_x, middle_y = placement.inner_xywh[0] + 0.5, placement.inner_xywh[1] + 0.5
    return np.array(
        [
            [a / across, b / across, (a * middle_x + b * middle_y + x) / across - 0.5],
            [c / down, d / down, (c * middle_x + d * middle_y + y) / down - 0.5],
        ]
    )


_MARGIN = 2
_EXACT = 1e-3
"""Pixels of the network by which an edge may lie beside a whole one."""


@dataclass(frozen=True, slots=True)
class Resizing:
    """A region of the image in whole samples, the size it is resized to, and where in that begins what is wanted.

    `is_grown` where the region is larger than what was asked for.
    """

    region: WholeRegion
    size_wh: tuple[int, int]
    first_xy: tuple[int, int] = (0, 0)
    is_grown: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """What of an image a placement needs: `part` in whole chroma samples, and the placement as it lies in that part.

    `resizing` says how to get there by resizing; None says that it has to be sampled.
    """

    part: WholeRegion
    inside: Placement
    resizing: Resizing | None


@lru_cache(maxsize=1024)
def cut_for(placement: Placement, *, size_wh: SizeWh, chroma_shift: tuple[int, int], averages: bool) -> Cut:
    """The cut of an image of that size and format; `averages` says that the filter does, so cannot sample."""
    image = _Image(size_wh, chroma_shift)
    resizing = _find_resizing(image, placement, averages=averages)
    part = _samples_needed(image, placement, margin=_MARGIN) if resizing is None else resizing.region
    return Cut(part, placement.relative_to(part[0], part[1]), resizing)


class _Image(NamedTuple):
    size_wh: SizeWh
    chroma_shift: tuple[int, int]


def _find_resizing(image: _Image, placement: Placement, *, averages: bool) -> Resizing | None:
    """How to get a placement's region by resizing; None says that it has to be sampled.

    A region on whole chroma samples inside the image is resized as it is. For filters that average, one that begins
    at a whole pixel of the whole image resized is cut out of that (`fit: cover`), and another one inside the image
    is grown to whole samples.
    """
    if placement.turned is not None:
        return None
    size_wh = placement.inner_xywh[2:]
    grown = _samples_needed(image, placement)
    if all(whole == edge for whole, edge in zip(grown, placement.region_xyxy, strict=True)):
        return Resizing(grown, size_wh)
    left, top, right, bottom = placement.region_xyxy
    if not averages or left < 0 or top < 0 or right > image.size_wh[0] or bottom > image.size_wh[1]:
        return None
    return _from_whole_image(image, placement) or Resizing(grown, size_wh, is_grown=True)


def _from_whole_image(image: _Image, placement: Placement) -> Resizing | None:
    scale, image_wh = placement.scale_xy, image.size_wh
    left, top = placement.region_xyxy[:2]
    exact = (image_wh[0] / scale[0], image_wh[1] / scale[1], left / scale[0], top / scale[1])
    width, height, x, y = (round(value) for value in exact)
    if not np.allclose(exact, (width, height, x, y), rtol=0, atol=_EXACT):
        return None
    return Resizing((0, 0, *image_wh), (width, height), (x, y))


def _samples_needed(image: _Image, placement: Placement, *, margin: int = 0) -> WholeRegion:
    """The part of the image in whole chroma samples that the placement needs, and `margin` pixels around it."""
    (a, b, x), (c, d, y) = placement.image_from_network
    left, top, width, height = placement.inner_xywh
    region = placement.region_xyxy
    if placement.turned is not None:
        corners = [(u, v) for u in (left, left + width) for v in (top, top + height)]
        xs, ys = [a * u + b * v + x for u, v in corners], [c * u + d * v + y for u, v in corners]
        region = (min(xs), min(ys), max(xs), max(ys))
    if margin:
        region = (region[0] - margin, region[1] - margin, region[2] + margin, region[3] + margin)
    return whole_samples(region, size_wh=image.size_wh, chroma_shift=image.chroma_shift)


_SPARE = 64
_SHAPES = 64
_PLANS = 256
_Known: TypeAlias = tuple[Placement, SizeWh, PixelFormat, ColorMatrix, ColorRange]
"""All that the plan for an image depends on."""
_PREPROCESS_MARGIN = 4
"""Pixels around a region that sampling may look at: half a chroma sample, and the next one."""


class HostPreprocessor:
    """Makes network inputs on the CPU: a `Preprocessor`."""

    device = "cpu"

    def __init__(self, definition: Preprocessing) -> None:
        self.definition = definition
        self._resizer = PlaneResizer(definition.resize)
        self._colors = ImageColors()
        self._samples = definition.resize in ("bilinear", "nearest")
        self._spare: dict[tuple[int, ...], deque[Image]] = {}
        self._plans: dict[_Known, FusedPlan | None] = {}
        self._seen: set[_Known] = set()
        self._scratch = np.empty(0, np.uint8)

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
        known = placement, surface.size_wh, surface.format, surface.matrix, surface.range
        plan = self._plans[known] if known in self._plans else self._keep_plan(known)
        if plan is not None:
            plan.run(surface, out=image, scratch=self._scratch)
        else:
            left, top, width, height = placement.inner_xywh
            self._fill(surface, placement, out=image[0, top : top + height, left : left + width])
        return Prepared(image, placement)

    def recycle(self, prepared: Prepared) -> None:
        """See `Preprocessor.recycle`; its padding is kept as it is."""
        spare = self._spare.get(_shape_of(prepared.placement))
        if spare is not None:
            spare.append(prepared.image)

    def _keep_plan(self, known: _Known) -> FusedPlan | None:
        """Make a plan for what comes again: it takes as long as hundreds of images, and crops of objects differ."""
        if known not in self._seen:
            if len(self._seen) >= _PLANS:
                self._seen.clear()
            self._seen.add(known)
            return None
        placement, size_wh, kind, matrix, color_range = known
        if len(self._plans) >= _PLANS:
            self._plans.clear()
        cut = cut_for(placement, size_wh=size_wh, chroma_shift=kind.chroma_shift, averages=not self._samples)
        plan, resizing = None, cut.resizing
        if resizing is not None and not resizing.is_grown:
            job = Job(
                format=kind,
                size_wh=size_wh,
                matrix=matrix,
                range=color_range,
                region_xyxy=resizing.region,
                resized_wh=resizing.size_wh,
                window_xywh=(*resizing.first_xy, *placement.inner_xywh[2:]),
                place_xy=placement.inner_xywh[:2],
                network_wh=placement.size_wh,
            )
            plan = fused_plan(job, self.definition)
        if plan is not None and plan.scratch_bytes > len(self._scratch):
            self._scratch = np.empty(plan.scratch_bytes, np.uint8)
        self._plans[known] = plan
        return plan

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
