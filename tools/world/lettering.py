"""The lettering of number plates: letters of one height in fields of one width, and a line around them."""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
from tools.world.arrays import Colour, Image

ALPHABET = "0123456789ABCDEFGHJKLMNPRSTUVWXYZ"
"""What plates are written with: I, O and Q are left out, as on many real ones, because they look like 1 and 0."""

LENGTHS = (5, 6, 7)
INK: Colour = (22, 22, 28)

_SIZE_WH = (520, 120)
_LETTER_WH = (58, 84)
_BORDER = 12
_STROKE = 13


def random_text(rng: np.random.Generator) -> str:
    """Letters and digits, in any order."""
    return "".join(ALPHABET[index] for index in rng.integers(len(ALPHABET), size=rng.choice(LENGTHS)))


@lru_cache(maxsize=256)
def ink(text: str) -> Image:
    """How much ink there is in each of 520 x 120 samples of a plate (height, width): 0 to 1."""
    width, height = _SIZE_WH
    sheet = np.zeros((height, width), np.uint8)
    cv2.rectangle(sheet, (5, 5), (width - 6, height - 6), 255, 4)
    field = min((width - 2 * _BORDER - 8) / len(text), _LETTER_WH[0] + 26)
    start = (width - field * len(text)) / 2
    for number, letter in enumerate(text):
        drawn = _letter(letter)
        left, top = round(start + field * (number + 0.5) - drawn.shape[1] / 2), (height - drawn.shape[0]) // 2
        sheet[top : top + drawn.shape[0], left : left + drawn.shape[1]] |= drawn
    covered: Image = sheet.astype(np.float32) / np.float32(255)
    covered.flags.writeable = False
    return covered


@lru_cache(maxsize=64)
def _letter(letter: str) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """A letter, stretched to the height that all have and to the width that its shape asks for."""
    large = np.zeros((400, 400), np.uint8)
    cv2.putText(large, letter, (60, 300), cv2.FONT_HERSHEY_SIMPLEX, 8.0, 255, 30, cv2.LINE_AA)
    rows, columns = np.flatnonzero(large.any(axis=1)), np.flatnonzero(large.any(axis=0))
    cut = large[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    width = min(_LETTER_WH[0], max(round(cut.shape[1] * _LETTER_WH[1] / cut.shape[0]), _STROKE))
    drawn: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] = np.asarray(
        cv2.resize(cut, (width, _LETTER_WH[1]), interpolation=cv2.INTER_AREA), np.uint8
    )
    return drawn
