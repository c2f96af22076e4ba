from __future__ import annotations

import numpy as np
import pytest

from sightline.devices.cuda.driver import KernelSource
from sightline_plugins.heads.head import Candidates
from sightline_plugins.nms import cuda as cuda_nms
from sightline_plugins.nms.cpu import by_confidence, suppress
from sightline_plugins.nms.options import MAX_CANDIDATES, NmsOptions
from tests.fakes import ORDERS, Order
from tests.parity.kernels.found import suppressed


def crowd(count: int, *, seed: int = 1, side: float = 80) -> Candidates:
    """Boxes that lie close together, of four classes, many of the same confidence; some are empty or upside down."""
    random = np.random.default_rng(seed)
    corner = random.uniform(-20, 200, (count, 2))
    size = random.uniform(0, side, (count, 2)) * random.choice(
        [1, 1, 1, 0, -0.2], (count, 2), p=[0.3, 0.3, 0.3, 0.05, 0.05]
    )
    confidence = np.round(random.random(count) * 50) / 50
    return Candidates.from_arrays(np.concatenate([corner, corner + size], 1), confidence, random.integers(0, 4, count))


def three(boxes: list[list[float]], *, confidence: list[float], class_id: int = 0) -> Candidates:
    return Candidates.from_arrays(np.array(boxes), np.array(confidence), np.full(3, class_id))


def on_the_host(found: Candidates, options: NmsOptions) -> list[int]:
    kept: list[int] = suppress(found.xyxy, found.confidence, found.class_id, options=options).tolist()
    return kept


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("class_agnostic", [False, True])
def test_the_same_boxes_stay_as_on_the_host_in_the_same_order(order: Order, class_agnostic: bool) -> None:
    images = [crowd(count, seed=count) for count in (300, 0, 1, 257, 2)]
    options = NmsOptions(iou=0.45, class_agnostic=class_agnostic)

    kept, counts = suppressed(images, options, order=order)

    assert [rows.tolist() for rows in kept] == [on_the_host(found, options) for found in images]
    assert counts[:, 1:].tolist() == [[len(found), 0, 0] for found in images]


@pytest.mark.parametrize("iou", [0.0, 0.3, 0.7, 1.0])
def test_the_overlap_that_is_allowed_is_the_same(iou: float) -> None:
    found = crowd(400)

    kept, _ = suppressed([found], NmsOptions(iou=iou))

    assert kept[0].tolist() == on_the_host(found, NmsOptions(iou=iou))


def test_boxes_that_overlap_by_exactly_the_limit_both_stay() -> None:
    found = three([[0, 0, 4, 4], [0, 0, 4, 2], [0, 0, 4, 1.5]], confidence=[0.9, 0.8, 0.7])

    kept, _ = suppressed([found], NmsOptions(iou=0.5))

    assert kept[0].tolist() == [0, 1] == on_the_host(found, NmsOptions(iou=0.5))


def test_of_equal_confidences_the_first_goes_first() -> None:
    boxes = np.tile(np.array([[0, 0, 10, 10]], np.float32), (50, 1))
    found = Candidates.from_arrays(boxes, np.full(50, 0.5), np.arange(50) // 10)

    kept, _ = suppressed([found], NmsOptions())

    assert kept[0].tolist() == [0, 10, 20, 30, 40]


def test_no_more_boxes_stay_than_there_is_room_for() -> None:
    found = crowd(200, side=4)
    options = NmsOptions(max_detections=20)

    kept, counts = suppressed([found], options)

    assert kept[0].tolist() == on_the_host(found, options)
    assert counts.tolist() == [[20, 200, 0, 0]]


def test_only_the_most_confident_candidates_are_looked_at() -> None:
    count = MAX_CANDIDATES + 500
    found = Candidates.from_arrays(
        np.tile(np.array([[0, 0, 9, 9]], np.float32), (count, 1)), np.linspace(0.1, 0.9, count), np.zeros(count)
    )
    found.xyxy[:500] += 100

    kept, counts = suppressed([found], NmsOptions())

    assert kept[0].tolist() == [count - 1] == on_the_host(found, NmsOptions())
    assert counts.tolist() == [[1, count, 0, 0]]


def test_candidates_that_found_no_room_are_told() -> None:
    found = crowd(40)

    kept, counts = suppressed([found], NmsOptions(), capacity=30)

    assert counts[0].tolist() == [len(kept[0]), 40, 0, 10]


def test_without_suppression_the_most_confident_stay() -> None:
    found = crowd(100)

    kept, _ = suppressed([found], NmsOptions(method="none", max_detections=60))

    assert kept[0].tolist() == by_confidence(found.confidence)[:60].tolist()


def test_other_methods_are_refused() -> None:
    with pytest.raises(ValueError, match="by the methods hard and none, not by soft"):
        suppressed([crowd(3)], NmsOptions(method="soft"))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("        ++number;\n        __syncthreads();", "        ++number;"),
        ("int other = place + 1 + thread;", "int other = place + 2 + thread;"),
        ("one.index < other.index", "one.index > other.index"),
    ],
    ids=["barrier", "shifted index", "ties"],
)
def test_a_broken_kernel_is_caught(right: str, wrong: str) -> None:
    broken = KernelSource.read(cuda_nms.SOURCE).replaced(right, wrong)
    touching = three([[0, 0, 4, 4], [0, 0, 4, 2], [0, 0, 4, 4]], confidence=[0.5, 0.4, 0.5], class_id=5)
    images, options = [crowd(300), touching], NmsOptions(iou=0.5)

    kept, _ = suppressed(images, options, source=broken)

    assert [rows.tolist() for rows in kept] != [on_the_host(found, options) for found in images]
