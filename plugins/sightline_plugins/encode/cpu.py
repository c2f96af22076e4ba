"""Encoding on the CPU: libx264 and libx265 through PyAV, and images of a GPU on their way to it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from av.packet import Packet
from av.video.frame import PictureType
from av.video.stream import VideoStream

from sightline.media import Memory, PixelFormat, Surface
from sightline.media.surface import DeferredCopy
from sightline_plugins.encode.images import AV_MATRIX, AV_RANGE, ImageMaker, even_size
from sightline_plugins.encode.muxer import Muxer
from sightline_plugins.encode.settings import TICKS_PER_SECOND, TIME_BASE, EncoderChoice, EncoderSettings, Layout

_NOMINAL_FPS = 30
_UNKNOWN_FPS = TICKS_PER_SECOND
"""A rate so high that Matroska leaves out its field of constant frame durations, which would be a guess."""
_ENDLESS_GOP = 1 << 30
_MAX_THREADS = 8
"""Each thread of the encoder holds back a frame, which a kill would lose."""

_TOO_SHORT_FOR_X265 = 2
"""With so few frames x265 leaves the decoding times undefined; none of them is a B-frame."""

_ENCODERS = {"h264": "libx264", "h265": "libx265"}


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An image that is not encoded yet: on its way down from a GPU."""

    surface: DeferredCopy[Surface]
    ticks: int
    is_key: bool


class CpuEncoder:
    """Encodes in host memory: a `ImageEncoder`.

    An image that lies in a GPU's memory comes down in one copy, which begins when it is given and is waited for when
    the next one is: so that one is on its way while another is encoded, and one is held back.
    """

    def __init__(self, muxer: Muxer, *, first: Surface, settings: EncoderSettings, reason: str = "") -> None:
        self.choice = EncoderChoice(_ENCODERS[settings.codec], reason=reason)
        keeps_nv12 = first.format is PixelFormat.NV12 and settings.codec == "h264"
        pixel_format = "nv12" if keeps_nv12 else "yuv420p"
        self._images = ImageMaker(pixel_format)
        self._waiting: deque[_Waiting] = deque()
        self._count = 0
        self._stream = _add_stream(muxer, Layout.of(first), settings=settings, pixel_format=pixel_format)

    def encode(self, surface: Surface, *, ticks: int, is_key: bool) -> Sequence[Packet[VideoStream]]:
        """What comes out when this image goes in."""
        self._waiting.append(_Waiting(surface.begin_to_host(), ticks, is_key))
        return self._encoded(leave=1 if surface.memory is Memory.CUDA else 0)

    def finish(self) -> Sequence[Packet[VideoStream]]:
        """What is left."""
        packets = self._encoded(leave=0)
        if self._count:
            rest = self._stream.encode(None)
            packets.extend(rest if self._count > _TOO_SHORT_FOR_X265 else _in_order(rest))
        return packets

    def close(self) -> None:
        """Forget what is not encoded; the encoder itself goes with its container."""
        self._waiting.clear()

    def _encoded(self, *, leave: int) -> list[Packet[VideoStream]]:
        packets: list[Packet[VideoStream]] = []
        while len(self._waiting) > leave:
            waiting = self._waiting.popleft()
            image = self._images.from_surface(waiting.surface.wait())
            image.pts, image.time_base = waiting.ticks, TIME_BASE
            image.pict_type = PictureType.I if waiting.is_key else PictureType.NONE
            self._count += 1
            packets.extend(self._stream.encode(image))
        return packets


def _in_order(packets: Sequence[Packet[VideoStream]]) -> Sequence[Packet[VideoStream]]:
    """The packets, decoded in the order in which they are shown."""
    for packet in packets:
        packet.dts = packet.pts
    return packets


def _add_stream(muxer: Muxer, layout: Layout, *, settings: EncoderSettings, pixel_format: str) -> VideoStream:
    width, height = even_size(layout.size_wh)
    options = {"preset": settings.preset, "forced-idr": "1", "sc_threshold": "0"}
    if settings.bitrate is None:
        options["crf"] = str(settings.quality)
    if settings.codec == "h265":
        options["x265-params"] = "log-level=error:scenecut=0"
    stream = muxer.container.add_stream(
        _ENCODERS[settings.codec],
        rate=_UNKNOWN_FPS,
        options=options,
        width=width,
        height=height,
        bit_rate=settings.bitrate or 0,
        time_base=TIME_BASE,
        pix_fmt=pixel_format,
    )
    if not isinstance(stream, VideoStream):
        raise TypeError(f"{_ENCODERS[settings.codec]} is no video encoder")
    context = stream.codec_context
    context.framerate = Fraction(_NOMINAL_FPS)
    context.gop_size = _ENDLESS_GOP
    context.thread_count = min(_MAX_THREADS, len(os.sched_getaffinity(0)))
    context.colorspace = AV_MATRIX[layout.matrix]
    context.color_range = AV_RANGE[layout.range]
    if settings.codec == "h265":
        context.codec_tag = "hvc1" if muxer.container.format.name == "mp4" else context.codec_tag
    context.open()
    return stream
