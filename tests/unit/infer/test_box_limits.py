"""Boxes that are left out for their size and number, against a loop over them."""

from __future__ import annotations

import numpy as np
import pytest

from sightline_plugins.heads.head import Candidates
from sightline_plugins.infer.box_limits import BoxLimits


def plainly(found: Candidates, limits: BoxLimits) -> list[int]:
    """The rows that stay, one after the other."""
    last, stays = len(limits.most) - 1, []
    classes = [number if 0 <= number < last else last for number in found.class_id.tolist()]
    for row, (left, top, right, bottom) in enumerate(found.xyxy.tolist()):
        smallest, largest = limits.smallest[classes[row]].tolist(), limits.largest[classes[row]].tolist()
        if smallest[0] <= right - left <= largest[0] and smallest[1] <= bottom - top <= largest[1]:
            stays.append(row)
    return [
        row
        for row in stays
        if sum(
            classes[other] == classes[row] and (-found.confidence[other], other) < (-found.confidence[row], row)
            for other in stays
        )
        < limits.most[classes[row]]
    ]


@pytest.mark.parametrize("seed", range(20))
def test_limits_are_those_of_each_class(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, classes = int(rng.integers(0, 40)), 3
    corner, sides = rng.integers(0, 50, (count, 2)), rng.integers(1, 20, (count, 2))
    found = Candidates.from_arrays(
        np.concatenate([corner, corner + sides], axis=1).astype(np.float32),
        rng.integers(1, 6, count).astype(np.float32) / 8,  # many are equal
        rng.integers(-1, classes + 2, count).astype(np.int32),
    )
    limits = BoxLimits(
        rng.integers(0, 8, (classes + 1, 2)).astype(np.float32),
        rng.choice([12.0, np.inf], (classes + 1, 2)).astype(np.float32),
        rng.choice([2, 5, np.iinfo(np.int64).max], classes + 1),
    )

    kept = limits.select(found)

    rows = plainly(found, limits)
    assert kept.xyxy.tolist() == found.xyxy[rows].tolist()
    assert kept.confidence.tolist() == found.confidence[rows].tolist()
    assert kept.class_id.tolist() == found.class_id[rows].tolist()
