"""Follow tracks between detections: boxes go where points inside them go, by optical flow, all boxes at once.

Points lie on a grid in the middle of each box and are followed by the pyramid of Lucas and Kanade (Bouguet, 2000), in
C, which touches only the pixels around them (`following.c`). A box moves by the median of its points, as in Kalal et
al., "Forward-Backward Error" (ICPR 2010). Its size changes as a motion model expects: a scale measured from so few
points was worse (decision 69). A box in which too few points are followed moves as expected.

The motion model also tells where to search, so that small windows are enough for fast objects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import Luma, Predictions
from sightline.media.boxes import Boxes, xyxy_from_cxcywh
from sightline_plugins.flow.luma import HalvedLuma
from sightline_plugins.native import POINTER, SIZE, function, pointer

Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

_WIDEST = 480
"""Longer side, at most, of the images in which points are followed."""
_ACROSS = 3
"""Points along each side of a box."""
_MIDDLE = 0.7
"""Part of the box, along each side, in which points lie: near its border, they are mostly on the background."""
_FEWEST = _ACROSS * _ACROSS // 2
"""Points that have to be followed, for a box to go where they do."""
_SMALLEST = 1.0
"""Width and height, in pixels, that a box counts as having at least."""
_MANY = 400
"""Points from which the GIL is released while they are followed."""


@dataclass(frozen=True, slots=True, eq=False)
class ReducedImage:
    """An image in which boxes are followed, (h, w), its half, and the pixels of the source along each side of one of
    its pixels: 1, 2, 4, ... Nobody changes the images.
    """

    luma: Luma
    half: Luma
    scale: int

    @classmethod
    def of(cls, image: HalvedLuma) -> ReducedImage:
        """Return copies of an image, reduced as far as boxes need."""
        luma, scale = image.below(_WIDEST + 1)
        return cls(luma, image.halved(scale.bit_length()), scale)


class FollowedTracks:
    """The boxes of the tracks of one stream, followed from a detection to the next. One thread uses it.

    For each frame, in order: `look`, and then `begin` where a detector looked at it, `follow` where none did.
    """

    def __init__(self) -> None:
        self._boxes = BoxFollower()
        self._track_id: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._xyxy: Boxes = np.empty((0, 4), np.float32)
        self._expected: Boxes = self._xyxy

    def look(self, image: ReducedImage) -> None:
        """Take the next image."""
        self._boxes.look(image)

    def begin(self, expected: Predictions, track_id: npt.NDArray[np.int64], xyxy: Boxes) -> None:
        """Take the tracks that the tracker expects on this frame, after it has seen the frame's detections: boxes
        (N, 4) with their tracks (N,), -1 for none.
        """
        self._track_id, self._expected = expected.track_id, expected.xyxy
        self._xyxy = expected.xyxy.copy()
        order = np.argsort(track_id, kind="stable")
        place = np.minimum(np.searchsorted(track_id[order], expected.track_id), max(0, len(order) - 1))
        if len(order):
            seen = order[place]
            is_seen = track_id[seen] == expected.track_id
            self._xyxy[is_seen] = xyxy[seen[is_seen]]

    def follow(self, expected: Predictions) -> Predictions:
        """Return the tracks that the tracker expects on this frame, with their boxes where the image shows them."""
        if not np.array_equal(expected.track_id, self._track_id):  # the first frame, or tracks have ended
            self._track_id, self._xyxy, self._expected = expected.track_id, expected.xyxy, expected.xyxy
            return expected
        self._xyxy = self._boxes.moved(self._xyxy, before=self._expected, expected=expected.xyxy)
        self._expected = expected.xyxy
        return replace(expected, xyxy=self._xyxy.copy())


class BoxFollower:
    """Follows boxes in the images of one stream. One thread uses it; it keeps the last image, reduced."""

    def __init__(self) -> None:
        self._before: ReducedImage | None = None
        self._now: ReducedImage | None = None

    def look(self, image: ReducedImage) -> None:
        """Take the next image; what is followed then goes from the one before to this one."""
        same = self._now is not None and self._now.luma.shape == image.luma.shape
        self._before = self._now if same else None
        self._now = image

    def moved(self, xyxy: Boxes, *, before: Boxes, expected: Boxes) -> Boxes:
        """Return boxes (N, 4) of the image before where this image shows them, in pixels of the source.

        `before` and `expected` (N, 4) are where a motion model has them in both images. What it says of their change
        in size is believed, and of their movement where too few points are followed.
        """
        if not len(xyxy):
            return xyxy
        size = xyxy[:, 2:] - xyxy[:, :2]
        grown = (expected[:, 2:] - expected[:, :2]) / np.maximum(before[:, 2:] - before[:, :2], _SMALLEST)
        centre = _centres(xyxy) + self._shift(xyxy, _centres(expected) - _centres(before))
        moved: Boxes = xyxy_from_cxcywh(np.concatenate([centre, size * grown], axis=1).astype(np.float32))
        return moved

    def _shift(self, xyxy: Boxes, expected: Floats) -> Floats:
        """Return how far (N, 2) the content of boxes has moved; as `expected` where it was not followed."""
        if self._before is None or self._now is None:
            return expected
        points = _points(xyxy)
        there, followed = follow_points(self._before, self._now, points, guess=points + expected[:, None])
        count = followed.sum(axis=1)
        is_followed = (count >= _FEWEST)[:, None]
        return np.where(is_followed, _medians(there - points, followed, count), expected).astype(np.float32, copy=False)


def follow_points(before: ReducedImage, now: ReducedImage, points: Floats, *, guess: Floats) -> tuple[Floats, Mask]:
    """Return where the points (..., 2) of an image are in another one of its size, and which are found (...).

    `guess` (..., 2) is where the search begins. All in pixels of the source.
    """
    height, width = before.luma.shape
    half = np.float32(0.5)  # the middle of a pixel
    start = np.ascontiguousarray((points + half) / before.scale - half, np.float32)
    there = np.ascontiguousarray((guess + half) / before.scale - half, np.float32)
    followed = np.zeros(points.shape[:-1], np.uint8)
    images = [pointer(image) for image in (before.luma, before.half, now.luma, now.half)]
    compiled = _compiled(long=followed.size >= _MANY)
    compiled(width, height, *images, followed.size, pointer(start), pointer(there), pointer(followed))
    return (there + half) * before.scale - half, followed.view(np.bool_)


@cache
def _compiled(*, long: bool) -> Any:
    return function("follow_points", *[SIZE] * 2, *[POINTER] * 4, SIZE, *[POINTER] * 3, long=long)


def _centres(xyxy: Boxes) -> Floats:
    return np.asarray((xyxy[:, :2] + xyxy[:, 2:]) / 2, np.float32)


def _points(xyxy: Boxes) -> Floats:
    """Return the points (N, P, 2) of boxes (N, 4)."""
    place = ((np.arange(_ACROSS) + 0.5) / _ACROSS - 0.5) * _MIDDLE
    offset = np.stack(np.meshgrid(place, place), axis=-1).reshape(-1, 2).astype(np.float32)
    points: Floats = _centres(xyxy)[:, None] + (xyxy[:, 2:] - xyxy[:, :2])[:, None] * offset
    return points


def _medians(values: Floats, counted: Mask, count: npt.NDArray[np.intp]) -> Floats:
    """Return the medians (N, 2) of those values (N, P, 2) that count (N, P); anything where none does."""
    ordered = np.sort(np.where(counted[..., None], values, np.float32(np.inf)), axis=1)
    row = np.arange(len(values))
    last = np.maximum(count - 1, 0)
    middle: Floats = (ordered[row, last // 2] + ordered[row, (last + 1) // 2]) / 2
    return middle
