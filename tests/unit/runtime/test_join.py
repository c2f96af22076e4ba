"""Merging what parallel branches found."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.errors import EndOfLink
from sightline.media import Batch, Event, Objects, Origin, Overlay, Stream
from sightline.runtime.scheduling.join import Join, mark_inherited, merge_branches
from sightline.runtime.scheduling.link import Item, Link, StreamEnd, WorkItem, open_link
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
    assert merged.columns.overlays == ((overlay,), ())


def work_item() -> WorkItem:
    batch = Batch(tuple(make_frames(1)))
    return WorkItem(batch.frames, (0,), batch)


def join_of(trunk: list[Item], branch: list[Item]) -> tuple[Join, list[WorkItem]]:
    lost: list[WorkItem] = []
    links: list[Link[Item]] = [open_link(10), open_link(10)]
    for link, items in zip(links, (trunk, branch), strict=True):
        for item in items:
            link.sender.send(item)
        link.sender.end()
    return Join(links[0].receiver, [links[1].receiver], on_lost=lost.append), lost


def test_a_branch_that_leaves_an_item_out_ends_the_join_and_the_item_is_lost() -> None:
    first, second = work_item(), work_item()
    join, lost = join_of([first, second], [second])

    with pytest.raises(EndOfLink):
        join.receive()

    assert lost == [first]


def test_a_branch_that_ended_a_stream_early_ends_the_join() -> None:
    first = work_item()
    join, lost = join_of([first], [StreamEnd(Stream("cam"))])

    with pytest.raises(EndOfLink):
        join.receive()

    assert lost == [first]


def test_the_end_of_a_stream_passes_when_every_branch_has_it() -> None:
    mark = StreamEnd(Stream("cam"))
    join, _ = join_of([mark], [mark])

    assert join.receive() == mark


class Failing:
    def result(self) -> Batch:
        raise ValueError("no result")


def test_an_item_that_cannot_be_merged_is_lost() -> None:
    base = work_item()
    join, lost = join_of([base], [WorkItem(base.frames, (0,), Failing())])

    with pytest.raises(ValueError, match="no result"):
        join.receive()

    assert lost == [base]


def test_what_steps_of_all_branches_searched_is_known() -> None:
    base = Batch(tuple(make_frames(2))).with_search("before", {0, 1})
    merged = merge_branches(base, [base.with_search("one", {0}), base.with_search("other", {1})])

    assert [sorted(own) for own in merged.columns.searched_by] == [["before", "one"], ["before", "other"]]
