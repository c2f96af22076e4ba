from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from pydantic import ValidationError

from sightline.errors import ModelError
from sightline_plugins.heads.registry import HEADS
from tests.unit.heads.yolo.forward import BOXES, Floats, anchor_maps, assert_found, decode, logit, sigmoid

V3 = ((10, 13, 16, 30, 33, 23), (30, 61, 62, 45, 59, 119), (116, 90, 156, 198, 373, 326))
V4 = ((12, 16, 19, 36, 40, 28), (36, 75, 76, 55, 72, 146), (142, 110, 192, 243, 459, 401))
V4_TINY = ((23, 27, 37, 58, 81, 82), (81, 82, 135, 169, 344, 319))
STRIDES = (8, 16, 32)
SQUARED = (2.0, 2.0, 2.0)


def v5_maps() -> list[Floats]:
    return anchor_maps(BOXES, anchors=V3, strides=STRIDES, scale_xy=SQUARED, squared=True)


def channels_first(maps: Sequence[Floats]) -> list[Floats]:
    """(1, 3, rows, columns, values) as (1, 3 * values, rows, columns)."""
    return [entry.transpose(0, 1, 4, 2, 3).reshape(1, -1, *entry.shape[2:4]) for entry in maps]


@pytest.mark.parametrize(
    ("version", "anchors", "strides", "scale_xy", "squared"),
    [
        ("yolov3", V3, STRIDES, (1, 1, 1), False),
        ("yolov4", V4, STRIDES, (1.2, 1.1, 1.05), False),
        ("yolov4-tiny", V4_TINY, (16, 32), (1.05, 1.05), False),
        ("yolov5", V3, STRIDES, SQUARED, True),
        ("yolov7", V4, STRIDES, SQUARED, True),
    ],
)
def test_the_published_formula_and_anchors_of_a_version_are_read(
    version: str,
    anchors: Sequence[Sequence[float]],
    strides: Sequence[int],
    scale_xy: Sequence[float],
    squared: bool,
) -> None:
    maps = anchor_maps(BOXES, anchors=anchors, strides=strides, scale_xy=scale_xy, squared=squared)

    found = decode("yolo_anchors", *maps, version=version)

    assert_found(found, BOXES, score=lambda box: box.score)


def test_the_order_of_the_maps_does_not_matter() -> None:
    fine, middle, coarse = v5_maps()

    assert_found(decode("yolo_anchors", coarse, fine, middle, version="yolov5"), BOXES, score=lambda box: box.score)


def test_channels_may_be_one_size_and_first() -> None:
    found = decode("yolo_anchors", *channels_first(v5_maps()), version="yolov5")

    assert_found(found, BOXES, score=lambda box: box.score)


def test_channels_may_be_one_size_and_last() -> None:
    maps = [entry.transpose(0, 2, 3, 1) for entry in channels_first(v5_maps())]

    assert_found(decode("yolo_anchors", *maps, version="yolov5"), BOXES, score=lambda box: box.score)


def test_anchors_may_come_after_the_cells() -> None:
    maps = [entry.transpose(0, 2, 3, 1, 4) for entry in v5_maps()]

    assert_found(decode("yolo_anchors", *maps, version="yolov5"), BOXES, score=lambda box: box.score)


def test_values_that_are_logistic_already_are_taken_as_they_are() -> None:
    maps = [sigmoid(entry) for entry in v5_maps()]

    assert_found(decode("yolo_anchors", *maps, version="yolov5"), BOXES, score=lambda box: box.score)


def test_scores_may_be_logistic_where_boxes_are_not() -> None:
    maps = anchor_maps(BOXES, anchors=V4, strides=STRIDES, scale_xy=(1.2, 1.1, 1.05), squared=False)
    for entry in maps:
        entry[..., 4:] = sigmoid(entry[..., 4:])

    assert_found(decode("yolo_anchors", *maps, version="yolov4"), BOXES, score=lambda box: box.score)


def test_other_anchors_can_be_given() -> None:
    mine = ((8, 8, 20, 20, 30, 12), (40, 40, 50, 90, 30, 60))
    maps = anchor_maps(BOXES, anchors=mine, strides=(8, 16), scale_xy=(2, 2), squared=True)

    found = decode("yolo_anchors", *maps, version="yolov5", anchors=mine, scale_xy=(2, 2))

    assert_found(found, BOXES, score=lambda box: box.score)


def test_a_box_of_half_precision_is_read_in_full() -> None:
    found = decode("yolo_anchors", *(entry.astype(np.float16) for entry in v5_maps()), version="yolov5")

    assert found.xyxy.dtype == np.float32
    assert len(found) == len(BOXES)


def test_a_version_has_to_be_given_as_shapes_do_not_tell_it() -> None:
    kind = HEADS["yolo_anchors"].options
    assert kind is not None

    with pytest.raises(ValidationError, match="to one of yolov3, yolov3-tiny"):
        kind.model_validate({})


def test_maps_of_another_number_than_the_version_has_are_refused() -> None:
    with pytest.raises(ModelError, match="gives 3 maps, version yolov5-p6 has anchors for 4 strides"):
        decode("yolo_anchors", *v5_maps(), version="yolov5-p6")


def test_maps_that_do_not_divide_the_input_are_refused() -> None:
    with pytest.raises(ModelError, match="is no map of an input of 100x100"):
        decode("yolo_anchors", *v5_maps(), version="yolov5", side=100)


def test_what_is_no_number_is_no_box() -> None:
    maps = v5_maps()
    maps[0][:] = np.nan

    found = decode("yolo_anchors", *maps, version="yolov5", confidence=logit(0.6))

    assert np.isfinite(found.xyxy).all()
