"""What is taken for the same when a GPU's recording is compared with the CPU's, and what is not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sightline.media.shapes import Mask
from sightline_plugins.sinks.records import encode_mask
from tests.gpu.alike import assert_alike, assert_same_areas, share_found_again

LEAST = 0.25
CAR: dict[str, Any] = {"label": "car", "class_id": 2, "confidence": 0.8, "box": [10.0, 10.0, 110.0, 60.0]}
CHANGES: dict[str, dict[str, Any]] = {
    "class": {"label": "van", "class_id": 3, "confidence": 0.7},
    "confidence": {"confidence": 0.82},
    "place": {"box": [11.0, 10.0, 111.0, 60.0]},
    "keypoint": {"keypoints": [[30.0, 20.0, 0.9]]},
    "attribute": {"attributes": {"colour": "red"}},
    "embedding": {"embedding": [0.0, 1.0]},
}
HAS: dict[str, Any] = {
    "keypoints": [[20.0, 20.0, 0.9]],
    "attributes": {"colour": "blue", "colour_confidence": 0.5},
    "embedding": [1.0, 0.0],
}


def recording(*frames: Sequence[dict[str, Any]]) -> bytes:
    lines = [{"frame": number, "pts_ns": number, "objects": list(things)} for number, things in enumerate(frames)]
    return "\n".join(map(json.dumps, lines)).encode()


def masked(columns: int) -> dict[str, Any]:
    """A car on the first columns of an image of 100 x 100."""
    counts = encode_mask(Mask(0, 0, np.ones((100, columns), np.bool_)), size_wh=(100, 100))
    return {**CAR, "mask": {"size": [100, 100], "counts": counts}}


def moved(thing: dict[str, Any], what: str) -> dict[str, Any]:
    left = thing["box"][0] + 1
    return {"box": [left, 10.0, left + 100, 60.0]} if what == "place" else CHANGES[what]


def test_rounding_and_order_make_no_difference() -> None:
    other = {**CAR, **HAS, "box": [300.0, 10.0, 400.0, 60.0]}
    rounded = {**other, "confidence": 0.805, "box": [300.1, 10.0, 400.0, 60.0], "keypoints": [[20.2, 20.0, 0.8]]}

    assert_alike(recording([CAR, other]), recording([rounded, CAR]), least=LEAST)


@pytest.mark.parametrize("what", CHANGES)
def test_a_thing_that_differs_is_told(what: str) -> None:
    things = [{**CAR, **HAS, "box": [left, 10.0, left + 100, 60.0]} for left in range(10, 8010, 200)]

    with pytest.raises(AssertionError, match=r"no counterpart|differ"):
        assert_alike(recording(things), recording([{**thing, **moved(thing, what)} for thing in things]), least=LEAST)


@pytest.mark.parametrize("is_more", [True, False])
def test_one_thing_more_or_less_is_told(is_more: bool) -> None:
    pair = recording([CAR]), recording([CAR, {**CAR, "box": [300.0, 10.0, 400.0, 60.0]}])

    with pytest.raises(AssertionError, match="no counterpart"):
        assert_alike(*(pair if is_more else reversed(pair)), least=LEAST)


def test_what_is_at_the_limit_of_confidence_may_be_missing_where_it_is_one_of_many() -> None:
    doubted = {**CAR, "confidence": LEAST + 0.001, "box": [300.0, 10.0, 400.0, 60.0]}

    assert_alike(recording([CAR, doubted]), recording([CAR]), least=LEAST)
    with pytest.raises(AssertionError, match="4 of 5 differ"):
        assert_alike(recording([CAR, *[doubted] * 4]), recording([CAR]), least=LEAST)


def test_other_frames_are_told() -> None:
    with pytest.raises(AssertionError):
        assert_alike(recording([CAR], [CAR]), recording([CAR]), least=LEAST)


def test_two_recordings_of_nothing_show_nothing() -> None:
    with pytest.raises(AssertionError, match="nothing was found"):
        assert_alike(recording([]), recording([]), least=LEAST)


@pytest.mark.parametrize(("columns", "is_same"), [(50, True), (51, True), (53, False)])
def test_areas_may_differ_in_few_pixels(columns: int, is_same: bool) -> None:
    pair = recording([masked(50)]), recording([masked(columns)])

    if is_same:
        assert_same_areas(*pair)
    else:
        with pytest.raises(AssertionError):
            assert_same_areas(*pair)


def test_the_share_that_is_found_again_counts_both_sides() -> None:
    about = {**CAR, "confidence": 0.6, "box": [15.0, 10.0, 115.0, 60.0]}
    far = {**CAR, "box": [300.0, 10.0, 400.0, 60.0]}

    assert share_found_again(recording([CAR]), recording([about])) == 1
    assert share_found_again(recording([CAR, far]), recording([about])) == pytest.approx(2 / 3)
    assert share_found_again(recording([about]), recording([CAR, far])) == pytest.approx(2 / 3)
