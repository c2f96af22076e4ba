"""Merging what parallel branches found."""

from __future__ import annotations

import numpy as np

from sightline.media import Batch, Event, Objects, Origin, Overlay
from sightline.runtime.join import mark_inherited, merge_branches
from sightline.testing import make_frames

ORIGIN = Origin("detect-1", ("car", "person"))


def batch_with(frames: list[int], classes: list[int]) -> Batch:
    count = len(frames)
    objects = Objects.from_columns(
        frame=frames, xyxy=np.zeros((count, 4)), confidence=np.ones(count), class_id=classes, source=ORIGIN
    )
    return Batch(tuple(make_frames(2)), objects)


def add(batch: Batch, frame: int, label: str) -> Batch:
    found = Objects.from_columns(
        frame=[frame], xyxy=np.zeros((1, 4)), confidence=[0.5], class_id=[0], source=Origin(label, (label,))
    )
    return batch.with_objects(Objects.concat([batch.objects, found]))


def found(batch: Batch) -> list[tuple[int, str]]:
    return list(zip(batch.objects.frame.tolist(), batch.objects.labels(), strict=True))


def test_objects_added_by_branches_follow_those_that_were_there_frame_by_frame() -> None:
    base = batch_with([0, 1], [0, 1])
    marked = mark_inherited(base)

    merged = merge_branches(base, [add(marked, 0, "plate"), add(marked, 0, "face")])

    assert found(merged) == [(0, "car"), (0, "plate"), (0, "face"), (1, "person")]


def test_a_column_that_one_branch_changed_is_kept() -> None:
    base = batch_with([0, 1], [0, 1])
    marked = mark_inherited(base)
    tracked = marked.with_objects(marked.objects.with_columns(track_id=np.array([7, 8])))

    merged = merge_branches(base, [tracked, marked])

    assert merged.objects.track_id.tolist() == [7, 8]


def test_an_attribute_that_a_branch_added_is_kept_on_the_right_rows() -> None:
    base = batch_with([0, 0, 1], [0, 1, 0])
    marked = mark_inherited(base)
    cars = marked.objects.select(marked.objects.class_id == 0)
    coloured = marked.with_objects(cars.with_columns(colour=np.array(["red", "blue"])))

    merged = merge_branches(base, [coloured, marked])

    assert merged.objects.extra["colour"].tolist() == ["red", "", "blue"]


def test_an_object_that_every_branch_dropped_is_gone() -> None:
    base = batch_with([0, 1], [0, 1])
    marked = mark_inherited(base)
    cars = marked.with_objects(marked.objects.select(marked.objects.class_id == 0))

    assert found(merge_branches(base, [cars, cars])) == [(0, "car")]
    assert found(merge_branches(base, [cars, marked])) == [(0, "car"), (1, "person")]


def test_no_mark_of_the_join_is_left_behind() -> None:
    base = batch_with([0], [0])

    assert "_row" not in merge_branches(base, [add(mark_inherited(base), 0, "x")]).objects.extra


def test_events_and_overlays_of_all_branches_are_kept_once() -> None:
    base = batch_with([0], [0]).with_events([Event("line", "before", 0)])
    marked = mark_inherited(base)
    overlay = Overlay("line", "gate", ((0.0, 0.0), (1.0, 1.0)))
    one = marked.with_events([Event("line", "one", 1)]).with_overlays([(overlay,), ()])
    two = marked.with_events([Event("line", "two", 0)])

    merged = merge_branches(base, [one, two])

    assert [event.rule for event in merged.events] == ["before", "two", "one"]
    assert merged.overlays == ((overlay,), ())
