"""Whether an image of NVDEC is the CPU's.

Decoders of H.264, H.265, VP8, VP9 and AV1 are exact: the standard gives every sample. So an image that differs is a
fault (of a library that takes the wrong part of the image, of a driver, of a GPU), or was damaged on its way: what
belongs where the data is missing is left to the decoder.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from av.video.frame import VideoFrame

from sightline.media import PixelFormat, Surface
from sightline.media.surface import Plane
from sightline_plugins.decode.orientation import Orientation
from sightline_plugins.decode.surfaces import FrameSurfaces

_TOLERANCE = 1
"""Levels. Samples of more than 8 bits are rounded with a dither, and on some processors not by the same one."""
_FLAT = 16
"""An image whose luma spans so few levels looks the same when it is shifted."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison found: how the images differ, None when they are the same.

    `is_telling` is False for an image without detail, such as a black one, of which a shifted one is the same.
    """

    difference: str | None
    is_telling: bool


def compare(surface: Surface, reference: VideoFrame, *, orientation: Orientation) -> Verdict:
    """Compare an image with the CPU's decoding of it; `orientation` is what the surface was turned by.

    A surface in GPU memory is copied to the host, and waited for. Raises CudaError.
    """
    expected = FrameSurfaces(orientation=orientation).surface(reference)
    ours, theirs = _planes(surface.to_host()), _planes(expected)
    is_telling = int(np.ptp(theirs[0])) > _FLAT
    if surface.size_wh != expected.size_wh:
        return Verdict(f"{_size(surface)} instead of {_size(expected)}", is_telling)
    if all(map(np.array_equal, ours, theirs)):
        return Verdict(None, is_telling)
    off = [np.abs(one.astype(np.int16) - other) for one, other in zip(ours, theirs, strict=True)]
    most = max(int(plane.max()) for plane in off)
    if most <= _TOLERANCE:
        return Verdict(None, is_telling)
    share = sum(int(np.count_nonzero(plane)) for plane in off) / sum(plane.size for plane in off)
    return Verdict(f"{share:.1%} of its samples, by up to {most} levels", is_telling)


def _size(surface: Surface) -> str:
    return "{}x{}".format(*surface.size_wh)


def _planes(surface: Surface) -> list[Plane]:
    """One plane for each component."""
    if surface.format is not PixelFormat.NV12:
        return list(surface.planes)
    luma, chroma = surface.planes
    return [luma, chroma[..., 0], chroma[..., 1]]
