"""Still images: the bytes of a file to one surface, without a container in between.

JPEG is decoded by OpenCV, whose chroma is enlarged smoothly: a model then sees of an image what it sees in a notebook,
to the level (with FFmpeg's decoder one box in twenty of a small detector moves). Other formats are FFmpeg's. The size
is checked before an image is allocated.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import av.error
import numpy as np
from av.codec.context import CodecContext
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame

from sightline.media import PixelFormat, Surface
from sightline.media.surface import Plane
from sightline_plugins.codecs.packet import packet_of
from sightline_plugins.decode.orientation import UPRIGHT, Orientation, orientation_of, turn
from sightline_plugins.decode.surfaces import FrameSurfaces
from sightline_plugins.opencv import cv2

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"RIFF", "webp"),
    (b"BM", "bmp"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"P4", "pbm"),
    (b"P5", "pgm"),
    (b"P6", "ppm"),
)
_JPEG = b"\xff\xd8\xff"
_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_EXIF_ORIENTATIONS = {
    2: Orientation(flip_x=True),
    3: Orientation(flip_x=True, flip_y=True),
    4: Orientation(flip_y=True),
    5: Orientation(transposed=True),
    6: Orientation(transposed=True, flip_x=True),
    7: Orientation(transposed=True, flip_x=True, flip_y=True),
    8: Orientation(transposed=True, flip_y=True),
}
_BYTES_PER_PIXEL = 8
_SMALL_FILE = 1 << 20


def largest_file(max_pixels: int) -> int:
    """How many bytes a file with an image of so many pixels can have: 16 bits and four channels, uncompressed."""
    return max_pixels * _BYTES_PER_PIXEL + _SMALL_FILE


def image_surface(data: bytes, *, max_pixels: int, orientation: Orientation | None = None) -> Surface:
    """The image in the bytes of a JPEG, PNG, BMP, WebP, TIFF or binary PNM file.

    `orientation` None follows the EXIF data of a JPEG, or else what the decoder says.
    Raises ValueError, with the cause, when it is none of these, damaged, or larger than `max_pixels`.
    """
    if data.startswith(_JPEG):
        return _jpeg_surface(data, max_pixels=max_pixels, orientation=orientation)
    frame = _decoded(data, max_pixels=max_pixels)
    return FrameSurfaces(orientation=orientation or orientation_of(frame)).surface(frame)


def _jpeg_surface(data: bytes, *, max_pixels: int, orientation: Orientation | None) -> Surface:
    header = _jpeg_header(data)
    bgr = None
    if header.size_wh is not None and 0 < header.size_wh[0] * header.size_wh[1] <= max_pixels:
        bgr = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    if bgr is None:
        raise ValueError(f"it is damaged, or larger than {max_pixels} pixels (max_pixels)")
    height, width = bgr.shape[:2]
    plane: Plane = bgr.astype(np.uint8, copy=False)
    surface = Surface(PixelFormat.BGR24, (width, height), (plane,), exclusive=True)
    upright = orientation or header.orientation
    return surface if upright == UPRIGHT else turn(surface, upright)


def _decoded(data: bytes, *, max_pixels: int) -> VideoFrame:
    codec = next((name for signature, name in _SIGNATURES if data.startswith(signature)), None)
    if codec is None:
        raise ValueError("it is no JPEG, PNG, BMP, WebP, TIFF or binary PNM image")
    context = CodecContext.create(codec, "r")
    assert isinstance(context, VideoCodecContext)
    context.thread_count = 1
    context.options = {"max_pixels": str(max_pixels)}
    try:
        frames = context.decode(packet_of(data)) or context.decode(None)
    except (av.error.FFmpegError, OSError):
        frames = []
    if not frames:
        raise ValueError(f"it is damaged, or larger than {max_pixels} pixels (max_pixels)")
    return frames[0]


@dataclass(frozen=True, slots=True)
class _JpegHeader:
    size_wh: tuple[int, int] | None = None
    orientation: Orientation = UPRIGHT


def _jpeg_header(jpeg: bytes) -> _JpegHeader:
    """Size and orientation (tag 0x0112 of the first EXIF segment, CIPA DC-008) of a JPEG."""
    size_wh, orientation = None, UPRIGHT
    position = 2
    while jpeg[position : position + 1] == b"\xff" and jpeg[position + 1 : position + 2] not in (b"\xda", b""):
        marker = jpeg[position + 1]
        if marker == 0xFF:  # padding
            position += 1
            continue
        length = int.from_bytes(jpeg[position + 2 : position + 4], "big")
        if marker == 0xE1 and orientation == UPRIGHT and jpeg[position + 4 : position + 10] == b"Exif\x00\x00":
            number = _tiff_orientation(jpeg[position + 10 : position + 2 + length])
            orientation = _EXIF_ORIENTATIONS.get(number or 1, UPRIGHT)
        elif marker in _FRAME_MARKERS and size_wh is None:
            height, width = struct.unpack(">HH", jpeg[position + 5 : position + 9].ljust(4, b"\x00"))
            size_wh = width, height
        position += 2 + length
    return _JpegHeader(size_wh, orientation)


def _tiff_orientation(tiff: bytes) -> int | None:
    order = {b"II": "<", b"MM": ">"}.get(tiff[:2])
    if order is None or len(tiff) < 8:
        return None
    (start,) = struct.unpack_from(order + "I", tiff, 4)
    entries = tiff[start + 2 :]
    for at in range(0, len(entries) - 11, 12):
        tag, kind, _, value = struct.unpack_from(order + "HHIH", entries, at)
        if tag == 0x0112 and kind == 3:
            return int(value)
    return None
