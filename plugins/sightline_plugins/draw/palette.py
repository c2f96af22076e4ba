"""Colours: few, told apart by most people with colour-blindness too, and bright enough for video."""

from __future__ import annotations

from functools import cache

from sightline_plugins.raster.inks import Rgb

PALETTE: tuple[Rgb, ...] = (
    (230, 159, 0),
    (86, 180, 233),
    (0, 190, 140),
    (240, 228, 66),
    (70, 130, 255),
    (238, 102, 60),
    (226, 130, 190),
    (170, 221, 60),
    (255, 170, 160),
    (150, 110, 230),
    (60, 220, 220),
    (210, 60, 120),
)
"""Orange, sky blue, green, yellow, blue, vermilion and purple after Okabe and Ito ("Color Universal Design", 2008),
the darker ones lightened for dark images, and five that keep their distance from them."""

BLACK: Rgb = (0, 0, 0)
WHITE: Rgb = (255, 255, 255)
LINE: Rgb = (255, 214, 10)
ZONE: Rgb = (64, 200, 255)


def color_of(number: int) -> Rgb:
    """The colour of a class or track, by its number."""
    return PALETTE[number % len(PALETTE)]


@cache
def text_color(background: Rgb) -> Rgb:
    """Black or white, whichever stands out more (contrast ratio of WCAG 2.2, section 1.4.3)."""
    red, green, blue = (_linear(value / 255) for value in background)
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return BLACK if (luminance + 0.05) ** 2 > 0.05 * 1.05 else WHITE


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)
