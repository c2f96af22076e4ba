"""Batches."""

from __future__ import annotations

import numpy as np

from sightline.media import Batch, Event, Objects, Origin, Overlay, PixelFormat, Surface
from sightline.testing import make_frames


def sample() -> Batch:
    objects = Objects.from_columns(
        frame=[0, 1, 1],
        xyxy=np.zeros((3, 4)),
        confidence=np.ones(3),
        class_id=[0, 1, 2],
        source=Origin("d", ("a", "b", "c")),
    )
    return Batch(tuple(make_frames(3)), objects).with_events([Event("line", "x", 1), Event("line", "y", 0)])


def test_views_show_what_was_found_on_each_frame() -> None:
    views = list(sample())

    assert [[thing.label for thing in view.objects] for view in views] == [["a"], ["b", "c"], []]
    assert [[event.rule for event in view.events] for view in views] == [["y"], ["x"], []]


def test_selecting_frames_takes_along_what_was_found_on_them() -> None:
    part = sample().select_frames([1, 2])

    assert part.objects.frame.tolist() == [0, 0]
    assert [(event.rule, event.frame) for event in part.events] == [("x", 0)]
    assert [frame.index for frame in part.frames] == [1, 2]


def test_overlays_are_added_to_those_already_there() -> None:
    line = Overlay("line", "gate", ((0, 0), (1, 1)))
    zone = Overlay("zone", "yard", ((0, 0), (1, 0), (1, 1)))

    both = sample().with_overlays([(line,), (), ()]).with_overlays([(zone,), (zone,), ()])

    assert both.columns.overlays == ((line, zone), (zone,), ())


def test_sharing_a_batch_ends_the_exclusive_use_of_its_surfaces() -> None:
    surface = Surface.allocate(PixelFormat.GRAY8, size_wh=(64, 48))
    batch = Batch(tuple(make_frames(1, pixel_format=PixelFormat.GRAY8))).with_surfaces([surface])

    assert not batch.shared().frames[0].surface.exclusive


def test_sharing_a_shared_batch_costs_nothing() -> None:
    batch = sample()

    assert batch.shared() is batch


def test_frames_are_marked_as_searched_by_each_step_of_its_own() -> None:
    batch = sample().with_search("a", {0, 2}).with_search("b", {2})

    assert [sorted(own) for own in batch.columns.searched_by] == [["a"], [], ["a", "b"]]
    assert [sorted(own) for own in batch.select_frames([2, 1]).columns.searched_by] == [["a", "b"], []]
    assert batch.with_search("c", ()) is batch


def test_what_a_step_for_some_streams_searched_is_known_of_their_frames() -> None:
    batch = Batch(tuple(make_frames(3))).with_search("before", {0})
    part = batch.select_frames([0, 2]).with_search("own", {1})

    assert [sorted(own) for own in batch.with_rows([0, 2], part).columns.searched_by] == [["before"], [], ["own"]]
