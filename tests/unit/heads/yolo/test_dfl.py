from __future__ import annotations

import numpy as np
import pytest

from sightline.errors import ModelError
from tests.unit.heads.yolo.forward import BOXES, CLASSES, Box, Floats, assert_found, decode, dfl_maps, sigmoid

STRIDES = (8, 16, 32)


def chance(box: Box) -> float:
    return box.chance


def together(bins: int = 16) -> list[Floats]:
    return [np.concatenate(pair, axis=1) for pair in dfl_maps(BOXES, bins=bins, strides=STRIDES)]


def apart(bins: int = 16) -> list[Floats]:
    return [part for pair in dfl_maps(BOXES, bins=bins, strides=STRIDES) for part in pair]


def test_distances_and_classes_are_read_from_one_map_each() -> None:
    assert_found(decode("yolo_dfl", *together()), BOXES, score=chance)


def test_the_order_of_the_maps_does_not_matter() -> None:
    assert_found(decode("yolo_dfl", *reversed(together())), BOXES, score=chance)


def test_channels_may_come_last() -> None:
    assert_found(decode("yolo_dfl", *(entry.transpose(0, 2, 3, 1) for entry in together())), BOXES, score=chance)


@pytest.mark.parametrize("bins", [1, 16, 17])
def test_distances_and_classes_are_read_from_maps_of_their_own(bins: int) -> None:
    assert_found(decode("yolo_dfl", *apart(bins)), BOXES, score=chance)


def test_labels_tell_the_bins_of_maps_that_hold_everything() -> None:
    assert_found(decode("yolo_dfl", *together(17)), BOXES, score=chance)


def test_without_labels_there_are_sixteen_bins() -> None:
    assert_found(decode("yolo_dfl", *together(), labels=()), BOXES, score=chance)


def test_the_bins_can_be_given() -> None:
    assert_found(decode("yolo_dfl", *together(17), labels=(), bins=17), BOXES, score=chance)


def test_scores_that_are_logistic_already_are_taken_as_they_are() -> None:
    maps = apart()
    maps[1::2] = [sigmoid(entry) for entry in maps[1::2]]

    assert_found(decode("yolo_dfl", *maps), BOXES, score=chance)


def test_a_map_of_summed_scores_is_passed_over() -> None:
    pairs = dfl_maps(BOXES, bins=16, strides=STRIDES)
    maps = [part for sides, scores in pairs for part in (sides, scores, scores.sum(axis=1, keepdims=True))]

    assert_found(decode("yolo_dfl", *maps), BOXES, score=chance)


def test_all_distances_may_come_before_all_classes() -> None:
    maps = apart()

    assert_found(decode("yolo_dfl", *maps[::2], *maps[1::2]), BOXES, score=chance)


def test_labels_tell_the_classes_where_they_come_first() -> None:
    maps = apart()
    swapped = [entry for pair in zip(maps[1::2], maps[::2], strict=True) for entry in pair]

    assert_found(decode("yolo_dfl", *swapped), BOXES, score=chance)


def test_maps_too_small_for_the_bins_are_refused() -> None:
    with pytest.raises(ModelError, match=f"the maps have {CLASSES + 4} channels: set head_options"):
        decode("yolo_dfl", *together(1), bins=16)
