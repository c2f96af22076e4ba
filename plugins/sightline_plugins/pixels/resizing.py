"""Which part of an image is resized, and to what size, so that a placement's region comes out where it should."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sightline_plugins.pixels.placement import Placement, SizeWh, whole_samples
from sightline_plugins.pixels.surface_colors import WholeRegion

_MARGIN = 2
_EXACT = 1e-3
"""Pixels of the network by which an edge may lie beside a whole one."""


@dataclass(frozen=True, slots=True)
class Resizing:
    """A region of the image in whole samples, the size it is resized to, and where in that begins what is wanted."""

    region: WholeRegion
    size_wh: tuple[int, int]
    first_xy: tuple[int, int] = (0, 0)


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
    return _from_whole_image(image, placement) or Resizing(grown, size_wh)


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
