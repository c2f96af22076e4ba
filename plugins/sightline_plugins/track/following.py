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
from sightline.media.boxes import Boxes
from sightline_plugins.flow.luma import HalvedLuma
from sightline_plugins.native import FLOAT, POINTER, SIZE, function, pointer, values

_WIDEST = 480
"""Longer side, at most, of the images in which points are followed."""
_MANY = 50
"""Boxes from which the GIL is released while they are followed."""


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


_BLANK = ReducedImage(np.zeros((1, 1), np.uint8), np.zeros((1, 1), np.uint8), 1)
"""An image in which nothing can be followed."""


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
        one, other = (_BLANK, _BLANK) if self._before is None or self._now is None else (self._before, self._now)
        height, width = one.luma.shape
        images = (one.luma, one.half, other.luma, other.half)
        boxes = [values(box, np.float32) for box in (xyxy, before, expected)]
        moved = np.empty((len(xyxy), 4), np.float32)
        compiled = _compiled(long=len(xyxy) >= _MANY)
        compiled(width, height, *map(pointer, images), one.scale, len(xyxy), *boxes, pointer(moved))
        return moved


@cache
def _compiled(*, long: bool) -> Any:
    return function("follow_boxes", *[SIZE] * 2, *[POINTER] * 4, FLOAT, SIZE, *[POINTER] * 4, long=long)
