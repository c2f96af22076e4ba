"""The table of objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sightline.media import Mask, Objects, Origin, Tensor

CARS = Origin("detect-1", ("person", "bicycle", "car"))
FACES = Origin("detect-2", ("face",))


def table(frames: list[int], classes: list[int], *, origin: Origin = CARS) -> Objects:
    count = len(frames)
    return Objects.from_columns(
        frame=frames,
        xyxy=np.arange(4 * count, dtype=np.float32).reshape(count, 4),
        confidence=np.linspace(0.5, 0.9, count),
        class_id=classes,
        source=origin,
    )


def test_a_column_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"objects\.track_id"):
        table([0, 1], [0, 2]).with_columns(track_id=np.zeros(3, np.int64))


def test_a_column_of_another_dtype_is_refused() -> None:
    with pytest.raises(ValueError, match="float32"):
        table([0], [0]).with_columns(confidence=np.zeros(1, np.float64))


def test_columns_that_did_not_change_are_shared() -> None:
    before = table([0, 1], [0, 2])

    after = before.with_columns(track_id=np.array([4, 5]))

    assert after.xyxy is before.xyxy
    assert before.track_id.tolist() == [-1, -1]


def test_views_name_classes_by_their_origin() -> None:
    both = Objects.concat([table([0], [2]), table([0], [0], origin=FACES)])

    assert [thing.label for thing in both] == ["car", "face"]


def test_a_class_without_a_name_is_called_by_its_number() -> None:
    assert table([0], [9])[0].label == "9"


def test_concat_orders_by_frame_and_keeps_the_order_within() -> None:
    joined = Objects.concat([table([0, 2], [0, 0]), table([0, 1], [2, 2])])

    assert joined.frame.tolist() == [0, 0, 1, 2]
    assert joined.labels() == ["person", "car", "car", "person"]


def test_concat_of_tables_with_the_same_origin_keeps_one() -> None:
    assert Objects.concat([table([0], [0]), table([1], [2])]).origins == (CARS,)


def test_parents_are_followed_through_concat_and_select() -> None:
    cars = table([0, 1], [2, 2])
    joined = Objects.concat([table([0], [0]), cars.with_columns(parent=np.array([-1, 0], np.int32))])

    child = joined.select(joined.frame == 1)
    both = joined.select(joined.class_id == 2)

    assert child.parent.tolist() == [-1]
    assert both.parent.tolist() == [-1, 0]


def test_an_attribute_missing_in_one_table_is_empty_there() -> None:
    coloured = table([0], [2]).with_columns(colour=np.array(["red"]))

    joined = Objects.concat([coloured, table([1], [2])])

    assert [thing.attributes for thing in joined] == [{"colour": "red"}, {}]


def test_private_extra_columns_are_no_attributes() -> None:
    assert table([0], [0]).with_columns(_mark=np.array([1]))[0].attributes == {}


def test_objects_of_one_frame_are_a_slice() -> None:
    assert table([0, 1, 1, 3], [0, 1, 2, 0]).of_frame(1).class_id.tolist() == [1, 2]


def test_labels_select_across_origins() -> None:
    both = Objects.concat([table([0, 0], [2, 0]), table([0], [0], origin=FACES)])

    assert both.has_label(["car", "face"]).tolist() == [True, False, True]


def test_the_track_of_an_untracked_object_is_none() -> None:
    tracked = table([0, 0], [0, 0]).with_columns(track_id=np.array([-1, 3]))

    assert [thing.track_id for thing in tracked] == [None, 3]


@pytest.mark.parametrize(
    "of", [lambda made: Mask(0, 0, made).bits, lambda made: Tensor(0, "tensors-1", "output", made).values]
)
def test_masks_and_tensors_can_not_be_written_to(of: Callable[[Any], Any]) -> None:
    made = np.zeros((2, 2), np.bool_)

    with pytest.raises(ValueError, match="read-only"):
        of(made)[:] = True
    made[:] = True

    assert of(made).all()


def test_columns_can_not_be_written_to() -> None:
    table = Objects.from_columns(
        frame=[0],
        xyxy=[[0, 0, 10, 10]],
        confidence=[1],
        class_id=[0],
        source=Origin("detect"),
        extra={"speed": np.ones(1)},
    )
    for column in (table.xyxy, table.extra["speed"], table.select(np.array([0])).xyxy):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 5
