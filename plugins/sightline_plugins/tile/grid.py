"""Where tiles lie in an image: a grid of cells whose edges are even, and the rectangle of a frame in its cell."""

from __future__ import annotations

import itertools
from math import ceil, isqrt
from typing import TypeAlias

Rect: TypeAlias = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels of the image, all even, so that they are edges of 4:2:0 chroma, too."""

LEAST_SIDE = 16
"""Pixels of the narrowest cell."""


def grid_for(count: int, *, columns: int | None, rows: int | None) -> tuple[int, int]:
    """The columns and rows for so many tiles: those that are given, else as square as fits.

    With both given, tiles may be left over.
    """
    count = max(count, 1)
    if columns is None and rows is None:
        columns = isqrt(count - 1) + 1
    if columns is None:
        assert rows is not None
        return ceil(count / rows), rows
    return columns, ceil(count / columns) if rows is None else rows


def cells_of(size_wh: tuple[int, int], *, columns: int, rows: int) -> tuple[Rect, ...]:
    """The cells of a grid, row by row; together they are the image."""
    xs, ys = (_edges(side, parts=parts) for side, parts in zip(size_wh, (columns, rows), strict=True))
    return tuple(
        (left, top, right, bottom) for top, bottom in itertools.pairwise(ys) for left, right in itertools.pairwise(xs)
    )


def placed(frame_wh: tuple[int, int], cell: Rect, *, keep_aspect: bool) -> Rect:
    """Where a frame of that size lies in its cell: all of it, or in the middle with its sides as they are."""
    left, top, right, bottom = cell
    width, height = right - left, bottom - top
    if keep_aspect:
        scale = min(width / frame_wh[0], height / frame_wh[1])
        width, height = (
            min(max(round(side * scale / 2) * 2, 2), most) for side, most in zip(frame_wh, (width, height), strict=True)
        )
    x, y = left + (right - left - width) // 4 * 2, top + (bottom - top - height) // 4 * 2
    return x, y, x + width, y + height


def _edges(side: int, *, parts: int) -> list[int]:
    return [side * number // (2 * parts) * 2 for number in range(parts)] + [side]
