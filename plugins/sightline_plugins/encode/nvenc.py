"""Encode with NVENC.

| ours | NVENC's |
|---|---|
| `codec` | `h264`, `hevc` |
| `preset`, `ultrafast` to `slow` | `P1` to `P7`, tuned for quality |
| `quality` | variable rate with that constant quality (`cq`) and no bound; 0 is 1, because 0 means none |
| `bitrate` | variable rate with that average, and twice as much for a while |
| `gop` | none: key frames are asked for, so that they stand where they do on the CPU |

There are no B-frames and no look-ahead, so that images come out in the order in which they go in. With `bitrate`,
NVENC is told how many images a second there are, see `pace.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import cast

import numpy as np
from av.bitstream import BitStreamFilterContext
from av.packet import Packet
from av.video.stream import VideoStream

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.streams import CudaStream
from sightline.graph import EncodedFormat
from sightline.media import ColorRange, PixelFormat, Surface
from sightline.media.device_array import DeviceArray
from sightline_plugins.encode.images import AV_MATRIX, AV_RANGE, ImageMaker
from sightline_plugins.encode.muxer import Muxer
from sightline_plugins.encode.nvenc_library import FORMATS, EncodedImage, HardwareEncoder, NvencLibrary
from sightline_plugins.encode.settings import (
    TICKS_PER_SECOND,
    TIME_BASE,
    EncoderChoice,
    EncoderError,
    EncoderSettings,
    Layout,
)

NOMINAL_FPS = 30
"""What is taken for granted until images have come."""
_FIRST_LOOK, _LOOK_EVERY = 4, 32
_SLOWEST, _FASTEST = 1, 240
_TOLERANCE = Fraction(1, 10)


class Pace:
    """Looks at the times of a few images, and then of every 32."""

    def __init__(self) -> None:
        self.fps = Fraction(NOMINAL_FPS)
        self._start_ticks: int | None = None
        self._count = 0
        self._window = _FIRST_LOOK

    def note(self, ticks: int) -> Fraction | None:
        """An image at that time, later than all before it; the rate to go on with where it has become another one."""
        if self._start_ticks is None:
            self._start_ticks = ticks
            return None
        self._count += 1
        if self._count < self._window:
            return None
        seen = Fraction(self._count * TICKS_PER_SECOND, ticks - self._start_ticks)
        self._start_ticks, self._count, self._window = ticks, 0, _LOOK_EVERY
        seen = min(max(seen, Fraction(_SLOWEST)), Fraction(_FASTEST)).limit_denominator(1001)
        if abs(seen - self.fps) <= _TOLERANCE * self.fps:
            return None
        self.fps = seen
        return seen


CODECS: Mapping[str, str] = MappingProxyType({"h264": "h264", "h265": "hevc"})
"""NVENC's names of codecs, which are FFmpeg's, by ours."""
PRESETS: Mapping[str, str] = MappingProxyType(
    {
        "ultrafast": "P1",
        "superfast": "P2",
        "veryfast": "P3",
        "faster": "P4",
        "fast": "P5",
        "medium": "P6",
        "slow": "P7",
    }
)
_ENDLESS_GOP = 0xFFFFFFFF


def options_of(settings: EncoderSettings) -> dict[str, str | int]:
    """The keyword arguments of PyNvVideoCodec's `CreateEncoder`. Bits a second are whole numbers: it cuts off decimals,
    and takes `k` and `M` for powers of 1024.
    """
    options: dict[str, str | int] = {
        "codec": CODECS[settings.codec],
        "preset": PRESETS[settings.preset],
        "tuning_info": "high_quality",
        "rc": "vbr",
        "bf": 0,
        "gop": _ENDLESS_GOP,
        "fps": NOMINAL_FPS,
    }
    if settings.bitrate is None:
        return options | {"cq": max(1, settings.quality), "bitrate": 0, "maxbitrate": 0}
    return options | {"bitrate": settings.bitrate, "maxbitrate": 2 * settings.bitrate}


def reason_against(first: Surface, *, codec: str, library: NvencLibrary) -> str | None:
    """Why a video that begins with this image is not given to NVENC; None when it is. Raises CudaError."""
    if first.is_wide:
        return "its images have 16 bits a sample, and videos have 8"
    if first.format not in FORMATS:
        return f"NVENC is given {' and '.join(FORMATS)}, and these images are {first.format}"
    width, height = first.size_wh
    if width % 2 or height % 2:
        return f"NVENC takes images of even width and height, not {width}x{height}"
    try:
        support = library.support(CODECS[codec])
    except EncoderError as error:
        return str(error)
    against = support.reason_against(first.size_wh)
    return None if against is None else f"{codec}: {against}"


_LEVEL = np.dtype(np.uint8)


def without_padding(arrays: Sequence[DeviceArray], *, gpu: CudaDevice, stream: CudaStream) -> Sequence[DeviceArray]:
    """The planes of 8 bits with dense rows: themselves, or a copy within the GPU's memory, made on that stream."""
    if all(array.is_dense for array in arrays):
        return arrays
    whole = gpu.empty((sum(array.nbytes for array in arrays),), _LEVEL, stream=stream)
    targets, address = [], whole.address
    for array in arrays:
        targets.append(DeviceArray(address, array.shape, _LEVEL, whole.owner))
        address += array.nbytes
    return gpu.copy(arrays, targets, stream=stream)


