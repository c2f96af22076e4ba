"""Text as masks of coverage, rendered once and kept.

OpenCV 5 brings outline fonts that know all of Unicode; before it there are only the Hershey stroke fonts, which know
ASCII and show `?` for the rest. The masks are the only thing that differs.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.uint8]

_KEPT = 2048
_WEIGHT = 500
_HERSHEY_UNIT = 30.0
_ENDLESS_WH = (1 << 20, 1 << 10)


class TextMask:
    """How much each pixel of a line of text and its margin is covered, 0..255, at every subsampling.

    `width` and `height` are even.
    """

    def __init__(self, coverage: Mask) -> None:
        self.height, self.width = coverage.shape
        self._by_shift = {(0, 0): coverage}

    def at(self, right: int, down: int) -> Mask:
        """The coverage of samples that are `1 << right` pixels wide and `1 << down` high."""
        found = self._by_shift.get((right, down))
        if found is None:
            full = self._by_shift[0, 0]
            blocks = full.reshape(self.height >> down, 1 << down, self.width >> right, 1 << right)
            found = self._by_shift[right, down] = np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8)
        return found


class Typesetter:
    """Renders lines of text and keeps the last ones used."""

    def __init__(self, *, outline_font: bool = hasattr(cv2, "FontFace")) -> None:
        self._font: Any = cv2.FontFace("sans") if outline_font else None
        self._kept: OrderedDict[tuple[str, int], TextMask] = OrderedDict()

    def mask(self, line: str, *, size: int) -> TextMask:
        """The line at a size in pixels, with a margin around it."""
        key = (line, size)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        if len(self._kept) >= _KEPT:
            self._kept.popitem(last=False)
        made = self._kept[key] = TextMask(self._render(line, size))
        return made

    def _render(self, line: str, size: int) -> Mask:
        margin = max(2, round(size * 0.25))
        height = _even(round(size * 1.3))
        baseline = round(height / 2 + size * 0.36)
        if self._font is None:
            return self._render_strokes(line, size, margin=margin, height=height, baseline=baseline)
        left, _, width, _ = cv2.getTextSize(_ENDLESS_WH, line, (margin, baseline), self._font, size, _WEIGHT)
        coverage = np.zeros((height, _even(left + width + margin)), np.uint8)
        cv2.putText(coverage, line, (margin, baseline), 255, self._font, size, _WEIGHT)
        return coverage

    @staticmethod
    def _render_strokes(line: str, size: int, *, margin: int, height: int, baseline: int) -> Mask:
        font, scale, stroke = cv2.FONT_HERSHEY_SIMPLEX, size / _HERSHEY_UNIT, max(1, round(size / 12))
        (width, _), _ = cv2.getTextSize(line, font, scale, stroke)
        coverage = np.zeros((height, _even(width + 2 * margin)), np.uint8)
        cv2.putText(coverage, line, (margin, baseline), font, scale, 255, stroke, cv2.LINE_AA)
        return coverage


def _even(number: int) -> int:
    return number + number % 2
