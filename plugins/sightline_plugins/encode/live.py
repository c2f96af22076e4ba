"""Encoding for those who watch now: one image in, one image out, and nothing held back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import av
from av.codec import CodecContext
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType

from sightline.errors import OutputError
from sightline.media import Frame, PixelFormat, Surface
from sightline_plugins.encode.images import AV_MATRIX, AV_RANGE, AV_TRANSFER, ImageMaker, even_size
from sightline_plugins.encode.settings import TICKS_PER_SECOND, TIME_BASE, Layout, ticks_from_ns

_SECOND_NS = 1_000_000_000
_NOMINAL_FPS = 30
_ENDLESS_GOP = 1 << 30


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """How images are encoded: `quality` is the constant rate factor, `bitrate` bits a second and goes before it.

    `key_ns` is the time from one key frame to the next.
    """

    preset: str
    quality: int
    bitrate: int | None
    key_ns: int


@dataclass(frozen=True, slots=True)
class LivePacket:
    """An encoded image: Annex B, a key frame with its parameter sets."""

    data: bytes
    pts_ns: int
    is_key: bool


class LiveEncoder:
    """H.264 without B-frames and without look-ahead, for images of one layout; used by one thread at a time."""

    def __init__(self, first: Surface, *, settings: LiveSettings) -> None:
        self.layout = Layout.of(first)
        self.size_wh = even_size(self.layout.size_wh)
        self._settings = settings
        pixel_format = "nv12" if first.format is PixelFormat.NV12 else "yuv420p"
        self._images = ImageMaker(pixel_format)
        self._last_ticks: int | None = None
        self._next_key_ns: int | None = None
        self._context = _open(self.layout, settings=settings, pixel_format=pixel_format)

    def encode(self, frame: Frame, *, key: bool = False) -> Iterator[LivePacket]:
        """What comes out for a frame, as a rule one image; `key` asks for a key frame. Raises OutputError.

        Times are kept to 1/90000 s; one that does not grow is put a tick after the last.
        """
        image = self._images.from_surface(frame.surface)
        ticks = ticks_from_ns(frame.pts_ns)
        if self._last_ticks is not None:
            ticks = max(ticks, self._last_ticks + 1)
        self._last_ticks = image.pts = ticks
        image.time_base = TIME_BASE
        image.pict_type = PictureType.I if self._is_key(frame.pts_ns) or key else PictureType.NONE
        try:
            packets = self._context.encode(image)
        except (av.FFmpegError, ValueError) as error:
            raise OutputError(f"stream {frame.stream.name!r} cannot be encoded: {error}") from error
        for packet in packets:
            pts_ns = frame.pts_ns if packet.pts is None else (packet.pts * _SECOND_NS) // TICKS_PER_SECOND
            yield LivePacket(bytes(packet), pts_ns, packet.is_keyframe)

    def _is_key(self, pts_ns: int) -> bool:
        if self._next_key_ns is not None and pts_ns < self._next_key_ns:
            return False
        self._next_key_ns = pts_ns + self._settings.key_ns
        return True


def _open(layout: Layout, *, settings: LiveSettings, pixel_format: str) -> VideoCodecContext:
    context = CodecContext.create("libx264", "w")
    if not isinstance(context, VideoCodecContext):
        raise TypeError("libx264 is no video encoder")
    options = {"preset": settings.preset, "tune": "zerolatency", "forced-idr": "1", "sc_threshold": "0"}
    if settings.bitrate is None:
        options["crf"] = str(settings.quality)
    else:
        options |= {"maxrate": str(settings.bitrate), "bufsize": str(settings.bitrate)}
        context.bit_rate = settings.bitrate
    context.options = options
    context.width, context.height = even_size(layout.size_wh)
    context.pix_fmt = pixel_format
    context.time_base = TIME_BASE
    context.framerate = Fraction(_NOMINAL_FPS)
    context.gop_size = _ENDLESS_GOP
    context.thread_count = 1
    context.colorspace = context.color_primaries = AV_MATRIX[layout.matrix]
    context.color_trc = AV_TRANSFER[layout.matrix]  # browsers guess all three when one is not said
    context.color_range = AV_RANGE[layout.range]
    context.open()
    return context
