"""Where labels go and how large things are: numbers only, no pixels."""

from __future__ import annotations

from dataclasses import dataclass

Rect = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Style:
    """Sizes in pixels for one size of image."""

    thickness: int
    text_size: int

    @property
    def thin(self) -> int:
        """Width of the lines of what was found on another object, and of the edges of masks."""
        return max(1, self.thickness // 2)

    @property
    def small_text_size(self) -> int:
        """Size of the text on what was found on another object."""
        return max(min(9, self.text_size), round(self.text_size * 0.8))

    @classmethod
    def for_height(cls, height: int, *, thickness: int | None, text_size: int | None) -> Style:
        """Line width and text size that read well at this height, unless given: 2 and 12 at 360, 6 and 50 at 2160."""
        return cls(
            thickness=2 * max(1, round(height / 720)) if thickness is None else thickness,
            text_size=max(9, round(12 * (height / 360) ** 0.8)) if text_size is None else text_size,
        )


def visible(rect: Rect, *, size_wh: tuple[int, int]) -> bool:
    """Whether a part of the box is in the image."""
    left, top, right, bottom = rect
    return right > 0 and bottom > 0 and left < size_wh[0] and top < size_wh[1]


def above(rect: Rect, *, text_wh: tuple[int, int], size_wh: tuple[int, int]) -> tuple[int, int]:
    """Left and top (even) of a text on top of a box; inside the box where there is no room above, and in the image
    as far as it fits.
    """
    left, top, _, _ = rect
    width, height = text_wh
    y = top - height
    return _even(min(left, size_wh[0] - width)), max(0, y if y >= 0 else top)


def below(rect: Rect, *, text_wh: tuple[int, int], size_wh: tuple[int, int]) -> tuple[int, int]:
    """Left and top (even) of a text under a box; inside the box where there is no room below, and in the image as far
    as it fits.
    """
    left, _, _, bottom = rect
    width, height = text_wh
    y = bottom if bottom + height <= size_wh[1] else min(bottom, size_wh[1]) - height
    return _even(min(left, size_wh[0] - width)), _even(y)


def centred(point: tuple[float, float], *, text_wh: tuple[int, int], size_wh: tuple[int, int]) -> tuple[int, int]:
    """Left and top (even) of a text around a point, in the image as far as it fits."""
    return (
        _even(min(round(point[0]) - text_wh[0] // 2, size_wh[0] - text_wh[0])),
        _even(min(round(point[1]) - text_wh[1] // 2, size_wh[1] - text_wh[1])),
    )


def _even(number: int) -> int:
    return max(0, number & ~1)
