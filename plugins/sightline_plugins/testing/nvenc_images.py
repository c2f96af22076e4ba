"""What NVENC would encode, encoded by FFmpeg: images in, as they lie in its memory, a byte stream out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from av.codec import CodecContext
from av.codec.context import Flags
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType, VideoFrame

_ENCODERS = {"h264": "libx264", "hevc": "libx265"}
_PIXELS = {"NV12": "nv12", "YUV420": "yuv420p"}
_ENDLESS_GOP = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class HostEncoded:
    """An encoded image."""

    data: bytes
    is_key: bool


class HostEncoder:
    """Encodes one video without B-frames: each image gives its own at once. It says nothing of colours, and puts the
    parameter sets before every key frame. For one thread.
    """

    def __init__(self, codec: str, *, size_wh: tuple[int, int], layout: str, options: Mapping[str, str | int]) -> None:
        context = CodecContext.create(_ENCODERS[codec], "w")
        assert isinstance(context, VideoCodecContext)
        context.width, context.height = size_wh
        self._pixel_format = _PIXELS[layout]
        context.pix_fmt = "yuv420p"
        context.time_base, context.framerate = Fraction(1, 30), Fraction(30)
        context.gop_size, context.thread_count = _ENDLESS_GOP, 1
        context.flags |= Flags.global_header
        chosen = {"preset": "superfast", "tune": "zerolatency", "forced-idr": "1"}
        if codec == "hevc":
            chosen["x265-params"] = "log-level=error:frame-threads=1:pools=none:scenecut=0"
        if options["bitrate"]:
            context.bit_rate = int(options["bitrate"])
        else:
            chosen["crf"] = str(options["cq"])
        context.options = chosen
        context.open()
        self._context = context
        self._number = 0
        self.configuration = bytes(context.extradata or b"")

    def encode(self, rows: npt.NDArray[np.uint8], *, is_key: bool) -> HostEncoded:
        """The image whose planes lie one behind the other in these rows, (height * 3/2, width)."""
        frame = VideoFrame.from_ndarray(rows, self._pixel_format).reformat(format="yuv420p")
        frame.pts, frame.time_base = self._number, Fraction(1, 30)
        frame.pict_type = PictureType.I if is_key or not self._number else PictureType.NONE
        self._number += 1
        packets = self._context.encode(frame)
        assert len(packets) == 1, "the encoder holds images back"
        own = bytes(packets[0])
        begins = packets[0].is_keyframe
        return HostEncoded(self.configuration + own if begins else own, begins)
