"""What the CPU's decoder makes of a key frame: the facts that NVDEC does not tell, or that decide whether it is used.

Colour matrix and range, which way up an image is, and whether it is interlaced, come from the container and from the
stream in a dozen ways that FFmpeg knows. So the first key frame, and each that brings another configuration, is
decoded on the CPU as well, and what the CPU says of it holds for the images of NVDEC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from sightline.media import ColorMatrix, ColorRange, PixelFormat
from sightline_plugins.decode.orientation import Orientation, orientation_of
from sightline_plugins.decode.surfaces import layout_of

_FORMATS: Mapping[str, tuple[PixelFormat, str, int]] = MappingProxyType(
    {
        "gray": (PixelFormat.GRAY8, "400", 8),
        "gray10le": (PixelFormat.GRAY8, "400", 10),
        "gray12le": (PixelFormat.GRAY8, "400", 12),
        "yuv420p": (PixelFormat.NV12, "420", 8),
        "yuvj420p": (PixelFormat.NV12, "420", 8),
        "yuv420p10le": (PixelFormat.NV12, "420", 10),
        "yuv420p12le": (PixelFormat.NV12, "420", 12),
        "yuv444p": (PixelFormat.I444, "444", 8),
        "yuvj444p": (PixelFormat.I444, "444", 8),
        "yuv444p10le": (PixelFormat.I444, "444", 10),
        "yuv444p12le": (PixelFormat.I444, "444", 12),
    }
)
"""FFmpeg's formats that NVDEC may give: the format of the surface, the chroma layout and the depth."""
_PROGRESSIVE = (0, 1)
"""FFmpeg's orders of fields: unknown, and none."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What holds for the images from one key frame on; `size_wh` is that before a turn.

    `pixel_format` is that of surfaces in GPU memory, None when NVDEC never gives the format that FFmpeg calls `coded`.
    """

    coded: str
    size_wh: tuple[int, int]
    matrix: ColorMatrix
    range: ColorRange
    orientation: Orientation
    is_interlaced: bool

    @property
    def pixel_format(self) -> PixelFormat | None:
        """The format of surfaces in GPU memory."""
        return _FORMATS[self.coded][0] if self.coded in _FORMATS else None

    @property
    def chroma(self) -> str:
        """The layout of chroma, `420`."""
        return _FORMATS[self.coded][1]

    @property
    def bit_depth(self) -> int:
        """How many bits a sample has."""
        return _FORMATS[self.coded][2]


def facts_of(data: bytes, *, video: VideoStream, orientation: Orientation | None) -> ImageFacts | None:
    """The facts that begin with this encoded image; None when it cannot be decoded by itself.

    `orientation` overrides what the stream says. The stream's own decoder is used, and left as if it had seen nothing.
    Raises what PyAV raises when the image is damaged.
    """
    context = video.codec_context
    try:
        frames = [*context.decode(cast("Packet[VideoStream]", Packet(data))), *context.decode(None)]
    finally:
        context.flush_buffers()
    return _facts(frames[0], field_order=context.field_order, orientation=orientation) if frames else None


def _facts(frame: VideoFrame, *, field_order: int, orientation: Orientation | None) -> ImageFacts:
    layout = layout_of(frame)
    return ImageFacts(
        coded=frame.format.name,
        size_wh=layout.size_wh,
        matrix=layout.matrix,
        range=layout.range,
        orientation=orientation_of(frame) if orientation is None else orientation,
        is_interlaced=frame.interlaced_frame or field_order not in _PROGRESSIVE,
    )
