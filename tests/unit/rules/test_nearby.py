"""What is covered, taken and near, against plain definitions over all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.media.boxes import iou_matrix
from sightline_plugins.rules.geometry import Floats
from sightline_plugins.rules.nearby import are_covered, are_near, places_taken


def boxes(count: int, *, seed: int, largest: float = 60) -> Floats:
    """Boxes (N, 4) whose edges are whole halves of pixels, as in float32, some of them empty."""
    random = np.random.default_rng(seed)
    low = random.uniform(0, 300, (count, 2))
    return np.round(2 * np.concatenate([low, low + random.uniform(0, largest, (count, 2)) ** 1.1], axis=1)) / 2


@pytest.mark.parametrize(
    ("places", "others", "largest"), [(2000, 150, 30), (300, 20, 90), (40, 1, 200), (0, 3, 9), (3, 0, 9)]
)
def test_a_place_is_covered_by_one_box_that_covers_the_share(places: int, others: int, largest: float) -> None:
    own, over = boxes(places, seed=1), boxes(others, seed=2, largest=largest)
    low, high = np.maximum(own[:, None, :2], over[:, :2]), np.minimum(own[:, None, 2:], over[:, 2:])
    common = np.maximum(high - low, 0).prod(axis=-1)
    area = np.maximum((own[:, 2:] - own[:, :2]).prod(axis=1), 1e-9)

    covered = are_covered(own, over, share=0.3)

    assert covered.tolist() == (common / area[:, None] >= 0.3).any(axis=1).tolist()
    assert len(own) < 40 or 0 < np.count_nonzero(covered) < len(own)


def test_new_boxes_take_the_places_that_they_overlap_most_one_after_another() -> None:
    random = np.random.default_rng(3)
    places, new = boxes(300, seed=3, largest=40), boxes(60, seed=4, largest=40)
    new[:40] = places[random.permutation(300)[:40]] + random.integers(-3, 4, (40, 4))
    new[40:50] = new[:10]
    area, place_area, is_free = random.integers(0, 3, 60), random.integers(0, 3, 300), random.random(300) < 0.8
    overlap = iou_matrix(new.astype(np.float32), places.astype(np.float32))
    overlap[(area[:, None] != place_area) | ~is_free] = 0
    expected = []
    for own in overlap:
        best = int(own.argmax())
        expected.append(best if own[best] >= 0.5 else -1)
        overlap[:, best] = np.where(own[best] >= 0.5, 0, overlap[:, best])

    taken = places_taken(area, new, place_area=place_area, places=places, is_free=is_free, least=0.5)

    assert taken.tolist() == expected
    assert 5 < len({*expected}) - 1 == sum(place >= 0 for place in expected)


def test_a_point_is_near_within_heights_of_a_box_from_its_feet() -> None:
    random = np.random.default_rng(5)
    points, others, reach = random.uniform(0, 300, (200, 2)), boxes(9, seed=6), random.uniform(0.2, 3, 200)
    feet = np.stack([(others[:, 0] + others[:, 2]) / 2, others[:, 3]], axis=1)
    apart = np.hypot(*np.moveaxis(points[:, None] - feet, -1, 0))

    near = are_near(points, others, reach=reach)

    assert near.tolist() == (apart <= reach[:, None] * (others[:, 3] - others[:, 1])).any(axis=1).tolist()
    assert 0 < np.count_nonzero(near) < 200
