"""An image that is being drawn on."""

from __future__ import annotations

from dataclasses import dataclass

from sightline_plugins.draw.canvas import Canvas
from sightline_plugins.draw.layout import Style
from sightline_plugins.draw.palette import text_color
from sightline_plugins.raster.glyphs import TextMask
from sightline_plugins.raster.inks import Inks, Rgb


@dataclass(frozen=True, slots=True)
class Sheet:
    """An image that is being drawn on: its canvas, its size, colours as its samples, and sizes that suit it."""

    canvas: Canvas
    size_wh: tuple[int, int]
    inks: Inks
    style: Style

    def text(self, mask: TextMask, *, at: tuple[int, int], background: Rgb) -> None:
        """Put text on a background of that colour."""
        tables = self.inks.tables(background, text_color(background))
        self.canvas.text(mask, left=at[0], top=at[1], tables=tables)
