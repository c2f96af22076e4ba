"""Still pictures: the bytes of a file to one decoded frame, without a container in between.

JPEG stays in the YUV it is stored in. The size is checked by the decoder before it allocates a picture.
"""

from __future__ import annotations

import struct

import av.error
from av.codec.context import CodecContext
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame

from sightline_plugins.decode.orientation import UPRIGHT, Orientation, orientation_of

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xd8\xff", "mjpeg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"RIFF", "webp"),
    (b"BM", "bmp"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"P4", "pbm"),
    (b"P5", "pgm"),
    (b"P6", "ppm"),
)
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
    """How many bytes a file with a picture of so many pixels can have: 16 bits and four channels, uncompressed."""
    return max_pixels * _BYTES_PER_PIXEL + _SMALL_FILE


def decode_picture(data: bytes, *, max_pixels: int) -> VideoFrame:
    """The picture in the bytes of a JPEG, PNG, BMP, WebP, TIFF or binary PNM file.

    Raises ValueError, with the cause, when it is none of these, damaged, or larger than `max_pixels`.
    """
    codec = next((name for signature, name in _SIGNATURES if data.startswith(signature)), None)
    if codec is None:
        raise ValueError("it is no JPEG, PNG, BMP, WebP, TIFF or binary PNM picture")
    context = CodecContext.create(codec, "r")
    assert isinstance(context, VideoCodecContext)
    context.thread_count = 1
    context.options = {"max_pixels": str(max_pixels)}
    try:
        frames = context.decode(Packet(data)) or context.decode(None)
    except (av.error.FFmpegError, OSError):
        frames = []
    if not frames:
        raise ValueError(f"it is damaged, or larger than {max_pixels} pixels")
    return frames[0]


def picture_orientation(data: bytes, frame: VideoFrame) -> Orientation:
    """Which way up the picture is, by the EXIF data of a JPEG or else by what the decoder says."""
    number = _exif_orientation(data) if data.startswith(b"\xff\xd8") else None
    return orientation_of(frame) if number is None else _EXIF_ORIENTATIONS.get(number, UPRIGHT)


def _exif_orientation(jpeg: bytes) -> int | None:
    """The tag 0x0112 of the first EXIF segment of a JPEG (CIPA DC-008); None when there is none."""
    position = 2
    while jpeg[position : position + 1] == b"\xff" and jpeg[position + 1 : position + 2] not in (b"\xda", b""):
        length = int.from_bytes(jpeg[position + 2 : position + 4], "big")
        if jpeg[position + 1] == 0xE1 and jpeg[position + 4 : position + 10] == b"Exif\x00\x00":
            return _tiff_orientation(jpeg[position + 10 : position + 2 + length])
        position += 2 + length
    return None


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
