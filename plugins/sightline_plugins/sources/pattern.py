"""The `pattern` source: test images with known pixels, without any file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from sightline.graph import Site, SourceElement, SourceReader
from sightline.media import Frame, Stream
from sightline_plugins.sources.cards import Card, CardPainter

_SECOND_NS = 1_000_000_000
_Side = Annotated[int, Field(ge=1, le=16384)]
_Level = Annotated[int, Field(ge=0, le=255)]


class Pattern(SourceElement):
    """Test images whose every pixel is known: to try a pipeline without a file, and to test elements.

    Frames are I420, BT.601, limited range, in samples of Y, U, V; U = V = 128 where nothing else is said.

    - `bars`: eight vertical bars of 75 % white, yellow, cyan, green, magenta, red, blue, black; column x is in bar
      `8 * x // width`.
    - `gradient`: Y = 16 at the left edge to 235 at the right, `16 + 219 * x // (width - 1)`.
    - `solid`: `color` everywhere.
    - `moving`: a box of Y = 235, a quarter as wide and as high as the image, on Y = 16. In frame n its left edge
      is at `4 * n % width`, rounded down to even, and it wraps; its top edge is at `3 * height // 8`.
    - `counter`: the number of the frame in 16 cells side by side, most significant bit left, Y = 235 for 1 and 16
      for 0; column x is in cell `16 * x // width`.
    - `noise`: random bytes in all planes, from `seed` and the number of the frame.

    A plain `pattern: bars` and a mapping are both understood.

    ```yaml
    sources:
      test: {pattern: {pattern: moving, size: [640, 360], fps: 25, frames: 250}}
    ```
    """

    name: ClassVar[str] = "pattern"

    pattern: Card = "bars"
    """What is shown."""
    size: tuple[_Side, _Side] = (640, 360)
    """Width and height in pixels."""
    frames: Annotated[int, Field(ge=1)] | None = 250
    """How many frames there are; `null` for a stream without end."""
    fps: Annotated[float, Field(gt=0, le=1000)] = 25.0
    """Frames a second of stream time."""
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
        while pattern.frames is None or index < pattern.frames:
            yield Frame(self._stream, index, round(index * _SECOND_NS / pattern.fps), painter.surface(index))
            index += 1
