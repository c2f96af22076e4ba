from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline_plugins.nms.cpu import Kept, suppress_by_method
from sightline_plugins.nms.options import Decay, NmsOptions
from tests.unit.nms import plain

LIMIT = 0.4371


def soften(found: list[plain.Row], *, least: float = 0.0, **options: object) -> Kept:
    boxes, scores, classes = zip(*found, strict=True)
    chosen = NmsOptions(method="soft", iou=LIMIT, **options)  # type: ignore[arg-type]
    return suppress_by_method(
        np.array(boxes, np.float32),
        np.array(scores, np.float32),
        np.array(classes, np.int32),
        options=chosen,
        least=least,
    )


def values(kept: Kept) -> list[float]:
    assert kept.confidence is not None
    rounded: list[float] = kept.confidence.round(6).tolist()
    return rounded


TWO: list[plain.Row] = [((0, 0, 10, 10), 0.8, 0), ((0, 0, 10, 5), 0.6, 0)]


def test_an_overlapping_box_loses_confidence_by_the_gaussian() -> None:
    assert values(soften(TWO)) == pytest.approx([0.8, 0.6 * math.exp(-(0.5**2) / 0.5)], abs=1e-6)


def test_a_wider_gaussian_takes_less() -> None:
    assert values(soften(TWO, sigma=2.0)) == pytest.approx([0.8, 0.6 * math.exp(-(0.5**2) / 2)], abs=1e-6)


def test_the_linear_decay_takes_the_share_that_overlaps() -> None:
    assert values(soften(TWO, decay="linear")) == pytest.approx([0.8, 0.3])


def test_boxes_of_other_classes_keep_their_confidence() -> None:
    assert values(soften([TWO[0], ((0, 0, 10, 5), 0.6, 1)])) == pytest.approx([0.8, 0.6])


def test_what_falls_below_the_least_confidence_is_dropped() -> None:
    assert soften(TWO, decay="linear", least=0.31).rows.tolist() == [0]


def test_a_box_as_sure_as_the_least_confidence_stays() -> None:
    assert soften([TWO[0], ((50, 50, 60, 60), 0.7, 0)], least=0.7).rows.tolist() == [0, 1]


def test_of_equal_confidences_the_first_goes_first() -> None:
    kept = soften([((0, 0, 10, 10), 0.5, 0), ((0, 0, 10, 10), 0.5, 0), ((30, 30, 40, 40), 0.5, 0)])

    assert kept.rows.tolist() == [0, 2, 1]


def test_at_most_the_detections_asked_for_stay() -> None:
    assert soften(TWO, max_detections=1).rows.tolist() == [0]


@plain.FEWER
@given(
    st.lists(plain.rows(), min_size=2, max_size=25),
    st.sampled_from(["gaussian", "linear"]),
    st.booleans(),
    st.sampled_from([0.0, 0.1, 0.3]),
)
def test_it_gives_what_the_plain_loop_gives(
    found: list[plain.Row], decay: Decay, class_agnostic: bool, least: float
) -> None:
    def factor(shared: float) -> float:
        if decay == "gaussian":
            return math.exp(-(shared**2) / 0.5)
        return 1 - shared if shared > LIMIT else 1.0

    expected = plain.soft(
        [score for _, score, _ in found],
        [class_id for _, _, class_id in found],
        iou=lambda a, b: plain.iou(found[a][0], found[b][0]),
        factor=factor,
        least=float(np.float32(least)),
        class_agnostic=class_agnostic,
    )

    kept = soften(found, decay=decay, class_agnostic=class_agnostic, least=least)

    assert dict(zip(kept.rows.tolist(), values(kept), strict=True)) == pytest.approx(expected, abs=2e-6)
    assert values(kept) == sorted(values(kept), reverse=True)
