"""Video that is not encoded, for programs that read it from a pipe: Y4M, and frames one after another."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sightline.media import ColorRange, Frame, Surface
from sightline_plugins.encode.images import ImageMaker, even_size
from sightline_plugins.encode.muxer import StandardOutput
from sightline_plugins.encode.settings import EncoderChoice, Layout

RAW_FORMATS = ("y4m", "rgb24", "bgr24")
_NS_PER_SECOND = 1_000_000_000
_DEFAULT_RATE = Fraction(25)
_LARGEST_DENOMINATOR = 1001
"""That of 30000/1001 frames per second, which television has."""
_RANGES = {ColorRange.FULL: "FULL", ColorRange.LIMITED: "LIMITED"}


class RawVideo:
    """Raw frames on standard output, with the methods of a `Recording`.

    `y4m` is YUV 4:2:0 behind a header with size, rate and range; a size that is odd grows by one, as in files. It has
    one rate and no timestamps: the rate is that of the first two frames, so that the first one is written with the
    second. `rgb24` and `bgr24` are rows of pixels of exactly the frame's size, and nothing else.
    """

    def __init__(self, kind: str, *, first: Surface) -> None:
        self.layout = Layout.of(first)
        self.encoder = EncoderChoice(kind)
        self.missing_frames = 0
        """How many of the frames given to it are not written yet."""
        self._kind = kind
        self._images = ImageMaker("yuv420p" if kind == "y4m" else kind)
        self._output = StandardOutput()
        self._waiting: Frame | None = None

    @property
    def is_readable(self) -> bool:
        """Whether anything is written."""
        return self._output.size() > 0

    def reaches(self, pts_ns: int) -> bool:
        """Whether a frame of that time can follow: always, there are no timestamps."""
        del pts_ns
        return True

    def write(self, frame: Frame) -> None:
        """Write one frame; the first of Y4M with the second. Raises OutputError."""
        self.missing_frames += 1
        if self._kind == "y4m" and not self.is_readable:
            if self._waiting is None:
                self._waiting = frame
                return
            self._begin(frame.pts_ns - self._waiting.pts_ns)
        self._write(self._bytes(frame.surface))
        self.missing_frames = 0

    def finish(self) -> None:
        """Write what waits. Raises OutputError; harmless when called again."""
        if self._waiting is not None:
            self._begin(0)
            self.missing_frames = 0

    def _begin(self, interval_ns: int) -> None:
        waiting, self._waiting = self._waiting, None
        assert waiting is not None
        width, height = even_size(self.layout.size_wh)
        rate = Fraction(_NS_PER_SECOND, interval_ns) if interval_ns > 0 else _DEFAULT_RATE
        rate = rate.limit_denominator(_LARGEST_DENOMINATOR)
        fields = f"W{width} H{height} F{rate.numerator}:{rate.denominator} Ip A1:1 C420mpeg2"
        self._write(f"YUV4MPEG2 {fields} XCOLORRANGE={_RANGES[self.layout.range]}\n".encode())
        self._write(self._bytes(waiting.surface))

    def _bytes(self, surface: Surface) -> bytes:
        image = self._images.from_surface(surface).to_ndarray()
        if self._kind == "y4m":
            return b"FRAME\n" + image.tobytes()
        width, height = surface.size_wh
        return np.ascontiguousarray(image[:height, :width]).tobytes()

    def _write(self, data: bytes) -> None:
        try:
            self._output.write(data)
        except OSError as error:
            raise self._output.error(error, doing="write") from error
