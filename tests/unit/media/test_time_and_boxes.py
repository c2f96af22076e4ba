"""Durations, times of day and boxes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.media import boxes
from sightline.media.time import format_duration, format_time, parse_duration_ns


@pytest.mark.parametrize(
    ("written", "nanoseconds"),
    [
        ("40ms", 40_000_000),
        ("2s", 2_000_000_000),
        ("1.5h", 5_400_000_000_000),
        (0.25, 250_000_000),
        (" 5 m ", 300 * 10**9),
    ],
)
def test_durations_are_read(written: object, nanoseconds: int) -> None:
    assert parse_duration_ns(written) == nanoseconds


@pytest.mark.parametrize("written", ["40", "soon", "-2s", -1, True, "2 s s", None])
def test_what_is_no_duration_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration_ns(written)


@given(st.integers(0, 10**15))
def test_a_duration_is_written_so_that_it_reads_back(nanoseconds: int) -> None:
    assert parse_duration_ns(format_duration(nanoseconds)) == nanoseconds


def test_a_time_of_day_has_milliseconds_and_a_zone() -> None:
    assert format_time(1_767_323_045_678_901_234) == "2026-01-02T03:04:05.678Z"


def test_iou_of_a_box_with_itself_a_half_and_a_stranger() -> None:
    box = np.array([[0, 0, 10, 10]], np.float32)
    others = np.array([[0, 0, 10, 10], [0, 0, 10, 5], [20, 20, 30, 30]], np.float32)

    np.testing.assert_allclose(boxes.iou_matrix(box, others), [[1, 0.5, 0]])


def test_iou_of_empty_boxes_is_zero() -> None:
    empty = np.zeros((1, 4), np.float32)

    assert boxes.iou_matrix(empty, empty).tolist() == [[0]]


def test_boxes_are_cut_to_the_image() -> None:
    cut = boxes.clip(np.array([[-5, -5, 700, 20]], np.float32), size_wh=(640, 360))

    assert cut.tolist() == [[0, 0, 640, 20]]


def test_box_forms_are_inverse_to_each_other() -> None:
    xyxy = np.array([[1, 2, 11, 22]], np.float32)

    np.testing.assert_array_equal(boxes.xyxy_from_ltwh(boxes.ltwh_from_xyxy(xyxy)), xyxy)
    np.testing.assert_array_equal(boxes.xyxy_from_cxcywh(np.array([[6, 12, 10, 20]], np.float32)), xyxy)