_AV_NAMES = {PixelFormat.NV12: "nv12", PixelFormat.I420: "yuv420p"}


def as_format(surface: Surface, pixel_format: PixelFormat) -> Surface:
    """The surface itself where it has that format, of 8 bits, else a new one in host memory; its size must be even.

    That happens where a stream goes on with another decoder: its images come down, and what is made of them goes up.
    """
    if surface.format is pixel_format and not surface.is_wide:
        return surface
    samples = ImageMaker(_AV_NAMES[pixel_format]).from_surface(surface).to_ndarray().reshape(-1)
    shapes = pixel_format.plane_shapes(surface.size_wh)
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    parts = np.split(samples.astype(np.uint8, copy=False), ends[:-1])
    planes = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
    return Surface(pixel_format, surface.size_wh, tuple(planes), surface.matrix, surface.range)


_FILTERS = {"h264": "h264_metadata", "hevc": "hevc_metadata"}


class ColourTags:
    """Writes matrix and range into the parameter sets of one stream, as the CPU's encoders do: primaries and transfer
    stay unknown.
    """

    def __init__(self, codec: str, *, layout: Layout) -> None:
        options = {
            "video_full_range_flag": int(layout.range is ColorRange.FULL),
            "matrix_coefficients": AV_MATRIX[layout.matrix],
        }
        written = ":".join(f"{name}={value}" for name, value in options.items())
        self._filter = BitStreamFilterContext(f"{_FILTERS[codec]}={written}", codec)

    def on(self, data: bytes) -> bytes:
        """The same units, parameter sets among them with the tags. Raises FFmpegError when they are damaged."""
        return b"".join(bytes(packet) for packet in self._filter.filter(Packet(data)))


class NvencEncoder:
    """Encodes in GPU memory: a `ImageEncoder`. Raises EncoderError when the encoder cannot be made.

    Nothing waits for the pixels but the GPU: an image is copied into the encoder's memory in the order of its stream,
    and its own memory is not lent again before that is done. Times do not go through the encoder; there are no
    B-frames, so packets come out in the order in which their images went in, and that is checked.
    """

    def __init__(
        self, muxer: Muxer, *, first: Surface, settings: EncoderSettings, library: NvencLibrary, gpu: CudaDevice
    ) -> None:
        self.choice = EncoderChoice("NVENC", str(gpu))
        self._gpu = gpu
        self._stream = gpu.stream("encoding")
        self._format = first.format
        layout = Layout.of(first)
        self._hardware: HardwareEncoder | None = library.encoder(
            self._format, size_wh=layout.size_wh, stream=self._stream, options=options_of(settings)
        )
        codec = CODECS[settings.codec]
        self._tags = ColourTags(codec, layout=layout)
        self._video = _add_stream(
            muxer, codec, layout=layout, configuration=self._tags.on(self._hardware.configuration)
        )
        self._pace = None if settings.bitrate is None else Pace()
        self._inside: deque[int] = deque()
        self._given = 0

    def encode(self, surface: Surface, *, ticks: int, is_key: bool) -> Sequence[Packet[VideoStream]]:
        """What comes out when this image goes in."""
        assert self._hardware is not None
        here = as_format(surface, self._format).to_device(self._gpu, stream=self._stream)
        planes = without_padding(here.arrays_on(self._stream), gpu=self._gpu, stream=self._stream)
        if self._pace is not None and (fps := self._pace.note(ticks)) is not None:
            self._hardware.set_rate(fps)
        self._inside.append(ticks)
        return self._packets(self._hardware.encode(planes, is_key=is_key))

    def finish(self) -> Sequence[Packet[VideoStream]]:
        """What is left."""
        assert self._hardware is not None
        packets = self._packets(self._hardware.finish())
        if self._inside:
            raise EncoderError(f"NVENC gave {self._given} of {self._given + len(self._inside)} images")
        return packets

    def close(self) -> None:
        """Let go of the encoder, which waits for what it has in hand."""
        self._hardware = None

    def _packets(self, given: Sequence[EncodedImage]) -> list[Packet[VideoStream]]:
        packets = []
        for one in given:
            if not self._inside or one.number != self._given:
                raise EncoderError(f"NVENC gave the image {one.number} in the place of {self._given}")
            self._given += 1
            packet = cast("Packet[VideoStream]", Packet(self._tags.on(one.data) if one.is_key else one.data))
            packet.stream, packet.time_base = self._video, TIME_BASE
            packet.pts = packet.dts = self._inside.popleft()
            packet.is_keyframe = one.is_key
            packets.append(packet)
        return packets


def _add_stream(muxer: Muxer, codec: str, *, layout: Layout, configuration: bytes) -> VideoStream:
    video = muxer.add_encoded_stream(EncodedFormat(codec, layout.size_wh, TIME_BASE, configuration))
    video.codec_context.colorspace = AV_MATRIX[layout.matrix]
    video.codec_context.color_range = AV_RANGE[layout.range]
    return video
