"""One file of encoded video: an encoder, a container, and the timestamps between them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from av.packet import Packet
from av.video.frame import PictureType
from av.video.stream import VideoStream

from sightline.errors import OutputError
from sightline.graph.outputs import Outputs
from sightline.media import ColorMatrix, ColorRange, Frame, PixelFormat, Surface
from sightline_plugins.encode.muxer import Muxer, open_muxer
from sightline_plugins.encode.pictures import AV_MATRIX, AV_RANGE, PictureMaker, even_size

TICKS_PER_SECOND = 90_000
_NS_PER_SECOND = 1_000_000_000
_TIME_BASE = Fraction(1, TICKS_PER_SECOND)
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
class EncoderSettings:
    """How pictures are encoded: `quality` is the constant rate factor, `bitrate` bits a second and goes before it."""

    codec: str
    preset: str
    quality: int
    bitrate: int | None
    gop_ns: int


@dataclass(frozen=True, slots=True)
class Layout:
    """What can not change within one file."""

    size_wh: tuple[int, int]
    matrix: ColorMatrix
    range: ColorRange

    @classmethod
    def of(cls, surface: Surface) -> Layout:
        """The layout of a surface."""
        return cls(surface.size_wh, surface.matrix, surface.range)


def ticks_from_ns(pts_ns: int) -> int:
    """Nanoseconds in units of 1/90000 s, rounded to the nearest."""
    return (pts_ns * TICKS_PER_SECOND + _NS_PER_SECOND // 2) // _NS_PER_SECOND


class Recording:
    """One file, opened at once and written frame by frame.

    Timestamps are kept. Two rules of the containers make exceptions, each reported once through `warn`: time can not
    be negative, so a stream that starts before 0 is moved to 0; and it must grow, so a frame that is not later than
    the one before it comes one tick after it. After an OutputError the file is closed and readable, every further
    `write` raises again, and `finish` does nothing.
    """

    def __init__(
        self,
        path: Path,
        *,
        first: Surface,
        settings: EncoderSettings,
        outputs: Outputs,
        warn: Callable[[str], None],
    ) -> None:
        self.path = path
        self.layout = Layout.of(first)
        self._settings = settings
        self._warn = warn
        self._failure: str | None = None
        self._offset_ticks: int | None = None
        self._last_ticks = -1
        self._frames = 0
        self._next_key_ns: int | None = None
        self._time_warned = False
        keeps_nv12 = first.format is PixelFormat.NV12 and settings.codec == "h264"
        pixel_format = "nv12" if keeps_nv12 else "yuv420p"
        self._pictures = PictureMaker(pixel_format)
        self._muxer: Muxer = open_muxer(path, outputs=outputs)
        with self._muxer.guard("encode video to"):
            self._stream = _add_stream(self._muxer, self.layout, settings=settings, pixel_format=pixel_format)

    def write(self, frame: Frame) -> None:
        """Encode one frame. Raises OutputError."""
        if self._failure is not None:
            raise OutputError(self._failure)
        picture = self._pictures.from_surface(frame.surface)
        picture.pts = self._ticks(frame.pts_ns)
        picture.time_base = _TIME_BASE
        picture.pict_type = PictureType.I if self._is_key(frame.pts_ns) else PictureType.NONE
        try:
            with self._muxer.guard("encode video to"):
                packets = self._stream.encode(picture)
            self._muxer.mux(packets)
        except OutputError as error:
            self._failure = str(error)
            raise

    def finish(self) -> None:
        """Write what the encoder still holds, and the index; close the file. Raises OutputError, once."""
        if self._failure is not None:
            return
        try:
            if self._frames:
                with self._muxer.guard("encode video to"):
                    packets = self._stream.encode(None)
                self._muxer.mux(packets if self._frames > _TOO_SHORT_FOR_X265 else _in_order(packets))
            self._muxer.finish()
        except OutputError as error:
            self._failure = str(error)
            raise
        self._failure = f"can not write {self.path}: it is closed"

    def _ticks(self, pts_ns: int) -> int:
        ticks = ticks_from_ns(pts_ns)
        if self._offset_ticks is None:
            self._offset_ticks = max(0, -ticks)
            if self._offset_ticks:
                self._warn(f"the stream starts at {pts_ns / _NS_PER_SECOND:.3f} s; {self.path} starts at 0 instead")
        ticks += self._offset_ticks
        if ticks <= self._last_ticks:
            if not self._time_warned:
                self._warn(f"the time of a frame does not grow ({pts_ns} ns); {self.path} puts it after the last one")
                self._time_warned = True
            ticks = self._last_ticks + 1
        self._last_ticks = ticks
        self._frames += 1
        return ticks

    def _is_key(self, pts_ns: int) -> bool:
        if self._next_key_ns is not None and pts_ns < self._next_key_ns:
            return False
        first_ns = pts_ns if self._next_key_ns is None else self._next_key_ns
        self._next_key_ns = pts_ns + self._settings.gop_ns - (pts_ns - first_ns) % self._settings.gop_ns
        return True


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
        time_base=_TIME_BASE,
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
