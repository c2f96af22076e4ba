"""Which of the things found on an object is which: numbers that stay the same from look to look."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.media import Objects
from sightline.media.boxes import Boxes
from sightline.media.objects import Column

Numbers = npt.NDArray[np.int32]
_NUMBER = "_sibling"
_REMEMBERED = "_remembered"
_MOST = 64


@dataclass(frozen=True, slots=True, eq=False)
class Siblings:
    """Where the things found on one object were last seen, the n-th row that of number n.

    `middles` float32 (K, 2) are shares of the object's width and height, `class_id` int32 (K,) their classes.
    """

    middles: npt.NDArray[np.float32]
    class_id: npt.NDArray[np.int32]

    def numbered(self, xyxy: Boxes, class_id: npt.NDArray[np.int32], *, on: Boxes) -> tuple[Numbers, Siblings]:
        """The number of each thing (N,) found on the object whose box (4,) is `on`, and where all are now.

        The pairs of a thing and the place of one of its class that lie nearest each other go together; what is left
        gets new numbers, in order. Up to 64 are kept apart, all further ones share the last number.
        """
        sides = np.maximum(on[2:] - on[:2], np.float32(1e-6))
        middles = ((xyxy[:, :2] + xyxy[:, 2:]) / 2 - on[:2]) / sides
        numbers = np.full(len(xyxy), -1, np.int32)
        far = np.linalg.norm(middles[:, None] - self.middles[None], axis=2)
        far[class_id[:, None] != self.class_id[None]] = np.inf
        for _ in range(min(far.shape)):
            thing, number = np.unravel_index(int(far.argmin()), far.shape)
            if far[thing, number] == np.inf:
                break
            numbers[thing] = number
            far[thing], far[:, number] = np.inf, np.inf
        new = numbers < 0
        numbers[new] = np.minimum(len(self.middles) + np.arange(np.count_nonzero(new)), _MOST - 1)
        count = max(len(self.middles), int(numbers.max(initial=-1)) + 1)
        after = Siblings(np.zeros((count, 2), np.float32), np.full(count, -1, np.int32))
        after.middles[: len(self.middles)], after.class_id[: len(self.middles)] = self.middles, self.class_id
        after.middles[numbers], after.class_id[numbers] = middles, class_id
        return numbers, after


NOBODY = Siblings(np.empty((0, 2), np.float32), np.empty(0, np.int32))


def sibling_columns(numbers: npt.ArrayLike, *, remembered: npt.ArrayLike) -> dict[str, Column]:
    """Columns for objects found on others: their numbers (N,), and whether their place is only remembered (N,)."""
    return {_NUMBER: np.asarray(numbers, np.int32), _REMEMBERED: np.asarray(remembered, np.bool_)}


def is_remembered(objects: Objects, row: int) -> bool:
    """Whether an object was found on an earlier frame, and put where it must be now."""
    column = objects.extra.get(_REMEMBERED)
    return column is not None and bool(column[row])


def sibling_numbers(objects: Objects) -> Numbers:
    """The number (N,) of each object among those found on the same one by the same step.

    Objects that nobody numbered are counted in order.
    """
    column = objects.extra.get(_NUMBER)
    numbers = np.full(len(objects), -1, np.int32) if column is None else column.astype(np.int32)
    counts: dict[tuple[int, int], int] = {}
    for row in np.flatnonzero((numbers < 0) & (objects.parent >= 0)).tolist():
        kind = (int(objects.parent[row]), int(objects.origin[row]))
        counts[kind] = counts.get(kind, -1) + 1
        numbers[row] = counts[kind]
    return numbers
