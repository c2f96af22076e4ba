"""Heads that read tables of boxes: segmentation, pose, oriented boxes, YOLO-NAS, and older exports with raw maps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sightline.errors import ModelError
from tests.unit.heads.yolo.forward import BOXES, CLASSES, SIDE, Box, Floats, assert_found, decode, dense

CELLS = (SIDE // 8) ** 2 + (SIDE // 16) ** 2 + (SIDE // 32) ** 2
MASKS = 8
RANDOM = np.random.default_rng(7)
PROTOTYPES = RANDOM.normal(size=(1, MASKS, SIDE // 4, SIDE // 4)).astype(np.float32)
COEFFICIENTS = RANDOM.normal(size=(len(BOXES), MASKS)).astype(np.float32)
ANGLES = (0.0, math.pi / 6, -math.pi / 8)
ROWS = [7 + 11 * number for number in range(len(BOXES))]


def chance(box: Box) -> float:
    return box.chance


def by_class(found: Floats, classes: np.ndarray[tuple[int], np.dtype[np.int32]]) -> Floats:
    return found[np.argsort(classes)]


def chosen(extra: Floats, *, corners: bool = True) -> Floats:
    """Rows of box, score, class and more, with padding behind, as models give them that choose for themselves."""
    rows = np.zeros((1, 20, 6 + extra.shape[1]), np.float32)
    for number, box in enumerate(BOXES):
        values = box.xyxy if corners else [box.x, box.y, box.width, box.height]
        rows[0, number] = [*values, box.chance, box.class_id, *extra[number]]
    return rows


def segmented(*, objectness: bool) -> Floats:
    table = dense(BOXES, cells=CELLS, extra=MASKS, objectness=objectness)
    table[ROWS, -MASKS:] = COEFFICIENTS
    return table[None]


def test_masks_come_with_boxes_of_class_scores() -> None:
    found = decode("yolov8_seg", segmented(objectness=False).transpose(0, 2, 1), PROTOTYPES)

    assert_found(found, BOXES, score=chance)
    assert found.masks is not None
    assert found.prototypes is not None
    np.testing.assert_array_equal(by_class(found.masks, found.class_id), COEFFICIENTS)
    np.testing.assert_array_equal(found.prototypes, PROTOTYPES[0])


def test_masks_come_with_boxes_of_objectness() -> None:
    found = decode("yolov5_seg", PROTOTYPES, segmented(objectness=True))

    assert_found(found, BOXES, score=lambda box: box.score)
    assert found.masks is not None
    np.testing.assert_array_equal(by_class(found.masks, found.class_id), COEFFICIENTS)


def test_masks_come_with_boxes_that_the_model_chose() -> None:
    found = decode("end_to_end_seg", chosen(COEFFICIENTS), PROTOTYPES, confidence=0.0)

    assert_found(found, BOXES, score=chance)
    assert found.masks is not None
    np.testing.assert_array_equal(by_class(found.masks, found.class_id), COEFFICIENTS)


def test_a_segmentation_without_prototypes_is_refused() -> None:
    with pytest.raises(ModelError, match="head yolov8_seg: boxes and prototypes"):
        decode("yolov8_seg", segmented(objectness=False))


def keypoints(points: int, size: int) -> Floats:
    values = RANDOM.uniform(0, SIDE, (len(BOXES), points, size)).astype(np.float32)
    if size == 3:
        values[..., 2] = RANDOM.uniform(0, 1, (len(BOXES), points))
    return values


def posed(values: Floats) -> Floats:
    flat = values.reshape(len(BOXES), -1)
    table = dense(BOXES, cells=CELLS, extra=flat.shape[1])
    table[ROWS, -flat.shape[1] :] = flat
    return np.ascontiguousarray(table.T)[None]


def test_keypoints_come_with_boxes() -> None:
    values = keypoints(17, 3)

    found = decode("yolov8_pose", posed(values), keypoints=(17, 3))

    assert_found(found, BOXES, score=chance)
    assert found.points is not None
    np.testing.assert_array_equal(by_class(found.points, found.class_id), values)


def test_labels_tell_how_many_keypoints_there_are() -> None:
    found = decode("yolov8_pose", posed(keypoints(5, 3)))

    assert found.points is not None
    assert found.points.shape == (len(BOXES), 5, 3)


def test_keypoints_of_two_values_are_sure() -> None:
    values = keypoints(7, 2)

    found = decode("yolov8_pose", posed(values))

    assert found.points is not None
    np.testing.assert_array_equal(by_class(found.points, found.class_id)[..., :2], values)
    assert (found.points[..., 2] == 1).all()


def test_keypoints_come_with_boxes_that_the_model_chose() -> None:
    values = keypoints(17, 3)

    found = decode("end_to_end_pose", chosen(values.reshape(len(BOXES), -1)))

    assert_found(found, BOXES, score=chance)
    assert found.points is not None
    np.testing.assert_array_equal(by_class(found.points, found.class_id), values)


def test_keypoints_that_do_not_fit_the_values_are_refused() -> None:
    with pytest.raises(ModelError, match="17 keypoints of 3 values do not fit the 20 values"):
        decode("yolov8_pose", posed(keypoints(5, 3)), keypoints=(17, 3))
    with pytest.raises(ModelError, match=r"set labels, or head_options: \{keypoints"):
        decode("yolov8_pose", posed(keypoints(7, 1)))


def corners(box: Box, angle: float) -> list[tuple[float, float]]:
    """The corners of a box that was turned by an angle, x towards y, one by one."""
    turned = []
    for right, down in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
        along, across = right * box.width / 2, down * box.height / 2
        x = box.x + along * math.cos(angle) - across * math.sin(angle)
        y = box.y + along * math.sin(angle) + across * math.cos(angle)
        turned.append((x, y))
    return turned


EXPECTED_CORNERS = [corners(box, angle) for box, angle in zip(BOXES, ANGLES, strict=True)]


def test_oriented_boxes_have_corners_and_a_box_around_them() -> None:
    table = dense(BOXES, cells=CELLS, extra=1)
    table[ROWS, -1] = ANGLES

    found = decode("yolov8_obb", table.T[None])

    assert found.corners is not None
    np.testing.assert_allclose(by_class(found.corners, found.class_id), EXPECTED_CORNERS, atol=1e-3)
    np.testing.assert_allclose(found.xyxy[:, :2], found.corners.min(axis=1))
    np.testing.assert_allclose(found.xyxy[:, 2:], found.corners.max(axis=1))


def test_oriented_boxes_that_the_model_chose_come_as_centre_and_size() -> None:
    found = decode("end_to_end_obb", chosen(np.array(ANGLES, np.float32)[:, None], corners=False))

    assert found.corners is not None
    np.testing.assert_allclose(by_class(found.corners, found.class_id), EXPECTED_CORNERS, atol=1e-3)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_yolo_nas_gives_corners_and_scores_apart(order: tuple[int, int]) -> None:
    table = dense(BOXES, cells=CELLS)
    table[ROWS, :4] = [box.xyxy for box in BOXES]
    outputs = table[None, :, :4], np.ascontiguousarray(table[None, :, 4:])

    assert_found(decode("yolo_nas", *(outputs[place] for place in order)), BOXES, score=chance)


def test_yolo_nas_without_boxes_is_refused() -> None:
    with pytest.raises(ModelError, match="boxes \\(1, n, 4\\) and scores"):
        decode("yolo_nas", np.zeros((1, CELLS, CLASSES), np.float32))


def test_rows_of_yolo_nas_have_the_score_before_the_class() -> None:
    rows = np.array([[0, *box.xyxy, box.chance, box.class_id] for box in BOXES], np.float32)

    assert_found(decode("yolo_nas_rows", rows), BOXES, score=chance)


def test_other_rows_are_none_of_yolo_nas() -> None:
    with pytest.raises(ModelError, match="rows of 7 values are needed"):
        decode("yolo_nas_rows", np.zeros((3, 6), np.float32))


def test_raw_maps_beside_decoded_boxes_are_passed_over() -> None:
    table = dense(BOXES, cells=3 * CELLS, objectness=True)[None]
    maps = [np.full((1, 3, SIDE // stride, SIDE // stride, 5 + CLASSES), 9, np.float32) for stride in (8, 16, 32)]

    assert_found(decode("yolov5", table, *maps), BOXES, score=lambda box: box.score)


def test_an_objectness_of_one_is_that_of_yolov6() -> None:
    boxes = [Box(box.x, box.y, box.width, box.height, box.class_id, box.chance) for box in BOXES]

    assert_found(decode("yolov5", dense(boxes, cells=CELLS, objectness=True)[None]), boxes, score=chance)


@pytest.mark.parametrize("first", [True, False])
def test_both_orientations_give_the_same_at_a_confidence_of_nothing(first: bool) -> None:
    table = dense(BOXES, cells=CELLS)[None]

    found = decode("yolov8", np.ascontiguousarray(table.transpose(0, 2, 1)) if first else table, confidence=0.0)

    assert len(found) == CELLS
    assert found.class_id[ROWS].tolist() == [box.class_id for box in BOXES]


def test_a_table_without_classes_is_refused() -> None:
    with pytest.raises(ModelError, match="no class scores"):
        decode("yolov8_obb", np.zeros((1, 5, CELLS), np.float32))
