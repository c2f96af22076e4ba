"""Digests of results: equal for equal ones only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from sightline.media import Batch, Event, Frame, Mask, Objects, Origin, PixelFormat, Stream, Surface
from sightline.media.events import Tensor
from sightline.runtime.recording.digest import digests_of

IMAGE = Surface.allocate(PixelFormat.GRAY8, size_wh=(4, 4))


def batch() -> Batch:
    """Two frames; what is found is on the second one."""
    mask = np.empty(1, object)
    mask[0] = Mask(0, 0, np.ones((2, 2), np.bool_))
    colors = np.array(["red"], object)
    objects = Objects.from_columns(
        frame=[1],
        xyxy=[[0, 0, 2, 2]],
        confidence=[0.5],
        class_id=[0],
        track_id=[7],
        source=Origin("detect-1", ("car", "bus")),
        extra={"mask": mask, "color": colors, "speed": np.array([1.5])},
    )
    frames = tuple(Frame(Stream("cam"), index, 0, IMAGE) for index in range(2))
    event = Event("line", "gate", 1, {"direction": "in"}, "lines-1")
    return Batch(frames, objects, (event,), (Tensor(1, "tensors-1", "out", np.zeros(3)),))


def with_mask(given: Batch) -> Batch:
    mask = np.empty(1, object)
    mask[0] = Mask(0, 0, np.array([[True, True], [True, False]]))
    return given.with_objects(given.objects.with_columns(mask=mask))


CHANGES: dict[str, Callable[[Batch], Batch]] = {
    "box": lambda b: b.with_objects(b.objects.with_columns(xyxy=np.nextafter(b.objects.xyxy, np.float32(9)))),
    "confidence": lambda b: b.with_objects(b.objects.with_columns(confidence=np.array([0.25], np.float32))),
    "class": lambda b: b.with_objects(b.objects.with_columns(class_id=np.array([1], np.int32))),
    "track": lambda b: b.with_objects(b.objects.with_columns(track_id=np.array([8]))),
    "attribute": lambda b: b.with_objects(b.objects.with_columns(color=np.array(["blue"], object))),
    "number": lambda b: b.with_objects(b.objects.with_columns(speed=np.array([1.6]))),
    "mask": with_mask,
    "event": lambda b: replace(b, events=(replace(b.events[0], data={"direction": "out"}),)),
    "no event": lambda b: replace(b, events=()),
    "tensor": lambda b: replace(b, tensors=(replace(b.tensors[0], values=np.ones(3)),)),
    "nothing": lambda b: b.with_objects(Objects.empty()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_on_a_frame_changes_its_digest_and_no_other(change: Callable[[Batch], Batch]) -> None:
    first, second = digests_of(batch())
    changed_first, changed_second = digests_of(change(batch()))

    assert changed_first == first
    assert changed_second != second


def test_equal_results_have_equal_digests_whatever_the_batch() -> None:
    whole = batch()

    assert digests_of(batch()) == digests_of(whole)
    assert digests_of(whole.select_frames([1])) == digests_of(whole)[1:]
