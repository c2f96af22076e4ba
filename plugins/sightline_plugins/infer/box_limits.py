"""How large boxes have to be to become objects, and how many of a class do, on each frame or object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sightline_plugins.heads.head import Candidates
    from sightline_plugins.infer.options import DetectionElement


@dataclass(frozen=True, slots=True, eq=False)
class BoxLimits:
    """The limits of each class; the last row is for classes that have no label.

    `smallest` and `largest` float32 (classes + 1, 2) hold width and height in pixels of the frame; `most` int64
    (classes + 1,) says how many boxes of a class stay, the most confident ones.
    """

    smallest: npt.NDArray[np.float32]
    largest: npt.NDArray[np.float32]
    most: npt.NDArray[np.int64]

    def fit(self, found: Candidates) -> npt.NDArray[np.bool_]:
        """Return which boxes (N,), in pixels of the frame, are neither too small nor too large."""
        sides, numbers = found.xyxy[:, 2:] - found.xyxy[:, :2], self._numbers(found)
        fits = (sides >= self.smallest[numbers]) & (sides <= self.largest[numbers])
        return cast("npt.NDArray[np.bool_]", fits.all(axis=1))

    def select(self, found: Candidates) -> Candidates:
        """Return the boxes that stay, in the order in which they are."""
        stays = self.fit(found)
        found = found if stays.all() else found.select(stays)
        numbers = self._numbers(found)
        order = np.lexsort((-found.confidence, numbers))  # equal ones in their order
        place = np.arange(len(order)) - np.searchsorted(numbers[order], numbers[order])
        is_few = np.empty(len(order), np.bool_)
        is_few[order] = place < self.most[numbers[order]]
        return found if is_few.all() else found.select(is_few)

    def _numbers(self, found: Candidates) -> npt.NDArray[np.int32]:
        last = len(self.most) - 1
        numbers: npt.NDArray[np.int32] = np.where((found.class_id >= 0) & (found.class_id < last), found.class_id, last)
        return numbers


def box_limits(element: DetectionElement, labels: tuple[str, ...]) -> BoxLimits | None:
    """Return the limits that the options set; None where they set none."""
    usual = (element.min_size or (0, 0), element.max_size or (np.inf, np.inf), element.max_per_class)
    if usual == ((0, 0), (np.inf, np.inf), None) and not element.class_limits:
        return None
    of_classes = [element.class_limits.get(label) for label in labels] + [None]
    unlimited = np.iinfo(np.int64).max
    rows = [
        usual if own is None else (own.min_size or usual[0], own.max_size or usual[1], own.max_detections or usual[2])
        for own in of_classes
    ]
    return BoxLimits(
        np.array([smallest for smallest, _, _ in rows], np.float32),
        np.array([largest for _, largest, _ in rows], np.float32),
        np.array([unlimited if most is None else most for _, _, most in rows], np.int64),
    )
