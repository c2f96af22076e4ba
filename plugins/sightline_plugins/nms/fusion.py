"""Weighted boxes fusion: boxes that overlap become one (Solovyev and others, 2019, "Weighted boxes fusion").

The boxes of one network are fused, not those of several. So the confidence of a fused box is that of its most confident
member (`conf_type='max'` in the authors' code), not the mean, which would fall the more doubtful boxes are looked at.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes
from sightline_plugins.nms.greedy import Index, by_confidence
from sightline_plugins.nms.options import NmsOptions
from sightline_plugins.nms.oriented import mean_rectangle
from sightline_plugins.nms.overlap import Floats, Overlap, gaussians, oriented_overlap, upright_overlap


def fuse(
    xyxy: Boxes, confidence: npt.NDArray[np.float32], class_id: npt.NDArray[np.int32], *, options: NmsOptions
) -> tuple[Index, Boxes]:
    """The best row of each group of boxes, by falling confidence, and the groups' mean boxes (M, 4).

    Each box, from the most to the least confident, joins the group whose mean so far it overlaps most, if by more than
    `options.iou` (and of its class, unless `options.class_agnostic`), else it begins a new group. Means are weighted by
    confidence; of equal confidences and of equal overlaps the first goes first.
    """
    order = by_confidence(confidence)
    boxes, weights = xyxy[order].astype(np.float64), _weights(confidence[order])
    groups = _Groups(boxes[:0], class_id[order], upright_overlap, options)
    for row in range(len(order)):
        number = groups.find(row, boxes[row])
        members = groups.join(row, number)
        alone = len(members) == 1
        groups.move(number, boxes[row] if alone else np.average(boxes[members], axis=0, weights=weights[members]))
    best = groups.best[: options.max_detections]
    return order[best], groups.shapes[: len(best)].astype(np.float32)


def fuse_oriented(
    corners: npt.NDArray[np.float32],
    confidence: npt.NDArray[np.float32],
    class_id: npt.NDArray[np.int32],
    *,
    options: NmsOptions,
) -> tuple[Index, npt.NDArray[np.float32]]:
    """`fuse` for oriented boxes (N, 4, 2): the best row of each group, and the groups' mean rectangles (M, 4, 2)."""
    order = by_confidence(confidence)
    rectangles, weights = corners[order].astype(np.float64), _weights(confidence[order])
    shapes = gaussians(rectangles)
    means: dict[int, Floats] = {}
    groups = _Groups(shapes[:0], class_id[order], oriented_overlap, options)
    for row in range(len(order)):
        number = groups.find(row, shapes[row])
        members = groups.join(row, number)
        means[number] = mean_rectangle(rectangles[members], weights=weights[members])
        groups.move(number, gaussians(means[number][None])[0])
    best = groups.best[: options.max_detections]
    fused = np.array([means[number] for number in range(len(best))], np.float32).reshape(-1, 4, 2)
    return order[best], fused


class _Groups:
    """Groups of rows, in the order in which they began, and the shape of each."""

    def __init__(self, none: Floats, class_id: npt.NDArray[np.int32], overlap: Overlap, options: NmsOptions) -> None:
        self._room = np.empty((len(class_id), none.shape[1]))
        self._classes = np.zeros_like(class_id) if options.class_agnostic else class_id
        self._class_of = np.empty_like(class_id)
        self._overlap = overlap
        self._iou = options.iou
        self._members: list[list[int]] = []

    @property
    def best(self) -> Index:
        """The most confident row of each group."""
        return np.array([rows[0] for rows in self._members], np.intp)

    @property
    def shapes(self) -> Floats:
        """The shapes of the groups."""
        return self._room[: len(self._members)]

    def find(self, row: int, shape: Floats) -> int:
        """The group for a row; the number of groups when it begins a new one."""
        count = len(self._members)
        fitting = np.flatnonzero(self._class_of[:count] == self._classes[row])
        if not len(fitting):
            return count
        shared = self._overlap(shape, self._room[fitting])
        most = int(shared.argmax())
        return int(fitting[most]) if shared[most] > self._iou else count

    def join(self, row: int, number: int) -> list[int]:
        """Put a row into a group; the rows of the group."""
        if number == len(self._members):
            self._members.append([])
            self._class_of[number] = self._classes[row]
        self._members[number].append(row)
        return self._members[number]

    def move(self, number: int, shape: Floats) -> None:
        """A group has another shape now."""
        self._room[number] = shape


def _weights(confidence: npt.NDArray[np.float32]) -> Floats:
    """Weights that are never all zero."""
    return np.maximum(confidence.astype(np.float64), 1e-12)
