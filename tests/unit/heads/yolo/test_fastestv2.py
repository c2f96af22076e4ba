from __future__ import annotations

import math

import numpy as np
import pytest

from sightline.errors import ModelError
from tests.unit.heads.yolo.forward import (
    BOXES,
    CLASSES,
    LOW,
    SIDE,
    Box,
    Floats,
    assert_found,
    decode,
    logit,
    sigmoid,
)

ANCHORS = (((12.64, 19.39), (37.88, 51.48), (55.71, 138.31)), ((126.91, 78.23), (131.57, 214.55), (279.92, 258.87)))


def share(box: Box) -> float:
    """Classes exclude each other: the best of them beside four of an equal, small chance."""
    return box.objectness * box.chance


def six() -> list[Floats]:
    """Boxes, objectness and classes of both strides, as logits; a class's logit is the logarithm of its chance."""
    outputs = []
    for stride in (16, 32):
        side = SIDE // stride
        outputs += [np.full((1, size, side, side), LOW, np.float32) for size in (12, 3, CLASSES)]
    for number, box in enumerate(BOXES):
        level, anchor = number % 2, number // 2
        stride = (16, 32)[level]
        column, row = int(box.x // stride), int(box.y // stride)
        boxes, objectness, classes = outputs[3 * level : 3 * level + 3]
        width, height = ANCHORS[level][anchor]
        values = (
            (box.x / stride - column + 0.5) / 2,
            (box.y / stride - row + 0.5) / 2,
            math.sqrt(box.width / width) / 2,
            math.sqrt(box.height / height) / 2,
        )
        for place, value in enumerate(values):
            boxes[0, 4 * anchor + place, row, column] = logit(value)
        objectness[0, anchor, row, column] = logit(box.objectness)
        classes[0, :, row, column] = math.log((1 - box.chance) / (CLASSES - 1))
        classes[0, box.class_id, row, column] = math.log(box.chance)
    return outputs


def published() -> list[Floats]:
    """The two maps of the published export: all values ready, channels last."""
    maps = []
    for boxes, objectness, classes in (six()[:3], six()[3:]):
        ready = [sigmoid(boxes), sigmoid(objectness)]
        chances = np.exp(classes) / np.exp(classes).sum(axis=1, keepdims=True)
        maps.append(np.concatenate([*ready, chances], axis=1).transpose(0, 2, 3, 1).astype(np.float32))
    return maps


def test_six_maps_of_logits_are_read() -> None:
    assert_found(decode("yolo_fastestv2", *six()), BOXES, score=share)


def test_the_two_maps_of_the_published_export_are_read() -> None:
    assert_found(decode("yolo_fastestv2", *published()), BOXES, score=share)


def test_the_order_of_the_strides_does_not_matter() -> None:
    assert_found(decode("yolo_fastestv2", *reversed(published())), BOXES, score=share)


def test_other_maps_are_refused() -> None:
    with pytest.raises(ModelError, match="one map or three"):
        decode("yolo_fastestv2", *six()[:4])
    with pytest.raises(ModelError, match="12 channels of boxes, 3 of objectness"):
        decode("yolo_fastestv2", *(entry[..., :9] for entry in published()))


def test_the_table_of_both_maps_is_read() -> None:
    table = np.concatenate([entry.reshape(-1, entry.shape[-1]) for entry in published()])

    assert_found(decode("yolo_fastestv2", table), BOXES, score=share)
    assert_found(decode("yolo_fastestv2", table[None]), BOXES, score=share)
