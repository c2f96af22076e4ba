"""Which way up an image is: metadata to one of eight orientations, and surfaces turned by it.

Turning an image of odd width or height moves chroma by up to one pixel, because its last column or row covers only
one column or row of luma.
"""

from __future__ import annotations

import dataclasses
import struct
from dataclasses import dataclass
from typing import cast

import numpy as np
from av.sidedata.sidedata import SideData, Type
from av.video.frame import VideoFrame

from sightline.media import Surface
from sightline.media.surface import Plane
from sightline_plugins.opencv import cv2


@dataclass(frozen=True, slots=True)
class Orientation:
    """How stored pixels become the image: rows and columns exchanged first, then mirrored along x and y."""

    transposed: bool = False
    flip_x: bool = False
    flip_y: bool = False


UPRIGHT = Orientation()
_CLOCKWISE = {
    0: UPRIGHT,
    90: Orientation(transposed=True, flip_x=True),
    180: Orientation(flip_x=True, flip_y=True),
    270: Orientation(transposed=True, flip_y=True),
}
_COPY_WH = (16, 16)
_FLIP_CODE = {(True, False): 1, (False, True): 0, (True, True): -1}


def orientation_from_degrees(clockwise: int) -> Orientation:
    """The orientation that turns an image clockwise by 0, 90, 180 or 270 degrees (others, and none: upright)."""
    return _CLOCKWISE.get(clockwise % 360, UPRIGHT)


def orientation_from_matrix(matrix: tuple[int, ...]) -> Orientation:
    """The orientation that a display matrix (ISO/IEC 14496-12, nine numbers) asks for; upright when it is none of
    the eight: turned by another angle, or nonsense.
    """
    a, b, _, c, d = matrix[:5]
    if a and d and not b and not c:
        return Orientation(flip_x=a < 0, flip_y=d < 0)
    if b and c and not a and not d:
        return Orientation(transposed=True, flip_x=c < 0, flip_y=b < 0)
    return UPRIGHT


def orientation_of(frame: VideoFrame) -> Orientation:
    """The orientation that a decoded frame's metadata asks for.

    A small copy is read, which has the same metadata: a frame whose metadata is read refers to itself from then on,
    and stays, with its pixels, until the garbage collector comes.
    """
    copy = frame.reformat(*_COPY_WH, format="gray", threads=1)
    try:
        side_data = cast("list[SideData]", list(copy.side_data))
    except ValueError:  # PyAV knows fewer kinds of side data than FFmpeg and then lists none
        return orientation_from_degrees(-frame.rotation)
    for data in side_data:
        if data.type is Type.DISPLAYMATRIX:
            return orientation_from_matrix(struct.unpack("=9i", bytes(data)))
    return UPRIGHT


def turn(surface: Surface, orientation: Orientation) -> Surface:
    """The image the right way up: new planes, exclusive. 4:2:2 cannot be transposed (ValueError)."""
    width, height = surface.size_wh
    planes = tuple(_turn_plane(plane, orientation) for plane in surface.planes)
    size_wh = (height, width) if orientation.transposed else (width, height)
    return dataclasses.replace(surface, pixels=planes, size_wh=size_wh, owner=None, exclusive=True)


def _turn_plane(plane: Plane, orientation: Orientation) -> Plane:
    turned = cv2.transpose(plane) if orientation.transposed else plane
    code = _FLIP_CODE.get((orientation.flip_x, orientation.flip_y))
    result: Plane = np.array(turned) if code is None else cv2.flip(turned, code)
    return result
