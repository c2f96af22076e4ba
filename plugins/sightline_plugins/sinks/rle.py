"""Masks as COCO writes them: run lengths down the columns of the image, compressed into text.

The format is that of the COCO API (cocodataset/cocoapi, `common/maskApi.c`): counts of pixels outside and inside by
turns, column by column; from the fourth on as the difference to the count before the last; each number in groups of
five bits, lowest first, with a sixth bit for "more follows", as characters from "0" on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media.shapes import Mask

_Counts = npt.NDArray[np.int64]

_FIRST = 48
_GROUP_BITS = 5
_MORE = 1 << _GROUP_BITS
_SIGN = 1 << (_GROUP_BITS - 1)
_MOST_GROUPS = 8
_MOST_PIXELS = 1 << 31


def encode_mask(mask: Mask, *, size_wh: tuple[int, int]) -> str:
    """The compressed run lengths of a mask in an image of that size; what lies outside the image is left out."""
    return _text_from_counts(_counts(mask, size_wh))


def decode_mask(text: str, *, size_wh: tuple[int, int]) -> Mask:
    """The mask that `encode_mask` wrote, cut to the pixels it covers.

    Raises ValueError when the text is none, or its runs do not add up to the image.
    """
    width, height = size_wh
    if width < 1 or height < 1 or width * height > _MOST_PIXELS:
        raise ValueError(f"a mask's size is {height} x {width}: it must be that of an image, [height, width]")
    counts = _counts_from_text(text)
    if (counts < 0).any() or counts.sum() != width * height:
        raise ValueError(f"the runs of a mask do not add up to its image of {width} x {height} pixels")
    ends = np.cumsum(counts)[: len(counts) // 2 * 2].reshape(-1, 2)
    filled = ends[ends[:, 1] > ends[:, 0]]
    if not len(filled):
        return Mask(0, 0, np.zeros((0, 0), np.bool_))
    left, right = int(filled[0, 0] // height), int((filled[-1, 1] - 1) // height) + 1
    changes = np.zeros((right - left) * height + 1, np.int8)
    changes[filled[:, 0] - left * height] += 1
    changes[filled[:, 1] - left * height] -= 1
    columns = np.cumsum(changes[:-1], dtype=np.int8).astype(np.bool_).reshape(-1, height)
    rows = np.flatnonzero(columns.any(axis=0))
    top, bottom = int(rows[0]), int(rows[-1]) + 1
    return Mask(left, top, np.ascontiguousarray(columns[:, top:bottom].T))


def _counts(mask: Mask, size_wh: tuple[int, int]) -> _Counts:
    width, height = size_wh
    left, top = max(mask.left, 0), max(mask.top, 0)
    inside = mask.bits[top - mask.top : height - mask.top, left - mask.left : width - mask.left]
    if mask.top >= height or mask.left >= width or not inside.size:
        return np.array([width * height], np.int64)
    framed = np.zeros((inside.shape[1], inside.shape[0] + 2), np.int8)
    framed[:, 1:-1] = inside.T
    column, row = np.nonzero(np.diff(framed, axis=1))
    edges = (column + left) * height + row + top
    return _runs(edges, pixels=width * height)


def _runs(edges: npt.NDArray[np.intp], *, pixels: int) -> _Counts:
    """Run lengths from places where pixels begin and end to be covered, by turns; runs that touch become one."""
    touching = np.flatnonzero(edges[1:-1:2] == edges[2::2])
    edges = np.delete(edges, np.concatenate([2 * touching + 1, 2 * touching + 2]))
    counts = np.diff(edges, prepend=0, append=pixels).astype(np.int64)
    return counts[:-1] if len(counts) > 1 and counts[-1] == 0 else counts


def _text_from_counts(counts: _Counts) -> str:
    numbers = counts.copy()
    numbers[3:] -= counts[1:-2]
    shifts = _GROUP_BITS * np.arange(_MOST_GROUPS)
    rest = numbers[:, None] >> shifts
    more = np.where(rest & _SIGN, rest >> _GROUP_BITS != -1, rest >> _GROUP_BITS != 0)
    groups = (rest & (_MORE - 1)) + np.where(more, _MORE, 0) + _FIRST
    last = np.argmin(more, axis=1)
    written: npt.NDArray[np.uint8] = groups[np.arange(_MOST_GROUPS) <= last[:, None]].astype(np.uint8)
    return written.tobytes().decode("ascii")


def _counts_from_text(text: str) -> _Counts:
    try:
        groups = np.frombuffer(text.encode("ascii"), np.uint8).astype(np.int64) - _FIRST
    except UnicodeEncodeError as error:
        raise ValueError("the counts of a mask are no compressed run lengths") from error
    if not len(groups) or groups.min() < 0 or groups.max() >= 2 * _MORE or groups[-1] & _MORE:
        raise ValueError("the counts of a mask are no compressed run lengths")
    first = np.flatnonzero(np.concatenate([[True], (groups[:-1] & _MORE) == 0]))
    lengths = np.diff(first, append=len(groups))
    if lengths.max() > _MOST_GROUPS:
        raise ValueError("the counts of a mask hold a number that is too large")
    place = np.arange(len(groups)) - np.repeat(first, lengths)
    numbers = np.add.reduceat((groups & (_MORE - 1)) << (_GROUP_BITS * place), first)
    negative = (groups[first + lengths - 1] & _SIGN) != 0
    numbers -= np.where(negative, np.int64(1) << (_GROUP_BITS * lengths), 0)
    return _undone(numbers)


def _undone(numbers: npt.NDArray[Any]) -> _Counts:
    """Counts from differences to the count before the last, which begin with the fourth."""
    counts = numbers.astype(np.int64)
    counts[1::2] = np.cumsum(counts[1::2])
    if len(counts) > 2:
        counts[2::2] = np.cumsum(counts[2::2])
    return counts
