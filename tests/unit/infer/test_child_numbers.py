"""Numbers of objects found on another object: each keeps its number from run to run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.media.boxes import Boxes
from sightline_plugins.infer.track_memory import NO_CHILDREN, Children

CAR = np.array([100, 100, 300, 200], np.float32)
LEFT, RIGHT, MIDDLE = (120, 170, 150, 180), (250, 170, 280, 180), (190, 120, 210, 130)


def boxes(*xyxy: Sequence[float]) -> Boxes:
    return np.array(xyxy, np.float32).reshape(-1, 4)


def numbers(
    before: Children, *xyxy: Sequence[float], classes: Sequence[int] = (), parent: Boxes = CAR
) -> tuple[list[int], Children]:
    class_id = np.array(classes or [0] * len(xyxy), np.int32)
    found, after = before.numbered(boxes(*xyxy), class_id, parent=parent)
    return found.tolist(), after


def test_the_first_boxes_are_numbered_in_order() -> None:
    assert numbers(NO_CHILDREN, LEFT, RIGHT)[0] == [0, 1]


def test_boxes_in_another_order_keep_their_numbers() -> None:
    _, known = numbers(NO_CHILDREN, LEFT, RIGHT)

    assert numbers(known, RIGHT, LEFT)[0] == [1, 0]


def test_a_box_that_is_left_alone_keeps_its_number() -> None:
    _, known = numbers(NO_CHILDREN, LEFT, RIGHT)

    assert numbers(known, RIGHT)[0] == [1]


def test_a_box_has_its_number_again_after_runs_that_found_nothing() -> None:
    _, known = numbers(NO_CHILDREN, LEFT, RIGHT)
    _, known = numbers(known)

    assert numbers(known, RIGHT, LEFT)[0] == [1, 0]


def test_one_more_box_gets_a_new_number() -> None:
    _, known = numbers(NO_CHILDREN, LEFT, RIGHT)

    assert numbers(known, MIDDLE, RIGHT, LEFT)[0] == [2, 1, 0]


def test_boxes_keep_their_numbers_while_the_object_moves_and_grows() -> None:
    _, known = numbers(NO_CHILDREN, LEFT, RIGHT)
    moved = boxes(RIGHT, LEFT) * 2 + 40

    assert numbers(known, *moved.tolist(), parent=CAR * 2 + 40)[0] == [1, 0]


def test_boxes_of_another_class_get_another_number() -> None:
    _, known = numbers(NO_CHILDREN, LEFT, classes=[0])

    assert numbers(known, LEFT, classes=[1])[0] == [1]


def test_numbers_stay_bounded_however_many_boxes_there_are() -> None:
    known = NO_CHILDREN
    for shift in range(5):
        many = [(100 + 2 * step, 100, 102 + 2 * step, 110) for step in range(60 + shift)]
        found, known = numbers(known, *many, classes=[shift] * len(many))

    assert max(found) < 64
    assert len(known.centers) <= 64
