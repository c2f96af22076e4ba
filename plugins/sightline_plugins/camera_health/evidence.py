"""What is so for long enough: evidence that adds up over time, and images that stay the same."""

from __future__ import annotations

from sightline.graph.tracker import Luma
from sightline_plugins.opencv import cv2

_FEWEST_IMAGES = 4
"""How many images it takes at least to decide, however far apart they are."""
_STILL_SHARE = 0.002
"""Share of the pixels that may differ in an image that is the same as the one before."""
_LARGEST_CHANGE = 1.0
"""Levels by which a part of an image differs at most when it was only encoded anew."""
_PARTS_WH = (16, 9)
_USUAL_FACTOR = 2
"""How much longer than usual an image has to stay the same."""
_LONGEST_USUAL_FACTOR = 10


class Evidence:
    """Whether something lasts: it begins when it was so for some time, and ends when it was not for some time.

    Images against it take back as much as those for it have added, so that neither a passing lorry nor one good image
    decides.
    """

    def __init__(self) -> None:
        self.is_active = False
        self.since_ns = 0
        """When it began to be so, by the clock of the stream."""
        self._sum_ns = 0

    @property
    def is_suspected(self) -> bool:
        """Whether something speaks for it."""
        return self.is_active or self._sum_ns > 0

    def update(self, holds: bool | None, *, now_ns: int, step_ns: int, after_ns: int, clear_after_ns: int) -> bool:
        """Take whether it holds since the image before, `step_ns` ago; None is neither for it nor against it. Return
        whether it begins or ends with this.
        """
        if holds is None:
            return False
        limit_ns = clear_after_ns if self.is_active else after_ns
        adds = holds != self.is_active
        step_ns = min(step_ns, limit_ns // _FEWEST_IMAGES + 1)
        if not self.is_active and adds and not self._sum_ns:
            self.since_ns = now_ns - step_ns
        self._sum_ns = max(self._sum_ns + (step_ns if adds else -step_ns), 0)
        if self._sum_ns < limit_ns or not adds:
            return False
        self.is_active, self._sum_ns = not self.is_active, 0
        return True

    def start(self, now_ns: int, *, lasted_ns: int | None) -> None:
        """Begin with a clock that says `now_ns`: with what has lasted for some time, or with nothing (None)."""
        self.is_active, self._sum_ns = lasted_ns is not None, 0
        self.since_ns = now_ns - (lasted_ns or 0)


class StillImage:
    """For how long the image has stayed the same, to the pixel, and how long it usually does.

    The noise of a sensor changes some pixel of every image, so that a scene in which nothing happens is not still.
    An image that was only encoded anew, as key frames are, does not end the time, and does not add to it either.
    """

    def __init__(self) -> None:
        self.change = 0.0
        """Share of the pixels that differ from the image before."""
        self.still_ns = 0
        self.since_ns = 0
        self.usual_ns = 0
        """The longest time that ended by itself, before it was reported."""
        self._before: Luma | None = None
        self._first: Luma | None = None

    def restart(self) -> None:
        """Begin with the next image; what is usual stays."""
        self._before = self._first = None

    def update(self, image: Luma, *, now_ns: int, step_ns: int, after_ns: int) -> bool:
        """Take the next fine image, and return whether it is frozen: the same for `after_ns`, or longer when images of
        this camera stay the same by themselves.
        """
        before, self._before = self._before, image
        if before is None or self._first is None or before.shape != image.shape:
            self._first, self.since_ns, self.change, self.still_ns = image, now_ns, 1.0, 0
            return False
        self.change = cv2.countNonZero(cv2.absdiff(before, image)) / image.size
        limit_ns = max(after_ns, min(_USUAL_FACTOR * self.usual_ns, _LONGEST_USUAL_FACTOR * after_ns))
        if self.change <= _STILL_SHARE:
            self.still_ns += min(step_ns, after_ns // _FEWEST_IMAGES + 1)
        elif not self.still_ns or not _is_same(self._first, image):
            if self.still_ns < limit_ns:
                self.usual_ns = max(self.usual_ns, self.still_ns)
            self._first, self.since_ns, self.still_ns = image, now_ns, 0
        return self.still_ns >= limit_ns


def _is_same(first: Luma, image: Luma) -> bool:
    parts = cv2.resize(cv2.absdiff(first, image), _PARTS_WH, interpolation=cv2.INTER_AREA)
    return float(parts.max()) <= _LARGEST_CHANGE
