"""`pattern`: test images with known pixels."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from sightline.graph import Site, SourceElement, SourceReader
from sightline.media import Frame, PixelFormat, Stream, Surface
from sightline.media.convert import surface_from_rgb
from sightline.media.surface import Plane
from sightline_plugins.sources.options import Side

Card = Literal["bars", "gradient", "solid", "moving", "counter", "noise"]

# 75 % bars of ITU-R BT.471 in BT.601 limited range, as (Y, U, V) from white to black.
BARS_YUV = (
    (180, 128, 128),
    (162, 44, 142),
    (131, 156, 44),
    (112, 72, 58),
    (84, 184, 198),
    (65, 100, 212),
    (35, 212, 114),
    (16, 128, 128),
)
BLACK, WHITE, NEUTRAL = 16, 235, 128
COUNTER_BITS = 16
MOVING_STEP = 4


class CardPainter:
    """Makes the image of any frame number; still patterns are made once and shared by all frames."""

    def __init__(self, card: Card, *, size_wh: tuple[int, int], color: tuple[int, int, int], seed: int) -> None:
        self._card = card
        self._size_wh = size_wh
        self._seed = seed
        if card == "solid":
            width, height = size_wh
            self._still = surface_from_rgb(np.full((height, width, 3), color, np.uint8)).shared()
        else:
            self._still = {"bars": _bars, "gradient": _gradient}.get(card, _black)(size_wh).shared()

    def surface(self, index: int) -> Surface:
        """The image of that frame."""
        if self._card == "moving":
            return self._moving(index)
        if self._card == "counter":
            return self._counter(index)
        if self._card == "noise":
            return self._noise(index)
        return self._still

    def _moving(self, index: int) -> Surface:
        luma = self._still.planes[0].copy()
        width, height = self._size_wh
        left, top = MOVING_STEP * index % width // 2 * 2, height * 3 // 8
        right, bottom = left + max(width // 4, 1), top + max(height // 4, 1)
        luma[top:bottom, left:right] = WHITE
        luma[top:bottom, : max(right - width, 0)] = WHITE
        return self._with_luma(luma)

    def _counter(self, index: int) -> Surface:
        width, height = self._size_wh
        cells = COUNTER_BITS * np.arange(width) // width
        row = np.where(index >> (COUNTER_BITS - 1 - cells) & 1, WHITE, BLACK).astype(np.uint8)
        return self._with_luma(np.tile(row, (height, 1)))

    def _with_luma(self, luma: Plane) -> Surface:
        return dataclasses.replace(self._still, pixels=(luma, *self._still.planes[1:]))

    def _noise(self, index: int) -> Surface:
        random = np.random.default_rng((self._seed, index))
        shapes = PixelFormat.I420.plane_shapes(self._size_wh)
        planes = tuple(np.frombuffer(random.bytes(math.prod(shape)), np.uint8).reshape(shape) for shape in shapes)
        return Surface(PixelFormat.I420, self._size_wh, planes)


def _black(size_wh: tuple[int, int]) -> Surface:
    surface = Surface.allocate(PixelFormat.I420, size_wh=size_wh)
    for plane, value in zip(surface.planes, (BLACK, NEUTRAL, NEUTRAL), strict=True):
        plane[:] = value
    return surface


def _bars(size_wh: tuple[int, int]) -> Surface:
    surface = _black(size_wh)
    values = np.array(BARS_YUV, np.uint8)
    for plane, channel in zip(surface.planes, (0, 1, 2), strict=True):
        # A sample of chroma belongs to the bar of the left one of the columns it covers.
        columns = np.arange(plane.shape[1]) * (1 if channel == 0 else 2)
        plane[:] = values[len(BARS_YUV) * columns // size_wh[0], channel]
    return surface


def _gradient(size_wh: tuple[int, int]) -> Surface:
    surface = _black(size_wh)
    columns = np.arange(size_wh[0])
    surface.planes[0][:] = BLACK + (WHITE - BLACK) * columns // max(size_wh[0] - 1, 1)
    return surface


_SECOND_NS = 1_000_000_000
_Level = Annotated[int, Field(ge=0, le=255)]


class Pattern(SourceElement):
    """Generate test frames with known pixels, to try a pipeline without a file and to test elements.

    Frames are I420, BT.601, limited range, in samples of Y, U, V; U = V = 128 unless stated otherwise.

    - `bars`: eight vertical bars of 75 % white, yellow, cyan, green, magenta, red, blue, black; column x is in bar
      `8 * x // width`.
    - `gradient`: Y = 16 at the left edge to 235 at the right, `16 + 219 * x // (width - 1)`.
    - `solid`: `color` everywhere.
    - `moving`: a box of Y = 235, a quarter as wide and as high as the image, on Y = 16. In frame n its left edge
      is at `4 * n % width`, rounded down to even, and it wraps; its top edge is at `3 * height // 8`.
    - `counter`: the number of the frame in 16 cells side by side, most significant bit left, Y = 235 for 1 and 16
      for 0; column x is in cell `16 * x // width`.
    - `noise`: random bytes in all planes, from `seed` and the number of the frame.

    `pattern: bars` and a mapping are both valid.

    ```yaml
    sources:
      test: {pattern: {pattern: moving, size: [640, 360], fps: 25, frames: 250}}
    ```
    """

    name: ClassVar[str] = "pattern"

    pattern: Card = "bars"
    """What is shown."""
    size: tuple[Side, Side] = (640, 360)
    """Width and height in pixels."""
    frames: Annotated[int, Field(ge=1)] | None = 250
    """How many frames there are; `null` for a stream without end."""
    fps: Annotated[float, Field(gt=0, le=1000)] = 25.0
    """Frames per second of stream time."""
    color: tuple[_Level, _Level, _Level] = (0, 128, 0)
    """Red, green and blue of `solid`."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Start of the random numbers of `noise`."""

    @model_validator(mode="before")
    @classmethod
    def _flatten(cls, value: Any) -> Any:
        """`pattern: {size: ...}` and `pattern: null` mean the options themselves."""
        if not isinstance(value, Mapping) or not isinstance(value.get("pattern", ""), Mapping | None):
            return value
        others = {key: option for key, option in value.items() if key != "pattern"}
        return {**others, **(value["pattern"] or {})}

    def pixels_per_second(self) -> float:
        """Size times rate."""
        return math.prod(self.size) * self.fps

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        """A reader for one attempt."""
        del site
        return _PatternReader(self, stream=stream)


class _PatternReader(SourceReader):
    def __init__(self, pattern: Pattern, *, stream: Stream) -> None:
        self._pattern = pattern
        self._stream = stream
        self.frame_count = pattern.frames

    def frames(self) -> Iterator[Frame]:
        """The frames of the pattern."""
        pattern = self._pattern
        painter = CardPainter(pattern.pattern, size_wh=pattern.size, color=pattern.color, seed=pattern.seed)
        index = 0
        while not self.is_stopping and (pattern.frames is None or index < pattern.frames):
            yield Frame(self._stream, index, round(index * _SECOND_NS / pattern.fps), painter.surface(index))
            index += 1
